# SPDX-License-Identifier: Apache-2.0
"""Functions that are made of others, against numpy: hyperbolic inverses, neighbours, positions of
bits, arithmetic with a stated rounding."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tilelang.language as T
from tilelang.errors import OptionError

from .everywhere import compiles, everywhere, run

Array = Any
NAMES = ("asinh", "acosh", "atanh")
N = 256


def hyperbolic(dtype: str) -> Any:
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((3, N), dtype)):
        with T.Kernel(1, threads=64):
            for n, name in enumerate(NAMES):
                for i in T.Parallel(N):
                    B[n, i] = getattr(T, name)(A[i])

    return main


@everywhere
@pytest.mark.parametrize(("dtype", "ulp"), [("float32", 4), ("float64", 4), ("float16", 1)])
def test_hyperbolic_inverses(where: str, dtype: str, ulp: int) -> None:
    rng = np.random.default_rng(0)
    top = 300 if dtype == "float64" else 4 if dtype == "float16" else 38
    a = (rng.choice([-1, 1], N) * 10.0 ** rng.uniform(-top if top > 9 else -3, top, N)).astype(
        dtype
    )
    a[:10] = [0, -0.0, 1, -1, 0.5, 2, np.inf, -np.inf, np.nan, 1.0009765625]
    a[10:100] = rng.uniform(-1, 3, 90).astype(dtype)
    out = np.zeros((3, N), dtype)
    run(where, hyperbolic(dtype), a, out)
    with np.errstate(all="ignore"):
        for got, name in zip(out, ("arcsinh", "arccosh", "arctanh"), strict=True):
            wide = a.astype(np.longdouble if dtype == "float64" else np.float64)
            want = getattr(np, name)(wide).astype(dtype)
            np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
            finite = np.isfinite(want)
            np.testing.assert_array_equal(got[~finite], want[~finite])
            error = np.abs(got[finite] - want[finite]) / np.spacing(np.abs(want[finite]))
            assert error.max() <= ulp, (name, error.max())
            np.testing.assert_array_equal(np.signbit(got[finite]), np.signbit(want[finite]))


def neighbours(dtype: str) -> Any:
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(N):
                C[i] = T.nextafter(A[i], B[i])

    return main


@everywhere
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_nextafter(where: str, dtype: str) -> None:
    rng = np.random.default_rng(1)
    special = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, np.finfo(dtype).max], dtype)
    a, b = (rng.standard_normal(N).astype(dtype) for _ in range(2))
    a[:64], b[:64] = np.repeat(special, 8), np.tile(special, 8)
    out = np.zeros(N, dtype)
    run(where, neighbours(dtype), a, b, out)
    with np.errstate(all="ignore"):
        want = np.where(a == b, b, np.nextafter(a, b))  # of equal operands the second, as in C99
    np.testing.assert_array_equal(out, want)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(out[number]), np.signbit(want[number]))


def bits() -> Any:
    @T.prim_func
    def main(
        A: T.Tensor((N,), "uint32"),
        Q: T.Tensor((N,), "int64"),
        M: T.Tensor((N, 2), "int32"),
        O: T.Tensor((3, N), "uint32"),
    ):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(N):
                O[0, i] = T.__ffs(A[i])
                O[1, i] = T.__ffs(Q[i])
            for i in T.serial(N):
                O[2, i] = T.__fns(A[i], M[i, 0], M[i, 1])

    return main


def find_nth_set(mask: int, base: int, offset: int) -> int:
    """As the CUDA C++ Programming Guide defines it: a walk from bit to bit."""
    if offset == 0:
        return base if mask >> base & 1 else 0xFFFFFFFF
    left, step = abs(offset), 1 if offset > 0 else -1
    while 0 <= base < 32:
        left -= mask >> base & 1
        if not left:
            return base
        base += step
    return 0xFFFFFFFF


@everywhere
def test_positions_of_bits(where: str) -> None:
    rng = np.random.default_rng(2)
    a = (rng.integers(0, 2**32, N) & rng.integers(0, 2**32, N)).astype(np.uint32)
    q = (np.int64(1) << rng.integers(0, 63, N)).astype(np.int64) * rng.integers(0, 2, N)
    a[:3], q[:3] = [0, 0xFFFFFFFF, 1 << 31], [0, -1, -(2**63)]
    m = np.stack([rng.integers(0, 32, N), rng.integers(-9, 10, N)], 1).astype(np.int32)
    m[:3] = [[0, 1], [31, -32], [0, 1]]
    out = np.zeros((3, N), np.uint32)
    run(where, bits(), a, q, m, out)
    ffs = [[(int(x) & -int(x)).bit_length() for x in values] for values in (a, q)]
    assert out[:2].tolist() == ffs
    assert out[2].tolist() == [
        find_nth_set(int(x), int(b), int(o)) for x, (b, o) in zip(a, m, strict=True)
    ]


# ------------------------------------------------------------------------------ stated rounding

MODES = ("rn", "rz", "ru", "rd")
OPERATIONS = ("add", "sub", "mul", "fdiv", "fmaf", "fsqrt", "frcp")


def rounded(mode: str) -> Any:
    @T.prim_func
    def main(A: T.Tensor((3, N), "float32"), O: T.Tensor((7, N), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(N):
                O[0, i] = T.ieee_add(A[0, i], A[1, i], mode)
                O[1, i] = T.ieee_sub(A[0, i], A[1, i], mode)
                O[2, i] = T.ieee_mul(A[0, i], A[1, i], mode)
                O[3, i] = T.ieee_fdiv(A[0, i], A[1, i], mode)
                O[4, i] = T.ieee_fmaf(A[0, i], A[1, i], A[2, i], mode)
                O[5, i] = T.ieee_fsqrt(T.abs(A[0, i]), mode)
                O[6, i] = T.ieee_frcp(A[1, i], mode)

    return main


def below(x: Fraction) -> np.float32:
    """The largest float32 that is not above a number in its finite range."""
    f = np.float32(float(x))
    if not np.isfinite(f):
        f = np.float32(np.copysign(np.finfo(np.float32).max, f))
    while Fraction(float(f)) > x:
        f = np.nextafter(f, np.float32(-np.inf))
    up = np.nextafter(f, np.float32(np.inf))
    while np.isfinite(up) and Fraction(float(up)) <= x:
        f, up = up, np.nextafter(up, np.float32(np.inf))
    return f


def directed(x: Fraction, mode: str) -> np.float32:
    if mode == "ru":
        return np.float32(-below(-x))
    if mode == "rd" or x >= 0:
        return below(x)
    return np.float32(-below(-x))


def exact(name: str, a: Fraction, b: Fraction, c: Fraction) -> Fraction:
    return {
        "add": a + b, "sub": a - b, "mul": a * b, "fdiv": a / b, "fmaf": a * b + c, "frcp": 1 / b,
    }[name]  # fmt: skip


@everywhere
@pytest.mark.parametrize("mode", MODES)
def test_stated_rounding(where: str, mode: str) -> None:
    rng = np.random.default_rng(3)
    scale = 2.0 ** rng.integers(-30, 30, (3, N))
    a = (rng.standard_normal((3, N)) * scale).astype(np.float32)
    a[0, :40] = a[1, :40] * rng.integers(-4, 5, 40)  # exact results
    a[0, 40:50], a[1, 40:50] = 1e-40, 3e-2  # subnormal results
    out = np.zeros((7, N), np.float32)
    run(where, rounded(mode), a, out)
    wide = [[Fraction(float(x)) for x in row] for row in a]
    for row, name in zip(out, OPERATIONS, strict=True):
        if name == "fsqrt":
            root = np.sqrt(np.abs(a[0]).astype(np.longdouble))
            want = root.astype(np.float32)
            if mode != "rn":
                want = np.array([directed(Fraction(*x.as_integer_ratio()), mode) for x in root])
        elif mode == "rn":
            numbers = [exact(name, *x) for x in zip(*wide, strict=True)]
            want = np.array([nearest(x) for x in numbers])
        else:
            want = np.array([directed(exact(name, *x), mode) for x in zip(*wide, strict=True)])
        np.testing.assert_array_equal(row, want, err_msg=name)


def nearest(x: Fraction) -> np.float32:
    low = below(x)
    high = np.nextafter(low, np.float32(np.inf))
    gap = x - Fraction(float(low)), Fraction(float(high)) - x
    if gap[0] == gap[1]:
        return low if low.view(np.int32) % 2 == 0 else high
    return low if gap[0] < gap[1] else high


@pytest.mark.parametrize("mode", MODES)
def test_edges_of_stated_rounding(mode: str) -> None:
    """Zeros, infinities, overflow: what IEEE 754 says."""
    big, inf = np.finfo(np.float32).max, np.inf
    a = np.zeros((3, N), np.float32)
    a[0, :6] = [1, 0.0, big, -big, inf, -0.0]
    a[1, :6] = [-1, -0.0, big, -big, -inf, -0.0]
    out = np.zeros((7, N), np.float32)
    run("llvm", rounded(mode), a, out)
    zero = -0.0 if mode == "rd" else 0.0
    top = big if mode in ("rz", "rd") else inf
    low = -big if mode in ("rz", "ru") else -inf
    np.testing.assert_array_equal(out[0, :6], [zero, zero, top, low, np.nan, -0.0])
    np.testing.assert_array_equal(np.signbit(out[0, [0, 1, 5]]), [mode == "rd"] * 2 + [True])
    np.testing.assert_array_equal(out[2, 2:4], [top, top])


def test_reciprocal_square_roots_are_the_nearest() -> None:
    """Of every float32 in [1, 4): what float64 rounds to is what the exact root rounds to."""
    x = np.arange(0x3F800000, 0x40800000, 7, dtype=np.uint32).view(np.float32)
    got = (1.0 / np.sqrt(x.astype(np.float64))).astype(np.float32)
    want = (np.longdouble(1) / np.sqrt(x.astype(np.longdouble))).astype(np.float32)
    np.testing.assert_array_equal(got, want)


def test_cuda_compiles_them() -> None:
    for mode in MODES:
        compiles(rounded(mode))
    compiles(bits())
    for dtype in ("float16", "float32", "float64"):
        compiles(hyperbolic(dtype))
        compiles(neighbours(dtype))


def test_other_roundings_are_refused() -> None:
    def refused(dtype: str, mode: str, text: str) -> None:
        with pytest.raises(OptionError, match=text):

            @T.prim_func
            def main(A: T.Tensor((4,), dtype)):
                with T.Kernel(1, threads=32):
                    A[0] = T.ieee_add(A[1], A[2], mode)

    refused("float16", "rz", "is of float32")
    refused("float32", "up", "unknown")


@everywhere
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"])
def test_bits_are_counted_in_every_width(where: str, dtype: str) -> None:
    n = 50

    @T.prim_func
    def main(A: T.Tensor((n,), dtype), B: T.Tensor((2, n), "int32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(n):
                B[0, i] = T.popcount(A[i])
                B[1, i] = T.clz(A[i])

    limits = np.iinfo(dtype)
    a = np.random.default_rng(0).integers(limits.min, limits.max, n, dtype, endpoint=True)
    a[:4] = 0, 1, limits.min, limits.max
    out = np.zeros((2, n), np.int32)
    run(where, main, a, out)
    bits = [int(x) % 2**limits.bits for x in a]
    assert out[0].tolist() == [x.bit_count() for x in bits]
    assert out[1].tolist() == [limits.bits - x.bit_length() for x in bits]


@everywhere
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_magnitudes_of_single_integers(where: str, dtype: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((6,), dtype), B: T.Tensor((6,), dtype)):
        with T.Kernel(1, threads=32):
            for i in T.serial(6):
                B[i] = T.abs(A[i]) + T.cast(1, dtype)

    limits = np.iinfo(dtype)
    a = np.array([0, 1, -1, limits.max, limits.min, -limits.max], dtype)
    out = np.zeros(6, dtype)
    run(where, main, a, out)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(out, np.abs(a) + np.ones(6, dtype))


@everywhere
def test_predicates_and_shifts_of_single_numbers_and_of_rows(where: str) -> None:
    @T.prim_func
    def main(
        A: T.Tensor((4,), "float32"),
        U: T.Tensor((4,), "uint64"),
        O: T.Tensor((2, 3, 4), "float32"),
        V: T.Tensor((2, 2, 4), "uint64"),
    ):
        with T.Kernel(1, threads=32):
            for n, loop in enumerate((T.serial, T.Parallel)):
                for i in loop(4):
                    O[n, 0, i] = T.cast(T.isnan(A[i]), "float32")
                    O[n, 1, i] = T.cast(T.isinf(A[i]), "float32")
                    O[n, 2, i] = T.cast(T.isfinite(A[i]), "float32")
                    V[n, 0, i] = T.shift_left(U[i], 1)
                    V[n, 1, i] = T.shift_right(U[i], 1)

    a = np.array([1, np.nan, np.inf, -np.inf], np.float32)
    u = np.array([0, 1, 2**63 + 3, 2**64 - 1], np.uint64)
    o, v = np.zeros((2, 3, 4), np.float32), np.zeros((2, 2, 4), np.uint64)
    run(where, main, a, u, o, v)
    want = np.stack([np.isnan(a), np.isinf(a), np.isfinite(a)])
    one = np.uint64(1)
    np.testing.assert_array_equal(o, [want, want])
    np.testing.assert_array_equal(v, [[u << one, u >> one]] * 2)
