# SPDX-License-Identifier: Apache-2.0
"""language.md §3.4 (typing rules of arithmetic), as what a compiled kernel computes."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import TileError

VALUES = {
    "int8": 7, "uint8": 200, "int16": -300, "int32": -5, "uint32": 7, "int64": 1 << 33,
    "float16": 1.5, "bfloat16": 2.5, "float32": 0.1, "float64": 0.1, "bool": True,
}  # fmt: skip


def dtype_of(make: Any, *dtypes: str) -> str:
    """The dtype of an expression over scalars of the given dtypes."""
    seen: list[str] = []

    @T.prim_func
    def main(a: T.dtype(dtypes[0]), b: T.dtype(dtypes[-1]), A: T.Tensor((1,), "float64")):
        with T.Kernel(1, threads=1):
            e = make(a, b)
            seen.append(str(e.dtype))
            A[0] = T.cast(e, "float64")

    tilelang.compile(main, target="llvm")(VALUES[dtypes[0]], VALUES[dtypes[-1]], np.zeros(1))
    return seen[0]


PROMOTIONS = [
    ("int32", "uint32", "uint32"), ("int8", "int32", "int32"), ("int16", "int64", "int64"),
    ("uint8", "int32", "int32"), ("int32", "float16", "float16"), ("int64", "float32", "float32"),
    ("float16", "float32", "float32"), ("bfloat16", "float32", "float32"),
    ("float32", "float64", "float64"), ("bfloat16", "float16", "float16"),
    ("float16", "bfloat16", "float16"), ("bool", "bool", "int32"), ("bool", "int32", "int32"),
    ("bool", "float16", "float16"), ("int8", "int8", "int8"), ("uint8", "uint8", "uint8"),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b", "want"), PROMOTIONS)
@pytest.mark.parametrize("op", ["+", "-", "*", "max", "if"])
def test_two_dtypes(a: str, b: str, want: str, op: str) -> None:
    make = {
        "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y,
        "max": T.max, "if": lambda x, y: T.if_then_else(x > y, x, y),
    }[op]  # fmt: skip
    if op == "if" and a == b == "bool":
        want = "bool"
    assert dtype_of(make, a, b) == want


@pytest.mark.parametrize(
    ("dtype", "constant", "want"),
    [
        ("int32", 1, "int32"), ("int64", 1, "int64"), ("int16", 1, "int16"),
        ("uint32", 1, "uint32"), ("int8", 1, "int32"), ("uint8", 1, "int32"), ("bool", 1, "int32"),
        ("float16", 1, "float16"), ("bfloat16", 1, "bfloat16"), ("float32", 1, "float32"),
        ("int32", 1.5, "float32"), ("int8", 1.5, "float32"), ("float16", 1.5, "float32"),
        ("bfloat16", 1.5, "float32"), ("float32", 1.5, "float32"), ("float64", 1.5, "float64"),
    ],
)  # fmt: skip
def test_a_python_number(dtype: str, constant: Any, want: str) -> None:
    assert dtype_of(lambda x, _: x + constant, dtype, "int32") == want
    assert dtype_of(lambda x, _: constant * x, dtype, "int32") == want


def test_comparisons_are_bools() -> None:
    for make in (
        lambda a, b: a < b, lambda a, b: a == b, lambda a, b: a != b, lambda a, b: a >= b,
        lambda a, b: T.isnan(a),
    ):  # fmt: skip
        assert dtype_of(make, "float32", "int32") == "bool"


def test_bits() -> None:
    assert dtype_of(lambda a, b: a & b, "int32", "int32") == "int32"
    assert dtype_of(lambda a, b: a | b, "uint8", "uint8") == "uint8"
    assert dtype_of(lambda a, b: ~a, "int32", "int32") == "int32"
    assert dtype_of(lambda a, b: a << b, "int64", "int32") == "int64"
    assert dtype_of(lambda a, b: (a > 0) & (b > 0), "int32", "int32") == "bool"


@pytest.mark.parametrize(
    "make",
    [
        lambda a, b: a / b, lambda a, b: a**2, lambda a, b: abs(a) and a & 1.5,
        lambda a, b: T.float32(a) & b, lambda a, b: T.float32(a) << 1, lambda a, b: ~T.float32(a),
        lambda a, b: T.__exp(a), lambda a, b: T.popcount(T.float32(a)),
    ],
)  # fmt: skip
def test_what_has_no_meaning(make: Any) -> None:
    with pytest.raises((TypeError, RuntimeError)) as caught:
        dtype_of(make, "int32", "int32")
    assert isinstance(caught.value, TileError)
    assert caught.value.help


@pytest.mark.parametrize("a", [-7, 7, -8, 0])
@pytest.mark.parametrize("b", [2, -2, 3])
def test_integer_divisions(a: int, b: int) -> None:
    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), a: T.int32, b: T.int32):
        with T.Kernel(1, threads=1):
            A[0] = a // b
            A[1] = a % b
            A[2] = T.floordiv(a, b)
            A[3] = T.floormod(a, b)
            A[4] = T.truncdiv(a, b)
            A[5] = T.truncmod(a, b)
            A[6] = T.ceildiv(a, b)
            A[7] = T.cdiv(a, b)

    out = np.zeros(8, np.int32)
    tilelang.compile(main, target="llvm")(out, a, b)
    quotient = int(a / b)
    assert out.tolist()[:6] == [a // b, a % b, a // b, a % b, quotient, a - b * quotient]
    if b > 0:
        assert out[6] == out[7] == -(-a // b)


def test_stores_cast_to_the_buffer() -> None:
    @T.prim_func
    def main(
        F: T.Tensor((2,), "float16"), I: T.Tensor((2,), "int32"), B: T.Tensor((2,), "bfloat16"),
        x: T.float32, n: T.int32,
    ):  # fmt: skip
        with T.Kernel(1, threads=1):
            F[0] = x
            F[1] = n
            I[0] = x
            I[1] = n > 2
            B[0] = n
            B[1] = x

    f, i = np.zeros(2, np.float16), np.zeros(2, np.int32)
    b = np.zeros(2, ml_dtypes.bfloat16)
    tilelang.compile(main, target="llvm")(f, i, b, -2.75, 259)
    assert f.tolist() == [-2.75, 259]
    assert i.tolist() == [-2, 1]
    assert b.astype(np.float32).tolist() == [260, -2.75]


def test_python_ints_stay_python_ints() -> None:
    assert T.ceildiv(7, 2) == 4
    assert isinstance(T.ceildiv(7, 2), int)
    assert isinstance(T.cdiv(7, 2), int)
    assert isinstance(T.align_up(7, 4), int)
    assert T.max(3, 4) == 4
    assert T.min(3, 4) == 3
    assert T.floordiv(-7, 2) == -4
    assert T.floormod(-7, 2) == 1
