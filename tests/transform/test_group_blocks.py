# SPDX-License-Identifier: Apache-2.0
"""Blocks that share their loads: the same results, whatever the block keeps, and fewer copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.config import Options
from tilelang.ir import For, Launch, Stmt, TileStmt, walk
from tilelang.target import Target
from tilelang.transform import PassContext, lower_to_program

K = 96


def grouped(func: Any) -> Launch:
    """The kernel after the pass."""
    found: dict[str, Any] = {}
    lower_to_program(func, PassContext(Target("llvm"), Options()), found.__setitem__)
    (launch,) = [x for x in walk(found["group_blocks"].body) if type(x) is Launch]
    return launch


def grid(func: Any) -> tuple[int, ...]:
    return tuple(int(str(e)) for e in grouped(func).grid)


def product(
    m: int, n: int, *, before: Any = None, after: Any = None, trips: Any = None, extra: int = 1
) -> Any:
    """C = A · B by tiles of 32; `before` and `after` are macros of the block around the loop."""

    @T.prim_func
    def main(
        A: T.Tensor((m, K), "float32"),
        B: T.Tensor((K, n), "float32"),
        X: T.Tensor((extra,), "int32"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(T.ceildiv(n, 32), T.ceildiv(m, 32), threads=32) as (bx, by):
            a = T.alloc_shared((32, 32), "float32")
            b = T.alloc_shared((32, 32), "float32")
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            if before is not None:
                before(X, c, bx, by)
            for k in T.Pipelined(
                T.ceildiv(K, 32) if trips is None else trips(bx, by), num_stages=2
            ):
                T.copy(A[by * 32, k * 32], a)
                T.copy(B[k * 32, bx * 32], b)
                T.gemm(a, b, c)
            if after is not None:
                after(X, c, bx, by)
            T.copy(c, C[by * 32, bx * 32])

    return main


def data(m: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return tuple(rng.integers(-4, 5, s).astype(np.float32) for s in ((m, K), (K, n)))


def run(func: Any, m: int, n: int, x: np.ndarray, target: str = "llvm") -> np.ndarray:
    a, b = data(m, n)
    c = np.full((m, n), np.nan, np.float32)
    tilelang.compile(func, target=target)(a, b, x, c)
    return c


ZERO = np.zeros(1, np.int32)


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize(("m", "n"), [(512, 512), (161, 223), (32, 1000), (1, 1), (0, 64), (64, 0)])
def test_the_product_is_the_same_for_every_grid(m: int, n: int, target: str) -> None:
    a, b = data(m, n)
    np.testing.assert_array_equal(run(product(m, n), m, n, ZERO, target), a @ b)


def executed(s: Any, buffer: str, times: int = 1) -> int:
    """How often copies into a buffer of that name run, in a kernel without unknown extents."""
    if type(s) is Launch:
        times *= int(np.prod([int(str(e)) for e in s.grid]))
    elif type(s) is For:
        times *= int(str(s.extent))
    elif type(s) is TileStmt:
        return times if s.op.name == "copy" and s.op.dst.buffer.name == buffer else 0
    return sum(executed(x, buffer, times) for x in s.children if isinstance(x, Stmt))


def test_copies_that_blocks_share_are_made_once() -> None:
    launch = grouped(product(512, 512))
    blocks, trips = 16 * 16, K // 32
    groups = int(np.prod([int(str(e)) for e in launch.grid]))
    assert 4 <= groups < blocks  # other threads find work
    assert executed(launch, "a") + executed(launch, "b") <= blocks * trips * 2 // 3
    assert executed(launch, "C") == blocks


def test_more_threads_get_more_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    def groups() -> int:
        return int(np.prod(grid(product(512, 512))))

    monkeypatch.setenv("TILELANG_CPU_THREADS", "1")
    few = groups()
    monkeypatch.setenv("TILELANG_CPU_THREADS", "60")
    assert few < 120 <= groups()


def test_names_and_assumptions_are_known_wherever_they_are_used() -> None:
    @T.macro
    def after(X: Any, c: Any, bx: Any, by: Any) -> None:
        row = by * 32
        column = bx * 32 + row
        T.assume(row < 192)
        for i, j in T.Parallel(32, 32):
            c[i, j] = c[i, j] + (row + i) + (column + j) * X[0]

    m, n = 192, 320
    a, b = data(m, n)
    i, j = np.indices((m, n))
    want = a @ b + i + 3 * (j + i // 32 * 32)
    func = product(m, n, after=after)
    assert grid(func) != (10, 6)
    np.testing.assert_array_equal(run(func, m, n, np.full(1, 3, np.int32)), want)


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_a_variable_of_the_block_has_a_value_for_each_block(target: str) -> None:
    @T.prim_func
    def main(
        A: T.Tensor((256, K), "float32"),
        B: T.Tensor((K, 256), "float32"),
        X: T.Tensor((1,), "int32"),
        C: T.Tensor((256, 256), "float32"),
    ):
        with T.Kernel(8, 8, threads=32) as (bx, by):
            a = T.alloc_shared((32, 32), "float32")
            b = T.alloc_shared((32, 32), "float32")
            c = T.alloc_fragment((32, 32), "float32")
            count = T.alloc_var("int32", init=5)
            T.clear(c)
            for k in T.serial(K // 32):
                T.copy(A[by * 32, k * 32], a)
                T.copy(B[k * 32, bx * 32], b)
                count = count + bx
                T.gemm(a, b, c)
            for i, j in T.Parallel(32, 32):
                c[i, j] = c[i, j] + count
            T.copy(c, C[by * 32, bx * 32])

    a, b = data(256, 256)
    want = a @ b + 5 + 3 * (np.arange(256) // 32)
    assert grid(main) != (8, 8)
    np.testing.assert_array_equal(run(main, 256, 256, ZERO, target), want)


def test_what_others_see_happens_for_every_block() -> None:
    @T.macro
    def after(X: Any, c: Any, bx: Any, by: Any) -> None:
        T.atomic_add(X[0], 1)

    x = np.zeros(1, np.int32)
    func = product(256, 320, after=after)
    assert grid(func) != (10, 8)
    run(func, 256, 320, x)
    assert x[0] == 80 * 32  # every thread of every block


def test_a_loop_of_another_length_for_each_block_is_run_by_each() -> None:
    m = n = 128
    a, b = data(m, n)
    func = product(m, n, trips=lambda bx, by: by % 3 + 1)
    want = np.zeros((m, n), np.float32)
    for y in range(4):
        rows, depth = slice(32 * y, 32 * y + 32), 32 * (y % 3 + 1)
        want[rows] = a[rows, :depth] @ b[:depth]
    np.testing.assert_array_equal(run(func, m, n, ZERO), want)


def test_a_name_that_reads_what_the_kernel_writes_keeps_blocks_apart() -> None:
    @T.macro
    def before(X: Any, c: Any, bx: Any, by: Any) -> None:
        old = X[0]
        X[0] = old + 1

    assert grid(product(256, 256, before=before)) == (8, 8)


def test_blocks_with_threads_of_their_own_stay_as_they_are() -> None:
    @T.prim_func
    def main(
        A: T.Tensor((256, K), "float32"),
        B: T.Tensor((K, 256), "float32"),
        X: T.Tensor((1,), "int32"),
        C: T.Tensor((256, 256), "float32"),
    ):
        with T.Kernel(8, 8, threads=32) as (bx, by):
            a = T.alloc_shared((32, 32), "float32")
            b = T.alloc_shared((32, 32), "float32")
            c = T.alloc_fragment((32, 32), "float32")
            tx = T.get_thread_binding()
            T.clear(c)
            for k in T.serial(K // 32):
                T.copy(A[by * 32, k * 32], a)
                T.copy(B[k * 32, bx * 32], b)
                a[tx, 0] = a[tx, 0] * 2
                T.gemm(a, b, c)
            T.copy(c, C[by * 32, bx * 32])

    assert grid(main) == (8, 8)
