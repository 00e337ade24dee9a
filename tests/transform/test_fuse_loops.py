# SPDX-License-Identifier: Apache-2.0
"""Loops over the same elements are merged, and the tiles between them go away, where that is
right."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tests.transform.test_loop_passes_random import PASSES, ROWS, Generator, M, arrays, results
from tilelang.config import Options
from tilelang.ir import Alloc, Buffer, Builder, For, Launch, PrimFunc, Var, cast, const, session
from tilelang.target import Target
from tilelang.transform import PIPELINE, PassContext, run_passes
from tilelang.transform.summary import statements

TARGETS = ("llvm", "c")
CPU = "llvm -mcpu=x86-64-v4"


def merged(func: PrimFunc, **options: Any) -> PrimFunc:
    """A user's program after `contract_tiles`."""
    ctx = PassContext(Target(CPU), Options(**options))
    last = [p.name for p in PIPELINE].index("contract_tiles")
    rows = [p for p in PIPELINE[: last + 1] if p.when(ctx)]
    out: PrimFunc = run_passes(func, ctx, rows)
    return out


def loops(func: PrimFunc) -> int:
    return sum(type(s) is For and s.kind == "vectorized" for s in statements(func.body))


def tiles(func: PrimFunc) -> dict[str, tuple[int, ...]]:
    allocs = [s.buffer for s in statements(func.body) if type(s) is Alloc]
    return {b.name: tuple(b.static_shape or ()) for b in allocs}


# ------------------------------------------------------------------------------ programs of users


def add(n: int = 1000, block: int = 128, **annotated: bool) -> PrimFunc:
    @T.prim_func
    def main(
        A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")
    ):
        with T.Kernel(T.ceildiv(n, block), threads=128) as bx:
            if annotated:
                T.annotate_restrict_buffers(A, C)
            a = T.alloc_fragment((block,), "float32")
            b = T.alloc_fragment((block,), "float32")
            c = T.alloc_fragment((block,), "float32")
            T.copy(A[bx * block], a)
            T.copy(B[bx * block], b)
            for i in T.Parallel(block):
                c[i] = a[i] + b[i]
            T.copy(c, C[bx * block])

    return main


def softmax(m: int = 64, n: int = 256, rows: int = 4) -> PrimFunc:
    @T.prim_func
    def main(X: T.Tensor((m, n), "float32"), Y: T.Tensor((m, n), "float32")):
        with T.Kernel(T.ceildiv(m, rows), threads=128) as bx:
            x = T.alloc_fragment((rows, n), "float32")
            top = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(X[bx * rows, 0], x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(rows, n):
                x[i, j] = T.exp(x[i, j] - top[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(rows, n):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[bx * rows, 0])

    return main


def test_an_addition_needs_no_tile() -> None:
    with session():
        out = merged(add())
        assert loops(out) == 1
        assert tiles(out) == {}


def test_softmax_passes_three_times_over_one_row() -> None:
    with session():
        out = merged(softmax())
        assert loops(out) == 3
        assert tiles(out)["x"] == (1, 256)
        assert tiles(out)["top"] == (1,)


def test_tensors_that_may_overlap_are_not_reordered() -> None:
    with session():
        assert tiles(merged(add(), noalias=False)) != {}
        assert loops(merged(add(), noalias=False)) > 1
        assert tiles(merged(add(annotated=True))) != {}


@pytest.mark.parametrize("target", TARGETS)
def test_a_tile_is_read_before_its_overlapping_copy_is_written(target: str) -> None:
    with Target(target):
        kernel = tilelang.compile(add(128, annotated=True))
    memory = np.arange(160, dtype=np.float32)
    want = memory.copy()
    want[1:129] = want[:128] + 1
    kernel(memory[:128], np.ones(128, np.float32), memory[1:129])
    np.testing.assert_array_equal(memory, want)


def shifted(by: int) -> PrimFunc:
    """y reads what later (by > 0) or earlier trips wrote."""

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_shared((72,), "float32")
            T.clear(x)
            for i in T.Parallel(64):
                x[i + 4] = A[i] + 1.0
            for i in T.Parallel(64):
                B[i] = x[i + 4 + by] * 2.0

    return main


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("by", [-3, -1, 0, 1, 4])
def test_neighbours(by: int, target: str) -> None:
    with session():
        assert loops(merged(shifted(by))) == (2 if by <= 0 else 3)
    with Target(target):
        kernel = tilelang.compile(shifted(by))
    a = np.arange(64, dtype=np.float32)
    b = np.empty_like(a)
    kernel(a, b)
    x = np.zeros(72, np.float32)
    x[4:68] = a + 1
    np.testing.assert_array_equal(b, x[4 + by : 68 + by] * 2)


def carried(steps: int = 3) -> PrimFunc:
    """`total` lives from one step to the next: none of its rows can go away."""

    @T.prim_func
    def main(X: T.Tensor((steps, 4, 32), "float32"), Y: T.Tensor((4, 32), "float32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((4, 32), "float32")
            total = T.alloc_fragment((4, 32), "float32")
            T.clear(total)
            for k in T.serial(steps):
                T.copy(X[k, 0:4, 0:32], x)
                for i, j in T.Parallel(4, 32):
                    total[i, j] += x[i, j]
            T.copy(total, Y)

    return main


@pytest.mark.parametrize("target", TARGETS)
def test_what_steps_carry_stays(target: str) -> None:
    with session():
        assert tiles(merged(carried())) == {"total": (4, 32)}
    with Target(target):
        kernel = tilelang.compile(carried())
    x = np.random.default_rng(0).integers(-9, 9, (3, 4, 32)).astype(np.float32)
    y = np.empty((4, 32), np.float32)
    kernel(x, y)
    np.testing.assert_array_equal(y, x.sum(0))


# ------------------------------------------------------------------------------ random programs


class Nests(Generator):
    """Loops that mostly walk the same range, over more tiles."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.random = random.Random(1000 + seed)
        self.tiles = [Buffer(f"T{k}", (4, 48), "float32", "shared.dyn") for k in range(3)]

    def tile(self, v: Any) -> tuple[Buffer, tuple[Any, Any]]:
        near = v + self.random.choice([0, 0, 0, 0, 0, 0, 1, 8])
        return self.random.choice(self.tiles), (self.outer[0], near)

    def load(self, v: Any) -> Any:
        if self.number(3):
            b, at = self.tile(v)
            return b[at]
        return super().load(v)

    def statement(self, v: Any) -> Any:
        if self.number(3):
            from tilelang.ir import Store

            b, at = self.tile(v)
            return Store(b, at, self.value(v, self.number(3)))
        return super().statement(v)

    def loop(self, b: Builder) -> None:
        extent = self.random.choice([32, 32, 32, 24])
        with b.for_("v", extent, kind="vectorized") as v:
            b.emit(self.statement(v))

    def function(self) -> PrimFunc:
        b = Builder()
        b.emit(Alloc(self.local), Alloc(self.shared), *(Alloc(t) for t in self.tiles))
        with b.for_("v", 96) as v:
            b.store(self.local, (v,), cast(v, "float32"))
        with b.for_("r", 4) as r, b.for_("v", 64) as v:
            b.store(self.shared, (r, v), cast(v - r, "float32"))
        with b.for_("r", 4) as r, b.for_("v", 48) as v:
            for k, t in enumerate(self.tiles):
                b.store(t, (r, v), cast(v * k - r, "float32"))
        for _ in range(3 + self.number(4)):
            with b.for_("i", M + self.number(2) // 2) as i:
                self.outer = [i]
                for _ in range(1 + self.number(2)):
                    self.loop(b)
        launch = Launch((const(1),), (1, 1, 1), (Var("bx"),), (Var("tx"),), b.finish())
        return PrimFunc("f", (self.a, self.b, self.i, self.c, self.d), launch)


def walked(func: PrimFunc) -> int:
    ctx = PassContext(Target(CPU), Options())
    rows = [p for p in ROWS if p.name in ("fuse_loops", "contract_tiles")]
    return loops(run_passes(func, ctx, rows, stage="LOOP"))


def test_random_nests() -> None:
    fewer = 0
    for seed in range(60):
        with session():
            made = Nests(seed)
            func = made.function()
            want = results(func, made.n, CPU, ["guard_bounds"])
            fewer += walked(func) < loops(func)
            for x, y in zip(results(func, made.n, CPU, PASSES), want, strict=True):
                np.testing.assert_array_equal(x, y, err_msg=str(seed))
    assert fewer > 20


def test_random_nests_have_the_right_arrays() -> None:
    """The comparison above is of tensors that the programs change."""
    with session():
        made = Nests(1)
        before = arrays(made.n)
        after = results(made.function(), made.n, CPU, PASSES)
    assert any((x != y).any() for x, y in zip(before, after, strict=True))


def turned(n: int = 32) -> PrimFunc:
    """One of the merged statements cannot be a vector: its neighbours still are."""

    @T.prim_func
    def main(
        A: T.Tensor((n, n), "float32"),
        B: T.Tensor((n, n), "float32"),
        C: T.Tensor((n, n), "float32"),
    ):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(n, n):
                B[i, j] = A[i, j] + 1.0
            for i, j in T.Parallel(n, n):
                C[j, i] = A[i, j] * 2.0

    return main


@pytest.mark.parametrize("target", TARGETS)
def test_a_statement_that_is_no_vector_stands_alone(target: str) -> None:
    with session():
        assert loops(merged(turned())) == 1
    text = tilelang.lower(turned(), CPU).kernel_source
    assert "fadd <16 x float>" in text
    a = np.random.default_rng(2).integers(-9, 9, (32, 32)).astype(np.float32)
    b, c = np.empty_like(a), np.empty_like(a)
    with Target(target):
        tilelang.compile(turned())(a, b, c)
    np.testing.assert_array_equal(b, a + 1)
    np.testing.assert_array_equal(c, a.T * 2)


def reordered(n: int = 64) -> PrimFunc:
    """The same element, spelled in two ways."""

    @T.prim_func
    def main(A: T.Tensor((4, n), "float32"), B: T.Tensor((4, n), "float32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_shared((8, n), "float32")
            for k in T.serial(2):
                for i, j in T.Parallel(2, n):
                    x[k * 4 + i, j] = A[i + k * 2, j] + 1.0
                for i, j in T.Parallel(2, n):
                    x[i + k * 4, j] = x[i + k * 4, j] * 2.0
                for i, j in T.Parallel(2, n):
                    B[k * 2 + i, j] = x[i + k * 4, j]

    return main


def test_equal_indices_in_two_spellings_are_one_place() -> None:
    text = tilelang.lower(reordered(), CPU).kernel_source
    assert "fmul <16 x float>" in text


def scaled(n: int = 256, rows: int = 4) -> PrimFunc:
    """What is the same along a row is written inside the loop over it."""

    @T.prim_func
    def main(X: T.Tensor((rows, n), "float32"), Y: T.Tensor((rows, n), "float32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((rows, n), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(X, x)
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(rows, n):
                Y[i, j] = x[i, j] * T.rsqrt(total[i] / n + 1.0)

    return main


@pytest.mark.parametrize("target", TARGETS)
def test_what_lanes_share_is_computed_once(target: str) -> None:
    text = tilelang.lower(scaled(), CPU).kernel_source
    assert "@tl.rsqrt.v1(" in text
    assert "@tl.rsqrt.v16(" not in text
    x = np.random.default_rng(3).standard_normal((4, 256)).astype(np.float32) + 1
    y = np.empty_like(x)
    with Target(target):
        tilelang.compile(scaled())(x, y)
    np.testing.assert_allclose(y, x / np.sqrt(x.mean(1, keepdims=True) + 1), rtol=1e-5)
