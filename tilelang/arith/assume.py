# SPDX-License-Identifier: Apache-2.0
"""Taking a condition apart into intervals, residues and inequalities of a `Facts`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilelang.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    Const,
    FloorMod,
    Not,
    Or,
    TruncMod,
    Var,
    mentions,
)

from . import ranges
from .interval import EVERYTHING, intersect
from .linear import Linear

if TYPE_CHECKING:
    from tilelang.ir import Expr

    from .facts import Facts

OPPOSITE: dict[type, type] = {EQ: NE, NE: EQ, LT: GE, GE: LT, GT: LE, LE: GT}


def assume(f: Facts, cond: Any, value: bool) -> None:
    """`cond` is `value` here."""
    kind = type(cond)
    if kind is Not:
        assume(f, cond.a, not value)
    elif kind is (And if value else Or):
        assume(f, cond.a, value)
        f.forget()
        assume(f, cond.b, value)
    else:
        _fact(f, cond, value)


def is_stable(e: Expr) -> bool:
    """Does `e` mean the same value wherever its variables do? (No memory, no calls.)"""
    return all(type(x) is Var for x in mentions(e))


def _fact(f: Facts, cond: Any, value: bool) -> None:
    if type(cond) is Const or not is_stable(cond):
        return
    f.truths[cond] = value
    kind = type(cond) if value else OPPOSITE.get(type(cond))
    if kind in OPPOSITE and cond.a.dtype.is_int and cond.a.dtype.lanes == 1:
        a, b = f.linear(cond.a), f.linear(cond.b)
        wide: Any = f.expanded(cond)
        _compare(f, kind, a.minus(b))
        if wide is not cond and type(wide) is type(cond):  # it may have folded to a constant
            _compare(f, kind, f.linear(wide.a).minus(f.linear(wide.b)))
        if kind is EQ:
            _remainder(f, cond.a, b)
            _remainder(f, cond.b, a)
    elif cond.dtype.is_bool and cond.dtype.lanes == 1:
        f.intervals[cond] = (int(value), int(value))
        wide = f.expanded(cond)
        if wide is not cond:
            assume(f, wide, value)


def _compare(f: Facts, kind: type, s: Linear) -> None:
    """`s` compares with 0 as `kind` says."""
    if kind is GE:
        nonnegative(f, s)
    elif kind is GT:
        nonnegative(f, s.shifted(-1))
    elif kind is LE:
        nonnegative(f, s.scaled(-1))
    elif kind is LT:
        nonnegative(f, s.scaled(-1).shifted(-1))
    elif kind is EQ:
        nonnegative(f, s)
        nonnegative(f, s.scaled(-1))
    else:
        f.unequal = (*f.unequal, s)


def sharpen(f: Facts) -> None:
    """Each sum known not to be 0 moves a bound of its that is exactly 0."""
    for s in f.unequal:
        lo, hi = f.interval(s)
        if lo == 0:
            nonnegative(f, s.shifted(-1))
        if hi == 0:
            nonnegative(f, s.scaled(-1).shifted(-1))


def _remainder(f: Facts, e: Any, r: Linear) -> None:
    """x % n == c says a residue of x; of a single variable, when that is what x is."""
    if type(e) not in (FloorMod, TruncMod) or not r.is_const:
        return
    n = f.linear(e.b)
    if not n.is_const or n.const == 0 or (type(e) is TruncMod and r.const != 0):
        return
    residue(f, f.linear(e.a), abs(n.const), r.const)


def residue(f: Facts, s: Linear, m: int, r: int) -> None:
    """`s` is r modulo m; kept when `s` is one atom with coefficient 1 or -1."""
    if len(s.terms) != 1:
        return
    ((a, k),) = s.terms.items()
    if abs(k) == 1:
        f.residues[a] = ranges.both(*f.residues.get(a, (1, 0)), m, (r - s.const) * k % m)


def nonnegative(f: Facts, s: Linear) -> None:
    """Records s >= 0: as a bound of each atom, and as an inequality if it relates several."""
    for a, k in s.terms.items():
        rest = f.interval(s.without(a))[1]
        if rest is None:
            continue
        # k * a >= -rest
        bound = (-(rest // k), None) if k > 0 else (None, rest // -k)
        f.intervals[a] = intersect(f.intervals.get(a, EVERYTHING), bound)
    if len(s.terms) > 1:
        for a in s.terms:
            f.inequalities[a] = (*f.inequalities.get(a, ()), s)
