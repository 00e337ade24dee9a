# SPDX-License-Identifier: Apache-2.0
"""`sweep(region, loops)`: the box that a region covers while loop variables run over their ranges.

In: a region, and (start, extent) for each loop variable. Out: a region without these variables that
contains every element of `region` in every iteration. A dimension whose offset is a sum of
multiples of the variables gets the exact box; any other offset (`//`, `%`, min, shifts, a value
from memory, which may change between iterations) gets the whole dimension. Index arithmetic in
int32 and int64 is taken not to wrap, as in `arith`; offsets of other types are never rearranged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .buffer import Region
from .dtype import INT32, DType
from .expr import Add, Cast, Const, Expr, Mul, Neg, Sub, Var, cast, const
from .visit import mentions, substitute

if TYPE_CHECKING:
    from collections.abc import Mapping

    Loops = Mapping[Var, tuple[Expr, Expr]]

_EXACT = (INT32, DType("int64"))


def sweep(r: Region, loops: Loops) -> Region:
    offsets, extents = list(r.offsets), list(r.extents)
    for d, (offset, extent) in enumerate(zip(r.offsets, r.extents, strict=True)):
        used = mentions(offset) | mentions(extent)
        if all(type(x) is Var for x in used) and used.isdisjoint(loops):
            continue
        wide = _box(offset, extent, loops)
        offsets[d], extents[d] = (const(0), r.buffer.shape[d]) if wide is None else wide
    return Region(r.buffer, tuple(offsets), tuple(extents))


def _box(offset: Expr, extent: Expr, loops: Loops) -> tuple[Expr, Expr] | None:
    """(offset, extent) swept by the interval, or None where that is not known."""
    if any(type(x) is not Var for x in mentions(offset)):
        return None
    if any(type(x) is not Var or x in loops for x in mentions(extent)):
        return None
    steps = _steps(offset, loops)
    if steps is None:
        return None
    ends: dict[Var, Expr] = {}
    for v, step in steps.items():
        start, n = (cast(x, v.dtype) for x in loops[v])
        ends[v] = start if step >= 0 else start + (n - 1)
        # counted in Python's integers where possible, which do not wrap
        reach = const((n.value - 1) * abs(step)) if type(n) is Const else (n - 1) * abs(step)
        extent = extent + reach
        if abs(step) > _LARGEST or (type(extent) is Const and not 0 < extent.value <= _LARGEST):
            return None  # a loop without iterations, or more than any buffer has
    return substitute(offset, ends), extent


_LARGEST = 2**31 - 1


def _steps(e: Any, loops: Loops) -> dict[Var, int] | None:
    """The factor of each loop variable in `e`, or None if `e` is not a sum of their multiples."""
    if mentions(e).isdisjoint(loops):
        return {}
    if e.dtype not in _EXACT:
        return None
    t = type(e)
    if t is Var:
        return {e: 1}
    if t is Cast and e.a.dtype.bits <= e.dtype.bits:
        return _steps(e.a, loops)
    if t is Neg:
        return _sum({}, _steps(e.a, loops), -1)
    if t is Add or t is Sub:
        return _sum(_steps(e.a, loops), _steps(e.b, loops), 1 if t is Add else -1)
    if t is Mul and type(e.b) is Const:
        return _sum({}, _steps(e.a, loops), e.b.value)
    if t is Mul and type(e.a) is Const:
        return _sum({}, _steps(e.b, loops), e.a.value)
    return None


def _sum(a: dict[Var, int] | None, b: dict[Var, int] | None, factor: int) -> dict[Var, int] | None:
    """a + factor * b."""
    if a is None or b is None:
        return None
    out = dict(a)
    for v, step in b.items():
        out[v] = out.get(v, 0) + factor * step
    return out
