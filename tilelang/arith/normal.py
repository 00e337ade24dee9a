# SPDX-License-Identifier: Apache-2.0
"""Expression -> `Linear`, under the facts of one scope; and back.

What is re-associated: int32 and int64, scalar. Those are index arithmetic, assumed not to wrap. A
value of any other dtype (unsigned, narrow, bool, a vector lane) is an atom: only its range is used.

Shifts by constants, masks and value-preserving casts are looked through. Products of sums are
multiplied out into products of atoms, in a canonical order.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tilelang.ir import (
    Add,
    BitAnd,
    Cast,
    Const,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mul,
    Neg,
    Shl,
    Shr,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    cast,
)
from tilelang.ir.dtype import INT32, INT64

from . import divmod as dm
from .interval import EVERYTHING, inside
from .linear import Linear, atom

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tilelang.ir import DType, Expr

    from .facts import Facts

MOST_PRODUCTS = 16  # a product of sums with more terms than this stays a product


def is_index(dtype: DType) -> bool:
    """Is this a dtype whose arithmetic may be re-associated?"""
    return dtype is INT32 or dtype is INT64


@lru_cache(maxsize=64)
def value_range(dtype: DType) -> tuple[int, int]:
    """The integers that a dtype can hold (a bool counts as 0 or 1)."""
    if dtype.is_bool:
        return 0, 1
    if dtype.kind == "uint":
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1


def linear(f: Facts, e: Expr) -> Linear:
    """`e` as a sum of atoms; equal values have equal sums as far as the rules see."""
    hit = f.linear_memo.get(e)
    if hit is None:
        rule = _RULES.get(type(e)) if is_index(e.dtype) else None
        try:
            hit = rule(f, e) if rule is not None else _leaf(f, e)
        except OverflowError:  # constants that no dtype of ours holds: leave them to run time
            hit = atom(e)
        f.linear_memo[e] = hit
    return hit


def _leaf(f: Facts, e: Expr) -> Linear:
    """An atom; its inside is simplified, so that equal atoms are one object."""
    if type(e) is Const:
        return Linear(int(e.value)) if _is_integer(e.dtype) else atom(e)
    if type(e) is Var:
        lo, hi = f.intervals.get(e, EVERYTHING)
        return Linear(lo) if lo is not None and lo == hi else atom(e)
    simple = f.simplify_inside(e)
    return atom(simple) if type(simple) is type(e) else linear(f, simple)


def _is_integer(dtype: DType) -> bool:
    return dtype.lanes == 1 and (dtype.is_int or dtype.is_bool)


def _const(f: Facts, e: Any) -> Linear:
    return Linear(e.value)


def _add(f: Facts, e: Any) -> Linear:
    return dm.fused(f, linear(f, e.a).plus(linear(f, e.b)), e.dtype)


def _sub(f: Facts, e: Any) -> Linear:
    return dm.fused(f, linear(f, e.a).plus(linear(f, e.b), -1), e.dtype)


def _neg(f: Facts, e: Any) -> Linear:
    return linear(f, e.a).scaled(-1)


def _mul(f: Facts, e: Any) -> Linear:
    a, b = linear(f, e.a), linear(f, e.b)
    return product(f, a, b, e.dtype)


def product(f: Facts, a: Linear, b: Linear, dtype: DType) -> Linear:
    """The product of two sums, multiplied out."""
    if a.is_const or b.is_const:
        return a.scaled(b.const) if b.is_const else b.scaled(a.const)
    if len(a.terms) * len(b.terms) > MOST_PRODUCTS:
        return atom(_product_atom(f, [rebuilt(f, a, dtype), rebuilt(f, b, dtype)]))
    out = Linear(a.const * b.const)
    out = out.plus(Linear(0, b.terms), a.const) if a.const else out
    out = out.plus(Linear(0, a.terms), b.const) if b.const else out
    for x, k in a.terms.items():
        for y, m in b.terms.items():
            out = out.plus(atom(_product_atom(f, [cast(x, dtype), cast(y, dtype)])), k * m)
    return out


def factors(e: Any) -> list[Expr]:
    """The factors of a product atom."""
    return [*factors(e.a), *factors(e.b)] if type(e) is Mul else [e]


def _product_atom(f: Facts, parts: list[Expr]) -> Expr:
    flat = sorted((x for p in parts for x in factors(p)), key=f.rank)
    out = flat[0]
    for x in flat[1:]:
        out = Mul(out, x)
    return out


def _floordiv(f: Facts, e: Any) -> Linear:
    d = linear(f, e.b)
    x = linear(f, e.a)
    if d.is_const and d.const:
        return dm.floordiv(f, x, d.const, e.dtype)
    return _by_symbol(f, e, x, d, dm.symbolic_floordiv)


def _floormod(f: Facts, e: Any) -> Linear:
    d = linear(f, e.b)
    x = linear(f, e.a)
    if d.is_const and d.const > 0:
        return dm.floormod(f, x, d.const, e.dtype)
    return _by_symbol(f, e, x, d, dm.symbolic_floormod)


def _by_symbol(
    f: Facts, e: Any, x: Linear, d: Linear, rule: Callable[[Facts, Linear, Linear], Linear | None]
) -> Linear:
    short = None if d.is_const else rule(f, x, d)
    if short is not None:
        return short
    return atom(type(e)(rebuilt(f, x, e.dtype, e.a), rebuilt(f, d, e.dtype, e.b)))


def _truncdiv(f: Facts, e: Any) -> Linear:
    """Towards zero: the floor form where the sign of the dividend is known."""
    x, d = linear(f, e.a), linear(f, e.b)
    if d.is_const and d.const:
        lo, hi = f.interval(x)
        if (lo is not None and lo >= 0) or dm.is_multiple(f, x, d.const):
            inner = dm.floordiv(f, x, abs(d.const), e.dtype)
            return inner.scaled(1 if d.const > 0 else -1)
        if hi is not None and hi <= 0:
            inner = dm.floordiv(f, x.scaled(-1), abs(d.const), e.dtype)
            return inner.scaled(-1 if d.const > 0 else 1)
    elif f.positive(d) and f.nonnegative(x):
        return _by_symbol(f, FloorDiv(e.a, e.b), x, d, dm.symbolic_floordiv)
    return atom(TruncDiv(rebuilt(f, x, e.dtype, e.a), rebuilt(f, d, e.dtype, e.b)))


def _truncmod(f: Facts, e: Any) -> Linear:
    x, d = linear(f, e.a), linear(f, e.b)
    if d.is_const and d.const:
        m = abs(d.const)  # the remainder's sign is the dividend's
        lo, hi = f.interval(x)
        if (lo is not None and lo >= 0) or dm.is_multiple(f, x, m):
            return dm.floormod(f, x, m, e.dtype)
        if hi is not None and hi <= 0:
            return dm.floormod(f, x.scaled(-1), m, e.dtype).scaled(-1)
    elif f.positive(d) and f.nonnegative(x):
        return _by_symbol(f, FloorMod(e.a, e.b), x, d, dm.symbolic_floormod)
    return atom(TruncMod(rebuilt(f, x, e.dtype, e.a), rebuilt(f, d, e.dtype, e.b)))


def _shl(f: Facts, e: Any) -> Linear:
    n = linear(f, e.b)
    if n.is_const and 0 <= n.const < e.dtype.bits:
        return linear(f, e.a).scaled(1 << n.const)
    return _leaf(f, e)


def _shr(f: Facts, e: Any) -> Linear:
    """An arithmetic shift is a floor division."""
    n = linear(f, e.b)
    if n.is_const and 0 <= n.const < e.dtype.bits:
        return dm.floordiv(f, linear(f, e.a), 1 << n.const, e.dtype)
    return _leaf(f, e)


def _bit_and(f: Facts, e: Any) -> Linear:
    """A mask of low bits is a remainder, also of a negative number (two's complement)."""
    for x, y in ((e.a, e.b), (e.b, e.a)):
        mask = linear(f, y)
        if mask.is_const and mask.const > 0 and mask.const & (mask.const + 1) == 0:
            return dm.floormod(f, linear(f, x), mask.const + 1, e.dtype)
    return _leaf(f, e)


def _cast(f: Facts, e: Any) -> Linear:
    """Looked through where it keeps the value."""
    src: DType = e.a.dtype
    if _is_integer(src):
        lo, hi = value_range(e.dtype)
        if inside(value_range(src), lo, hi):
            return linear(f, e.a)
        inner = linear(f, e.a)
        if inside(f.interval(inner), lo, hi):
            return inner
    return _leaf(f, e)


def _min_max(f: Facts, e: Any) -> Linear:
    a, b = linear(f, e.a), linear(f, e.b)
    low, high = (a, b) if type(e) is Min else (b, a)
    if f.nonnegative(high.minus(low)):
        return a
    if f.nonnegative(low.minus(high)):
        return b
    common = min(a.const, b.const) if a.terms and b.terms and a.const and b.const else 0
    if common and (a.const < 0) == (b.const < 0):
        inner = type(e)(
            rebuilt(f, a.shifted(-common), e.dtype, e.a),
            rebuilt(f, b.shifted(-common), e.dtype, e.b),
        )
        return linear(f, inner).shifted(common)
    return atom(type(e)(rebuilt(f, a, e.dtype, e.a), rebuilt(f, b, e.dtype, e.b)))


_RULES: dict[type, Callable[[Any, Any], Linear]] = {
    Const: _const,
    Add: _add,
    Sub: _sub,
    Neg: _neg,
    Mul: _mul,
    FloorDiv: _floordiv,
    FloorMod: _floormod,
    TruncDiv: _truncdiv,
    TruncMod: _truncmod,
    Shl: _shl,
    Shr: _shr,
    BitAnd: _bit_and,
    Cast: _cast,
    Min: _min_max,
    Max: _min_max,
}


# ---------------------------------------------------------------------------- sums -> expressions


def expression(f: Facts, s: Linear, dtype: DType) -> Expr | None:
    """`s` as an expression of `dtype`; None if that dtype cannot hold its parts.

    Large coefficients first, subtractions last, the constant at the end: `bx*128 + t*8 - j + 3`.
    """
    limit = value_range(dtype)[1]
    c = s.const
    if not -limit <= c <= limit or any(k > limit or k < -limit for k in s.terms.values()):
        return None
    out: Expr | None = None
    for a, k in _ordered(f, s):
        x = a if a.dtype is dtype else _as_dtype(f, a, dtype)
        if x is None:
            return None
        if out is not None:
            term = x if k in (1, -1) else Mul(x, Const(abs(k), dtype))
            out = Add(out, term) if k > 0 else Sub(out, term)
        elif k < 0 and c:  # only subtractions: the constant goes first
            out = Sub(Const(c, dtype), x if k == -1 else Mul(x, Const(-k, dtype)))
            c = 0
        else:
            out = x if k == 1 else Neg(x) if k == -1 else Mul(x, Const(k, dtype))
    if out is None:
        return Const(c, dtype)
    if c:
        out = Add(out, Const(c, dtype)) if c > 0 else Sub(out, Const(-c, dtype))
    return out


def _ordered(f: Facts, s: Linear) -> Iterable[tuple[Expr, int]]:
    if len(s.terms) == 1:
        return s.terms.items()
    return sorted(s.terms.items(), key=lambda t: (t[1] < 0, -abs(t[1]), f.rank(t[0])))


def _as_dtype(f: Facts, a: Expr, dtype: DType) -> Expr | None:
    if a.dtype is dtype:
        return a
    lo, hi = value_range(dtype)
    fits = inside(value_range(a.dtype), lo, hi) or inside(f.atom_interval(a), lo, hi)
    return cast(a, dtype) if fits else None


def rebuilt(f: Facts, s: Linear, dtype: DType, otherwise: Expr | None = None) -> Expr:
    """`s` as an expression; `otherwise` (or its simplified inside) if the dtype cannot hold the
    sum.
    """
    out = expression(f, s, dtype)
    if out is not None:
        return out
    if otherwise is None:
        raise OverflowError(f"{s!r} does not fit {dtype}")
    return f.simplify_inside(otherwise)
