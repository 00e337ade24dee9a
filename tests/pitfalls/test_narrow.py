# SPDX-License-Identifier: Apache-2.0
"""Narrow and unsigned numbers: sign extension, rounding, wrap-around, reductions, NaN."""
# ruff: noqa: B023 - a kernel is captured where it is defined, before the loop goes on

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilelang.language as T
from tests.pitfalls.support import ON, launch

INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def numpy_dtype(dtype: str) -> Any:
    return np.dtype(getattr(ml_dtypes, dtype, None) or dtype)


@ON
@pytest.mark.parametrize("dtype", INTS)
def test_arithmetic_of_integers(t: str, dtype: str) -> None:
    """Whole vectors, with a tail: sums and products wrap, comparisons have the right sign."""

    @T.prim_func
    def main(A: T.Tensor((77,), dtype), B: T.Tensor((77,), dtype), O: T.Tensor((7, 77), dtype)):
        with T.Kernel(1, threads=32):
            a = T.alloc_fragment((77,), dtype)
            b = T.alloc_fragment((77,), dtype)
            T.copy(A, a)
            T.copy(B, b)
            for i in T.Parallel(77):
                O[0, i] = a[i] + b[i]
                O[1, i] = a[i] * b[i]
                O[2, i] = T.max(a[i], b[i])
                O[3, i] = a[i] - b[i]
                O[4, i] = T.if_then_else(a[i] < b[i], a[i], b[i])
                O[5, i] = a[i] >> T.cast(1, dtype)
                O[6, i] = (a[i] ^ b[i]) & a[i]

    info = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    a = rng.integers(info.min, info.max, 77, dtype=dtype, endpoint=True)
    b = rng.integers(info.min, info.max, 77, dtype=dtype, endpoint=True)
    a[:2], b[:2] = info.min, info.max
    o = np.zeros((7, 77), dtype)
    launch(main, t, a, b, o)
    with np.errstate(over="ignore"):
        want = [a + b, a * b, np.maximum(a, b), a - b, np.minimum(a, b), a >> 1, (a ^ b) & a]
    for row, w in zip(o, want, strict=True):
        assert (row == w).all(), (dtype, row, w)


@ON
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_a_narrow_value_for_all_lanes(t: str, dtype: str) -> None:
    """A scalar argument and an element, broadcast and widened."""

    @T.prim_func
    def main(
        X: T.Tensor((1,), dtype),
        N: T.Tensor((32,), dtype),
        W: T.Tensor((32,), "int32"),
        F: T.Tensor((32,), "float32"),
    ):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                N[i] = X[0]
                W[i] = X[0]
                F[i] = X[0]

    for value in (-37, 213, -1, 127):
        info = np.iinfo(dtype)
        if not info.min <= value <= info.max:
            continue
        x = np.array([value], dtype)
        n, w, f = np.zeros(32, dtype), np.zeros(32, np.int32), np.zeros(32, np.float32)
        launch(main, t, x, n, w, f)
        assert (n == value).all()
        assert (w == value).all()
        assert (f == value).all()


@ON
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_every_byte_of_float8(t: str, dtype: str) -> None:
    """To wider floats and back, in vectors and with a tail."""

    @T.prim_func
    def main(
        X: T.Tensor((256,), dtype),
        H: T.Tensor((256,), "float16"),
        B: T.Tensor((256,), "bfloat16"),
        F: T.Tensor((256,), "float32"),
        Y: T.Tensor((256,), dtype),
    ):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(256):
                H[i] = X[i]
                B[i] = X[i]
                F[i] = X[i]
                Y[i] = T.cast(X[i], "float32")

    kind = numpy_dtype(dtype)
    x = np.arange(256, dtype=np.uint8).view(kind)
    h, f = np.zeros(256, np.float16), np.zeros(256, np.float32)
    b, y = np.zeros(256, ml_dtypes.bfloat16), np.zeros(256, kind)
    launch(main, t, x, h, b, f, y)
    want = x.astype(np.float32)
    for got in (h, b, f, y):
        g = got.astype(np.float32)
        assert ((g == want) | (np.isnan(g) & np.isnan(want))).all()
    zero = want == 0
    assert (np.signbit(h[zero]) == np.signbit(want[zero])).all()


@ON
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e5m2", "float8_e4m3fn"])
def test_rounding_to_narrow_floats(t: str, dtype: str) -> None:
    """Halves to even, subnormals, overflow, infinities, NaN, -0."""
    kind = numpy_dtype(dtype)
    every = np.arange(1 << (8 * kind.itemsize), dtype=f"uint{8 * kind.itemsize}").view(kind)
    finite = np.unique(every[np.isfinite(every.astype(np.float32))].astype(np.float64))
    pick = finite if len(finite) < 300 else finite[:: len(finite) // 300]
    middle = ((finite[1:] + finite[:-1]) / 2)[:: max(1, len(finite) // 300)]
    extra = [np.inf, -np.inf, np.nan, -0.0, 1e-42, -1e-10, 3e38, -3e38, 1e5, 65504, 65520]
    x = np.concatenate([pick, middle, np.nextafter(middle, np.inf), extra]).astype(np.float32)
    n = len(x)

    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), dtype)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(n):
                Y[i] = X[i]

    y = np.zeros(n, kind)
    launch(main, t, x, y)
    with np.errstate(over="ignore"):
        want = x.astype(kind)
    got32, want32 = y.astype(np.float32), want.astype(np.float32)
    same = (got32 == want32) & (np.signbit(got32) == np.signbit(want32))
    bad = ~(same | (np.isnan(got32) & np.isnan(want32)))
    assert not bad.any(), list(zip(x[bad][:5], got32[bad][:5], want32[bad][:5], strict=True))


@ON
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int64", "uint64"])
def test_reductions_of_integers(t: str, dtype: str) -> None:
    """Every kind, over both dimensions, into a result that has old values and one that has not."""
    kinds = ("sum", "max", "min", "absmax", "abssum", "bitand", "bitor", "bitxor")

    @T.prim_func
    def main(
        X: T.Tensor((5, 40), dtype),
        R: T.Tensor((8, 5), dtype),
        C: T.Tensor((8, 40), dtype),
        K: T.Tensor((8, 5), dtype),
    ):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((5, 40), dtype)
            r = T.alloc_fragment((5,), dtype)
            c = T.alloc_fragment((40,), dtype)
            T.copy(X, x)
            for n, kind in enumerate(kinds):
                getattr(T, f"reduce_{kind}")(x, r, dim=1)
                T.copy(r, R[n, :])
                getattr(T, f"reduce_{kind}")(x, c, dim=0)
                T.copy(c, C[n, :])
                T.fill(r, 3)
                getattr(T, f"reduce_{kind}")(x, r, dim=1, clear=False)
                T.copy(r, K[n, :])

    info = np.iinfo(dtype)
    rng = np.random.default_rng(1)
    x = rng.integers(info.min // 2, info.max // 2, (5, 40), dtype=dtype)
    r, c, k = np.zeros((8, 5), dtype), np.zeros((8, 40), dtype), np.zeros((8, 5), dtype)
    launch(main, t, x, r, c, k)
    size = np.abs(x) if info.min < 0 else x
    folds = (
        (np.add, x),
        (np.maximum, x),
        (np.minimum, x),
        (np.maximum, size),
        (np.add, size),
        (np.bitwise_and, x),
        (np.bitwise_or, x),
        (np.bitwise_xor, x),
    )
    for n, (fold, of) in enumerate(folds):
        rows, columns = (fold.reduce(of, axis=a, dtype=dtype) for a in (1, 0))
        assert (r[n] == rows).all(), (kinds[n], r[n], rows)
        assert (c[n] == columns).all(), (kinds[n], c[n], columns)
        assert (k[n] == fold(rows, np.array(3, dtype), dtype=dtype)).all(), (kinds[n], "clear")


@ON
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("propagate", [False, True])
def test_reductions_with_nan(t: str, dtype: str, propagate: bool) -> None:
    @T.prim_func
    def main(X: T.Tensor((6, 70), dtype), R: T.Tensor((3, 6), dtype), C: T.Tensor((3, 70), dtype)):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((6, 70), dtype)
            r = T.alloc_fragment((6,), dtype)
            c = T.alloc_fragment((70,), dtype)
            T.copy(X, x)
            for n, kind in enumerate(("max", "min", "absmax")):
                getattr(T, f"reduce_{kind}")(x, r, dim=1, nan_propagate=propagate)
                T.copy(r, R[n, :])
                getattr(T, f"reduce_{kind}")(x, c, dim=0, nan_propagate=propagate)
                T.copy(c, C[n, :])

    kind = numpy_dtype(dtype)
    x = np.random.default_rng(2).integers(-50, 50, (6, 70)).astype(np.float64)
    x[1, 3] = x[2, 69] = x[2, 0] = np.nan
    x[3, :] = -np.inf
    x[4, 5] = np.inf
    r, c = np.zeros((3, 6), kind), np.zeros((3, 70), kind)
    launch(main, t, x.astype(kind), r, c)
    top, bottom = (np.max, np.min) if propagate else (np.nanmax, np.nanmin)
    for n, (fold, of) in enumerate(((top, x), (bottom, x), (top, np.abs(x)))):
        for got, axis in ((r[n], 1), (c[n], 0)):
            want = fold(of, axis=axis)
            g = got.astype(np.float64)
            assert ((g == want) | (np.isnan(g) & np.isnan(want))).all(), (n, axis, g, want)


@ON
def test_sums_that_a_narrow_total_cannot_hold(t: str) -> None:
    for dtype, values, want in (
        ("int8", [10, 25, 40, 30, 15, 42, 20, 20], -54),
        ("uint8", [200, 100, 3, 0, 0, 0, 0, 0], 47),
        ("float16", [40000, 20000, 10000, 0, 0, 0, 0, 0], np.inf),
        ("bfloat16", [3, 8, 5, 2, 7, 6, 4, 6], 41),
    ):

        @T.prim_func
        def main(X: T.Tensor((8,), dtype), O: T.Tensor((1,), dtype)):
            with T.Kernel(1, threads=32):
                x = T.alloc_fragment((8,), dtype)
                o = T.alloc_fragment((1,), dtype)
                T.copy(X, x)
                T.reduce_sum(x, o)
                T.copy(o, O)

        kind = numpy_dtype(dtype)
        o = np.zeros(1, kind)
        launch(main, t, np.array(values, kind), o)
        assert float(o[0]) == want, (dtype, o)


@pytest.mark.parametrize("t", ["llvm", "c"])
def test_reductions_of_single_bits(t: str) -> None:
    """A sum of bits wraps; vectors of them are folded by halves."""

    @T.prim_func
    def main(X: T.Tensor((3, 40), "int8"), O: T.Tensor((3, 3), "int8")):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((3, 40), "uint1")
            T.copy(X, x)
            for n, kind in enumerate(("sum", "max", "min")):
                o = T.alloc_fragment((3,), "uint1")
                getattr(T, f"reduce_{kind}")(x, o)
                T.copy(o, O[n, :])

    x = np.ones((3, 40), np.int8)
    x[0] = 0
    x[1, 7] = 0
    o = np.zeros((3, 3), np.int8)
    launch(main, t, x, o)
    assert o.tolist() == [[0, 1, 0], [0, 1, 1], [0, 0, 1]]


@pytest.mark.parametrize("t", ["llvm", "c"])
@pytest.mark.parametrize("n", [1, 37])
def test_arithmetic_of_single_bits(t: str, n: int) -> None:
    """Modulo 2, in vectors and in their remainder."""

    @T.prim_func
    def main(X: T.Tensor((2, n), "int8"), O: T.Tensor((6, n), "int8")):
        with T.Kernel(1, threads=32):
            b = T.alloc_shared((2, n), "uint1")
            T.copy(X, b)
            for i in T.Parallel(n):
                O[0, i] = T.cast(b[0, i] + b[1, i], "int8")
                O[1, i] = T.cast(b[0, i] - b[1, i], "int8")
                O[2, i] = T.cast(b[0, i] * b[1, i], "int8")
                O[3, i] = T.cast(T.if_then_else(b[0, i] < b[1, i], 5, 3), "int8")
                O[4, i] = T.cast(T.if_then_else(b[0, i] >= b[1, i], 5, 3), "int8")
                O[5, i] = T.cast(T.min(b[0, i], b[1, i]), "int8")

    x = np.stack([3 >> np.arange(n) % 4 & 1, 5 >> np.arange(n) % 4 & 1]).astype(np.int8)
    o = np.zeros((6, n), np.int8)
    launch(main, t, x, o)
    a, b = x
    want = [a ^ b, a ^ b, a & b, np.where(a < b, 5, 3), np.where(a >= b, 5, 3), a & b]
    np.testing.assert_array_equal(o, want)
