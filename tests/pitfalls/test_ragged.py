# SPDX-License-Identifier: Apache-2.0
"""Sizes that divide nothing: widths against thread counts, tails of K, rows that start anywhere,
partial warps, no trip and one trip."""
# ruff: noqa: B023 - a kernel is captured where it is defined, before the loop goes on

from __future__ import annotations

import numpy as np
import pytest

import tilelang.language as T
from tests.pitfalls.support import ON, launch


@ON
@pytest.mark.parametrize("threads", [1, 31, 33, 64, 96, 200, 256])
def test_two_dimensions(t: str, threads: int) -> None:
    """Fragment and shared tile, in both directions, and a row sum and a column sum on the way."""
    for M, N in ((1, 7), (3, 100), (16, 33), (17, 64), (5, 129)):

        @T.prim_func
        def main(
            X: T.Tensor((M, N), "int32"),
            Y: T.Tensor((M, N), "int32"),
            R: T.Tensor((M,), "int32"),
            C: T.Tensor((N,), "int32"),
        ):
            with T.Kernel(1, threads=threads):
                s = T.alloc_shared((M, N), "int32")
                f = T.alloc_fragment((M, N), "int32")
                r = T.alloc_fragment((M,), "int32")
                c = T.alloc_fragment((N,), "int32")
                T.copy(X, s)
                T.copy(s, f)
                T.reduce_sum(f, r, dim=1)
                T.reduce_max(f, c, dim=0)
                for i, j in T.Parallel(M, N):
                    f[i, j] = f[i, j] * 2 + r[i] - c[j]
                T.copy(f, s)
                T.copy(s, Y)
                T.copy(r, R)
                T.copy(c, C)

        x = np.random.default_rng(0).integers(-99, 99, (M, N)).astype(np.int32)
        y = np.full((M, N), -7, np.int32)
        r, c = np.full(M, -7, np.int32), np.full(N, -7, np.int32)
        launch(main, t, x, y, r, c)
        rows, columns = x.sum(axis=1), x.max(axis=0)
        assert (r == rows).all(), (M, N)
        assert (c == columns).all(), (M, N)
        assert (y == x * 2 + rows[:, None] - columns).all(), (M, N)


@ON
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
def test_a_tile_over_every_edge(t: str, dtype: str) -> None:
    """Reads outside give 0, writes outside are dropped: nothing beyond the matrix changes."""
    for M, N in ((1, 1), (33, 31), (64, 65), (40, 7)):

        @T.prim_func
        def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype), Z: T.Tensor((4,), dtype)):
            with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 32), threads=64) as (bx, by):
                s = T.alloc_shared((32, 32), dtype)
                total = T.alloc_fragment((32,), dtype)
                f = T.alloc_fragment((32, 32), dtype)
                T.copy(X[by * 32, bx * 32], s)
                T.copy(s, f)
                T.copy(f, Y[by * 32, bx * 32])
                for i in T.Parallel(32):
                    total[i] = s[31, i] + s[i, 31]
                if bx == 0 and by == T.ceildiv(M, 32) - 1 and M % 32 > 0:
                    T.copy(total[0:4], Z)

        rng = np.random.default_rng(1)
        x = rng.integers(1, 9, (M, N)).astype(dtype)
        back = np.full(M * N + 64, 77).astype(dtype)
        z = np.full(4, 77).astype(dtype)
        launch(main, t, x, back[: M * N].reshape(M, N), z)
        assert (back[: M * N].reshape(M, N) == x).all(), (M, N)
        assert (back[M * N :] == np.array(77).astype(dtype)).all(), (M, N)
        if M % 32:
            column = np.zeros(4) if N < 32 else x[-1 - (M - 1) % 32 :, 31][:4]
            want = np.zeros(4)
            want[: len(column)] = column
            assert (z == want.astype(dtype)).all(), (M, N)


@ON
def test_rows_that_start_anywhere(t: str) -> None:
    """An offset that is no multiple of a vector, on either side."""
    for offset, N in ((1, 64), (3, 61), (7, 128), (8, 100)):

        @T.prim_func
        def main(X: T.Tensor((256,), "float16"), Y: T.Tensor((256,), "float16"), first: T.int32):
            with T.Kernel(1, threads=32):
                s = T.alloc_shared((N,), "float16")
                T.copy(X[offset : offset + N], s)
                T.copy(s, Y[first])

        x = np.arange(256).astype(np.float16)
        for first in (0, 1, 5, 200):
            y = np.full(256, -7, np.float16)
            launch(main, t, x, y, first)
            want = np.full(256, -7, np.float16)
            n = min(N, 256 - first)
            want[first : first + n] = x[offset : offset + n]
            assert (y == want).all(), (offset, N, first)


@ON
def test_modulo_division_and_reverse(t: str) -> None:
    for M, N, K in ((2, 100, 3), (7, 33, 5), (4, 64, 16), (3, 48, 48)):

        @T.prim_func
        def main(B: T.Tensor((K,), "int32"), C: T.Tensor((4, M, N), "int32")):
            with T.Kernel(1, threads=96):
                b = T.alloc_fragment((K,), "int32")
                T.copy(B, b)
                for i, j in T.Parallel(M, N):
                    C[0, i, j] = b[j % K]
                    C[1, i, j] = b[j * K // N]
                    C[2, i, j] = b[K - 1 - j % K]
                    C[3, i, j] = B[(i + j) % K]

        b = np.random.default_rng(2).integers(0, 1000, K).astype(np.int32)
        c = np.full((4, M, N), -7, np.int32)
        launch(main, t, b, c)
        i, j = np.arange(M)[:, None], np.arange(N)
        assert (c[0] == b[j % K]).all(), (M, N, K)
        assert (c[1] == b[j * K // N]).all(), (M, N, K)
        assert (c[2] == b[K - 1 - j % K]).all(), (M, N, K)
        assert (c[3] == b[(i + j) % K]).all(), (M, N, K)


@ON
@pytest.mark.parametrize("stages", [0, 1, 3])
def test_trips(t: str, stages: int) -> None:
    """No trip, one, fewer than stages, and a tail of K; the number known or not."""
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n, 40), "int32"), O: T.Tensor((40,), "int32")):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((2, 40), "int32")
            acc = T.alloc_fragment((40,), "int32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(n, 2), num_stages=stages):
                T.copy(A[k * 2, 0], s)
                for r in range(2):
                    for j in T.Parallel(40):
                        acc[j] += s[r, j]
            T.copy(acc, O)

    for rows in (0, 1, 2, 3, 5, 8):
        a = np.random.default_rng(rows).integers(-9, 9, (rows, 40)).astype(np.int32)
        o = np.full(40, -7, np.int32)
        launch(main, t, a, o)
        assert (o == a.sum(axis=0)).all(), rows


@ON
@pytest.mark.parametrize("transpose", [(False, False), (False, True), (True, False), (True, True)])
def test_gemm_shapes(t: str, transpose: tuple[bool, bool]) -> None:
    """Odd tiles, many threads, tails of K, all four transposes; integers, so exact."""
    ta, tb = transpose
    for M, N, K, BK, threads in (
        (16, 104, 32, 32, 384),
        (32, 8, 33, 16, 128),
        (48, 40, 24, 24, 64),
        (80, 24, 70, 32, 96),
        (64, 64, 5, 16, 256),
        (17, 9, 40, 16, 32),
    ):

        @T.prim_func
        def main(
            A: T.Tensor((K, M) if ta else (M, K), "float16"),
            B: T.Tensor((N, K) if tb else (K, N), "float16"),
            C: T.Tensor((M, N), "float32"),
        ):
            with T.Kernel(1, threads=threads):
                a = T.alloc_shared((BK, M) if ta else (M, BK), "float16")
                b = T.alloc_shared((N, BK) if tb else (BK, N), "float16")
                c = T.alloc_fragment((M, N), "float32")
                T.clear(c)
                for k in T.Pipelined(T.ceildiv(K, BK), num_stages=2):
                    T.copy(A[k * BK, 0] if ta else A[0, k * BK], a)
                    T.copy(B[0, k * BK] if tb else B[k * BK, 0], b)
                    T.gemm(a, b, c, ta, tb)
                T.copy(c, C)

        rng = np.random.default_rng(3)
        a = rng.integers(-3, 3, (M, K)).astype(np.float16)
        b = rng.integers(-3, 3, (K, N)).astype(np.float16)
        c = np.full((M, N), -7, np.float32)
        want = a.astype(np.float32) @ b.astype(np.float32)
        left, right = np.ascontiguousarray(a.T) if ta else a, np.ascontiguousarray(b.T) if tb else b
        launch(main, t, left, right, c)
        assert (c == want).all(), (M, N, K, BK, threads)


@ON
def test_operands_in_fragments_of_odd_shapes(t: str) -> None:
    """Either operand in registers, and both copied out again after the product."""
    for M, N, K, threads in (
        (64, 32, 16, 128),
        (32, 24, 48, 64),
        (16, 16, 32, 32),
        (48, 64, 16, 96),
    ):

        @T.prim_func
        def main(
            A: T.Tensor((M, K), "float16"),
            B: T.Tensor((K, N), "float16"),
            C: T.Tensor((M, N), "float32"),
            OA: T.Tensor((M, K), "float16"),
            OB: T.Tensor((K, N), "float16"),
        ):
            with T.Kernel(1, threads=threads):
                a = T.alloc_fragment((M, K), "float16")
                b = T.alloc_fragment((K, N), "float16")
                bs = T.alloc_shared((K, N), "float16")
                c = T.alloc_fragment((M, N), "float32")
                T.copy(A, a)
                T.copy(B, bs)
                T.copy(bs, b)
                T.clear(c)
                T.gemm(a, bs, c)
                T.gemm(a, b, c)
                T.copy(c, C)
                T.copy(b, bs)
                T.copy(bs, OB)
                for i, j in T.Parallel(M, K):
                    a[i, j] = a[i, j] + 1
                T.copy(a, OA)

        rng = np.random.default_rng(4)
        a = rng.integers(-3, 3, (M, K)).astype(np.float16)
        b = rng.integers(-3, 3, (K, N)).astype(np.float16)
        c, oa, ob = np.zeros((M, N), np.float32), np.zeros_like(a), np.zeros_like(b)
        launch(main, t, a, b, c, oa, ob)
        assert (c == 2 * (a.astype(np.float32) @ b.astype(np.float32))).all(), (M, N, K)
        assert (oa == a + 1).all(), (M, N, K)
        assert (ob == b).all(), (M, N, K)


@ON
@pytest.mark.parametrize("threads", [40, 64, 100, 512])
def test_some_threads_write_what_others_read(t: str, threads: int) -> None:
    n = min(threads, 37)

    @T.prim_func
    def main(A: T.Tensor((n,), "int32"), O: T.Tensor((threads,), "int32")):
        with T.Kernel(1, threads=threads):
            tx = T.get_thread_binding()
            s = T.alloc_shared((n,), "int32")
            if tx < n:
                s[tx] = A[tx]
            O[tx] = s[n - 1 - tx % n]

    a = np.arange(n, dtype=np.int32) * 3
    o = np.full(threads, -7, np.int32)
    launch(main, t, a, o)
    assert (o == a[::-1][np.arange(threads) % n]).all()
