# SPDX-License-Identifier: Apache-2.0
"""Random programs of single threads: private values, barriers, exchanges between lanes, branches
and loops around them, atomic updates. In: a seed. Out: the text of a kernel that is legal CUDA,
because whole warps come to what their lanes do together and all threads to a barrier."""

from __future__ import annotations

import random

_KERNEL = """\
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((2, {n}), "int32"), O: T.Tensor((2, 2, {n}), "int32"),
         C: T.Tensor((1,), "int32")):
    with T.Kernel(2, threads={n}) as bx:
        tx = T.get_thread_binding()
        S = T.alloc_shared(({n},), "int32")
        x = T.alloc_var("int32", init=0)
        y = T.alloc_var("int32", init=0)
        x = A[bx, tx]
        y = tx * 3
{body}
        O[0, bx, tx] = x
        O[1, bx, tx] = y
"""


class _Writer:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.threads: int = self.rng.choice([32, 64, 80, 96])
        self.lines: list[str] = []
        self.count = 0

    def text(self) -> str:
        self.block(2, ["x", "y", "tx"], meet=2)
        return _KERNEL.format(n=self.threads, body="\n".join(self.lines))

    def line(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def expr(self, names: list[str]) -> str:
        c = self.rng.random()
        if c < 0.45:
            return self.rng.choice(names)
        if c < 0.6:
            return str(self.rng.randint(-3, 5))
        op = self.rng.choice("+-*^&")
        return f"({self.expr(names)} {op} {self.expr(names)})"

    def exchange(self, names: list[str]) -> str:
        e = self.expr(names)
        return self.rng.choice([
            f"T.shfl_xor({e}, {self.rng.choice([1, 2, 16])})", f"T.shfl_up({e}, 1)",
            f"T.shfl_sync({e}, {self.rng.randint(0, 31)})", f"T.warp_reduce_max({e})",
            f"T.cast(T.ballot_sync({e} > 1), 'int32')", f"T.cast(T.match_any_sync({e}), 'int32')",
        ])  # fmt: skip

    def condition(self, names: list[str], whole_warps: bool) -> str:
        warp = f"T.get_warp_idx() == {self.rng.randint(0, 2)}"
        if whole_warps:
            return warp
        thread = f"tx < {self.rng.randint(1, self.threads)}"
        value = f"{self.rng.choice(names)} > {self.rng.randint(-2, 3)}"
        return self.rng.choice([warp, thread, value, "tx % 2 == 0"])

    def block(self, indent: int, names: list[str], meet: int) -> None:
        """meet: 2 where all threads of the block are, 1 whole warps, 0 single threads."""
        names = list(names)
        for _ in range(self.rng.randint(1, 4)):
            kind = self.rng.random()
            if kind < 0.15:
                names.append(self.name())
                self.line(indent, f"{names[-1]} = {self.expr(names[:-1])}")
            elif kind < 0.3:
                self.line(indent, f"{self.rng.choice('xy')} = {self.expr(names)}")
            elif kind < 0.42 and meet:
                names.append(self.name())
                self.line(indent, f"{names[-1]} = {self.exchange(names[:-1])}")
            elif kind < 0.52 and meet == 2:
                self.barrier(indent, names)
            elif kind < 0.6 or indent > 4:
                self.line(indent, f"T.atomic_add(C[0], {self.expr(names)})")
            elif kind < 0.85:
                self.branch(indent, names, meet)
            else:
                names.append(self.name())
                head = f"for {names[-1]} in T.serial({self.rng.randint(1, 3)}):"
                self.line(indent, head)
                self.block(indent + 1, names, meet)
                names.pop()

    def barrier(self, indent: int, names: list[str]) -> None:
        n = self.threads
        self.line(indent, f"S[tx] = {self.expr(names)}")
        self.line(indent, "T.sync_threads()")
        self.line(indent, f"x = x + S[(tx + {self.rng.randint(1, n - 1)}) % {n}]")
        self.line(indent, "T.sync_threads()")

    def branch(self, indent: int, names: list[str], meet: int) -> None:
        inner = min(meet, self.rng.randint(0, 1))
        self.line(indent, f"if {self.condition(names, inner == 1)}:")
        self.block(indent + 1, names, inner)
        if self.rng.random() < 0.5:
            self.line(indent, "else:")
            self.block(indent + 1, names, inner)


def thread_program(seed: int) -> tuple[str, int]:
    """The text, and the number of threads."""
    writer = _Writer(seed)
    return writer.text(), writer.threads
