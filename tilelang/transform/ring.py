# SPDX-License-Identifier: Apache-2.0
"""A scheduled loop body as a ring: prologue, steady loop, waits and commits.

In: the items of one iteration in their new order, each with how many iterations it runs ahead. Out:
the statements. Every iteration commits the same number of groups, so the wait distances hold in all
of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tilelang.ir import (
    Alloc,
    Break,
    Buffer,
    Const,
    Effects,
    Evaluate,
    Expr,
    For,
    If,
    Launch,
    Load,
    Region,
    Rewriter,
    Stmt,
    Store,
    TileStmt,
    Var,
    call,
    const,
    const_int,
    refresh,
    seq,
    substitute,
    walk,
)

from .manager import PassContext

__all__ = ["Item", "Ring", "Slots", "resize"]


@dataclass
class Item:
    """A statement of the loop body with its place in the schedule.

    lead: iterations it runs ahead of the loop variable. unit: "cp_async" for an asynchronous copy.
    group: which commit group of the iteration it belongs to.
    """

    stmt: Stmt
    lead: int = 0
    unit: str | None = None
    group: int = -1
    buffers: tuple[Buffer, ...] = ()
    effects: Effects = field(default_factory=Effects)


class Ring:
    """Emits the prologue and the steady loop of one scheduled body."""

    def __init__(
        self,
        loop: For,
        items: list[Item],
        nested: bool,
        resized: dict[Buffer, Buffer],
        ctx: PassContext,
    ) -> None:
        self.loop, self.nested, self.ctx = loop, nested, ctx
        self.allocs = [i.stmt for i in items if type(i.stmt) is Alloc]
        self.items = [i for i in items if type(i.stmt) is not Alloc]
        self.max_lead = max((i.lead for i in self.items), default=0)
        self.slots = self._slots(resized)
        self.groups = self._groups()

    def _slots(self, resized: dict[Buffer, Buffer]) -> dict[Buffer, tuple[Buffer, int, int]]:
        """buffer -> (buffer with a slot dimension, number of slots, lead of its producer)."""
        out: dict[Buffer, tuple[Buffer, int, int]] = {}
        for n, item in enumerate(self.items):
            for b in item.buffers:
                users = [
                    (m, i)
                    for m, i in enumerate(self.items)
                    if i is not item and i.effects.touches(b)
                ]
                count = max((item.lead - i.lead + (1 if m > n else 0) for m, i in users), default=1)
                if count > 1:
                    wide = Buffer(b.name, (count, *b.shape), b.dtype, b.scope, span=b.span)
                    out[b] = (wide, count, item.lead)
                    resized[b] = wide
        return out

    def _groups(self) -> list[list[Item]]:
        """Asynchronous copies with the same first consumer (and lead) share a commit group."""
        groups: list[list[Item]] = []
        last: tuple[int, int] | None = None
        for n, item in enumerate(self.items):
            if item.unit is None:
                last = None
                continue
            key = (item.lead, self._first_use(n))
            if groups and last == key:
                groups[-1].append(item)
            else:
                groups.append([item])
            item.group = len(groups) - 1
            last = key
        return groups

    def _first_use(self, n: int) -> int:
        item = self.items[n]
        order = [*range(n + 1, len(self.items)), *range(n)]
        return next(
            (m for m in order if any(self.items[m].effects.touches(b) for b in item.buffers)), -1
        )

    def emit(self) -> Stmt:
        s = self.loop
        base = Var(s.var.name, s.var.dtype)
        steady = For(
            base,
            const(0, s.extent.dtype),
            s.extent,
            self.iteration(base, prologue=False),
            "serial",
            {},
            s.span,
        )
        drain = []
        if self.groups and any(type(x) is Break for x in walk(s.body)):
            drain.append(Evaluate(call("cp_async_wait", [0]), s.span))
        return seq(self.allocs, self.prologue(), steady, drain, span=s.span)

    def prologue(self) -> list[Stmt]:
        """Base iterations -max_lead … -1: what runs ahead starts here."""
        dtype = self.loop.extent.dtype
        starts = [const(p - self.max_lead, dtype) for p in range(self.max_lead)]
        return [refresh(self.iteration(start, prologue=True)) for start in starts]

    def iteration(self, base: Expr, prologue: bool) -> Stmt:
        """One base iteration: item by item, waits before uses, commits after each group.

        The first wait moves to the top where what it waits for was issued in an earlier iteration:
        the barrier behind it then also orders this iteration's copies after the last one's reads.
        """
        out: list[Stmt] = []
        commits = 0
        guaranteed = None if prologue else self._early_wait(out)
        for item in self.items:
            at = base + item.lead
            if not (prologue and int(at) < 0):
                need = self._pending(item, commits)
                if need is not None and (guaranteed is None or need < guaranteed):
                    out.append(Evaluate(call("cp_async_wait", [max(need, 0)]), item.stmt.span))
                    guaranteed = max(need, 0)
                _append(out, self.instance(item, at))
            if item.unit is not None and self.groups[item.group][-1] is item:
                out.append(Evaluate(call("cp_async_commit"), item.stmt.span))
                commits += 1
                guaranteed = None if guaranteed is None else guaranteed + 1
        return seq(out)

    def _early_wait(self, out: list[Stmt]) -> int | None:
        for item in self.items:
            need = self._pending(item, 0)
            if need is None:
                continue
            if need < 0 or (self.nested and need != 0):
                return None
            out.append(Evaluate(call("cp_async_wait", [need]), item.stmt.span))
            return need
        return None

    def _pending(self, item: Item, commits: int) -> int | None:
        """How many younger groups may be in flight when `item` reads its operands, after `commits`
        commits of this iteration; negative: they are issued in this iteration and not committed
        yet. None: it reads nothing asynchronous. Inside another ring every group is waited for."""
        need: int | None = None
        for g, group in enumerate(self.groups):
            if item in group or not any(item.effects.touches(b) for p in group for b in p.buffers):
                continue
            younger = (group[0].lead - item.lead) * len(self.groups) + commits - g - 1
            younger = min(younger, 0) if self.nested else younger
            need = younger if need is None else min(need, younger)
        return need

    def instance(self, item: Item, at: Expr) -> Stmt:
        """The item for iteration `at` (counted from 0), its ring buffers moved to their slots."""
        s = self.loop
        body = substitute(item.stmt, {s.var: s.start + at})
        body = Slots(self.slots, at).visit(body)
        if item.lead == 0:
            return body
        inside = at < s.extent
        if type(inside) is Const:
            return body if inside.value else seq()
        return If(inside, body, None, item.stmt.span)


def _append(out: list[Stmt], s: Stmt) -> None:
    """Appends a statement; two neighbours under one condition share the branch."""
    last = out[-1] if out else None
    if (
        type(s) is If
        and type(last) is If
        and s.cond is last.cond
        and s.orelse is None
        and last.orelse is None
    ):
        out[-1] = If(s.cond, seq(last.then, s.then), None, last.span)
    else:
        out.append(s)


class Slots(Rewriter):
    """Accesses of a ring buffer get the slot of iteration `at` as first index."""

    def __init__(self, slots: dict[Buffer, tuple[Buffer, int, int]], at: Expr) -> None:
        super().__init__()
        self.slots, self.at = slots, at

    def slot(self, count: int) -> Expr:
        return self.at % const(count, self.at.dtype)

    def visit_Load(self, n: Load) -> Expr:
        hit = self.slots.get(n.buffer)
        return n if hit is None else Load(hit[0], (self.slot(hit[1]), *n.indices))

    def visit_Store(self, n: Store) -> Stmt:
        hit = self.slots.get(n.buffer)
        return n if hit is None else Store(hit[0], (self.slot(hit[1]), *n.indices), n.value, n.span)

    def visit_TileStmt(self, n: TileStmt) -> Stmt:
        op: Any = n.op
        if op.name != "reduce" or all(
            op.src.buffer is not wide for wide, *_ in self.slots.values()
        ):
            return n
        return TileStmt(op.in_slot(), n.annotations, n.span)

    def visit_Region(self, n: Region) -> Region:
        hit = self.slots.get(n.buffer)
        if hit is None:
            return n
        return Region(hit[0], (self.slot(hit[1]), *n.offsets), (const(1), *n.extents))


def resize(s: Stmt, resized: dict[Buffer, Buffer]) -> Stmt:
    """Allocations and layout annotations of buffers that became rings."""

    class Allocs(Rewriter):
        def visit_Launch(self, n: Launch) -> Stmt:
            given = n.annotations.get("layouts")
            if not given:
                return n
            moved = {
                resized.get(b, b): layout.prepend(const_int(resized[b].shape[0]))
                if b in resized
                else layout
                for b, layout in given.items()
            }
            annotations = {**n.annotations, "layouts": moved}
            return Launch(
                n.grid, n.threads, n.block_vars, n.thread_vars, n.body, annotations, n.span
            )

        def visit_Alloc(self, n: Alloc) -> Stmt:
            return Alloc(resized[n.buffer], n.annotations, n.span) if n.buffer in resized else n

    return Allocs().visit(s)
