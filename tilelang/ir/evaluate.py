# SPDX-License-Identifier: Apache-2.0
"""`evaluate(e, env)`: the value of an integer or bool expression, exactly.

In: an expression without memory or calls, and an int for each variable. Out: a Python int or bool.
Arithmetic is that of the mathematical integers for int32 and int64 (index arithmetic, assumed not
to wrap) unless `wrap` is given, and wraps at the width of every other dtype. Used by tests and by
enumeration over small domains; a division by zero raises `ZeroDivisionError`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
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


class _Memo(ABC):
    """Each node is computed once."""

    def __init__(self, env: Mapping[E.Var, Any]) -> None:
        self.env = env
        self.memo: dict[E.Expr, Any] = {}

    def value(self, e: E.Expr) -> Any:
        hit = self.memo.get(e)
        if hit is None:
            hit = self.memo[e] = self._compute(e)
        return hit

    @abstractmethod
    def _compute(self, e: Any) -> Any: ...


class _Evaluation(_Memo):
    def __init__(self, env: Mapping[E.Var, int], wrap: bool) -> None:
        super().__init__(env)
        self.wrap = wrap

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


# ------------------------------------------------------------------------------------- on arrays


def evaluate_arrays(e: E.Expr, env: Mapping[E.Var, Any]) -> Any:
    """`e` for numpy integer arrays (int64, broadcast together): exact while values fit 64 bits.

    Both sides of a select are computed. Dtypes are not wrapped: this is for index arithmetic.
    """
    return _Arrays(env).value(e)


class _Arrays(_Memo):
    def _compute(self, e: Any) -> Any:
        import numpy as np

        kind = type(e)
        if kind is E.Var:
            return self.env[e]
        if kind is E.Const:
            return e.value
        if kind is E.Cast and e.to.is_int:
            return self.value(e.a)
        if kind in (E.Select, E.IfThenElse):
            return np.where(self.value(e.cond), self.value(e.a), self.value(e.b))
        rule = _ARRAY_OPS.get(kind.__name__)
        if rule is None:
            raise InternalError(f"cannot evaluate {kind.__name__} on arrays: `{e}`")
        return rule(np, *(self.value(c) for c in e.children))


def _array_trunc_div(np: Any, a: Any, b: Any) -> Any:
    q = np.abs(a) // np.abs(b)
    return np.where((np.asarray(a) < 0) == (np.asarray(b) < 0), q, -q)


_ARRAY_OPS: dict[str, Callable[..., Any]] = {
    **{
        name: lambda np, a, b, f=rule: f(a, b)
        for name, rule in (fold.INT | fold.COMPARE).items()
        if name not in ("Min", "Max", "TruncDiv", "TruncMod")
    },
    "Min": lambda np, a, b: np.minimum(a, b),
    "Max": lambda np, a, b: np.maximum(a, b),
    "TruncDiv": _array_trunc_div,
    "TruncMod": lambda np, a, b: a - b * _array_trunc_div(np, a, b),
    "Neg": lambda np, a: -a,
    "BitNot": lambda np, a: ~a,
    "Not": lambda np, a: np.logical_not(a),
    "And": lambda np, a, b: np.logical_and(a, b),
    "Or": lambda np, a, b: np.logical_or(a, b),
}
