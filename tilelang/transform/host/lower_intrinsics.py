# SPDX-License-Identifier: Apache-2.0
"""LowerIntrin: intrinsics of other machines become those that a CPU has.

fast_exp(x)          →   exp(x)             the approximation is a GPU's
fast_rcp(x)          →   1 / x
sigmoid(x: float64)  →   1 / (exp(-x) + 1)  in float32 it is one polynomial of its own
rsqrt(x: float64)    →   1 / sqrt(x)
isnan(n: integer)    →   False              and isinf; isfinite is True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tilelang.ir import Add, Broadcast, Call, Const, Div, DType, Expr, Kernel, Neg, Rewriter, walk
from tilelang.target import Target

_PREDICATES = ("isnan", "isinf", "isfinite")
_FAST = "fast_"


def run(func: Any, target_host: Target) -> Any:
    if not isinstance(func, Kernel) or not any(_rule(n) is not None for n in walk(func.body)):
        return func
    return replace(func, body=_Lower().visit(func.body))


def _rule(n: Any) -> Callable[[Any], Expr] | None:
    """How this node is lowered."""
    if type(n) is not Call:
        return None
    if n.op == "fast_rcp":
        return _reciprocal
    if n.op.startswith(_FAST):
        return _plain
    if n.op in _PREDICATES and not n.args[0].dtype.is_float:
        return _decided
    return _OF_DOUBLE.get(n.op) if n.dtype.element is DType("float64") else None


def _constant(value: Any, dtype: DType) -> Expr:
    one = Const(value, dtype.element)
    return one if dtype.lanes == 1 else Broadcast(one, dtype.lanes)


def _plain(n: Any) -> Expr:
    return Call(n.op.removeprefix(_FAST), n.args, n.dtype)


def _reciprocal(n: Any) -> Expr:
    return Div(_constant(1.0, n.dtype), n.args[0])


def _decided(n: Any) -> Expr:
    return _constant(n.op == "isfinite", n.dtype)


def _sigmoid(n: Any) -> Expr:
    one = _constant(1.0, n.dtype)
    return Div(one, Add(Call("exp", (Neg(n.args[0]),), n.dtype), one))


def _rsqrt(n: Any) -> Expr:
    return Div(_constant(1.0, n.dtype), Call("sqrt", n.args, n.dtype))


_OF_DOUBLE: dict[str, Callable[[Any], Expr]] = {"sigmoid": _sigmoid, "rsqrt": _rsqrt}


class _Lower(Rewriter):
    def visit_Call(self, n: Any) -> Any:
        rule = _rule(n)
        return n if rule is None else rule(n)
