# SPDX-License-Identifier: Apache-2.0
"""Fragments that are used in several layouts: permuted, transposed, cut, chained through products,
folded; copies that broadcast and convert; products of every dtype with a tail of K."""
# ruff: noqa: B023 - a kernel is captured where it is defined, before the loop goes on

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilelang.language as T
from tests.pitfalls.support import ON, launch

RNG = np.random.default_rng


@ON
def test_permuted_and_cut(t: str) -> None:
    @T.prim_func
    def main(X: T.Tensor((128,), "int32"), O: T.Tensor((2, 128), "int32")):
        with T.Kernel(1, threads=96):
            x = T.alloc_fragment((128,), "int32")
            y = T.alloc_fragment((128,), "int32")
            cut = T.alloc_fragment((40,), "int32")
            T.copy(X, x)
            for i in T.Parallel(128):
                y[i] = x[127 - i] + x[(i * 7) % 128]
            for i in T.Parallel(64):
                x[2 * i + 1] = y[i]
            T.copy(x, O[0, :])
            T.copy(y[13:53], cut)
            T.copy(cut, y[60:100])
            T.clear(y[0:5])
            T.copy(y, O[1, :])

    x, o = RNG(0).integers(0, 99, 128).astype(np.int32), np.full((2, 128), -7, np.int32)
    launch(main, t, x, o)
    y, odd = x[::-1] + x[np.arange(128) * 7 % 128], x.copy()
    odd[1::2] = y[:64]
    assert (o[0] == odd).all()
    y[60:100], y[:5] = y[13:53].copy(), 0
    assert (o[1] == y).all()


@ON
def test_transposed_in_registers(t: str) -> None:
    @T.prim_func
    def main(X: T.Tensor((33, 47), "float16"), O: T.Tensor((47, 33), "float16")):
        with T.Kernel(1, threads=96):
            x = T.alloc_fragment((33, 47), "float16")
            y = T.alloc_fragment((47, 33), "float16")
            T.copy(X, x)
            for i, j in T.Parallel(33, 47):
                y[j, i] = x[i, j]
            T.copy(y, O)

    x, o = RNG(1).random((33, 47)).astype(np.float16), np.zeros((47, 33), np.float16)
    launch(main, t, x, o)
    assert (o == x.T).all()


@ON
def test_each_row_from_the_one_before(t: str) -> None:
    """Rows of one fragment, read in another place than they are written, in a serial loop."""

    @T.prim_func
    def main(X: T.Tensor((16, 64), "int32"), O: T.Tensor((16, 64), "int32")):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((16, 64), "int32")
            T.copy(X, x)
            for i in range(1, 16):
                for j in T.Parallel(64):
                    x[i, j] += x[i - 1, (j + 1) % 64]
            T.copy(x, O)

    x, o = RNG(2).integers(0, 9, (16, 64)).astype(np.int32), np.zeros((16, 64), np.int32)
    launch(main, t, x, o)
    want = x.copy()
    for i in range(1, 16):
        want[i] += np.roll(want[i - 1], -1)
    assert (o == want).all()


@ON
def test_a_product_feeds_the_next(t: str) -> None:
    """An accumulator becomes an operand twice, and is read transposed."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
        O: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            lower = T.alloc_fragment((64, 64), "float16")
            d = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.clear(d)
            T.gemm(a, b, c)
            for i, j in T.Parallel(64, 64):
                lower[i, j] = T.if_then_else(i >= j, c[i, j], 0)
            T.gemm(lower, b, d, transpose_B=True)
            T.gemm(lower, b, d)
            for i, j in T.Parallel(64, 64):
                d[i, j] += c[j, i]
            T.copy(d, O)

    a = RNG(3).integers(-2, 3, (64, 64)).astype(np.float16)
    b = RNG(4).integers(-1, 2, (64, 64)).astype(np.float16)
    o = np.zeros((64, 64), np.float32)
    launch(main, t, a, b, o)
    wide = b.astype(np.float32)
    c = a.astype(np.float32) @ wide
    assert (o == np.tril(c) @ wide.T + np.tril(c) @ wide + c.T).all()


@ON
@pytest.mark.parametrize(
    ("dtype", "accum", "low", "high"),
    [
        ("float64", "float64", -3, 3),
        ("float32", "float32", -3, 3),
        ("float16", "float16", -1, 2),
        ("bfloat16", "float32", -3, 3),
        ("int8", "int32", -128, 128),
        ("uint8", "int32", 0, 256),
        ("float8_e4m3fn", "float32", -3, 3),
        ("float8_e5m2", "float32", -3, 3),
    ],
)
def test_products_of_every_dtype(t: str, dtype: str, accum: str, low: int, high: int) -> None:
    @T.prim_func
    def main(
        A: T.Tensor((40, 37), dtype), B: T.Tensor((37, 24), dtype), O: T.Tensor((40, 24), accum)
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((48, 16), dtype)
            b = T.alloc_shared((16, 24), dtype)
            c = T.alloc_fragment((48, 24), accum)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(37, 16), num_stages=2):
                T.copy(A[0, k * 16], a)
                T.copy(B[k * 16, 0], b)
                T.gemm(a, b, c)
            T.copy(c, O[0, 0])

    kind = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    a = RNG(5).integers(low, high, (40, 37)).astype(kind)
    b = RNG(6).integers(low, high, (37, 24)).astype(kind)
    o = np.zeros((40, 24), accum)
    launch(main, t, a, b, o)
    assert (o == a.astype(np.float64) @ b.astype(np.float64)).all()


@ON
def test_folds_and_reducers(t: str) -> None:
    """Into elements of fragments by `+=`, and through reducers of both kinds."""

    @T.prim_func
    def main(
        X: T.Tensor((37, 77), "int32"), R: T.Tensor((2, 37), "int32"), C: T.Tensor((2, 77), "int32")
    ):
        with T.Kernel(1, threads=96):
            x = T.alloc_fragment((37, 77), "int32")
            rows = T.alloc_fragment((37,), "int32")
            columns = T.alloc_fragment((77,), "int32")
            total = T.alloc_reducer((77,), "int32", "sum", replication="all")
            top = T.alloc_reducer((37,), "int32", op="max")
            T.copy(X, x)
            T.clear(rows)
            T.fill(columns, -100)
            T.fill(total, 0)
            T.reducer_init(top)
            for i, j in T.Parallel(37, 77):
                rows[i] += x[i, j]
            for i, j in T.Parallel(37, 77):
                columns[j] = T.max(columns[j], x[i, j])
            for i, j in T.Parallel(37, 77):
                total[j] += x[i, j]
                T.reducer_update(top[i], x[i, j])
            T.finalize_reducer(total)
            T.copy(rows, R[0, :])
            T.copy(columns, C[0, :])
            T.finalize_reducer(top, rows)
            T.copy(rows, R[1, :])
            T.copy(total, C[1, :])

    x = RNG(7).integers(-99, 99, (37, 77)).astype(np.int32)
    r, c = np.zeros((2, 37), np.int32), np.zeros((2, 77), np.int32)
    launch(main, t, x, r, c)
    assert (r == [x.sum(axis=1), x.max(axis=1)]).all()
    assert (c == [x.max(axis=0), x.sum(axis=0)]).all()


@ON
def test_running_sums(t: str) -> None:
    for dim in (0, 1):
        for reverse in (False, True):

            @T.prim_func
            def main(X: T.Tensor((19, 37), "int32"), O: T.Tensor((2, 19, 37), "int32")):
                with T.Kernel(1, threads=96):
                    s = T.alloc_shared((19, 37), "int32")
                    f = T.alloc_fragment((19, 37), "int32")
                    g = T.alloc_fragment((19, 37), "int32")
                    T.copy(X, s)
                    T.copy(X, f)
                    T.cumsum(s, dim=dim, reverse=reverse)
                    T.cumsum(f, g, dim=dim, reverse=reverse)
                    T.copy(s, O[0, :, :])
                    T.copy(g, O[1, :, :])

            x = RNG(8).integers(-9, 9, (19, 37)).astype(np.int32)
            o = np.zeros((2, 19, 37), np.int32)
            launch(main, t, x, o)
            turned = np.flip(x, dim) if reverse else x
            want = np.cumsum(turned, axis=dim)
            assert (o == (np.flip(want, dim) if reverse else want)).all(), (dim, reverse)


@ON
def test_copies_that_broadcast_and_convert(t: str) -> None:
    @T.prim_func
    def main(
        X: T.Tensor((1, 50), "float32"),
        Y: T.Tensor((20, 1), "int8"),
        O: T.Tensor((20, 50), "float16"),
        P: T.Tensor((20, 50), "int32"),
    ):
        with T.Kernel(1, threads=64):
            f = T.alloc_fragment((20, 50), "float16")
            g = T.alloc_shared((20, 50), "int32")
            T.copy(X, f)
            T.copy(Y, g)
            T.copy(f, O)
            T.copy(g, P)

    x = RNG(9).random((1, 50)).astype(np.float32)
    y = RNG(10).integers(-128, 127, (20, 1)).astype(np.int8)
    o, p = np.zeros((20, 50), np.float16), np.zeros((20, 50), np.int32)
    launch(main, t, x, y, o, p)
    assert (o == x.astype(np.float16)).all()
    assert (p == y).all()


@ON
def test_indices_that_are_read(t: str) -> None:
    """Narrow, negative and too large ones: reads outside give 0, writes outside are dropped."""

    @T.prim_func
    def main(
        I: T.Tensor((50,), "int32"),
        U: T.Tensor((50,), "uint8"),
        X: T.Tensor((200,), "float32"),
        O: T.Tensor((2, 64), "float32"),
        S: T.Tensor((10,), "int32"),
    ):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                O[0, i] = X[I[i]] + 1
                O[1, i] = X[U[i]] + 1
            for i in T.Parallel(50):
                T.atomic_add(S[I[i]], 1)

    i = RNG(11).integers(-30, 240, 50).astype(np.int32)
    u = RNG(12).integers(0, 256, 50).astype(np.uint8)
    x, o = RNG(13).random(200).astype(np.float32), np.zeros((2, 64), np.float32)
    s = np.zeros(10, np.int32)
    launch(main, t, i, u, x, o, s)
    for row, index in zip(o, (i, u), strict=True):
        at = np.concatenate([index.astype(np.int64), np.zeros(14, np.int64)])
        inside = (at >= 0) & (at < 200)
        assert (row == np.where(inside, x[np.clip(at, 0, 199)], 0) + np.float32(1)).all()
    assert (s == [(i == n).sum() for n in range(10)]).all()
