# SPDX-License-Identifier: Apache-2.0
"""Elementary functions that are made of others: `T.asinh`, `T.acosh`, `T.atanh`, `T.nextafter`.

They mean the same on every target, because what they are made of does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang import ir
from tilelang.ir import DType, Expr, call, const

from .math import fail, operand

_LN2 = 0.6931471805599453


def _composed(name: str, doc: str, formula: Callable[[Expr], Expr]) -> Callable[[Any], Expr]:
    """A function of a float; narrow ones, and integers, are computed as float32."""
    what = f"T.{name}"

    def function(x: Any) -> Expr:
        e = operand(x, what)
        if e.dtype.is_handle:
            raise fail(f"{what} of a pointer", "TL0274", "give a number")
        own = e.dtype if e.dtype.is_float else DType("float32").with_lanes(e.dtype.lanes)
        wide = own if own.bits >= 32 else DType("float32").with_lanes(own.lanes)
        return ir.cast(formula(ir.cast(e, wide)), own)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _f(name: str, *args: Expr) -> Expr:
    return call(name, args, args[0].dtype)


def _number(value: float, like: Expr) -> Expr:
    one = const(value, like.dtype.element)
    return one if like.dtype.lanes == 1 else ir.Broadcast(one, like.dtype.lanes)


def _huge(x: Expr) -> Expr:
    """Beyond this the square overflows, or adding 1 to it changes nothing."""
    return _number(1e150 if x.dtype.bits == 64 else 1e18, x)


def _asinh(x: Expr) -> Expr:
    """log(|x| + sqrt(x² + 1)) as log1p of what remains when 1 is taken away: exact near 0."""
    a, one = _f("abs", x), _number(1.0, x)
    square = a * a
    small = _f("log1p", a + square / (_f("sqrt", square + one) + one))
    large = _f("log", a) + _number(_LN2, x)
    return _f("copysign", ir.select(a < _huge(x), small, large), x)


def _acosh(x: Expr) -> Expr:
    """Below 1, where t is negative, its root is NaN."""
    t = x - _number(1.0, x)
    small = _f("log1p", t + _f("sqrt", t) * _f("sqrt", t + _number(2.0, x)))
    large = _f("log", x) + _number(_LN2, x)
    return ir.select(x < _huge(x), small, large)


def _atanh(x: Expr) -> Expr:
    a = _f("abs", x)
    out = _number(0.5, x) * _f("log1p", (a + a) / (_number(1.0, x) - a))
    return _f("copysign", out, x)


asinh = _composed("asinh", "Inverse hyperbolic sine.", _asinh)
acosh = _composed("acosh", "Inverse hyperbolic cosine.", _acosh)
atanh = _composed("atanh", "Inverse hyperbolic tangent.", _atanh)


def nextafter(x: Any, y: Any) -> Expr:
    """The float next to x in the direction of y."""
    a = operand(x, "T.nextafter")
    b = operand(y, "T.nextafter", a.dtype if a.dtype.is_float else None)
    own = ir.promote(a.dtype, b.dtype)
    own = own if own.is_float else DType("float32")
    if own.lanes > 1 or own.bits < 16:
        raise fail(f"T.nextafter of {own}", "TL0275", "give a scalar of 16, 32 or 64 bits")
    return _neighbour(ir.cast(a, own), ir.cast(b, own))


def _neighbour(a: Expr, b: Expr) -> Expr:
    """Floats of one sign are ordered as their bits are."""
    bits = DType(f"int{a.dtype.bits}")
    one, zero = const(1, bits), const(0.0, a.dtype)
    i = call("reinterpret", [a], bits)
    away = ir.EQ(ir.LT(zero, a), ir.LT(a, b))
    step = call("reinterpret", [ir.select(away, i + one, i - one)], a.dtype)
    tiny = _f("copysign", call("reinterpret", [one], a.dtype), b)
    moved = ir.select(ir.EQ(a, zero), tiny, step)
    ordered = ir.select(ir.EQ(a, b), b, moved)
    unordered = ir.Or(call("isnan", [a], "bool"), call("isnan", [b], "bool"))
    return ir.select(unordered, a + b, ordered)


__all__ = ["acosh", "asinh", "atanh", "nextafter"]
