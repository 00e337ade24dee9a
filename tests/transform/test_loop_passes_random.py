# SPDX-License-Identifier: Apache-2.0
"""Random vectorized loops: all passes together keep the meaning of guarded, sequential
execution."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.codegen import llvm_support
from tests.codegen.cuda_run import SimRunner
from tilelang.config import Options
from tilelang.interp import thread
from tilelang.ir import (
    Bind,
    Buffer,
    Builder,
    Expr,
    If,
    Launch,
    PrimFunc,
    Store,
    Var,
    cast,
    const,
    if_then_else,
    logical_and,
    maximum,
    minimum,
    seq,
    session,
)  # fmt: skip
from tilelang.target import Target
from tilelang.transform import PIPELINE, PassContext, run_passes

PASSES = [p.name for p in PIPELINE]
ROWS = PIPELINE[PASSES.index("serialize_threads") :]
M = 3


class Generator:
    """Writes one function; indices may leave global buffers, never local ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        dynamic = self.random.random() < 0.4
        self.tame = self.random.random() < 0.7  # mostly contiguous: what fast paths take
        self.n = self.random.choice([21, 32, 32])
        self.rows: Any = Var("M") if dynamic else M
        self.columns: Any = Var("N") if dynamic else self.n
        shape = (self.rows, self.columns)
        self.a = Buffer("A", (self.columns,), "float32")
        self.b = Buffer("B", shape, "float16")
        self.i = Buffer("I", (self.columns,), "int32")
        self.c = Buffer("C", shape, "float32")
        self.d = Buffer("D", (self.columns,), "int32")
        self.local = Buffer("L", (96,), "float32", "local")
        self.shared = Buffer("S", (4, 64), "float32", "shared.dyn")
        self.outer: list[Expr] = []

    def pick(self, *choices: Callable[[], Any]) -> Any:
        return self.random.choice(choices)()

    def number(self, limit: int) -> int:
        return self.random.randrange(limit)

    def index(self, v: Expr) -> Expr:
        """An index that is mostly v plus something."""
        r = self.number
        if self.tame and r(8):
            return v + self.random.choice([0, 0, 0, 8, 16, 1])
        return self.pick(
            lambda: v,
            lambda: v,
            lambda: v + r(9),
            lambda: v - r(4),
            lambda: v + self.outer[0] * 8,
            lambda: v * 2 + r(2),
            lambda: (v + r(5)) % 16,
            lambda: v // 2,
            lambda: const(r(20)),
            lambda: 20 - v,
        )

    def inside(self, v: Expr, limit: int) -> Expr:
        """An index of a local buffer: v < 40 plus up to `limit`."""
        if self.tame and self.number(8):
            return v + self.random.choice([0, 0, 0, 0, 8])
        return self.pick(
            lambda: v, lambda: v, lambda: v + self.number(limit), lambda: v // 3, lambda: const(5)
        )

    def load(self, v: Expr) -> Expr:
        return self.pick(
            lambda: self.a[self.index(v)],
            lambda: cast(self.b[self.outer[0], self.index(v)], "float32"),
            lambda: self.c[self.outer[0], self.index(v)],
            lambda: self.a[self.i[self.index(v)]] if self.number(3) == 0 else self.a[v],
            lambda: self.local[self.inside(v, 40)],
            lambda: self.shared[self.outer[0], self.inside(v, 20)],
        )

    def condition(self, v: Expr) -> Expr:
        r = self.number
        if self.tame and r(3):
            return self.pick(
                lambda: self.outer[0] > 0,
                lambda: v < 8 * r(4),
                lambda: self.outer[0] * 8 + v < 24,
                lambda: v + self.outer[0] * 4 < self.columns,
            )
        return self.pick(
            lambda: v < r(40),
            lambda: v >= r(20),
            lambda: self.outer[0] > 0,
            lambda: v % 8 < 8 - r(2) * 4,
            lambda: logical_and(v + r(3) < self.columns, self.outer[0] < self.rows),
            lambda: self.i[v] > 3,
            lambda: 30 - v > r(16),
        )

    def value(self, v: Expr, depth: int = 2) -> Expr:
        if depth == 0:
            return self.pick(lambda: self.load(v), lambda: cast(v, "float32"), lambda: const(2.0))
        x, y = self.value(v, depth - 1), self.value(v, depth - 1)
        return self.pick(
            lambda: x + y,
            lambda: x - y,
            lambda: maximum(x, y),
            lambda: minimum(x, y),
            lambda: x,
            lambda: if_then_else(self.condition(v), x, y),
        )

    def store(self, v: Expr) -> Any:
        x = self.value(v, self.number(3))
        if self.tame and self.number(6) == 0:
            op = self.random.choice([lambda p, q: p + q, maximum, minimum])
            return Store(self.local, (const(90),), op(self.local[90], self.a[v] * 2.0))
        return self.pick(
            lambda: Store(self.c, (self.outer[0], self.index(v)), x),
            lambda: Store(self.c, (self.outer[0], self.index(v)), x),
            lambda: Store(self.local, (self.inside(v, 40),), x),
            lambda: Store(self.shared, (self.outer[0], self.inside(v, 20)), x),
            lambda: Store(self.d, (self.index(v),), cast(x, "int32")),
            lambda: Store(self.local, (const(3),), self.local[3] + x),
        )

    def statement(self, v: Expr) -> Any:
        var = Var("x", self.a.dtype)
        return self.pick(
            lambda: self.store(v),
            lambda: self.store(v),
            lambda: If(self.condition(v), self.store(v), self.store(v) if self.number(2) else None),
            lambda: seq(
                Bind(var, self.value(v, 1)), Store(self.local, (self.inside(v, 9),), var + 1.0)
            ),
        )

    def loop(self, b: Builder) -> None:
        extent: Any = self.pick(
            lambda: self.random.choice([2, 4, 8, 16, 32]),
            lambda: 1 + self.number(39),
            lambda: self.columns,
        )
        start = 0 if self.tame else self.random.choice([0, 0, 0, 1, 4])
        if not isinstance(extent, int):
            start = 0
        elif start + extent > 40:
            extent = 40 - start
        note = {"reassociate": True} if self.number(2) else {}
        with b.for_("v", extent, start, kind="vectorized", **note) as v:
            for _ in range(1 + (self.number(3) == 0)):
                b.emit(self.statement(v))

    def function(self) -> PrimFunc:
        b = Builder()
        bx, tx = Var("bx"), Var("tx")
        from tilelang.ir import Alloc

        b.emit(Alloc(self.local), Alloc(self.shared))
        with b.for_("v", 96) as v:
            b.store(self.local, (v,), cast(v, "float32"))
        with b.for_("r", 4) as r, b.for_("v", 64) as v:
            b.store(self.shared, (r, v), cast(v - r, "float32"))
        with b.for_("i", 4) as i:
            self.outer = [i]
            for _ in range(1 + self.number(3)):
                self.loop(b)
        with b.for_("v", 96, kind="vectorized") as v:
            b.store(self.c, (0, v % 20), self.c[0, v % 20] + self.local[v])
        params = (self.a, self.b, self.i, self.c, self.d)
        return PrimFunc("f", params, Launch((const(1),), (1, 1, 1), (bx,), (tx,), b.finish()))


def arrays(n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    shape = (M, n)
    return [
        rng.integers(-9, 9, n).astype(np.float32), rng.integers(-9, 9, shape).astype(np.float16),
        rng.integers(-4, 30, n).astype(np.int32), rng.integers(-9, 9, shape).astype(np.float32),
        rng.integers(-9, 9, n).astype(np.int32),
    ]  # fmt: skip


def results(func: PrimFunc, n: int, target: str, names: list[str]) -> list[np.ndarray]:
    ctx = PassContext(Target(target), Options())
    rows = [p for p in ROWS if p.name in names and p.when(ctx)]
    out = arrays(n)
    thread.run(run_passes(func, ctx, rows, stage="LOOP"), *out)
    return out


@pytest.mark.parametrize("seed", range(120))
def test_random_loops(seed: int) -> None:
    with session():
        made = Generator(seed)
        func = made.function()
        want = results(func, made.n, "llvm -mcpu=x86-64-v3", ["guard_bounds"])
        for target in ("llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64-v4", "cuda -arch=sm_80"):
            for x, y in zip(results(func, made.n, target, PASSES), want, strict=True):
                np.testing.assert_array_equal(x, y, err_msg=target)


@pytest.mark.parametrize("seed", range(0, 120, 6))
@pytest.mark.parametrize("target", ["llvm", "cuda -arch=sm_80"])
def test_random_loops_compiled(seed: int, target: str) -> None:
    """The same by machine code, and by the CUDA text in the simulator."""
    with session():
        made = Generator(seed)
        func = made.function()
        want = results(func, made.n, "llvm -mcpu=x86-64-v3", ["guard_bounds"])
        ctx = PassContext(Target(target), Options())
        (k,) = run_passes(func, ctx, [p for p in ROWS if p.when(ctx)], stage="LOOP").launches
    found = dict(zip((p.name for p in func.params), arrays(made.n), strict=True))
    sizes = {"M": M, "N": made.n}
    if target == "llvm":
        args = [found[a.name] if isinstance(a, Buffer) else sizes[a.name] for a in k.args]
        assert llvm_support.build(k)(*args) is None
    else:
        SimRunner([k], 80)(k.name, found, sizes)
    for x, y in zip(found.values(), want, strict=True):
        np.testing.assert_array_equal(x, y)
