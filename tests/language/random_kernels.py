# SPDX-License-Identifier: Apache-2.0
"""Kernels made at random, most of them wrong somewhere: text of a program from a seed.

In: a seed. Out: the text of a function `main`, of statements that a user might write, right and
wrong ones: ranks, dtypes, scopes, options, Python constructs, nested contexts, tile operations in
`T.Parallel`, regions, thread counts.
"""

from __future__ import annotations

import random

HEAD = """\
import tilelang.language as T

@T.macro
def add_one(place: T.Ref, by):
    place += by

@T.macro
def twice(value):
    return value * 2

@T.prim_func
def main(
    A: T.Tensor((16, 16), "float32"), H: T.Tensor((m, 16), "float16"), I: T.Tensor((16,), "int32"),
    B: T.Tensor((16,), "bool"), U: T.Tensor((32,), "uint8"), D: T.Tensor((8, 8), "float64"),
    Q: T.StridedTensor((16, 16), (s, 1), "bfloat16"), p: T.ptr, n: T.int32, x: T.float32,
):
    with T.Kernel({grid}, threads={threads}) as {blocks}:
        tx = T.get_thread_binding()
        S = T.alloc_shared((16, 16), "float32")
        G = T.alloc_shared((16, 16), "float16")
        C = T.alloc_shared((32,), "int8")
        F = T.alloc_fragment((16, 16), "float32")
        K = T.alloc_fragment((16, 16), "float16")
        R = T.alloc_fragment((16,), "float32")
        L = T.alloc_local((4,), "int32")
        v = T.alloc_var("int32", init=0)
"""
RANK = {"A": 2, "H": 2, "I": 1, "B": 1, "U": 1, "D": 2, "Q": 2, "S": 2, "G": 2, "C": 1, "F": 2,
        "K": 2, "R": 1, "L": 1}  # fmt: skip
NAMES = (*RANK, "v")
DTYPES = ("float32", "float16", "bfloat16", "int32", "int8", "uint8", "int64", "bool", "float64",
          "float8_e4m3fn", "float8_e5m2", "int4", "float32x2", "handle", "tfloat32")  # fmt: skip
UNARY = ("exp", "exp2", "sqrt", "abs", "tanh", "floor", "isnan", "popcount", "sigmoid", "log", "sin",
         "bitwise_not", "__exp", "clz", "rsqrt", "round", "erf")  # fmt: skip
BINARY = ("max", "min", "pow", "fmod", "ceildiv", "floordiv", "truncmod", "shift_left",
          "bitwise_and", "copysign", "atan2")  # fmt: skip
THREADS = ("32", "64", "128", "256", "1", "96", "33", "(8, 4)", "[16, 2, 2]", "1024", "2048", "0",
           "n", "'32'", "None")  # fmt: skip


class Writer:
    def __init__(self, seed: int, wrong: float = 0.06) -> None:
        self.rng = random.Random(seed)
        self.wrong = wrong  # how often something else stands where a thing of a kind is meant
        self.loops: list[str] = []
        self.lines: list[str] = []

    def pick(self, *choices: str) -> str:
        return self.rng.choice(choices)

    def odd(self) -> bool:
        return self.rng.random() < self.wrong

    def anything(self) -> str:
        return self.pick(
            "None", "'text'", "[1, 2]", "A", "F", "S[0:4, 0:4]", "p", "T.float32x2(1, 2)", "2.5",
            "float('nan')", "1 << 40", "-1", "T.serial(4)", "(n, n)", "{}", "T.float16", "object()",
            "v", "True", "lambda i: i", "x", "T", "n > 1", "T.Layout((16, 16), lambda i, j: i * 16 + j)",
        )  # fmt: skip

    # ------------------------------------------------------------------------------ values

    def number(self) -> str:
        return self.pick("0", "1", "2", "3", "4", "8", "16")

    def index(self) -> str:
        if self.odd():
            return self.anything()
        return self.pick(
            "0", "3", "-1", "n", "tx % 16", "tx", "bx", "v", *self.loops * 3, "n // 2", "15", "I[n]"
        )

    def element(self) -> str:
        name = self.pick(*RANK)
        rank = RANK[name] + (self.rng.choice([-1, 1]) if self.odd() else 0)
        return f"{name}[{', '.join(self.index() for _ in range(max(rank, 1)))}]"

    def value(self, depth: int = 2) -> str:
        if self.odd():
            return self.anything()
        if depth == 0 or self.rng.random() < 0.4:
            return self.pick("1", "0", "2.5", "n", "x", "tx", "v", self.element(), self.element())
        a, b = self.value(depth - 1), self.value(depth - 1)
        return self.pick(
            f"({a} + {b})", f"({a} * {b})", f"({a} - {b})", f"({a} / {b})", f"({a} // {b})",
            f"({a} % {b})", f"({a} & {b})", f"({a} << {b})", f"-{a}", f"T.{self.pick(*UNARY)}({a})",
            f"T.{self.pick(*BINARY)}({a}, {b})", f"T.cast({a}, '{self.pick(*DTYPES)}')",
            f"T.if_then_else({self.condition(depth - 1)}, {a}, {b})", f"twice({a})",
            f"T.reinterpret({a}, '{self.pick(*DTYPES)}')", f"({a} if {self.condition(0)} else {b})",
            f"T.Select({self.condition(0)}, {a}, {b})", f"T.shfl_xor({a}, 1)", f"T.clamp({a}, 0, {b})",
        )  # fmt: skip

    def condition(self, depth: int = 1) -> str:
        if self.odd():
            return self.anything()
        a, b = self.value(depth and depth - 1), self.value(0)
        return self.pick(
            f"{a} > {b}", f"{a} == {b}", "n > 1", "tx < 5", f"({a} < {b}) and (n > 2)",
            f"not ({a} >= {b})", "True", "n", "B[0]", f"{a} < {b} < 7",
        )  # fmt: skip

    def region(self) -> str:
        if self.odd():
            return self.anything()
        name = self.pick(*RANK)
        if self.rng.random() < 0.5:
            return name
        parts = [
            self.pick(":", "0:8", "4:12", "n:n + 4", self.index(), "0:16", "8:", "0:n")
            for _ in range(RANK[name])
        ]
        return f"{name}[{', '.join(parts)}]"

    # ------------------------------------------------------------------------------ statements

    def tile_statement(self) -> str:
        a, b, c = self.region(), self.region(), self.region()
        option = self.pick("", "", "", f", {self.option()}")
        return self.pick(
            f"T.copy({a}, {b}{option})", f"T.copy({a}, {b})", f"T.copy({a}, {a})",
            f"T.fill({a}, {self.value(1)})", f"T.clear({a})", f"T.gemm({a}, {b}, {c}{option})",
            "T.gemm(G, G, F)", "T.gemm(G, K, F, transpose_B=True)", "T.gemm(S, S, F)",
            f"T.reduce_{self.pick('sum', 'max', 'absmax', 'bitand')}({a}, {b}, dim={self.number()})",
            "T.reduce_sum(F, R, dim=1)", f"T.cumsum({a}{option})", f"T.transpose({a}, {b})",
            f"T.atomic_add({a}, {b})", f"T.async_copy({a}, {b})", f"T.wgmma_gemm({a}, {b}, {c})",
            f"T.tma_copy({a}, {b})", f"T.print({a})", f"y = T.any_of({a})",
            f"W = T.reshape({a}, (256,))", f"W = T.view({a}, dtype='{self.pick(*DTYPES)}')",
        )  # fmt: skip

    def option(self) -> str:
        name = self.pick(
            "coalesced_width", "disable_tma", "eviction_policy", "dim", "clear", "transpose_A",
            "policy", "clear_accum", "reverse", "prefer_instruction", "nothing", "annotations",
        )  # fmt: skip
        return f"{name}={self.pick('True', '4', self.anything(), repr('tma'), repr('evict_last'))}"

    def plain_statement(self) -> str:
        e = self.element()
        return self.pick(
            f"{e} = {self.value()}", f"{e} = {self.value()}", f"{e} = {self.value()}",
            f"{e} {self.pick('+', '*', '-', '//', '%', '|')}= {self.value(1)}",
            f"v = {self.value(1)}", f"v += {self.value(1)}", f"y = {self.value()}",
            f"{e}, y = {self.value(0)}, {self.value(0)}", f"add_one({e}, {self.value(0)})",
            f"T.atomic_{self.pick('add', 'max', 'min', 'or')}({e}, {self.value(1)})",
            "T.sync_threads()", f"T.device_assert({self.condition()}, 'no')", f"T.print({self.value(1)})",
            f"assert {self.condition()}", "T.sync_warp()", f"T.assume({self.condition()})",
            "T.thread_return()", "break", "continue", "pass", "del y", "return",
            f"A.name = {self.anything()}", f"M = T.alloc_{self.pick('shared', 'fragment', 'local')}"
            f"(({self.number()}, {self.index()}), '{self.pick(*DTYPES)}')",
            f"w = T.alloc_var('{self.pick(*DTYPES)}', init={self.value(0)})",
            f"T.use_swizzle({self.number()})", f"T.{self.pick('any', 'all', 'ballot')}_sync({self.condition()})",
            "T.annotate_layout({S: lambda i, j: j * 16 + i})",
            "z = [q for q in range(3)]", f"z = {{'k': {self.value(0)}}}", f"I[len({self.anything()})] = 1",
            f"T.evaluate({self.value(1)})", f"{self.pick(*NAMES)} {self.pick('', '+')}= {self.value(0)}",
            "global H", "yield n", f"(lambda q: q)({self.value(0)})", "T.no_such_name(1)",
        )  # fmt: skip

    def header(self) -> tuple[str, list[str]]:
        """Of a compound statement, and the loop variables that it binds."""
        var, other = f"i{len(self.loops)}", f"j{len(self.loops)}"
        extent = (
            self.anything() if self.odd() else self.pick("16", "8", "n", "4", "0", "3", "n // 2")
        )
        kind = self.rng.randrange(14)
        if kind < 3:
            return f"for {var} in T.{self.pick('serial', 'unroll', 'vectorized')}({extent}):", [var]
        if kind < 5:
            return f"for {var}, {other} in T.Parallel({extent}, 16):", [var, other]
        if kind < 7:
            return f"for {var} in T.Parallel({extent}):", [var]
        if kind == 7:
            stages = self.pick("0", "1", "2", "3", self.anything())
            return f"for {var} in T.Pipelined({extent}, num_stages={stages}):", [var]
        if kind == 8:
            return f"while {self.condition()}:", []
        if kind == 9:
            return self.pick("with T.ws(0):", "with T.ws(1):", "with T.Kernel(2):", "try:"), []
        if kind == 10:
            return f"for {var} in [0, 1]:", [var]
        if kind == 11:
            return f"for {var} in range({extent}):", [var]
        return f"if {self.condition()}:", []

    def block(self, indent: int, depth: int) -> None:
        for _ in range(self.rng.randrange(1, 4)):
            margin = " " * indent
            roll = self.rng.random()
            if depth and roll < 0.4:
                header, names = self.header()
                self.lines.append(margin + header)
                self.loops += names
                self.block(indent + 4, depth - 1)
                del self.loops[len(self.loops) - len(names) :]
                if header == "try:":
                    self.lines.append(f"{margin}except ValueError:\n{margin}    pass")
                elif header.startswith("if") and self.rng.random() < 0.3:
                    self.lines.append(margin + "else:")
                    self.block(indent + 4, depth - 1)
            else:
                text = self.tile_statement() if roll < 0.7 else self.plain_statement()
                self.lines.append(margin + text)


def random_kernel(seed: int, wrong: float = 0.06) -> str:
    w = Writer(seed, wrong)
    grid = w.pick("2", "2", "n", "T.ceildiv(m, 16)", "(1)") if not w.odd() else w.anything()
    threads = w.pick("32", "64", "128") if w.rng.random() < 0.8 else w.pick(*THREADS)
    w.block(8, 3)
    head = HEAD.format(grid=grid, threads=threads, blocks=w.pick("bx", "bx", "(bx,)"))
    return head + "\n".join(w.lines) + "\n"
