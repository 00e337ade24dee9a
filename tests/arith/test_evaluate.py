# SPDX-License-Identifier: Apache-2.0
"""`ir.evaluate`: on numbers and on arrays, the same and as Python says."""

from __future__ import annotations

import numpy as np
import pytest

from tilelang import ir
from tilelang.errors import InternalError
from tilelang.ir.evaluate import evaluate, evaluate_arrays


def test_numbers_and_arrays_agree() -> None:
    with ir.session():
        x, y = ir.Var("x"), ir.Var("y")
        cases = [
            x + y * 3 - 7,
            x // 4 + y % 3,
            ir.truncdiv(x, 4) * ir.truncmod(x, 4),
            ir.minimum(x, y) - ir.maximum(x, 2),
            ir.select(ir.logical_and(x < y, ir.logical_not(x > 3)), x, y),
            (x ^ y) + (x & 6) + (x << 2) + (y >> 1) + (x | 1),
            -x + ~y,
            ir.cast(x, "int64") * 5,
            ir.select(ir.logical_or(x == y, x != 2), 1, 0),
        ]
        xs, ys = np.arange(-9, 9)[:, None], np.arange(-4, 5)[None, :]
        for e in cases:
            both = np.broadcast_to(evaluate_arrays(e, {x: xs, y: ys}), (18, 9))
            for a in range(18):
                for b in range(9):
                    assert evaluate(e, {x: a - 9, y: b - 4}) == both[a, b], str(e)


def test_narrow_dtypes_wrap_and_wide_ones_only_when_asked() -> None:
    with ir.session():
        b, x = ir.Var("b", ir.DType("int8")), ir.Var("x")
        assert evaluate(b + ir.const(100, "int8"), {b: 100}) == -56
        u = ir.Var("u", ir.DType("uint32"))
        assert evaluate(u - 1, {u: 0}) == 2**32 - 1
        assert evaluate(x * 2, {x: 2**30}) == 2**31
        assert evaluate(x * 2, {x: 2**30}, wrap=True) == -(2**31)
        assert evaluate(ir.cast(x, "int8"), {x: 200}) == -56
        assert evaluate(ir.cast(x, "bool"), {x: 2}) is True


def test_the_side_not_taken_is_not_evaluated() -> None:
    with ir.session():
        x = ir.Var("x")
        assert evaluate(ir.if_then_else(x > 0, 8 // x, 0), {x: 0}) == 0
        with pytest.raises(ZeroDivisionError):
            evaluate(8 // x, {x: 0})
        with pytest.raises(InternalError):
            evaluate(ir.call("exp", [ir.cast(x, "float32")], "float32"), {x: 0})
        with pytest.raises(InternalError):
            evaluate_arrays(ir.call("exp", [ir.cast(x, "float32")], "float32"), {x: 0})
