# SPDX-License-Identifier: Apache-2.0
"""Rules for floor division and remainder of sums by constants (and by symbols).

Each rule takes (facts, dividend, divisor > 1, dtype) and returns the quotient (or remainder) as a
sum, or None if it does not apply. The tables `DIV_RULES` and `MOD_RULES` at the end list them in
order.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import TYPE_CHECKING, TypeAlias

from tilelang.ir import Const, Expr, FloorDiv, FloorMod
from tilelang.ir.dtype import INT64

from .linear import Linear, atom

if TYPE_CHECKING:
    from tilelang.ir import DType

    from .facts import Facts

Rule: TypeAlias = "Callable[[Facts, Linear, int, DType], Linear | None]"


def is_multiple(f: Facts, s: Linear, d: int) -> bool:
    """Is `s` certainly divisible by `d`?"""
    m, r = f.residue(s)
    return r % d == 0 and m % d == 0


def floordiv(f: Facts, s: Linear, d: int, dtype: DType) -> Linear:
    """floor(s / d) for a non-zero constant d."""
    if d < 0:
        s, d = s.scaled(-1), -d
    if d == 1:
        return s
    for rule in DIV_RULES if len(s.terms) > 1 or s.const else ONE_TERM_DIV_RULES:
        out = rule(f, s, d, dtype)
        if out is not None:
            return out
    return _div_atom(f, s, d, dtype)


def floormod(f: Facts, s: Linear, d: int, dtype: DType) -> Linear:
    """s - d * floor(s / d) for a constant d > 0."""
    if d == 1:
        return Linear()
    s = _reduced(f, s, d)
    for rule in MOD_RULES:
        out = rule(f, s, d, dtype)
        if out is not None:
            return out
    return _mod_atom(f, s, d, dtype)


def _operand(f: Facts, s: Linear, d: int, dtype: DType) -> tuple[Expr, Expr] | None:
    x = f.expression(s, dtype)
    return (x, Const(d, dtype)) if x is not None and d < 1 << (dtype.bits - 1) else None


def _div_atom(f: Facts, s: Linear, d: int, dtype: DType) -> Linear:
    xy = _operand(f, s, d, dtype) or _operand(f, s, d, INT64)
    if xy is None:
        raise OverflowError(f"({s!r}) // {d} does not fit int64")
    return atom(FloorDiv(*xy))


def _mod_atom(f: Facts, s: Linear, d: int, dtype: DType) -> Linear:
    xy = _operand(f, s, d, dtype) or _operand(f, s, d, INT64)
    if xy is None:
        raise OverflowError(f"({s!r}) % {d} does not fit int64")
    return atom(FloorMod(*xy))


def _by_const(e: Expr, kind: type) -> int:
    """The constant divisor of a FloorDiv/FloorMod atom of that kind, else 0."""
    if type(e) is kind and type(e.b) is Const:  # type: ignore[attr-defined]
        return max(int(e.b.value), 0)  # type: ignore[attr-defined]
    return 0


# --------------------------------------------------------------------------------------- division


def _div_small(f: Facts, s: Linear, d: int, dtype: DType) -> Linear | None:
    """lo // d == hi // d: a constant."""
    lo, hi = f.interval(s)
    return Linear(lo // d) if lo is not None and hi is not None and lo // d == hi // d else None


def _div_multiples(f: Facts, s: Linear, d: int, dtype: DType) -> Linear | None:
    """(d*x + y) // d == x + y // d."""
    quotient, rest = s.split(lambda _, k: k % d == 0)
    whole = rest.const // d
    if not quotient.terms and not whole:
        return None
    out = quotient.divided(d).shifted(whole)
    return out.plus(floordiv(f, rest.shifted(-whole * d), d, dtype))


def _div_known_multiples(f: Facts, s: Linear, d: int, dtype: DType) -> Linear | None:
    """(M + y) // d == M // d + y // d for M known to be divisible by d."""
    kept, rest = s.split(lambda a, k: f.divides(d, a, k))
    if not kept.terms or (rest.is_const and not rest.const):
        return None
    return floordiv(f, kept, d, dtype).plus(floordiv(f, rest, d, dtype))


def _div_common(f: Facts, s: Linear, d: int, dtype: DType) -> Linear | None:
    """(g*x + c) // d == (x + c // g) // (d / g)."""
    g = gcd(d, s.content())
    return floordiv(f, s.divided(g), d // g, dtype) if g > 1 else None


def _div_nested(f: Facts, s: Linear, d: int, dtype: DType) -> Linear | None:
    """(x // m + c) // d == (x + c*m) // (m*d)."""
    if len(s.terms) != 1:
        return None
    ((a, k),) = s.terms.items()
    m = _by_const(a, FloorDiv)
    if not m or k != 1:
        return None
    return floordiv(f, f.linear(a.a).shifted(s.const * m), m * d, dtype)  # type: ignore[attr-defined]


def _div_of_mod(f: Facts, s: Linear, d: int, dtype: DType) -> Linear | None:
    """(x % m) // d == (x // d) % (m / d) where d divides m: one shift and one mask."""
    if len(s.terms) != 1 or s.const:
        return None
    ((a, k),) = s.terms.items()
    m = _by_const(a, FloorMod)
    if not m or k != 1 or m % d:
        return None
    return floormod(f, floordiv(f, f.linear(a.a), d, dtype), m // d, dtype)  # type: ignore[attr-defined]


def _div_peel(f: Facts, s: Linear, d: int, dtype: DType) -> Linear | None:
    """(g*x + y) // d == (g*x) // d for 0 <= y < g, g dividing d."""
    for g in _shared(f, s, d):
        big, small = _peel(f, s, g)
        lo, hi = f.interval(small)
        if lo is not None and hi is not None and lo // g == hi // g and small.terms:
            return floordiv(f, big.shifted(lo // g * g), d, dtype)
    return None


def _shared(f: Facts, s: Linear, d: int) -> list[int]:
    """Candidate granularities: what d has in common with the terms' moduli, largest first."""
    found = {gcd(d, k * f.atom_residue(a)[0]) for a, k in s.terms.items()}
    return sorted(found - {1, 0}, reverse=True)


def _peel(f: Facts, s: Linear, g: int) -> tuple[Linear, Linear]:
    """(terms known to be divisible by g, the rest with the constant)."""
    return s.split(lambda a, k: f.divides(g, a, k))


# -------------------------------------------------------------------------------------- remainder


def _reduced(f: Facts, s: Linear, d: int) -> Linear:
    """Coefficients and constant modulo d; inner remainders that d divides dropped."""
    out = Linear(s.const % d)
    for a, k in s.terms.items():
        m, r = f.atom_residue(a)
        if k * m % d == 0:
            out = out.shifted(k * r % d)
            continue
        k = k % d if k >= d or k <= -d else k
        inner = _by_const(a, FloorMod)
        if inner and k * inner % d == 0:
            out = out.plus(_reduced(f, f.linear(a.a).scaled(k), d))  # type: ignore[attr-defined]
        else:
            out = out.plus(Linear(0, {a: k}))
    return out.shifted(out.const % d - out.const)


def _mod_small(f: Facts, s: Linear, d: int, dtype: DType) -> Linear | None:
    """lo // d == hi // d: nothing to wrap but a constant."""
    lo, hi = f.interval(s)
    return (
        s.shifted(-(lo // d * d))
        if lo is not None and hi is not None and lo // d == hi // d
        else None
    )


def _mod_common(f: Facts, s: Linear, d: int, dtype: DType) -> Linear | None:
    """(g*x + c) % d == g * ((x + c // g) % (d / g)) + c % g, g dividing d."""
    g = gcd(d, s.content())
    if g <= 1:
        return None
    return floormod(f, s.divided(g), d // g, dtype).scaled(g).shifted(s.const % g)


def _mod_peel(f: Facts, s: Linear, d: int, dtype: DType) -> Linear | None:
    """(g*x + y) % d == (g*x) % d + y for 0 <= y < g, g dividing d."""
    for g in _shared(f, s, d):
        big, small = _peel(f, s, g)
        lo, hi = f.interval(small)
        if lo is not None and hi is not None and lo // g == hi // g and small.terms:
            shift = lo // g * g
            return floormod(f, big.shifted(shift), d, dtype).plus(small.shifted(-shift))
    return None


# ----------------------------------------------------------------------------------------- fusing


def fused(f: Facts, s: Linear, dtype: DType) -> Linear:
    """c*(x // c) + x % c == x, and c*((x // c) % k) + x % c == x % (c*k), times any factor."""
    while True:
        rests = [a for a, k in s.terms.items() if type(a) is FloorMod and _has_partner(s, a, k)]
        smaller = next((out for r in rests if (out := _fuse(f, s, r, dtype)) is not None), None)
        if smaller is None:
            return s
        s = smaller


_QUOTIENTS = (
    FloorDiv,
    FloorMod,
)  # what x // c leads to, with coefficient 1, where it is no plain sum


def _has_partner(s: Linear, rest: Expr, k: int) -> bool:
    """Could another term be the quotient that goes with this remainder? (Its factor is c times as
    large.)
    """
    c = _by_const(rest, FloorMod)
    return c > 0 and any(q == c * k and type(a) in _QUOTIENTS for a, q in s.terms.items())


def _fuse(f: Facts, s: Linear, rest: Expr, dtype: DType) -> Linear | None:
    k, c = s.terms[rest], _by_const(rest, FloorMod)
    whole = f.linear(rest.a)  # type: ignore[attr-defined]
    quotient = floordiv(f, whole, c, dtype)
    if quotient.terms and all(s.terms.get(a) == c * k * q for a, q in quotient.terms.items()):
        return s.without(rest).plus(quotient, -c * k).plus(whole, k)
    for a, q in s.terms.items():
        m = _by_const(a, FloorMod)
        if m and q == c * k and f.linear(a.a).same(quotient):  # type: ignore[attr-defined]
            return s.without(rest).without(a).plus(floormod(f, whole, c * m, dtype), k)
    return None


# ------------------------------------------------------------------------------ symbolic divisors


def _divide_terms(f: Facts, s: Linear, d: Linear) -> tuple[Linear, Linear] | None:
    """s == q * d + rest, taking out the terms that have the single atom of `d` as a factor."""
    if d.const or len(d.terms) != 1:
        return None
    ((unit, scale),) = d.terms.items()
    quotient, rest = Linear(), Linear(s.const)
    for a, k in s.terms.items():
        parts = f.factors(a)
        at = next((n for n, p in enumerate(parts) if p is unit), None)
        if k % scale == 0 and at is not None:
            del parts[at]
            quotient = quotient.plus(f.product_of(parts), k // scale)
        else:
            rest = rest.plus(Linear(0, {a: k}))
    return quotient, rest


def symbolic_floordiv(f: Facts, s: Linear, d: Linear) -> Linear | None:
    """(q*d + r) // d == q for 0 <= r < d."""
    parts = _divide_terms(f, s, d)
    if parts is None:
        return None
    quotient, rest = parts
    return quotient if f.nonnegative(rest) and f.positive(d.minus(rest)) else None


def symbolic_floormod(f: Facts, s: Linear, d: Linear) -> Linear | None:
    """(q*d + r) % d == r for 0 <= r < d."""
    parts = _divide_terms(f, s, d)
    if parts is None:
        return None
    rest = parts[1]
    return rest if f.nonnegative(rest) and f.positive(d.minus(rest)) else None


DIV_RULES: tuple[Rule, ...] = (
    _div_small,
    _div_multiples,
    _div_known_multiples,
    _div_common,
    _div_nested,
    _div_of_mod,
    _div_peel,
)
ONE_TERM_DIV_RULES: tuple[Rule, ...] = (
    _div_small,
    _div_multiples,
    _div_common,
    _div_nested,
    _div_of_mod,
)
MOD_RULES: tuple[Rule, ...] = (_mod_small, _mod_common, _mod_peel)
