# SPDX-License-Identifier: Apache-2.0
"""Arithmetic with a stated rounding: `T.ieee_add`, `T.ieee_fdiv`, …

Rounding to nearest even is the operation itself. The directed modes, of float32, are made of
float64 operations that know the exact result: it is `s + e`, `s` the nearest float64 and `e` what
that leaves (or anything with its sign); the nearest float32 of `s` then moves to its neighbour
where it lies on the wrong side. So every target gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang import ir
from tilelang.errors import OptionError
from tilelang.ir import DType, Expr, call, const

from .math import fail, operand

_F32, _F64, _I32, _I64 = DType("float32"), DType("float64"), DType("int32"), DType("int64")
_MODES = ("rn", "rz", "ru", "rd")


def _directed(what: str, mode: str, *operands: Expr) -> bool:
    """Is `mode` another than to nearest? Checks that these operands have it."""
    if mode not in _MODES:
        raise fail(
            f"{what}: unknown rounding mode {mode!r}",
            "TL0544",
            f"one of {', '.join(_MODES)}",
            OptionError,
        )
    if mode == "rn":
        return False
    for e in operands:
        if e.dtype is not _F32:
            raise fail(
                f"{what}: rounding mode {mode!r} is of float32, not of {e.dtype}",
                "TL0545",
                "cast the operands to float32, or use 'rn' (to nearest even)",
                OptionError,
            )
    return True


# ------------------------------------------------------------------------------ directed rounding


def _wide(e: Expr) -> Expr:
    return ir.cast(e, _F64)


def _moved(s: Expr, e: Expr, mode: str) -> Expr:
    """The float32 that s + e is rounded to; `e` counts where `s` is a float32 already."""
    near = ir.cast(s, _F32)
    below = s - _wide(near)
    rest = ir.select(ir.EQ(below, const(0.0, _F64)), e, below)
    more, less = ir.LT(const(0.0, _F64), rest), ir.LT(rest, const(0.0, _F64))
    positive, negative = ir.LT(const(0.0, _F32), near), ir.LT(near, const(0.0, _F32))
    bits = call("reinterpret", [near], _I32)
    one = const(1, _I32)
    out = call("reinterpret", [bits + one], _F32)  # away from zero
    back = call("reinterpret", [bits - one], _F32)
    tiny = call("reinterpret", [one], _F32)
    if mode == "rz":
        inward = ir.Or(ir.And(positive, less), ir.And(negative, more))
        return ir.select(inward, back, near)
    if mode == "ru":
        up = ir.select(positive, out, ir.select(negative, back, tiny))
        return ir.select(more, up, near)
    down = ir.select(positive, back, ir.select(negative, out, -tiny))
    return ir.select(less, down, near)


def _sum(a: Expr, b: Expr, mode: str) -> Expr:
    """Of two float64: what the sum leaves is exact (Knuth's two-sum)."""
    s = a + b
    b_part = s - a
    e = (a - (s - b_part)) + (b - b_part)
    out = _moved(s, e, mode)
    if mode != "rd":
        return out
    # An exact 0 is -0 when rounding down, unless both terms are +0 (IEEE 754, 6.3).
    zero = const(0.0, _F64)
    bits = call("reinterpret", [a], _I64) | call("reinterpret", [b], _I64)
    minus = ir.And(ir.EQ(s, zero), ir.NE(bits, const(0, _I64)))
    return ir.select(minus, const(-0.0, _F32), out)


def _quotient(a: Expr, b: Expr, mode: str) -> Expr:
    """The remainder of the quotient is exact; the sign of the divisor turns it."""
    x, y = _wide(a), _wide(b)
    q = x / y
    rest = call("fma", [-q, y, x], _F64)
    return _moved(q, rest * call("copysign", [const(1.0, _F64), y], _F64), mode)


def _root(a: Expr, mode: str) -> Expr:
    x = _wide(a)
    s = call("sqrt", [x], _F64)
    return _moved(s, call("fma", [-s, s, x], _F64), mode)


# ------------------------------------------------------------------------------ the operations


def _fma(a: Expr, b: Expr, c: Expr) -> Expr:
    """Rounded once and never contracted with its neighbours, which plain `a * b + c` could be."""
    return call("fma", [a, ir.cast(b, a.dtype), ir.cast(c, a.dtype)], a.dtype)


def _operands(what: str, *values: Any) -> list[Expr]:
    first = operand(values[0], what)
    return [first, *(operand(v, what, first.dtype) for v in values[1:])]


def _arithmetic(
    name: str, doc: str, nearest: Callable[..., Expr], directed: Callable[..., Expr]
) -> Callable[..., Expr]:
    what = f"T.{name}"

    def function(a: Any, b: Any, rounding_mode: str = "rn") -> Expr:
        x, y = _operands(what, a, b)
        if _directed(what, rounding_mode, x, y):
            return directed(x, y, rounding_mode)
        return nearest(x, y)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


ieee_add = _arithmetic(
    "ieee_add",
    "a + b, rounded as said.",
    lambda a, b: _fma(a, const(1.0), b),
    lambda a, b, mode: _sum(_wide(a), _wide(b), mode),
)
ieee_sub = _arithmetic(
    "ieee_sub",
    "a - b, rounded as said.",
    lambda a, b: _fma(b, const(-1.0), a),
    lambda a, b, mode: _sum(_wide(a), -_wide(b), mode),
)
ieee_mul = _arithmetic(  # adding -0.0 changes nothing, not even the sign of a zero
    "ieee_mul",
    "a * b, rounded as said.",
    lambda a, b: _fma(a, b, const(-0.0)),
    lambda a, b, mode: _moved(_wide(a) * _wide(b), const(0.0, _F64), mode),
)
ieee_fdiv = _arithmetic("ieee_fdiv", "a / b, rounded as said.", lambda a, b: a / b, _quotient)


def ieee_fmaf(a: Any, b: Any, c: Any, rounding_mode: str = "rn") -> Expr:
    """a * b + c, rounded once as said."""
    x, y, z = _operands("T.ieee_fmaf", a, b, c)
    if _directed("T.ieee_fmaf", rounding_mode, x, y, z):  # the product is exact in float64
        return _sum(_wide(x) * _wide(y), _wide(z), rounding_mode)
    return _fma(x, y, z)


def ieee_frcp(a: Any, rounding_mode: str = "rn") -> Expr:
    """1 / a, rounded as said."""
    e = operand(a, "T.ieee_frcp")
    return ieee_fdiv(const(1.0, e.dtype), e, rounding_mode)


def ieee_fsqrt(a: Any, rounding_mode: str = "rn") -> Expr:
    """Square root, rounded as said."""
    e = operand(a, "T.ieee_fsqrt")
    if _directed("T.ieee_fsqrt", rounding_mode, e):
        return _root(e, rounding_mode)
    return call("sqrt", [e], e.dtype)


def ieee_frsqrt(a: Any) -> Expr:
    """1 / sqrt(a) to nearest even: of a float32 by way of float64, whose error never decides."""
    e = operand(a, "T.ieee_frsqrt")
    if e.dtype is not _F32:
        raise fail(f"T.ieee_frsqrt of {e.dtype}", "TL0276", "cast it to float32, or use T.rsqrt")
    return ir.cast(const(1.0, _F64) / call("sqrt", [_wide(e)], _F64), _F32)


__all__ = [
    "ieee_add",
    "ieee_fdiv",
    "ieee_fmaf",
    "ieee_frcp",
    "ieee_frsqrt",
    "ieee_fsqrt",
    "ieee_mul",
    "ieee_sub",
]
