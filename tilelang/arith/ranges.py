# SPDX-License-Identifier: Apache-2.0
"""Intervals and residues of single atoms, from their operands."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any

from tilelang.ir import (
    Add,
    BitAnd,
    BitOr,
    BitXor,
    Call,
    Cast,
    Const,
    FloorDiv,
    FloorMod,
    IfThenElse,
    Max,
    Min,
    Mul,
    Neg,
    Select,
    Shl,
    Shr,
    Sub,
    TruncDiv,
    TruncMod,
)

from . import interval as iv
from .interval import EVERYTHING, Interval
from .normal import factors, is_index, value_range

if TYPE_CHECKING:
    from collections.abc import Callable

    from tilelang.ir import Expr

    from .facts import Facts

SAME_VALUE_CALLS = frozenset({"warp_uniform"})  # calls that return their argument's value


def interval(f: Facts, a: Expr) -> Interval:
    """Bounds of an atom from its structure and dtype."""
    dtype = a.dtype
    if dtype.lanes != 1 or not (dtype.is_int or dtype.is_bool):
        return EVERYTHING
    rule = _INTERVALS.get(type(a))
    out = rule(f, a) if rule is not None else EVERYTHING
    if is_index(dtype):
        return out
    lo, hi = value_range(dtype)
    return out if iv.inside(out, lo, hi) else (lo, hi)  # arithmetic of this dtype may have wrapped


def _of(f: Facts, e: Expr) -> Interval:
    return f.interval(f.linear(e))


def _product(f: Facts, a: Any) -> Interval:
    out: Interval = (1, 1)
    for x in factors(a):
        out = iv.multiply(out, _of(f, x) if x is not a else EVERYTHING)
    return out


def _divided(rule: Callable[[Interval, Interval], Interval]) -> Callable[[Any, Any], Interval]:
    def run(f: Facts, a: Any) -> Interval:
        d = _of(f, a.b)
        if d[0] is None or d[0] < 1:
            return EVERYTHING
        return rule(_of(f, a.a), d)

    return run


def _pair(rule: Callable[[Interval, Interval], Interval]) -> Callable[[Any, Any], Interval]:
    return lambda f, a: rule(_of(f, a.a), _of(f, a.b))


def _chosen(f: Facts, a: Any) -> Interval:
    return iv.hull(_of(f, a.a), _of(f, a.b))


def _shifted_right(f: Facts, a: Any) -> Interval:
    lo, hi = _of(f, a.a)
    return (0, hi) if lo is not None and lo >= 0 else EVERYTHING


def _shifted_left(f: Facts, a: Any) -> Interval:
    x, n = _of(f, a.a), _of(f, a.b)
    if not iv.inside(n, 0, a.dtype.bits - 1):
        return EVERYTHING
    return iv.multiply(x, (1 << n[0], 1 << n[1]))  # type: ignore[operator]


def _converted(f: Facts, a: Any) -> Interval:
    """A cast that may wrap: only the target's range is known; from a float, not even that it is
    meant.
    """
    if not (a.a.dtype.is_int or a.a.dtype.is_bool):
        return EVERYTHING
    lo, hi = value_range(a.dtype)
    inner = _of(f, a.a)
    return inner if iv.inside(inner, lo, hi) else (lo, hi)


def _called(f: Facts, a: Any) -> Interval:
    return _of(f, a.args[0]) if a.op in SAME_VALUE_CALLS else EVERYTHING


_INTERVALS: dict[type, Callable[[Any, Any], Interval]] = {
    Const: lambda f, a: (int(a.value), int(a.value)),
    Add: _pair(iv.add),
    Sub: _pair(lambda x, y: iv.add(x, iv.scale(y, -1))),
    Mul: _product,
    Neg: lambda f, a: iv.scale(_of(f, a.a), -1),
    FloorDiv: _divided(iv.floordiv),
    FloorMod: _divided(iv.floormod),
    TruncDiv: _divided(iv.truncdiv),
    TruncMod: _divided(iv.truncmod),
    Min: _pair(iv.minimum),
    Max: _pair(iv.maximum),
    BitAnd: _pair(iv.bit_and),
    BitOr: _pair(iv.bit_or),
    BitXor: _pair(iv.bit_or),
    Shl: _shifted_left,
    Shr: _shifted_right,
    Select: _chosen,
    IfThenElse: _chosen,
    Cast: _converted,
    Call: _called,
}


# --------------------------------------------------------------------------------------- residues


def both(m1: int, r1: int, m2: int, r2: int) -> tuple[int, int]:
    """What two residues say together (a contradiction keeps the first: dead code)."""
    if m1 == 1:
        return m2, r2
    if m2 == 1 or m1 == 0:
        return m1, r1
    if m2 == 0:
        return m2, r2
    g = gcd(m1, m2)
    if (r1 - r2) % g:
        return m1, r1
    step = pow(m1 // g, -1, m2 // g) if m2 // g > 1 else 0
    m = m1 // g * m2
    return m, (r1 + m1 * ((r2 - r1) // g * step % (m2 // g))) % m


def either(m1: int, r1: int, m2: int, r2: int) -> tuple[int, int]:
    """What holds of a value that has one residue or the other."""
    m = gcd(gcd(m1, m2), r1 - r2)
    return (m, r1 % m) if m else (0, r1)


def residue(f: Facts, a: Expr) -> tuple[int, int]:
    """(m, r) of an atom from its structure."""
    if not is_index(a.dtype):
        return 1, 0
    rule = _RESIDUES.get(type(a))
    return rule(f, a) if rule is not None else (1, 0)


def _residue_of(f: Facts, e: Expr) -> tuple[int, int]:
    return f.residue(f.linear(e))


def _product_residue(f: Facts, a: Any) -> tuple[int, int]:
    m, r = 0, 1
    for x in factors(a):
        m2, r2 = _residue_of(f, x)
        m, r = gcd(m * m2, m * r2, m2 * r), r * r2
    return (m, r % m) if m else (0, r)


def _quotient_residue(f: Facts, a: Any) -> tuple[int, int]:
    """x = m*k + r and d dividing m: x // d = (m/d)*k + r // d."""
    if type(a.b) is not Const or a.b.value <= 0:
        return 1, 0
    m, r = _residue_of(f, a.a)
    d = a.b.value
    return (m // d, r // d % (m // d)) if m and m % d == 0 else (1, 0)


def _remainder_residue(f: Facts, a: Any) -> tuple[int, int]:
    if type(a.b) is not Const or a.b.value <= 0:
        return 1, 0
    m, r = _residue_of(f, a.a)
    g = gcd(m, a.b.value)
    return (g, r % g)


def _chosen_residue(f: Facts, a: Any) -> tuple[int, int]:
    return either(*_residue_of(f, a.a), *_residue_of(f, a.b))


_RESIDUES: dict[type, Callable[[Any, Any], tuple[int, int]]] = {
    Mul: _product_residue,
    FloorDiv: _quotient_residue,
    FloorMod: _remainder_residue,
    Min: _chosen_residue,
    Max: _chosen_residue,
    Select: _chosen_residue,
    IfThenElse: _chosen_residue,
}
