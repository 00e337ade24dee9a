# SPDX-License-Identifier: Apache-2.0
"""`evaluate(e, env)`: the value of an integer or bool expression, exactly.

In: an expression without memory or calls, and an int for each variable. Out: a Python int or bool.
Arithmetic is that of the mathematical integers for int32 and int64 (index arithmetic, assumed not
to wrap) unless `wrap` is given, and wraps at the width of every other dtype. Used by tests and by
enumeration over small domains; a division by zero raises `ZeroDivisionError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilelang.errors import InternalError

from . import expr as E
from . import fold

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .dtype import DType

_WIDE = ("int32", "int64")


def evaluate(e: E.Expr, env: Mapping[E.Var, int], wrap: bool = False) -> Any:
    """The value of `e`; each distinct node is computed at most once, lazily under IfThenElse."""
    return _Evaluation(env, wrap).value(e)


class _Evaluation:
    def __init__(self, env: Mapping[E.Var, int], wrap: bool) -> None:
        self.env = env
        self.wrap = wrap
        self.memo: dict[E.Expr, Any] = {}

    def value(self, e: E.Expr) -> Any:
        hit = self.memo.get(e)
        if hit is None:
            hit = self.memo[e] = self._compute(e)
        return hit

    def _compute(self, e: Any) -> Any:
        kind = type(e)
        if kind is E.Var:
            return self.env[e]
        if kind is E.Const:
            return e.value
        special = _SPECIAL.get(kind)
        if special is not None:
            return special(self, e)
        rule = _BINARY.get(kind)
        if rule is None:
            raise InternalError(f"cannot evaluate {kind.__name__}: `{e}`")
        return self.fitted(rule(self.value(e.a), self.value(e.b)), e.dtype)

    def fitted(self, value: Any, dtype: DType) -> Any:
        if dtype.is_bool:
            return bool(value)
        if not self.wrap and str(dtype) in _WIDE:
            return int(value)
        return fold.wrap(int(value), dtype)


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    getattr(E, name): rule for name, rule in (fold.INT | fold.COMPARE).items()
}
_SPECIAL: dict[type, Callable[[Any, Any], Any]] = {
    E.And: lambda s, e: s.value(e.a) and s.value(e.b),
    E.Or: lambda s, e: s.value(e.a) or s.value(e.b),
    E.Not: lambda s, e: not s.value(e.a),
    E.Neg: lambda s, e: s.fitted(-s.value(e.a), e.dtype),
    E.BitNot: lambda s, e: s.fitted(~s.value(e.a), e.dtype),
    E.Cast: lambda s, e: bool(s.value(e.a)) if e.to.is_bool else fold.wrap(int(s.value(e.a)), e.to),
    E.Select: lambda s, e: s.value(e.a) if s.value(e.cond) else s.value(e.b),
    E.IfThenElse: lambda s, e: s.value(e.a) if s.value(e.cond) else s.value(e.b),
}
