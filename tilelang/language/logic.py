# SPDX-License-Identifier: Apache-2.0
"""Conditions and boolean expressions of a captured function: decided now, or an IR expression."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from tilelang.errors import TypeMismatchError
from tilelang.ir import (
    Buffer,
    Const,
    Expr,
    Region,
    as_bool,
    as_expr,
    const,
    if_then_else,
    logical_and,
    logical_not,
    logical_or,
)

from .trace import Trace
from .values import VarRef, plain, scalar

_INFIX = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Is": operator.is_,
    "IsNot": operator.is_not,
}


class Logic:
    """The part of `protocol.Protocol` that evaluates conditions."""

    trace: Trace

    def _condition(self, value: Any) -> Any:
        """A run-time condition as a bool expression, anything else as a Python bool."""
        if isinstance(value, (Buffer, Region)):
            if isinstance(value, Region) and not value.squeezed():
                return as_bool(value)
            name = value.name if isinstance(value, Buffer) else value.buffer.name
            raise self.trace.error(
                f"buffer `{name}` cannot be used as a condition",
                "TL0205",
                f"test an element: {name}[i] != 0",
                TypeMismatchError,
            )
        value = plain(value)
        if isinstance(value, Expr) and type(value) is not Const:
            if value.dtype.lanes > 1 or value.dtype.is_handle:
                raise self.trace.error(
                    f"a {value.dtype} cannot be used as a condition",
                    "TL0206",
                    "compare it with something",
                    TypeMismatchError,
                )
            return as_bool(value)
        return bool(value.value) if isinstance(value, Const) else bool(value)

    def _lazily(self, f: Callable[[], Any], what: str) -> Any:
        with self.trace.collected() as emitted:
            value = f()
        if emitted:
            raise self.trace.error(
                f"{what} contains a call with an effect, which would always run",
                "TL0148",
                "write an `if` statement, or assign the call's result to a name first",
            )
        return value

    def and_(self, first: Any, *rest: Callable[[], Any]) -> Any:
        acc = first
        for f in rest:
            if not _is_symbolic(acc):
                if not acc:
                    return acc
                acc = f()
            else:
                acc = logical_and(self._condition(acc), self._condition(self._lazily(f, "`and`")))
        return plain(acc)

    def or_(self, first: Any, *rest: Callable[[], Any]) -> Any:
        acc = first
        for f in rest:
            if not _is_symbolic(acc):
                if acc:
                    return acc
                acc = f()
            else:
                acc = logical_or(self._condition(acc), self._condition(self._lazily(f, "`or`")))
        return plain(acc)

    def not_(self, value: Any) -> Any:
        test = self._condition(value)
        return logical_not(test) if isinstance(test, Expr) else not test

    def ifexp(self, cond: Any, then: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
        test = self._condition(cond)
        if not isinstance(test, Expr):
            return then() if test else orelse()
        a, b = (self._lazily(f, "a conditional expression") for f in (then, orelse))
        what = "a side of a conditional expression that is decided at run time"
        return (
            if_then_else(
                test, scalar(self.trace, plain(a), what), scalar(self.trace, plain(b), what)
            )
            if (isinstance(a, (Expr, VarRef)) and isinstance(b, (Expr, VarRef)))
            else if_then_else(test, self._side(a, b, what), self._side(b, a, what))
        )

    def _side(self, value: Any, other: Any, what: str) -> Any:
        """A number stays one beside an expression, which gives it its dtype."""
        other = other.__tl_expr__() if isinstance(other, (VarRef, Region)) else other
        return scalar(self.trace, value, what, other.dtype if isinstance(other, Expr) else None)

    def compare(self, left: Any, *rest: Any) -> Any:
        """A chain `a < b < c`, or a membership test; each operand is evaluated at most once."""
        result: Any = True
        for op, f in zip(rest[::2], rest[1::2], strict=True):
            right = f() if not _is_symbolic(result) else self._lazily(f, "a chained comparison")
            test = _member(left, right, op) if op in ("In", "NotIn") else _INFIX[op](left, right)
            left = right
            if _is_symbolic(test) or _is_symbolic(result):
                result = logical_and(self._condition(result), self._condition(test))
            else:
                result = test
            if not _is_symbolic(result) and not result:
                return result
        return plain(result)


def _is_symbolic(value: Any) -> bool:
    return isinstance(value, VarRef) or (isinstance(value, Expr) and type(value) is not Const)


def _member(left: Any, right: Any, op: str) -> Any:
    items = list(right) if isinstance(right, (tuple, list, set, frozenset, range)) else None
    if items is None or not any(_is_symbolic(v) for v in (left, *items)):
        return (left in right) if op == "In" else (left not in right)
    found: Expr = const(False)
    for item in items:
        found = logical_or(found, as_expr(left) == item)
    return found if op == "In" else logical_not(found)
