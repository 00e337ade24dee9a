# SPDX-License-Identifier: Apache-2.0
"""Vectorized loops for CUDA: wide loads and stores of memory, scalar arithmetic on registers.

In: a `For(kind="vectorized")` of constant extent. Out: the loop cut into groups of `w` lanes, each
statement done for a whole group:

    C[i + v] = A[i + v] + 1      a = local[4];  a[0:4] = A[i:i + 4]           (one 128-bit load)
                            →    for l in unroll(4): c[l] = a[l] + 1
                                 C[i:i + 4] = c[0:4]                          (one 128-bit store)

A copy is one vector move; a group at a ragged edge is done lane by lane. `w` is the width with the
fewest memory instructions; an access is wide only where its alignment and the uniformity of its
guard are proved, the others stay scalar.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tilelang.arith import Facts
from tilelang.ir import (
    And,
    Broadcast,
    Buffer,
    Builder,
    Expr,
    For,
    If,
    IfThenElse,
    Load,
    Or,
    Ramp,
    Select,
    Stmt,
    Store,
    Var,
    all_of,
    cast,
    const,
    const_int,
    flatten,
    if_then_else,
    is_const,
    logical_not,
    rebuild,
    substitute,
    walk,
)

from .distribution import distribution
from .lanes import Known, Lanes, NotStraight, conditions, from_zero
from .manager import PassContext

_WIDTHS = (16, 8, 4, 2)
_VECTOR_BITS = 128  # the widest access of sm_80 and sm_90 (PTX ISA, ld.v4.b32)


@dataclass
class Layouts:
    """Layouts of shared buffers, by the buffer that owns the storage."""

    of: dict[Buffer, Any] = field(default_factory=dict)


def vectorize(loop: For, facts: Facts, ctx: PassContext, layouts: Layouts) -> Stmt:
    extent = const_int(loop.extent)
    if extent is None or extent < 2:
        return scalar(loop, extent is not None)
    if not _accesses([loop.body]):
        return scalar(loop)
    try:
        lane, stmts = from_zero(loop)
        in_order = distribution(stmts, lane, loop.extent, facts)
    except NotStraight as why:
        ctx.note(f"loop over {loop.var.name} is not vectorised: {why}")
        return scalar(loop)
    best = _best(stmts, in_order, lane, extent, facts, layouts)
    if best is None:
        name = loop.var.name
        ctx.note(f"loop over {name} is not vectorised: no access is contiguous and aligned")
        return scalar(loop)
    return best.builder.finish()


def _best(
    stmts: list[Stmt], in_order: set[Stmt], lane: Var, extent: int, facts: Facts, layouts: Layouts
) -> _Group | None:
    """The width with the fewest memory instructions; None if that is one lane at a time."""
    best: _Group | None = None
    buffers = [x.buffer for x in _accesses(stmts)]
    least = len(buffers) * extent
    ideal = sum(-(-extent * b.dtype.bits * b.dtype.lanes // _VECTOR_BITS) for b in buffers)
    chunks: list[int] = [_VECTOR_BITS] * len(buffers)
    for width in (w for w in _WIDTHS if extent % w == 0):
        for split in (False, True):
            group = _Group(lane, width, extent // width, facts, layouts, split)
            # Two versions of the code must save at least half of the memory instructions.
            factor = 2 if split else 1
            hope = sum(extent // min(c, width) for c in chunks)
            if hope * factor >= least + split or (split and not group.is_ragged(stmts)):
                continue
            group.emit(stmts, in_order)
            if group.cost * factor < least + split:
                best, least = group, group.cost
            if least <= ideal:
                return best
            if chunks[0] == _VECTOR_BITS:  # it matters now what alignment allows
                chunks = group.chunks(stmts)
    return best


def scalar(loop: For, unroll: bool = True) -> For:
    """The loop, one lane after the other."""
    kind = "unroll" if unroll else "serial"
    return For(loop.var, loop.start, loop.extent, loop.body, kind, loop.annotations, loop.span)


def _is_memory(b: Buffer) -> bool:
    """Memory that other threads see; local buffers are registers."""
    return not b.is_local


def _accesses(stmts: list[Stmt]) -> list[Load | Store]:
    """Loads and stores of memory."""
    found = (x for s in stmts for x in walk(s) if type(x) is Load or type(x) is Store)
    return [x for x in found if _is_memory(x.buffer)]


class _Group:
    """Emits the statements for groups of `width` lanes; `cost` counts memory instructions.

    split: two versions of each group, so that guards may differ within one at the edge.
    """

    def __init__(
        self, var: Var, width: int, groups: int, facts: Facts, layouts: Layouts, split: bool
    ) -> None:
        self.var, self.width, self.groups, self.split = var, width, groups, split
        self.outer = facts
        self.layouts = layouts
        self.cost = 0
        self.builder = Builder()
        self.lane = Var("l", var.dtype)
        self.lanes = Lanes(facts, self.lane, const(width, var.dtype))

    def emit(self, stmts: list[Stmt], in_order: set[Stmt]) -> None:
        b, dtype = self.builder, self.var.dtype
        with b.for_(self.var.name, const(self.groups, dtype), kind="unroll") as group:
            facts = self.outer.child()
            if type(group) is Var:
                facts.bind(group, const(0, dtype), const(self.groups, dtype))
            self.lanes = Lanes(facts, self.lane, const(self.width, dtype))
            at = {self.var: group * self.width + self.lane}
            ragged = self.ragged(stmts, at) if self.split else {}
            if ragged:
                self.two_ways(stmts, ragged, at)
            else:
                for s in stmts:
                    self.stmt(s, at, in_order)
        self.cost *= self.groups

    def chunks(self, stmts: list[Stmt]) -> list[int]:
        """Lanes per instruction of each access, if no guard prevents it."""
        at = {self.var: self.lane}
        return [
            self.chunk(x.buffer, tuple(substitute(i, at) for i in x.indices))
            for x in _accesses(stmts)
        ]

    def is_ragged(self, stmts: list[Stmt]) -> bool:
        return bool(self.ragged(stmts, {self.var: self.lane}))

    def ragged(self, stmts: list[Stmt], at: Mapping[Var, Expr]) -> dict[Expr, Expr]:
        """Guards that may change their value within a group -> the test that all lanes pass."""
        out: dict[Expr, Expr] = {}
        for cond in conditions(stmts):
            here = substitute(cond, at)
            if self.lanes.uniform(here) or any(type(x) is Load for x in walk(cond)):
                continue
            edge = self.lanes.threshold(here)
            if edge is not None:
                out[cond] = self.lanes.at(here, self.width - 1 if edge[1] else 0)
        return out

    def two_ways(
        self, stmts: list[Stmt], ragged: Mapping[Expr, Expr], at: Mapping[Var, Expr]
    ) -> None:
        """Wide where all lanes pass the guards, lane by lane at the edge (which costs nothing)."""
        inner = [x for s in stmts for x in flatten(Known(dict.fromkeys(ragged, True)).visit(s))]
        extent = const(self.width * self.groups, self.var.dtype)
        in_order = distribution(inner, self.var, extent, self.outer)
        passes = self.lanes.facts.simplify(all_of(ragged.values()))
        with self.builder.if_(passes):
            for s in inner:
                self.stmt(s, at, in_order)
        cost = self.cost
        with self.builder.if_(logical_not(passes)):
            for s in stmts:
                self.each(substitute(s, at))
        self.cost = cost

    # ------------------------------------------------------------------------------ statements

    def stmt(self, s: Stmt, at: Mapping[Var, Expr], in_order: set[Stmt]) -> None:
        self.builder.span = s.span
        if type(s) is If:
            cond = substitute(s.cond, at)
            if self.lanes.uniform(cond):
                self.branch(s, cond, at, in_order)
            else:
                self.each(substitute(s, at))
        elif type(s) is Store and s not in in_order:
            self.store(substitute(s, at))
        else:
            self.each(substitute(s, at))

    def branch(self, s: If, cond: Expr, at: Mapping[Var, Expr], in_order: set[Stmt]) -> None:
        outer = self.lanes
        for taken, body in ((cond, s.then), (logical_not(cond), s.orelse)):
            if body is None:
                continue
            self.lanes = Lanes(
                outer.facts.under(taken), self.lane, const(self.width, self.var.dtype)
            )
            with self.builder.if_(outer.at(taken)):
                for x in flatten(body):
                    self.stmt(x, at, in_order)
            self.lanes = outer

    def each(self, s: Stmt) -> None:
        """The statement for one lane after the other."""
        self.cost += len(_accesses([s])) * self.width
        with self.builder.for_(
            self.lane.name, const(self.width, self.lane.dtype), kind="unroll"
        ) as lane:
            self.builder.emit(substitute(s, {self.lane: lane}))

    def store(self, s: Store) -> None:
        chunk = self.chunk(s.buffer, s.indices)
        move = self.move_width(s.value, chunk)
        if move > 1:
            self.move(s, move)
            return
        loads = self.wide_loads(s)
        wide = chunk if _is_memory(s.buffer) else 1
        if not loads and wide == 1:
            self.each(s)
            return
        b = self.builder
        values = {load: self.fetched(load, guards) for load, guards in loads.items()}
        new = _Replaced(values, self.lane).stmt(s)
        if wide == 1:
            self.each(new)
            return
        out = b.alloc(s.buffer.name.lower() + "_v", (self.width,), s.buffer.dtype)
        self.each(Store(out, (self.lane,), new.value, s.span))
        for n in range(0, self.width, wide):
            b.emit(
                Store(s.buffer, self.run_of(new.indices, n, wide), _register(out, n, wide), s.span)
            )
            self.cost += 1

    # ------------------------------------------------------------------------------ wide accesses

    def run_of(self, indices: tuple[Expr, ...], first: int, count: int) -> tuple[Expr, ...]:
        """Indices of `count` lanes from `first` on."""
        *outer, last = [self.lanes.at(i) for i in indices]
        base = self.lanes.facts.simplify(last + first)
        return (*outer, Ramp(base, const(1, base.dtype), count))

    def chunk(self, b: Buffer, indices: tuple[Expr, ...]) -> int:
        """How many lanes one access may take: contiguous, aligned, at most 128 bits; else 1."""
        bits = b.dtype.bits * b.dtype.lanes
        if bits < 8 or not self.lanes.contiguous(b, indices):
            return 1
        count = min(self.width, _VECTOR_BITS // bits)
        while count > 1 and not self.aligned(b, indices, count):
            count //= 2
        return max(count, 1)

    def aligned(self, b: Buffer, indices: tuple[Expr, ...], count: int) -> bool:
        """Is the first lane at a multiple of `count` elements of the storage, the run unbroken?"""
        facts = self.lanes.facts
        root = b.root()
        layout = self.layouts.of.get(b) or self.layouts.of.get(root)
        if root.data is not None or b.dtype.lanes > 1:
            return False
        if layout is not None:
            run = layout.vector_width() * root.dtype.bits
            if run % (count * b.dtype.bits) or (b is not root and not _rows_divide(root, count)):
                return False
        *outer, last = [self.lanes.at(i) for i in indices]
        *strides, unit = b.effective_strides()
        if const_int(unit) != 1 or not facts.divisible(last, count):
            return False
        rows = zip(outer, b.shape, strides, strict=False)
        return all(is_const(n, 1) or facts.divisible(i * s, count) for i, n, s in rows)

    def wide_loads(self, s: Store) -> dict[Load, tuple[Expr, ...]]:
        """Loads that one instruction can do for several lanes, with the guards on them."""
        found: dict[Load, tuple[Expr, ...]] = {}

        def go(e: Expr, guards: tuple[Expr, ...]) -> None:
            if not self.lanes.depends(e):
                return
            if e in found:
                return
            if (
                type(e) is Load
                and _is_memory(e.buffer)
                and all(map(self.lanes.uniform, guards))
                and self.chunk(e.buffer, e.indices) > 1
            ):
                found[e] = guards
                return
            if type(e) is IfThenElse:
                go(e.cond, guards)
                go(e.a, (*guards, e.cond))
                go(e.b, (*guards, logical_not(e.cond)))
            elif type(e) in (And, Or):
                go(e.a, guards)  # type: ignore[attr-defined]
            else:
                for c in e.children:
                    go(c, guards)

        for e in (s.value, *s.indices):
            go(e, ())
        return found

    def fetched(self, load: Load, guards: tuple[Expr, ...]) -> Buffer:
        """The lanes of a load in registers."""
        b = self.builder
        temp = b.alloc(load.buffer.name.lower() + "_v", (self.width,), load.buffer.dtype)
        chunk = self.chunk(load.buffer, load.indices)
        cond = self.lanes.at(all_of(guards)) if guards else const(True)
        for n in range(0, self.width, chunk):
            wide = Load(load.buffer, self.run_of(load.indices, n, chunk))
            zero = Broadcast(cast(const(0), load.buffer.dtype), chunk)
            b.emit(Store(temp, (_span(n, chunk),), if_then_else(cond, wide, zero), b.span))
            self.cost += 1
        return temp

    # ------------------------------------------------------------------------------ moves

    def move_width(self, e: Expr, limit: int) -> int:
        """Lanes per instruction if `e` is only moved: a load, a constant, a choice between them."""
        if limit == 1 or not self.lanes.depends(e):
            return limit if not self.lanes.depends(e) else 1
        if type(e) is Load:
            return min(limit, self.chunk(e.buffer, e.indices))
        if type(e) in (IfThenElse, Select) and self.lanes.uniform(e.cond):  # type: ignore[attr-defined]
            return min(self.move_width(e.a, limit), self.move_width(e.b, limit))  # type: ignore[attr-defined]
        return 1

    def move(self, s: Store, chunk: int) -> None:
        for n in range(0, self.width, chunk):
            value = self.moved(s.value, n, chunk)
            self.builder.emit(Store(s.buffer, self.run_of(s.indices, n, chunk), value, s.span))
            self.cost += _is_memory(s.buffer)

    def moved(self, e: Any, first: int, count: int) -> Expr:
        if not self.lanes.depends(e):
            return Broadcast(e, count)
        if type(e) is Load:
            self.cost += _is_memory(e.buffer)
            return Load(e.buffer, self.run_of(e.indices, first, count))
        a, b = self.moved(e.a, first, count), self.moved(e.b, first, count)
        return if_then_else(self.lanes.at(e.cond), a, b)


def _rows_divide(root: Buffer, count: int) -> bool:
    last = const_int(root.shape[-1])
    return last is not None and last % count == 0


def _span(first: int, count: int) -> Expr:
    return Ramp(const(first), const(1), count)


def _register(b: Buffer, first: int, count: int) -> Expr:
    return Load(b, (_span(first, count),))


class _Replaced:
    """A store in which fetched loads are read from their registers."""

    def __init__(self, values: Mapping[Load, Buffer], lane: Var) -> None:
        self.values, self.lane = values, lane
        self.memo: dict[Expr, Expr] = {}

    def stmt(self, s: Store) -> Store:
        return s.map_children(self.expr)

    def expr(self, e: Expr) -> Expr:
        hit = self.memo.get(e)
        if hit is None:
            temp = self.values.get(e) if type(e) is Load else None
            hit = Load(temp, (self.lane,)) if temp is not None else rebuild(e, self.expr)
            self.memo[e] = hit
        return hit


__all__ = ["Layouts", "scalar", "vectorize"]
