# SPDX-License-Identifier: Apache-2.0
"""`simplify`: an equal expression that costs no more.

Integer arithmetic is written again from its normal form where that is cheaper than the expression
as it stands (with simplified parts); ties keep what the author wrote. Comparisons are decided, or
freed of what is common to both sides; branches are simplified knowing their condition.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any, TypeAlias

from tilelang.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BitAnd,
    Call,
    Cast,
    Const,
    Div,
    FloorDiv,
    FloorMod,
    IfThenElse,
    Load,
    Max,
    Min,
    Mul,
    Neg,
    Not,
    Or,
    Select,
    Shl,
    Shr,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    if_then_else,
    logical_and,
    logical_not,
    logical_or,
    refold,
    select,
)
from tilelang.ir.dtype import BOOL

from . import prove
from .interval import EVERYTHING
from .linear import Linear
from .normal import expression, is_index

if TYPE_CHECKING:
    from collections.abc import Callable

    from tilelang.ir import Expr

    from .facts import Facts

_Rule: TypeAlias = "Callable[[Facts, Any], Expr]"
_COSTS: dict[type, int] = {
    Const: 1,
    Var: 1,
    Mul: 3,
    FloorDiv: 6,
    FloorMod: 6,
    TruncDiv: 6,
    TruncMod: 6,
    Load: 8,
    Call: 20,
    Div: 12,
}
_CHAIN = (Add, Sub, Neg)


def cost(f: Facts, e: Expr) -> int:
    """Operations to compute `e`, weighted."""
    hit = f.costs.get(e)
    if hit is None:
        hit = f.costs[e] = _COSTS.get(type(e), 2) + sum(cost(f, c) for c in e.children)
    return hit


def _least_cost(f: Facts, s: Linear) -> int:
    """What a sum costs at least when written out (casts not counted)."""
    total = 2 * len(s.terms) - 2 + (3 if s.const else 0)
    for a, k in s.terms.items():
        total += cost(f, a) + (0 if k in (1, -1) else 4)
    return total


def simplify(f: Facts, e: Expr) -> Expr:
    hit = f.simple_memo.get(e)
    if hit is None:
        rule: _Rule = _RULES.get(type(e), inside)
        hit = rule(f, e)
        known = f.truths.get(hit) if hit.dtype.is_bool else None
        if known is not None:
            hit = Const(known, BOOL)
        f.simple_memo[e] = f.simple_memo[hit] = hit
    return hit


def inside(f: Facts, e: Any) -> Expr:
    """`e` with its operands simplified; constants folded."""
    hit = f.inside_memo.get(e)
    if hit is None:
        new = e.map_children(f.simplify)
        hit = f.inside_memo[e] = e if new is e else refold(new)
    return hit


def _chain(f: Facts, e: Any) -> Expr:
    """A sum as it stands, with its leaves simplified (not its partial sums: only the whole is
    rebuilt).
    """
    if type(e) not in _CHAIN:
        return f.simplify(e)
    hit = f.chain_memo.get(e)
    if hit is None:
        new = e.map_children(lambda c: _chain(f, c))
        hit = f.chain_memo[e] = e if new is e else refold(new)
    return hit


def _arithmetic(f: Facts, e: Any) -> Expr:
    if not is_index(e.dtype):
        return _bounded(f, e)
    kept = _chain(f, e) if type(e) in _CHAIN else inside(f, e)
    normal_form = f.linear(e)
    # a quotient taken apart, (8*c + t) // 4 = 2*c + t // 4, costs the same; loops hoist a part
    worth = 0 if type(e) is FloorDiv else 1
    if _least_cost(f, normal_form) + worth > cost(f, kept):
        f.meet(normal_form)
        return kept
    new = expression(f, normal_form, e.dtype)
    return kept if new is None or cost(f, new) + worth > cost(f, kept) else new


def _variable(f: Facts, e: Any) -> Expr:
    """A variable with one possible value is that value."""
    if not e.dtype.is_int or e.dtype.lanes != 1:
        return e  # type: ignore[no-any-return]
    lo, hi = f.intervals.get(e, EVERYTHING)
    return Const(lo, e.dtype) if lo is not None and lo == hi else e


def _bounded(f: Facts, e: Any) -> Expr:
    """Unsigned and narrow integers: a value that can only be one number is that number."""
    if not e.dtype.is_int or e.dtype.lanes != 1:
        return inside(f, e)
    lo, hi = f.interval(f.linear(e))
    return Const(lo, e.dtype) if lo is not None and lo == hi else inside(f, e)


def _compare(f: Facts, e: Any) -> Expr:
    known = prove.decide(f, e)
    if known is not None:
        return Const(known, BOOL)
    kept = inside(f, e)
    if not is_index(e.a.dtype):
        return kept
    new = _balanced(f, type(e), f.linear(e.a).minus(f.linear(e.b)), e.a.dtype)
    return kept if new is None or cost(f, new) >= cost(f, kept) else new


def _balanced(f: Facts, kind: Any, s: Linear, dtype: Any) -> Expr | None:
    """`s` <kind> 0 with the positive terms left and the negative ones right."""
    s = _coarse(f, kind, s)
    left = Linear(0, {a: k for a, k in s.terms.items() if k > 0})
    right = Linear(0, {a: -k for a, k in s.terms.items() if k < 0})
    if not right.terms or (left.terms and s.const > 0):
        left, right = (
            (left.shifted(s.const), right) if right.terms else (left, right.shifted(-s.const))
        )
    else:
        right = right.shifted(-s.const)
    a, b = expression(f, left, dtype), expression(f, right, dtype)
    if a is None or b is None:
        return None
    if type(a) is Const:
        a, b, kind = b, a, _MIRROR[kind]
    out: Expr = kind(a, b)
    return out


def _coarse(f: Facts, kind: Any, s: Linear) -> Linear:
    """An inequality divided by what its terms have in common: 8*i + v < 8*n with 0 <= v < 8 is i <
    n.
    """
    if kind in (EQ, NE):
        g = s.content()
        return s.divided(g) if g > 1 and s.const % g == 0 else s
    # as t >= 0, which is t // g >= 0 for any g > 0
    sign = 1 if kind in (GE, GT) else -1
    strict = kind in (GT, LT)
    t, g = _floored(f, s.scaled(sign).shifted(-strict))
    return t.shifted(g if strict else 0).scaled(sign)


def _floored(f: Facts, t: Linear) -> tuple[Linear, int]:
    """(u, g): t >= 0 exactly if u >= 0, which is u + g > 0; u lacks what cannot matter."""
    moduli = {abs(k * f.atom_residue(a)[0]) for a, k in t.terms.items()}
    for g in sorted(moduli - {0, 1}, reverse=True):
        big, small = t.split(lambda a, k: f.divides(g, a, k))  # noqa: B023
        lo, hi = f.interval(small)
        if big.terms and lo is not None and hi is not None and lo // g == hi // g:
            common = gcd(big.content(), g)
            return big.shifted(lo // g * g).divided(common), g // common
    common = t.content()
    return (t.divided(common) if common > 1 else t), 1


_MIRROR: dict[Any, Any] = {EQ: EQ, NE: NE, LT: GT, GT: LT, LE: GE, GE: LE}


def _and(f: Facts, e: Any) -> Expr:
    a = f.simplify(e.a)
    if type(a) is Const or e.dtype.lanes != 1:
        return logical_and(a, f.simplify(e.b))
    return logical_and(a, f.branch(a).simplify(e.b))


def _or(f: Facts, e: Any) -> Expr:
    a = f.simplify(e.a)
    if type(a) is Const or e.dtype.lanes != 1:
        return logical_or(a, f.simplify(e.b))
    return logical_or(a, f.branch(logical_not(a)).simplify(e.b))


_NEGATED: dict[Any, Any] = {EQ: NE, NE: EQ, LT: GE, GE: LT, GT: LE, LE: GT}


def _not(f: Facts, e: Any) -> Expr:
    """An integer comparison takes the negation in (a float one cannot: NaN)."""
    a = f.simplify(e.a)
    negated = _NEGATED.get(type(a))
    if negated is not None and not a.a.dtype.is_float:  # type: ignore[attr-defined]
        out: Expr = negated(a.a, a.b)  # type: ignore[attr-defined]
        return out
    return logical_not(a)


def _choice(build: Callable[[Any, Any, Any], Expr]) -> Callable[[Any, Any], Expr]:
    def run(f: Facts, e: Any) -> Expr:
        cond = f.simplify(e.cond)
        if type(cond) is Const:
            return f.simplify(e.a if cond.value else e.b)
        if cond.dtype.lanes != 1:
            return build(cond, f.simplify(e.a), f.simplify(e.b))
        return build(cond, f.branch(cond).simplify(e.a), f.branch(logical_not(cond)).simplify(e.b))

    return run


_RULES: dict[type, _Rule] = {
    **dict.fromkeys(
        (
            Add,
            Sub,
            Neg,
            Mul,
            FloorDiv,
            FloorMod,
            TruncDiv,
            TruncMod,
            Min,
            Max,
            Shl,
            Shr,
            BitAnd,
            Cast,
        ),
        _arithmetic,
    ),
    **dict.fromkeys((EQ, NE, LT, LE, GT, GE), _compare),
    And: _and,
    Or: _or,
    Not: _not,
    Select: _choice(select),
    IfThenElse: _choice(if_then_else),
    Var: _variable,
    Const: lambda f, e: e,
}
