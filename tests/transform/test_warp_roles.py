# SPDX-License-Identifier: Apache-2.0
"""Warp roles in whole programs: nested, sibling, conditional and empty pipelines.

Each kernel runs in the simulator, which finds a missing wait, fence, arrival or barrier; the roles
must be there (`mbar_expect_tx` is the producer's), or the reason against them must be noted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T

HOPPER = "cuda-sim -arch=sm_90a"
BLOCK = 64


def compiled(func: Any, roles: bool = True) -> Any:
    kernel = tilelang.compile(func, target=HOPPER)
    assert ("mbar_expect_tx" in kernel.get_kernel_source()) == roles
    return kernel


def small(*shape: int, dtype: str = "float16") -> Any:
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(dtype)


def product(a: Any, b: Any) -> Any:
    return a.astype("f4") @ b.astype("f4")


@pytest.mark.parametrize("k", [0, 1, 64, 128, 200])
def test_persistent_as_users_write_it(k: int) -> None:
    """`T.Persistent`: tiles beyond the last one leave the loop, in both roles."""
    m, n, workers = 192, 192, 4
    tiles = n // BLOCK

    @T.prim_func
    def main(
        A: T.Tensor((m, max(k, 8)), "float16"),
        B: T.Tensor((max(k, 8), n), "float16"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(workers, threads=128) as block:
            a = T.alloc_shared((BLOCK, BLOCK), "float16")
            b = T.alloc_shared((BLOCK, BLOCK), "float16")
            c = T.alloc_fragment((BLOCK, BLOCK), "float32")
            for by, bx in T.Persistent([m // BLOCK, tiles], workers, block):
                T.clear(c)
                for ko in T.Pipelined(T.ceildiv(k, BLOCK), num_stages=2):
                    T.copy(A[by * BLOCK, ko * BLOCK], a)
                    T.copy(B[ko * BLOCK, bx * BLOCK], b)
                    T.gemm(a, b, c)
                T.copy(c, C[by * BLOCK, bx * BLOCK])

    a, b = small(m, max(k, 8)), small(max(k, 8), n)
    if k == 1:
        a[:, 1:] = 0
    if k == 200:
        a, b = small(m, 200), small(200, n)
    c = np.full((m, n), -99, "f4")
    compiled(main, roles=k > 0)(a, b, c)
    assert (c == (0 if k == 0 else product(a, b))).all()


@pytest.mark.parametrize("rows", [0, 1, 3, 5])
def test_a_loop_around_the_pipeline(rows: int) -> None:
    """The ring's slots and phases go on from one run of the loop to the next, whatever its trip
    counts are: here 0, 1, 2, …"""

    @T.prim_func
    def main(
        A: T.Tensor((BLOCK, 5 * BLOCK), "float16"),
        B: T.Tensor((5 * BLOCK, BLOCK), "float16"),
        C: T.Tensor((5, BLOCK, BLOCK), "float32"),
        n: T.int32,
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((BLOCK, BLOCK), "float16")
            b = T.alloc_shared((BLOCK, BLOCK), "float16")
            c = T.alloc_fragment((BLOCK, BLOCK), "float32")
            for i in T.serial(n):
                T.clear(c)
                for k in T.Pipelined(i, num_stages=3):
                    T.copy(A[0, k * BLOCK], a)
                    T.copy(B[k * BLOCK, 0], b)
                    T.gemm(a, b, c)
                T.copy(c, C[i, 0, 0])

    a, b = small(BLOCK, 5 * BLOCK), small(5 * BLOCK, BLOCK)
    c = np.zeros((5, BLOCK, BLOCK), "f4")
    compiled(main)(a, b, c, rows)
    for i in range(5):
        want = product(a[:, : i * BLOCK], b[: i * BLOCK]) if i < rows else 0
        assert (c[i] == want).all()


def test_two_loops_side_by_side() -> None:
    @T.prim_func
    def main(
        A: T.Tensor((BLOCK, 4 * BLOCK), "float16"),
        B: T.Tensor((4 * BLOCK, BLOCK), "float16"),
        D: T.Tensor((3 * BLOCK, BLOCK), "float16"),
        C: T.Tensor((2, BLOCK, BLOCK), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((BLOCK, BLOCK), "float16")
            b = T.alloc_shared((BLOCK, BLOCK), "float16")
            a2 = T.alloc_shared((BLOCK, BLOCK), "float16")
            d = T.alloc_shared((BLOCK, BLOCK), "float16")
            c = T.alloc_fragment((BLOCK, BLOCK), "float32")
            c2 = T.alloc_fragment((BLOCK, BLOCK), "float32")
            T.clear(c)
            T.clear(c2)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * BLOCK], a)
                T.copy(B[k * BLOCK, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C[0, 0, 0])
            for k in T.Pipelined(3, num_stages=3):
                T.copy(A[0, k * BLOCK], a2)
                T.copy(D[k * BLOCK, 0], d)
                T.gemm(a2, d, c2)
            T.copy(c2, C[1, 0, 0])

    a, b, d = small(BLOCK, 4 * BLOCK), small(4 * BLOCK, BLOCK), small(3 * BLOCK, BLOCK)
    c = np.zeros((2, BLOCK, BLOCK), "f4")
    compiled(main)(a, b, d, c)
    assert (c[0] == product(a, b)).all()
    assert (c[1] == product(a[:, : 3 * BLOCK], d)).all()


def test_copies_under_a_condition() -> None:
    """A step whose copies do not run expects no bytes."""

    @T.prim_func
    def main(
        A: T.Tensor((BLOCK, 6 * BLOCK), "float16"),
        B: T.Tensor((6 * BLOCK, BLOCK), "float16"),
        mask: T.Tensor((6,), "int32"),
        C: T.Tensor((BLOCK, BLOCK), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((BLOCK, BLOCK), "float16")
            b = T.alloc_shared((BLOCK, BLOCK), "float16")
            c = T.alloc_fragment((BLOCK, BLOCK), "float32")
            T.clear(c)
            for k in T.Pipelined(6, num_stages=2):
                if mask[k] != 0:
                    T.copy(A[0, k * BLOCK], a)
                    T.copy(B[k * BLOCK, 0], b)
                    T.gemm(a, b, c)
            T.copy(c, C)

    a, b = small(BLOCK, 6 * BLOCK), small(6 * BLOCK, BLOCK)
    mask = np.array([0, 1, 1, 0, 0, 1], "i4")
    c = np.zeros((BLOCK, BLOCK), "f4")
    compiled(main)(a, b, mask, c)
    keep = np.repeat(mask, BLOCK).astype(bool)
    assert (c == product(a[:, keep], b[keep])).all()


@pytest.mark.parametrize("through", ["registers", "shared"])
def test_an_operand_that_the_consumers_convert(through: str) -> None:
    """int8 weights arrive by TMA; the consumers make the operand of the product of them."""

    @T.prim_func
    def main(
        A: T.Tensor((BLOCK, 4 * BLOCK), "float16"),
        W: T.Tensor((BLOCK, 4 * BLOCK), "int8"),
        C: T.Tensor((BLOCK, BLOCK), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((BLOCK, BLOCK), "float16")
            w = T.alloc_shared((BLOCK, BLOCK), "int8")
            left = T.alloc_fragment((BLOCK, BLOCK), "float16")
            wide = T.alloc_shared((BLOCK, BLOCK), "float16")
            c = T.alloc_fragment((BLOCK, BLOCK), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * BLOCK], a)
                T.copy(W[0, k * BLOCK], w)
                if through == "shared":
                    T.copy(w, wide)
                    T.gemm(a, wide, c, transpose_B=True)
                else:  # C = W · Aᵀ
                    T.copy(w, left)
                    T.gemm(left, a, c, transpose_B=True)
            T.copy(c, C)

    a, w = small(BLOCK, 4 * BLOCK), small(BLOCK, 4 * BLOCK, dtype="int8")
    c = np.zeros((BLOCK, BLOCK), "f4")
    compiled(main)(a, w, c)
    assert (c == (product(a, w.T) if through == "shared" else product(w, a.T))).all()


def test_an_operand_kept_over_the_loop() -> None:
    """A tile that threads wrote before the loop is fenced once, and may be written again after
    it."""

    @T.prim_func
    def main(
        A: T.Tensor((2, BLOCK, BLOCK), "float16"),
        B: T.Tensor((4 * BLOCK, BLOCK), "float16"),
        C: T.Tensor((2, BLOCK, BLOCK), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((BLOCK, BLOCK), "float16")
            b = T.alloc_shared((BLOCK, BLOCK), "float16")
            c = T.alloc_fragment((BLOCK, BLOCK), "float32")
            for i in T.serial(2):
                T.copy(A[i, 0, 0], a)
                T.clear(c)
                for k in T.Pipelined(4, num_stages=2):
                    T.copy(B[k * BLOCK, 0], b)
                    T.gemm(a, b, c)
                T.copy(c, C[i, 0, 0])

    a, b = small(2, BLOCK, BLOCK), small(4 * BLOCK, BLOCK)
    c = np.zeros((2, BLOCK, BLOCK), "f4")
    kernel = compiled(main)
    kernel(a, b, c)
    total = b.reshape(4, BLOCK, BLOCK).astype("f4").sum(0)
    assert (c == a.astype("f4") @ total).all()
    loop = kernel.get_kernel_source().split("mbar_wait")[-1]
    assert "fence_proxy_async" not in loop.split("wgmma_commit")[0]


def test_a_loop_that_may_end_early_has_no_producer() -> None:
    @T.prim_func
    def main(
        A: T.Tensor((BLOCK, 4 * BLOCK), "float16"),
        B: T.Tensor((4 * BLOCK, BLOCK), "float16"),
        flag: T.Tensor((4,), "int32"),
        C: T.Tensor((BLOCK, BLOCK), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((BLOCK, BLOCK), "float16")
            b = T.alloc_shared((BLOCK, BLOCK), "float16")
            c = T.alloc_fragment((BLOCK, BLOCK), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * BLOCK], a)
                T.copy(B[k * BLOCK, 0], b)
                T.gemm(a, b, c)
                if flag[k] != 0:
                    break
            T.copy(c, C)

    kernel = compiled(main, roles=False)
    assert "the pipelined loop may end early" in kernel.show("why")
    a, b = small(BLOCK, 4 * BLOCK), small(4 * BLOCK, BLOCK)
    c = np.zeros((BLOCK, BLOCK), "f4")
    kernel(a, b, np.array([0, 0, 1, 0], "i4"), c)
    assert (c == product(a[:, : 3 * BLOCK], b[: 3 * BLOCK])).all()


def test_threads_that_leave_early_have_no_producer() -> None:
    """The producer would wait for them for ever."""

    @T.prim_func
    def main(
        A: T.Tensor((BLOCK, 4 * BLOCK), "float16"),
        B: T.Tensor((4 * BLOCK, BLOCK), "float16"),
        C: T.Tensor((BLOCK, BLOCK), "float32"),
        n: T.int32,
    ):
        with T.Kernel(2, threads=128) as bx:
            a = T.alloc_shared((BLOCK, BLOCK), "float16")
            b = T.alloc_shared((BLOCK, BLOCK), "float16")
            c = T.alloc_fragment((BLOCK, BLOCK), "float32")
            if bx >= n:
                T.thread_return()
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * BLOCK], a)
                T.copy(B[k * BLOCK, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    kernel = compiled(main, roles=False)
    assert "threads may leave the kernel early" in kernel.show("why")
    a, b = small(BLOCK, 4 * BLOCK), small(4 * BLOCK, BLOCK)
    c = np.zeros((BLOCK, BLOCK), "f4")
    kernel(a, b, c, 1)
    assert (c == product(a, b)).all()
