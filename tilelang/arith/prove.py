# SPDX-License-Identifier: Apache-2.0
"""Proofs: sums that are never negative, and what that says about conditions.

A sum is non-negative if its interval is; else an asserted inequality (or one that holds by the
meaning of an atom: 0 <= x - d*(x // d) < d, min(a, b) <= a) is subtracted so that an atom cancels,
a few times.
"""

from __future__ import annotations

from math import gcd
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
    FloorDiv,
    FloorMod,
    IfThenElse,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
)

from .assume import OPPOSITE
from .linear import Linear, atom, replaced

if TYPE_CHECKING:
    from collections.abc import Callable

    from tilelang.ir import Expr

    from .facts import Facts

DEPTH = 4  # inequalities combined in one proof
BUDGET = 48  # sums looked at in one proof
MOST_FACTORS = 3  # of a product whose factors' bounds are used


def nonnegative(f: Facts, s: Linear) -> bool:
    """Is s >= 0, certainly?"""
    lo, hi = f.interval(s)
    if lo is not None and lo >= 0:
        return True
    if hi is not None and hi < 0:
        return False
    key = s.key()
    hit = f.proof_memo.get(key)
    if hit is None:
        f.proof_memo[key] = False  # the proof may ask itself: not proved, for now
        hit = f.proof_memo[key] = _search(f, s, DEPTH, [BUDGET])
    return hit


def _search(f: Facts, s: Linear, depth: int, budget: list[int]) -> bool:
    g = s.content()
    if g > 1:
        s = s.divided(g)  # g*x + c >= 0 is x + floor(c / g) >= 0
    lo, hi = f.interval(s)
    if lo is not None and lo >= 0:
        return True
    budget[0] -= 1
    if depth == 0 or budget[0] < 0 or (hi is not None and hi < 0) or not s.terms:
        return False
    if _by_cases(f, s, depth, budget):
        return True
    implied = [fact for a in s.terms for fact in _axioms(f, a)]
    must_go = _unbounded(f, s)
    for a in s.terms if must_go is None else (must_go,):
        for fact in (*f.inequalities.get(a, ()), *implied):
            n, k = fact.terms.get(a, 0), s.terms[a]
            if n * k > 0 and (must_go is not None or _relates(fact, s)):
                d = gcd(n, k)
                rest = s.scaled(abs(n) // d).plus(fact, -(abs(k) // d))
                if _search(f, rest, depth - 1, budget):
                    return True
    return False


def _unbounded(f: Facts, s: Linear) -> Expr | None:
    """An atom without a bound on the side that matters: it must be eliminated."""
    for a, k in s.terms.items():
        lo, hi = f.atom_interval(a)
        if (lo if k > 0 else hi) is None:
            return a
    return None


def _relates(fact: Linear, s: Linear) -> bool:
    """Does the inequality say something about several atoms of `s`? Else bounds say as much."""
    return sum(a in s.terms for a in fact.terms) > 1


def _by_cases(f: Facts, s: Linear, depth: int, budget: list[int]) -> bool:
    """k*min(x, y) + r >= 0 for k > 0 if both k*x + r and k*y + r are; a select always splits so."""
    for a, k in s.terms.items():
        kind = type(a)
        if kind in (Select, IfThenElse) or (kind is Min and k > 0) or (kind is Max and k < 0):
            sides = (a.a, a.b)  # type: ignore[attr-defined]
            return all(_search(f, replaced(s, {a: f.linear(x)}), depth - 1, budget) for x in sides)
    return False


def _axioms(f: Facts, a: Any) -> tuple[Linear, ...]:
    """Sums with `a` in them that are never negative by the meaning of `a`."""
    kind = type(a)
    if kind is FloorDiv and type(a.b) is Const and a.b.value > 0:
        d = a.b.value
        x = f.linear(a.a)
        rest = x.plus(atom(a), -d)
        m, r = f.residue(x)
        low = r % d if m % d == 0 else 0
        high = low if m % d == 0 else d - 1
        return rest.shifted(-low), rest.scaled(-1).shifted(high)
    if kind is FloorMod and type(a.b) is Const and a.b.value > 0:
        x = f.linear(a.a)
        lo = f.interval(x)[0]
        return (x.minus(atom(a)),) if lo is not None and lo >= 0 else ()
    if kind is Mul:
        return _product_axioms(f, a)
    if kind is Min:
        return tuple(f.linear(x).minus(atom(a)) for x in (a.a, a.b))
    if kind is Max:
        return tuple(atom(a).minus(f.linear(x)) for x in (a.a, a.b))
    return ()


def _product_axioms(f: Facts, a: Any) -> tuple[Linear, ...]:
    """x * y for y >= 0 keeps the bounds and inequalities of x."""
    parts = f.factors(a)
    out: list[Linear] = []
    for n, x in enumerate(parts):
        others = parts[:n] + parts[n + 1 :]
        if len(parts) > MOST_FACTORS or any(not _at_least_zero(f, y) for y in others):
            continue
        rest = f.product_of(others)
        lo, hi = f.atom_interval(x)
        out += [] if lo is None else [atom(a).plus(rest, -lo)]
        out += [] if hi is None else [rest.scaled(hi).minus(atom(a))]
        for fact in f.inequalities.get(x, ()):
            if len(fact.terms) <= MOST_FACTORS:
                out.append(f.product(fact, rest, a.dtype))
    return tuple(out)


def _at_least_zero(f: Facts, a: Expr) -> bool:
    lo = f.atom_interval(a)[0]
    return lo is not None and lo >= 0


def zero(f: Facts, s: Linear) -> bool:
    """Is s == 0, certainly?"""
    if s.is_const:
        return s.const == 0
    wide = _without_remainders(f, s)
    if wide.is_const:
        return wide.const == 0
    return nonnegative(f, s) and nonnegative(f, s.scaled(-1))


def _without_remainders(f: Facts, s: Linear) -> Linear:
    """x % d written as x - d*(x // d): one form for both."""
    from .divmod import floordiv

    mods = {
        a: f.linear(a.a).plus(floordiv(f, f.linear(a.a), a.b.value, a.dtype), -a.b.value)  # type: ignore[attr-defined]
        for a in s.terms
        if type(a) is FloorMod and type(a.b) is Const and a.b.value > 0  # type: ignore[attr-defined]
    }
    return replaced(s, mods) if mods else s


def never_zero(f: Facts, s: Linear) -> bool:
    """Is s != 0, certainly?"""
    if s.is_const:
        return s.const != 0
    m, r = f.residue(s)
    if r % m if m else r:
        return True
    return nonnegative(f, s.shifted(-1)) or nonnegative(f, s.scaled(-1).shifted(-1))


def decide(f: Facts, cond: Expr) -> bool | None:
    """True or False where certain, else None."""
    if type(cond) is Const:
        return bool(cond.value)
    known = f.truths.get(cond)
    if known is not None:
        return known
    rule = _RULES.get(type(cond))
    out = rule(f, cond) if rule is not None else None
    if out is None:
        wide = f.expanded(cond)
        if wide is not cond:
            return decide(f, wide)
    return out


def _compare(f: Facts, cond: Any) -> bool | None:
    if not (cond.a.dtype.is_int and cond.a.dtype.lanes == 1):
        return None
    s = f.linear(cond.a).minus(f.linear(cond.b))
    kind = type(cond)
    if _TESTS[kind](f, s):
        return True
    return False if _TESTS[OPPOSITE[kind]](f, s) else None


_TESTS: dict[type, Callable[[Any, Linear], bool]] = {
    GE: nonnegative,
    GT: lambda f, s: nonnegative(f, s.shifted(-1)),
    LE: lambda f, s: nonnegative(f, s.scaled(-1)),
    LT: lambda f, s: nonnegative(f, s.scaled(-1).shifted(-1)),
    EQ: zero,
    NE: never_zero,
}


def _and(f: Facts, cond: Any) -> bool | None:
    a = decide(f, cond.a)
    if a is False:
        return False
    b = decide(f, cond.b) if a is True else decide(f.under(cond.a), cond.b)
    return False if b is False else True if a and b else None


def _or(f: Facts, cond: Any) -> bool | None:
    from tilelang.ir import logical_not

    a = decide(f, cond.a)
    if a is True:
        return True
    b = decide(f, cond.b) if a is False else decide(f.under(logical_not(cond.a)), cond.b)
    return True if b is True else False if a is False and b is False else None


def _not(f: Facts, cond: Any) -> bool | None:
    a = decide(f, cond.a)
    return None if a is None else not a


_RULES: dict[type, Callable[[Any, Any], bool | None]] = {
    **dict.fromkeys(OPPOSITE, _compare),
    And: _and,
    Or: _or,
    Not: _not,
}
