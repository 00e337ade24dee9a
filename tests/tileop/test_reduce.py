# SPDX-License-Identifier: Apache-2.0
"""Reduce: meaning against numpy, and the CPU lowering against the meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tileop.op_support import fragment, reference, run_on_cpu, values
from tilelang.ir import DType
from tilelang.tileop import Reduce, numeric
from tilelang.tileop.reduce import KINDS

SHAPES = [
    ((7,), 0),
    ((3, 5), 0),
    ((3, 5), 1),
    ((4, 33), -1),
    ((2, 3, 40), 1),
    ((2, 3, 4), 0),
    ((1, 1), 1),
    ((5, 0), 1),
]


def _out_shape(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    dim %= len(shape)
    return shape[:dim] + shape[dim + 1 :] or (1,)


def _op(
    kind: str, shape: tuple[int, ...], dim: int, a: str, b: str, **kw: Any
) -> tuple[Any, Any, Reduce]:
    src, dst = fragment("S", shape, a), fragment("D", _out_shape(shape, dim), b)
    return src, dst, Reduce(src.whole(), dst.whole(), kind, dim, **kw)


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("a", "b"),
    [("float32", "float32"), ("float16", "float16"), ("int8", "int32"), ("uint8", "uint8")],
)
@pytest.mark.parametrize("clear", [True, False])
def test_cpu_agrees_with_the_meaning(
    shape: tuple[int, ...], dim: int, kind: str, a: str, b: str, clear: bool
) -> None:
    if kind.startswith("bit") and a.startswith("float"):
        return
    src, dst, op = _op(kind, shape, dim, a, b, clear=clear)
    x, y = values(shape, a), np.abs(values(_out_shape(shape, dim), b, 1))
    z = y.copy()
    reference(op, (src, x), (dst, y))
    run_on_cpu(op, [src, dst], [x, z])
    np.testing.assert_allclose(z.astype(np.float64), y.astype(np.float64), rtol=2e-3)


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_meaning_against_numpy(shape: tuple[int, ...], dim: int) -> None:
    x = values(shape, "float32")
    initial = {"max": -np.inf, "min": np.inf}
    for kind, f in (("sum", np.sum), ("max", np.max), ("min", np.min)):
        src, dst, op = _op(kind, shape, dim, "float32", "float32")
        y = np.full(_out_shape(shape, dim), np.nan, np.float32)
        reference(op, (src, x), (dst, y))
        kw = {"initial": initial[kind]} if kind in initial else {}
        np.testing.assert_allclose(y, f(x, axis=dim, **kw).reshape(y.shape), rtol=1e-6)


def test_the_result_may_keep_the_dimension() -> None:
    src, dst = fragment("S", (3, 5)), fragment("D", (3, 1))
    x, y, z = values((3, 5), "float32"), np.zeros((3, 1), np.float32), np.zeros((3, 1), np.float32)
    op = Reduce(src.whole(), dst.whole(), "max", 1)
    reference(op, (src, x), (dst, y))
    run_on_cpu(op, [src, dst], [x, z])
    np.testing.assert_array_equal(y[:, 0], x.max(1))
    np.testing.assert_array_equal(z, y)


@pytest.mark.parametrize(
    ("dtype", "want"),
    [("int32", 202), ("int16", 202), ("float16", 202), ("float32", 202), ("int8", -54)],
)
def test_narrow_sums(dtype: str, want: int) -> None:
    x = np.array([10, 25, 40, 30, 15, 42, 20, 20]).astype(DType(dtype).as_numpy())
    for run in ("reference", "cpu"):
        src, dst, op = _op("sum", (8,), 0, dtype, dtype)
        y = np.zeros(1, x.dtype)
        reference(op, (src, x), (dst, y)) if run == "reference" else run_on_cpu(
            op, [src, dst], [x, y]
        )
        assert int(y[0]) == want


def test_bfloat16_is_summed_in_float32() -> None:
    x = np.array([3, 8, 5, 2, 7, 6, 4, 6]).astype(DType("bfloat16").as_numpy())
    src, dst, op = _op("sum", (8,), 0, "bfloat16", "bfloat16")
    y = np.zeros(1, x.dtype)
    run_on_cpu(op, [src, dst], [x, y])
    assert float(y[0]) == 41


@pytest.mark.parametrize("propagate", [False, True])
@pytest.mark.parametrize("kind", ["max", "min", "absmax"])
def test_nan(kind: str, propagate: bool) -> None:
    x = np.array([1, np.nan, -3, 2], np.float32)
    src, dst, op = _op(kind, (4,), 0, "float32", "float32", nan_propagate=propagate)
    y, z = np.zeros(1, np.float32), np.zeros(1, np.float32)
    reference(op, (src, x), (dst, y))
    run_on_cpu(op, [src, dst], [x, z])
    want = np.nan if propagate else {"max": 2, "min": -3, "absmax": 3}[kind]
    np.testing.assert_array_equal([y[0], z[0]], [want, want])


def test_absmax_skips_no_index() -> None:
    src, dst, op = _op("absmax", (64, 65), 1, "float32", "float32")
    x = np.full((64, 65), 0.5, np.float32)
    x[np.arange(64), np.arange(64)] = -(np.arange(64) + 2)
    y = np.zeros(64, np.float32)
    run_on_cpu(op, [src, dst], [x, y])
    np.testing.assert_array_equal(y, np.arange(64) + 2)


def test_unsigned_absolute_values() -> None:
    for kind, want in (("absmax", 100), ("abssum", 160)):
        for dtype in ("uint32", "uint64"):
            src, dst, op = _op(kind, (4,), 0, dtype, dtype)
            y = np.zeros(1, dtype)
            run_on_cpu(op, [src, dst], [np.array([100, 10, 20, 30], dtype), y])
            assert int(y[0]) == want


def test_effects() -> None:
    src, dst, op = _op("sum", (3, 5), 1, "float32", "float32")
    assert [a.kind for a in op.effects().accesses] == ["read", "write"]
    again = Reduce(src.whole(), dst.whole(), "sum", 1, clear=False)
    assert [a.kind for a in again.effects().accesses] == ["read", "read", "write"]
    assert numeric.ints(op.kept) == (3,)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("kind", ["max", "min", "absmax"])
def test_a_row_of_nan_counts_as_an_empty_one(kind: str, dim: int, dtype: str) -> None:
    src, dst, op = _op(kind, (64, 64), dim, dtype, dtype, clear=False)
    x = np.full((64, 64), np.nan, dtype)
    y = np.where(np.arange(64) < 32, np.nan, -2).astype(dtype)
    z = y.copy()
    reference(op, (src, x), (dst, y))
    run_on_cpu(op, [src, dst], [x, z])
    np.testing.assert_array_equal(y, z)
    assert not np.isnan(y).any()
