# SPDX-License-Identifier: Apache-2.0
"""What the compiler computes is what the machine computes: each expression once on constants and
once on the same values read from memory, bit for bit, and as numpy has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilelang.language as T
from tests.pitfalls.support import ON, launch

NAN, INF = float("nan"), float("inf")
I32, I64 = 2**31, 2**63


def both(t: str, dtype: str, out: str, f: Callable[..., Any], *values: Any) -> tuple[Any, Any]:
    """`f` of constants, and of the same values from memory."""

    @T.prim_func
    def main(X: T.Tensor((len(values),), dtype), O: T.Tensor((2,), out)):
        with T.Kernel(1, threads=32):
            O[0] = f(*[T.cast(v, dtype) for v in values])
            O[1] = f(*[X[i] for i in range(len(values))])

    o = np.zeros(2, out)
    with np.errstate(all="ignore"):
        launch(main, t, np.array(values, dtype), o)
    return o[0], o[1]


def check(t: str, dtype: str, out: str, f: Callable[..., Any], values: Any, want: Any) -> None:
    constant, memory = both(t, dtype, out, f, *values)
    bits = np.array([constant, memory, want], out)
    if bits.dtype.kind == "f" and np.isnan(bits).all():
        return
    assert len({x.tobytes() for x in bits}) == 1, (dtype, values, constant, memory, want)


@ON
def test_floats(t: str) -> None:
    for f, values, want in (
        (lambda a, b: a + b, (INF, -INF), NAN),
        (lambda a, b: a * b, (0.0, INF), NAN),
        (lambda a, b: a - b, (NAN, NAN), NAN),
        (lambda a, b: a / b, (1.0, -0.0), -INF),
        (lambda a, b: a / b, (0.0, 0.0), NAN),
        (lambda a, b: a + b, (-0.0, -0.0), -0.0),
        (lambda a, b: a + b, (-0.0, 0.0), 0.0),
        (lambda a, b: a * b, (-0.0, 5.0), -0.0),
        (lambda a, b: 0 - a + b * 0, (0.0, 0.0), 0.0),
        (lambda a, b: -a, (0.0, 0.0), -0.0),
        (lambda a, b: a + b, (2.0**24, 1.0), 2.0**24),
        (lambda a, b: a * b, (1e30, 1e30), INF),
        (lambda a, b: a * b, (1e-30, 1e-30), 0.0),
        (lambda a, b: a * b + a, (0.1, 0.3), np.float32(0.1) * np.float32(0.3) + np.float32(0.1)),
        (lambda a, b: a / b, (1.0, 3.0), np.float32(1) / np.float32(3)),
        (lambda a, b: T.max(a, b), (NAN, 1.0), 1.0),
        (lambda a, b: T.min(a, b), (1.0, NAN), 1.0),
        (lambda a, b: T.max(a, b), (NAN, NAN), NAN),
        (lambda a, b: T.sqrt(a) + b, (-1.0, 0.0), NAN),
        (lambda a, b: T.abs(a) + b, (-0.0, -0.0), 0.0),
        (lambda a, b: T.if_then_else(a == a, a, b), (NAN, 3.0), 3.0),
        (lambda a, b: T.if_then_else(a < b, a, b), (NAN, 3.0), 3.0),
        (lambda a, b: T.if_then_else(T.bitwise_not(a < b), a, b), (3.0, NAN), 3.0),
        (lambda a, b: T.floor(a) + b, (-0.5, 0.0), -1.0),
        (lambda a, b: T.round(a) + b, (2.5, 0.0), 3.0),  # away from 0, as in C
        (lambda a, b: T.nearbyint(a) + b, (2.5, 0.0), 2.0),
        (lambda a, b: T.copysign(a, b), (3.0, -0.0), -3.0),
    ):
        check(t, "float32", "float32", f, values, np.float32(want))


@ON
@pytest.mark.parametrize("compare", ["<", "<=", ">", ">=", "==", "!="])
def test_comparisons_with_nan(t: str, compare: str) -> None:
    f = eval(f"lambda a, b: T.cast(a {compare} b, 'int32')", {"T": T})
    for values in ((NAN, 1.0), (1.0, NAN), (NAN, NAN), (0.0, -0.0), (INF, INF)):
        want = eval(f"a {compare} b", {"a": values[0], "b": values[1]})
        check(t, "float32", "int32", f, values, int(want))


@ON
def test_integers_wrap(t: str) -> None:
    for dtype, f, values, want in (
        ("int32", lambda a, b: a + b, (I32 - 1, 1), -I32),
        ("int32", lambda a, b: a - b, (-I32, 1), I32 - 1),
        ("int32", lambda a, b: a * b, (65536, 65536), 0),
        ("int32", lambda a, b: a * b, (46341, 46341), 46341**2 - 2 * I32),
        ("int32", lambda a, b: -a + b, (-I32, 0), -I32),
        ("int32", lambda a, b: T.abs(a) + b, (-I32, 0), -I32),
        ("int64", lambda a, b: a + b, (I64 - 1, 1), -I64),
        ("int64", lambda a, b: a * b, (2**32, 2**31), -I64),
        ("uint32", lambda a, b: a - b, (0, 1), 2**32 - 1),
        ("uint32", lambda a, b: a + b, (2**32 - 1, 2), 1),
        ("uint64", lambda a, b: a * b, (2**63, 2), 0),
        ("uint64", lambda a, b: a - b, (1, 2), 2**64 - 1),
    ):
        check(t, dtype, dtype, f, values, np.array(want, dtype))


@ON
def test_division_and_remainder(t: str) -> None:
    for dtype in ("int32", "int64"):
        for a, b in ((7, 2), (-7, 2), (7, -2), (-7, -2), (-1, 5), (0, -3), (6, 3), (-6, 3)):
            check(t, dtype, dtype, lambda x, y: x // y, (a, b), a // b)
            check(t, dtype, dtype, lambda x, y: x % y, (a, b), a % b)
            check(t, dtype, dtype, T.truncdiv, (a, b), int(a / b))
            check(t, dtype, dtype, T.truncmod, (a, b), a - b * int(a / b))
    check(t, "uint32", "uint32", lambda x, y: x // y, (2**32 - 1, 7), (2**32 - 1) // 7)
    check(t, "uint64", "uint64", lambda x, y: x % y, (2**64 - 1, 10), (2**64 - 1) % 10)


@ON
def test_shifts_and_bits(t: str) -> None:
    for dtype, f, values, want in (
        ("int32", lambda a, b: a >> b, (-8, 1), -4),
        ("int32", lambda a, b: a >> b, (-1, 31), -1),
        ("int32", lambda a, b: a << b, (1, 31), -I32),
        ("uint32", lambda a, b: a >> b, (2**32 - 8, 1), 2**31 - 4),
        ("uint32", lambda a, b: a << b, (3, 31), 2**31),
        ("int64", lambda a, b: a << b, (1, 40), 2**40),
        ("int64", lambda a, b: a >> b, (-(2**40), 39), -2),
        ("uint64", lambda a, b: a >> b, (2**64 - 1, 63), 1),
        ("int8", lambda a, b: a >> b, (-128, 3), -16),
        ("uint8", lambda a, b: a >> b, (200, 3), 25),
        ("int32", lambda a, b: a ^ b, (-1, 0x0F0F0F0F), ~0x0F0F0F0F),
        ("int32", lambda a, b: ~a + b, (5, 0), -6),
        ("uint32", lambda a, b: ~a + b, (5, 0), 2**32 - 6),
        ("int64", lambda a, b: a & b, (-1, 2**40 + 1), 2**40 + 1),
    ):
        check(t, dtype, dtype, f, values, np.array(want, dtype))


@ON
def test_wide_literals(t: str) -> None:
    for dtype, f, values, want in (
        ("int64", lambda a: a + 3_000_000_000, (5,), 3_000_000_005),
        ("int64", lambda a: a * 5_000_000_000, (-2,), -10_000_000_000),
        ("int64", lambda a: a + (I64 - 1), (-1,), I64 - 2),
        ("int64", lambda a: a - (I32 + 7), (0,), -(I32 + 7)),
        ("uint64", lambda a: a + (2**64 - 1), (1,), 0),
        ("uint32", lambda a: a ^ 0xFFFFFFFF, (1,), 0xFFFFFFFE),
        ("float64", lambda a: a * 0.1, (3.0,), 3.0 * 0.1),
        ("float64", lambda a: a + 1e300, (1e300,), 2e300),
        ("float64", lambda a: a + (2**53 + 1), (0.0,), float(2**53 + 1)),
        ("float32", lambda a: a * 0.1, (3.0,), np.float32(3) * np.float32(0.1)),
    ):
        check(t, dtype, dtype, f, values, np.array(want, dtype))


@ON
def test_chained_casts(t: str) -> None:
    for dtype, out, f, value, want in (
        ("int32", "int32", lambda a: T.cast(T.cast(a, "int8"), "int32"), 200, -56),
        ("int32", "int32", lambda a: T.cast(T.cast(a, "uint8"), "int32"), -1, 255),
        ("int32", "int64", lambda a: T.cast(T.cast(a, "uint32"), "int64"), -1, 2**32 - 1),
        ("int8", "uint32", lambda a: T.cast(a, "uint32"), -1, 2**32 - 1),
        ("uint8", "int32", lambda a: T.cast(a, "int32"), 200, 200),
        ("int8", "float32", lambda a: T.cast(a, "float32"), -37, -37.0),
        ("float32", "int32", lambda a: T.cast(a, "int32"), -2.7, -2),
        ("float32", "float32", lambda a: T.cast(T.cast(a, "float16"), "float32"), 2049.0, 2048.0),
        ("float32", "float32", lambda a: T.cast(T.cast(a, "float16"), "float32"), 1e6, INF),
        ("float32", "float32", lambda a: T.cast(T.cast(a, "bfloat16"), "float32"), 257.0, 256.0),
        ("float32", "float32", lambda a: T.cast(T.cast(a, "float8_e5m2"), "float32"), 1e5, INF),
        ("int32", "float32", lambda a: T.cast(a, "float32"), 2**24 + 1, 2.0**24),
        ("int64", "float64", lambda a: T.cast(a, "float64"), 2**53 + 1, 2.0**53),
        ("float64", "float32", lambda a: T.cast(a, "float32"), 1e39, INF),
        ("int32", "float64", lambda a: T.cast(0.1, "float64"), 0, 0.1),
        ("int32", "float64", lambda a: T.float64(1e300) + T.cast(a, "float64"), 0, 1e300),
        ("float32", "bool", lambda a: T.cast(a, "bool"), 0.5, True),
        ("float32", "bool", lambda a: T.cast(a, "bool"), NAN, True),
        ("int32", "int32", lambda a: T.reinterpret(T.cast(a, "float32"), "int32"), 1, 0x3F800000),
    ):
        check(t, dtype, out, f, (value,), np.array(want, out))
