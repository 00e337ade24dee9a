# SPDX-License-Identifier: Apache-2.0
"""Copies that run ahead: under conditions, in nests, from pages, of strided rows, into parts of a
tile; and matrices of any size through one kernel."""

from __future__ import annotations

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tests.pitfalls.support import ON, launch, run

RNG = np.random.default_rng


@ON
def test_a_mask_over_the_steps(t: str) -> None:
    @T.prim_func
    def main(
        A: T.Tensor((8, 64), "int32"), Mask: T.Tensor((8,), "int32"), O: T.Tensor((64,), "int32")
    ):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((64,), "int32")
            acc = T.alloc_fragment((64,), "int32")
            T.clear(acc)
            for k in T.Pipelined(8, num_stages=3):
                if Mask[k] != 0:
                    T.copy(A[k, :], s)
                    for j in T.Parallel(64):
                        acc[j] += s[63 - j]
            T.copy(acc, O)

    a = RNG(0).integers(-9, 9, (8, 64)).astype(np.int32)
    kernel = tilelang.compile(main, target=t)
    for mask in ([1, 0, 0, 1, 1, 0, 1, 0], [0] * 8, [1] * 8, [0] * 7 + [1]):
        o = np.full(64, -7, np.int32)
        run(kernel, t, a, np.array(mask, np.int32), o)
        assert (o == a[np.array(mask) != 0].sum(axis=0)[::-1]).all(), mask


@ON
@pytest.mark.parametrize("where", ["global", "shared", "fragment"])
def test_pages(t: str, where: str) -> None:
    """The place that a copy reads from is itself read, from any memory."""

    @T.prim_func
    def main(
        I: T.Tensor((4,), "int32"),
        X: T.Tensor((128, 64), "float16"),
        O: T.Tensor((64, 64), "float16"),
    ):
        with T.Kernel(1, threads=128):
            index = (
                T.alloc_fragment((4,), "int32")
                if where == "fragment"
                else T.alloc_shared((4,), "int32")
            )
            s = T.alloc_shared((16, 64), "float16")
            T.copy(I, index)
            for k in T.Pipelined(4, num_stages=2):
                if where == "global":
                    T.copy(X[I[k] * 16, 0], s)
                else:
                    T.copy(X[index[k] * 16, 0], s)
                T.copy(s, O[k * 16, 0])

    i = np.array([3, 1, 7, 0], np.int32)
    x, o = RNG(1).random((128, 64)).astype(np.float16), np.zeros((64, 64), np.float16)
    launch(main, t, i, x, o)
    assert (o == x.reshape(8, 16, 64)[i].reshape(64, 64)).all()


@ON
def test_nests_and_a_hand_made_ring(t: str) -> None:
    @T.prim_func
    def main(
        A: T.Tensor((3, 5, 64), "int32"),
        O: T.Tensor((3, 64), "int32"),
        P: T.Tensor((5, 64), "int32"),
    ):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((64,), "int32")
            ring = T.alloc_shared((2, 64), "int32")
            acc = T.alloc_fragment((64,), "int32")
            for o in T.serial(3):
                T.clear(acc)
                for k in T.Pipelined(5, num_stages=2):
                    T.copy(A[o, k, :], s)
                    for j in T.Parallel(64):
                        acc[j] += s[63 - j]
                T.copy(acc, O[o, :])
            T.copy(A[0, 0, :], ring[0, :])
            for k in T.serial(5):
                if k + 1 < 5:
                    T.copy(A[0, k + 1, :], ring[(k + 1) % 2, :])
                for j in T.Parallel(64):
                    P[k, j] = ring[k % 2, 63 - j] * 2

    a = RNG(2).integers(-9, 9, (3, 5, 64)).astype(np.int32)
    o, p = np.zeros((3, 64), np.int32), np.zeros((5, 64), np.int32)
    launch(main, t, a, o, p)
    assert (o == a.sum(axis=1)[:, ::-1]).all()
    assert (p == 2 * a[0, :, ::-1]).all()


@ON
def test_rows_of_any_stride_into_part_of_a_tile(t: str) -> None:
    s = T.dynamic("s")

    @T.prim_func
    def main(A: T.StridedTensor((20, 40), (s, 1), "float16"), O: T.Tensor((20, 40), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((20, 40), "float16")
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0:20, k * 20 : k * 20 + 20], tile[:, 0:20])
                T.copy(tile[:, 0:20], O[0:20, k * 20 : k * 20 + 20])

    torch = pytest.importorskip("torch")
    target = tilelang.target.Target(t)
    device = "cuda" if target.is_cuda and not target.is_sim else "cpu"
    kernel = tilelang.compile(main, target=t)
    for stride in (40, 41, 43, 48, 64):
        view = torch.arange(20 * stride, device=device).half().reshape(20, stride)[:, :40]
        out = torch.zeros(20, 40, dtype=torch.float16, device=device)
        kernel(view, out)
        assert torch.equal(out, view), stride


@ON
@pytest.mark.parametrize("transpose", [(False, False), (False, True), (True, False), (True, True)])
def test_one_kernel_for_all_sizes(t: str, transpose: tuple[bool, bool]) -> None:
    """Tiles for TMA and wgmma, sizes that do not suit them."""
    ta, tb = transpose
    M, N, K = T.dynamic("M, N, K")

    @T.prim_func
    def main(
        A: T.Tensor((K, M) if ta else (M, K), "float16"),
        B: T.Tensor((N, K) if tb else (K, N), "float16"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 128), threads=256) as (bx, by):
            a = T.alloc_shared((64, 128) if ta else (128, 64), "float16")
            b = T.alloc_shared((128, 64) if tb else (64, 128), "float16")
            c = T.alloc_fragment((128, 128), "float32")
            T.use_swizzle(3)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, 64), num_stages=3):
                T.copy(A[k * 64, by * 128] if ta else A[by * 128, k * 64], a)
                T.copy(B[bx * 128, k * 64] if tb else B[k * 64, bx * 128], b)
                T.gemm(a, b, c, ta, tb)
            T.copy(c, C[by * 128, bx * 128])

    kernel = tilelang.compile(main, target=t)
    for m, n, k in ((130, 72, 200), (136, 264, 64), (64, 8, 1), (129, 127, 65)):
        a = RNG(3).integers(-2, 3, (m, k)).astype(np.float16)
        b = RNG(4).integers(-1, 2, (k, n)).astype(np.float16)
        c = np.full((m, n), -7, np.float16)
        left, right = np.ascontiguousarray(a.T) if ta else a, np.ascontiguousarray(b.T) if tb else b
        run(kernel, t, left, right, c)
        assert (c == a.astype(np.float32) @ b.astype(np.float32)).all(), (m, n, k)
