# SPDX-License-Identifier: Apache-2.0
"""May the statements of a loop be executed one after the other, each for all lanes?

In: straight statements and the variable that counts the lanes. Out: the statements that must run
lane after lane; NotStraight if statements depend on each other across lanes.

Accesses of one element are one `_Place`. Places are told apart by where they lie in each dimension
before any two are compared: a long body costs no more per statement than a short one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tilelang.arith import Facts
from tilelang.ir import (
    INTRINSICS,
    Buffer,
    Call,
    Evaluate,
    Expr,
    If,
    Load,
    Stmt,
    Store,
    Var,
    const,
    const_int,
    flatten,
    substitute,
    walk,
)

from .lanes import Lanes, NotStraight

__all__ = ["distribution"]


class _Access(NamedTuple):
    buffer: Buffer
    indices: tuple[Expr, ...]
    writes: bool
    stmt: Stmt


@dataclass(eq=False)
class _Place:
    """An element, as a function of the lane; the statements that access and that write it."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    users: dict[Stmt, None] = field(default_factory=dict)
    writers: dict[Stmt, None] = field(default_factory=dict)


class _Span(NamedTuple):
    """An index lies in base + [lo, hi], whatever the lane."""

    base: frozenset[tuple[Expr, int]]
    lo: int
    hi: int


def distribution(stmts: Sequence[Stmt], var: Var, extent: Any, facts: Facts) -> set[Stmt]:
    """The statements that must run lane after lane. Raises NotStraight if a statement depends on
    another one of a different lane, so that even their order matters."""
    lanes = Lanes(facts, var, extent)
    places: dict[Buffer, dict[Any, _Place]] = {}
    for s in stmts:
        for a in _accesses(s):
            of_root = places.setdefault(a.buffer.root(), {})
            key = (a.buffer, *(_spelled(i, lanes) for i in a.indices))
            place = of_root.setdefault(key, _Place(a.buffer, a.indices))
            place.users[a.stmt] = None
            if a.writes:
                place.writers[a.stmt] = None
    in_order: set[Stmt] = set()
    for of_root in places.values():
        for x in of_root.values():
            if x.writers and not any(lanes.step(i) for i in x.indices):
                in_order.update(_together(x, x))
        for x, y in _neighbours(list(of_root.values()), 0, lanes):
            if not _disjoint(x, y, lanes):
                in_order.update(_together(x, y))
    return in_order


def _spelled(index: Expr, lanes: Lanes) -> Any:
    """The same for equal indices: `i + 8` and `8 + i`."""
    if not index.dtype.is_int or index.dtype.lanes != 1:
        return index
    sum_ = lanes.facts.linear(index)
    return frozenset(sum_.terms.items()), sum_.const


def _together(x: _Place, y: _Place) -> Iterable[Stmt]:
    """The one statement in which lanes may meet at these places."""
    for writers, users in ((x.writers, y.users), (y.writers, x.users)):
        if writers and len({*writers, *users}) > 1:
            raise NotStraight(f"elements of {x.buffer.name} pass from one lane to another")
    return (*x.writers, *y.writers)


def _neighbours(places: list[_Place], dim: int, lanes: Lanes) -> Iterator[tuple[_Place, _Place]]:
    """Pairs of different places, one of them written, except those that the index in `dim` or a
    later dimension keeps apart."""
    if len(places) < 2 or not any(p.writers for p in places):
        return
    if all(p.buffer is places[0].buffer and dim < len(p.indices) for p in places):
        for cluster in _clusters(places, dim, lanes):
            yield from _neighbours(cluster, dim + 1, lanes)
        return
    for n, x in enumerate(places):
        for y in places[n + 1 :]:
            if x.writers or y.writers:
                yield x, y


def _clusters(places: list[_Place], dim: int, lanes: Lanes) -> Iterable[list[_Place]]:
    """The places in groups of overlapping indices in one dimension."""
    spans = [_span(p.indices[dim], lanes) for p in places]
    known = [s for s in spans if s is not None]
    if len(known) < len(places) or any(s.base != known[0].base for s in known):
        return [places]
    out: list[list[_Place]] = []
    end = 0
    for span, place in sorted(zip(known, places, strict=True), key=lambda x: x[0].lo):
        if out and span.lo <= end:
            out[-1].append(place)
            end = max(end, span.hi)
        else:
            out.append([place])
            end = span.hi
    return out


def _span(index: Expr, lanes: Lanes) -> _Span | None:
    step = lanes.step(index)
    width = const_int(lanes.width)
    if step is None or (step and width is None) or not index.dtype.is_int:
        return None
    if index.dtype.lanes != 1:
        return None
    reach = step * (width - 1) if step and width is not None else 0
    first = lanes.facts.linear(index).without(lanes.var)
    return _Span(
        frozenset(first.terms.items()), first.const + min(reach, 0), first.const + max(reach, 0)
    )


def _disjoint(x: _Place, y: _Place, lanes: Lanes) -> bool:
    """Is no element accessed at `x` in any lane accessed at `y` in any lane?"""
    if x.buffer is not y.buffer:
        return False
    other = Var(lanes.var.name, lanes.var.dtype)
    facts = lanes.facts.child()
    facts.bind(other, const(0, other.dtype), lanes.width)
    for i, j in zip(x.indices, y.indices, strict=True):
        if not (i.dtype.lanes == j.dtype.lanes == 1):
            continue
        lo, hi = facts.bounds(i - substitute(j, {lanes.var: other}))
        if (lo is not None and lo > 0) or (hi is not None and hi < 0):
            return True
    return False


# ---------------------------------------------------------------------------- accesses


def _accesses(s: Stmt) -> Iterator[_Access]:
    if type(s) is If:
        yield from _reads(s.cond, s)
        for x in (*flatten(s.then), *flatten(s.orelse)):
            yield from _accesses(x)
    elif type(s) is Store:
        for i in s.indices:
            yield from _reads(i, s)
        yield from _reads(s.value, s)
        yield _Access(s.buffer, s.indices, True, s)
    elif type(s) is Evaluate:
        yield from _reads(s.value, s)


def _reads(e: Expr, s: Stmt) -> Iterator[_Access]:
    for x in walk(e):
        if type(x) is Load:
            yield _Access(x.buffer, x.indices, False, s)
        elif type(x) is Call and INTRINSICS[x.op].effect != "pure":
            row = INTRINSICS[x.op]
            if row.effect != "memory" or row.unit != "generic" or row.collective:
                raise NotStraight(f"the body calls {x.op}")
            for n, kind in row.pointers.items():
                target = x.args[n]
                if type(target) is not Call or target.op != "address_of":
                    raise NotStraight(f"the body calls {x.op} on a computed pointer")
                load = target.args[0]
                yield _Access(load.buffer, load.indices, kind != "read", s)  # type: ignore[attr-defined]
