# SPDX-License-Identifier: Apache-2.0
"""Conversions of arrays are those of constants: `numeric.cast_array` against `ir.fold.cast`."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilelang.errors import BoundsError
from tilelang.interp import values
from tilelang.ir import Buffer, DType, Scope, fold
from tilelang.tileop import numeric

NAMES = (
    "bool", "int4", "int8", "int16", "int32", "int64", "uint4", "uint8", "uint16", "uint32",
    "uint64", "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2",
    "float4_e2m1fn",
)  # fmt: skip
SPECIAL = [
    0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 259.0, 257.0, 33000.0, 65504.0, 65520.0, 57344.0,
    448.0, 464.0, 1e5, 1e30, -1e30, 2.0**31, 2.0**63, math.inf, -math.inf, math.nan, 1e-8, 6e-8,
    1e-40,
]  # fmt: skip


def _source(x: float, src: DType) -> object:
    """The nearest value of `src`, as a Python number."""
    if src.is_float:
        return fold.round_to(x, src)
    return fold.cast(x, DType("float64"), src)


def _same(a: object, b: object) -> bool:
    x, y = float(a), float(b)  # type: ignore[arg-type]
    return (x != x and y != y) or (x == y and math.copysign(1, x) == math.copysign(1, y))


@settings(max_examples=300)
@given(
    st.one_of(st.floats(), st.sampled_from(SPECIAL), st.integers(-(2**63), 2**64).map(float)),
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
)
def test_arrays_are_converted_like_constants(x: float, a: str, b: str) -> None:
    src, dst = DType(a), DType(b)
    value = _source(x, src)
    want = fold.cast(value, src, dst)
    array = np.array([numeric.constant(value, src)[()]], src.as_numpy())
    got = numeric.cast_array(array, src, dst)
    assert got.dtype == dst.as_numpy()
    assert _same(got[0], want), (value, want, got)
    with np.errstate(all="ignore"):
        scalar = values.cast(values.literal(value, src), src, dst)
    assert _same(scalar, want), (value, want, scalar)


@pytest.mark.parametrize(
    ("x", "to", "want"),
    [
        (259, "bfloat16", 260), (33000, "bfloat16", 33024), (-259, "bfloat16", -260),
        (257, "bfloat16", 256), (1001, "bfloat16", 1000),
    ],
)  # fmt: skip
def test_integers_round_to_nearest_even(x: int, to: str, want: float) -> None:
    got = numeric.cast_array(np.array([x], np.int32), DType("int32"), DType(to))
    assert float(got[0]) == want


def test_every_fp8_value_is_exact_in_float16() -> None:
    for name in ("float8_e4m3fn", "float8_e5m2"):
        codes = np.arange(256, dtype=np.uint8).view(DType(name).as_numpy())
        got = numeric.cast_array(codes, DType(name), DType("float16"))
        np.testing.assert_array_equal(got.astype(np.float32), codes.astype(np.float32))


def test_a_box_outside_of_global_memory_reads_the_safe_value() -> None:
    a = Buffer("A", (3, 4), "int32")
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    got = numeric.read_box(array, a[1:4, 2:6], safe=-7)
    np.testing.assert_array_equal(got, [[6, 7, -7, -7], [10, 11, -7, -7], [-7] * 4])
    numeric.write_box(array, a[2:5, 3:5], np.full((3, 2), 50, np.int32))
    np.testing.assert_array_equal(array[2], [8, 9, 10, 50])


def test_a_box_outside_of_other_memory_is_an_error() -> None:
    s = Buffer("S", (3, 4), "int32", Scope.SHARED)
    with pytest.raises(BoundsError, match="leaves S"):
        numeric.read_box(np.zeros((3, 4), np.int32), s[1:4, 0:4])
