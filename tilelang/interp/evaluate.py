# SPDX-License-Identifier: Apache-2.0
"""The value of an expression: for given numbers, or over a whole grid of indices.

In: an expression and numbers for its variables; or a function from coordinates to an expression (a
layout's `address`). Out: a number, or an array with the value at every coordinate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilelang.ir import Expr, Var

from .text import ExprText
from .values import namespace

__all__ = ["evaluate", "evaluate_grid"]


def evaluate(e: Expr, numbers: Mapping[Var, Any] | None = None) -> Any:
    """The value of a scalar expression without loads."""
    return _run(ExprText(), e, numbers or {})


def evaluate_grid(f: Callable[[tuple[Expr, ...]], Expr], shape: tuple[int, ...]) -> Any:
    """int64 array of `f` at every coordinate below `shape`."""
    loops = tuple(Var(f"i{d}") for d in range(len(shape)))
    text = ExprText()
    text.grid = True
    axes = np.meshgrid(*(np.arange(n) for n in shape), indexing="ij")
    value = _run(text, f(loops), dict(zip(loops, axes, strict=True)))
    return np.broadcast_to(np.asarray(value, np.int64), shape)


def _run(text: ExprText, e: Expr, numbers: Mapping[Var, Any]) -> Any:
    names = {text.define(v): x for v, x in numbers.items()}
    code = text.expr(e)
    with np.errstate(all="ignore"):
        return eval(code, {**namespace(), **text.constants, **names})
