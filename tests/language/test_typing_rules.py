# SPDX-License-Identifier: Apache-2.0
"""The dtypes of arithmetic, as the language has them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilelang.language as T
from tilelang.interp import tile
from tilelang.ir import Var
from tilelang.language.entry import prim_func

ADD, MUL, AND = operator.add, operator.mul, operator.and_


def var(dtype: str) -> Any:
    return Var("x", T.dtype(dtype))


@pytest.mark.parametrize(
    ("a", "op", "b", "result"),
    [
        ("int32", ADD, "uint32", "uint32"),
        ("int8", ADD, "int32", "int32"),
        ("int8", ADD, "int64", "int64"),
        ("int32", ADD, "float16", "float16"),
        ("float16", ADD, "float32", "float32"),
        ("bfloat16", ADD, "float16", "float16"),
        ("bfloat16", ADD, "float32", "float32"),
        ("bool", ADD, "bool", "int32"),
        ("int32", operator.lt, "int64", "bool"),
        ("float32", operator.eq, "float16", "bool"),
        ("bool", AND, "bool", "bool"),
        ("int16", AND, "int32", "int32"),
        ("float32", operator.floordiv, "float32", "float32"),
        ("int32", operator.truediv, "float32", "float32"),
        ("int32", T.max, "float16", "float16"),
    ],
)
def test_two_values(a: str, op: Callable[[Any, Any], Any], b: str, result: str) -> None:
    assert str(op(var(a), var(b)).dtype) == result


@pytest.mark.parametrize(
    ("dtype", "constant", "result"),
    [
        ("int16", 1, "int16"),
        ("int32", 1, "int32"),
        ("int64", 1, "int64"),
        ("uint32", 1, "uint32"),
        ("int8", 1, "int32"),
        ("uint8", 1, "int32"),
        ("bool", 1, "int32"),
        ("float16", 1, "float16"),
        ("bfloat16", 1, "bfloat16"),
        ("int32", 1.5, "float32"),
        ("float16", 1.5, "float32"),
        ("bfloat16", 1.5, "float32"),
        ("float8_e4m3fn", 1.5, "float32"),
        ("float32", 1.5, "float32"),
        ("float64", 1.5, "float64"),
    ],
)
def test_a_python_constant(dtype: str, constant: Any, result: str) -> None:
    assert str((var(dtype) * constant).dtype) == result
    assert str((constant * var(dtype)).dtype) == result


def test_dtypes_are_texts_and_constructors() -> None:
    assert T.float32 == "float32"
    assert T.half == T.float16
    assert T.float16.bits == 16
    assert T.bool.bits == 8
    assert T.float32x2.lanes == 2
    assert str(T.float32(var("int32")).dtype) == "float32"
    assert T.int8(300).value == 44
    assert T.dtype(int) == "int32"
    assert T.dtype(np.dtype("float16")) == T.float16
    assert T.infinity("float16").value == float("inf")
    assert (T.max_value("int8").value, T.min_value("int8").value) == (127, -128)
    assert T.max_value("float16").value == 65504


def test_stores_convert() -> None:
    def stores(A: T.Tensor((4,), "int8"), B: T.Tensor((4,), "float16"), x: T.float32):
        with T.Kernel(1, threads=1):
            A[0] = x
            A[1] = 200
            A[2] = True
            B[0] = x
            B[1] = 1
            B[2] = x > 1

    a, b = np.zeros(4, np.int8), np.zeros(4, np.float16)
    tile.run(prim_func(stores), a, b, 2.75)
    assert a.tolist() == [2, -56, 1, 0]
    assert b.tolist() == [2.75, 1, 1, 0]


def test_conditions() -> None:
    n = var("int32")
    assert str(T.if_then_else(n > 1, n, 2.5).dtype) == "float32"
    assert str(T.Select(n > 1, n, 2).dtype) == "int32"
    assert str(T.if_then_else(n, True, False).dtype) == "bool"


def test_python_numbers_stay_python() -> None:
    assert T.ceildiv(7, 2) == 4
    assert type(T.ceildiv(7, 2)) is int
    assert T.max(1, 2, 3) == 3
    assert T.truncdiv(-7, 2) == -3
    assert T.truncmod(-7, 2) == -1
    assert T.floordiv(-7, 2) == -4
    assert T.align_up(5, 4) == 8
