# SPDX-License-Identifier: Apache-2.0
"""`T.Pipelined` loops -> rings of shared-memory slots with exact wait distances.

In: TILE stage with `For(kind="pipelined")`. Out: serial loops. Copies from global memory run `lead`
iterations ahead of their consumers into a ring of slots (a leading dimension of the shared buffer);
those that can be cp.async are pinned to it, committed in groups, and waited for just before their
first use, with the number of younger groups that may still be in flight.

    for k in T.Pipelined(K, num_stages=3):      for p in T.unroll(2):            # prologue
        T.copy(A[k], S)                             if p < K: S3[p % 3] <- A[p]
        use(S)                            ->        commit
                                                for k in T.serial(K):
                                                    wait<1>
                                                    if k + 2 < K: S3[(k + 2) % 3] <- A[k + 2]
                                                    commit
                                                    use(S3[k % 3])

Every iteration commits the same number of groups (an empty one where a copy is skipped), so the
distances hold in every iteration, under conditions and `continue` too. What may run ahead is
decided by effects alone: a copy whose buffer is read before it is written in the same iteration, or
whose source is written in the loop, stays where it is.
"""

from __future__ import annotations

from typing import Any

from tilelang.errors import OptionError
from tilelang.ir import (
    Alloc,
    Bind,
    Buffer,
    Const,
    For,
    PrimFunc,
    Rewriter,
    Stmt,
    as_expr,
    effects,
    flatten,
)

from .manager import PassContext
from .pipeline_body import inline_binds, normalize, split_producers, unwrapped
from .pipeline_legality import may_run_ahead, plan_copy_unit, without_writes
from .pipeline_schedule import check_schedule
from .ring import Item, Ring, resize


def run(func: PrimFunc, ctx: PassContext) -> PrimFunc:
    """Rewrites every pipelined loop, innermost first."""
    return func.with_body(_Pipeliner(func, ctx).visit(func.body))


class _Pipeliner(Rewriter):
    pre = True

    def __init__(self, func: PrimFunc, ctx: PassContext) -> None:
        super().__init__()
        self.func, self.ctx = func, ctx
        self.outer: list[Stmt] = []
        self.rings = 0

    def visit_Launch(self, s: Any) -> Any:
        self.outer.append(s)
        self.resized: dict[Buffer, Buffer] = {}
        s = self.descend(s)
        self.outer.pop()
        return resize(without_writes(s, self.resized), self.resized) if self.resized else s

    def visit_For(self, s: For) -> Stmt:
        rings = self.rings
        body = self.visit(s.body)
        nested = self.rings > rings
        s = For(s.var, s.start, s.extent, body, s.kind, s.annotations, s.span)
        if s.kind != "pipelined":
            return s
        self.rings += 1
        return self.ring(s, nested)

    def ring(self, s: For, nested: bool) -> Stmt:
        stages = as_expr(s.annotations.get("num_stages") or 0)
        depth = int(stages) if type(stages) is Const else 0
        manual = s.annotations.get("stage") or s.annotations.get("order")
        if (depth == 0 and not manual) or not self.ctx.target.is_cuda:
            return For(s.var, s.start, s.extent, s.body, "serial", {}, s.span)
        body = inline_binds(normalize(flatten(s.body)))
        items = self.schedule(s, body, depth)
        if not any(i.buffers for i in items) and all(i.lead == 0 for i in items):
            return For(s.var, s.start, s.extent, s.body, "serial", {}, s.span)
        return Ring(s, items, nested, self.resized, self.ctx).emit()

    # ------------------------------------------------------------------------------ schedule

    def schedule(self, s: For, body: list[Stmt], depth: int) -> list[Item]:
        if s.annotations.get("stage") or s.annotations.get("order"):
            work = [x for x in body if type(x) not in (Alloc, Bind)]
            groups = self.groups(s, len(work))
            if groups is not None:
                return self.manual(s, body, work, groups, depth)
        allocs, producers, rest = split_producers(s, body, self.outer[-1])
        items = [self.item(p, max(depth - 1, 0), True) for p in producers]
        return [Item(a) for a in allocs] + items + [self.item(x, 0, False) for x in rest]

    def item(self, stmt: Stmt, lead: int, producer: bool) -> Item:
        e = effects(stmt)
        if not producer:
            return Item(stmt, lead, effects=e)
        stmt, unit = plan_copy_unit(stmt, self.outer[-1], self.func, self.ctx)
        written = tuple(dict.fromkeys(a.buffer for a in e.writes))
        return Item(stmt, lead, unit, buffers=written, effects=e)

    def groups(self, s: For, count: int) -> list[list[int]] | None:
        """The statements, by number, that each entry of `order=` and `stage=` stands for: one, or
        those that `group=` lists. None where these are not the statements there are: programs of
        other compilers count what they made of the loop, so it is no error."""
        groups = s.annotations.get("group")
        if not groups:
            return [[n] for n in range(count)]
        if sorted(n for g in groups for n in g) != list(range(count)):
            self.ctx.note(
                f"{s.span}: the schedule given is not used: its groups do not name the "
                f"{count} statements of the loop"
            )
            return None
        return [list(g) for g in groups]

    def manual(
        self, s: For, body: list[Stmt], work: list[Stmt], groups: list[list[int]], depth: int
    ) -> list[Item]:
        """`order=` and `stage=`: one entry per statement that is no binding, or per group; -1 for a
        copy that the compiler places (at the top, `num_stages - 1` iterations before its first
        consumer). Copies of a group may run ahead, each in slots of its own."""
        stages = list(s.annotations.get("stage") or [0] * len(groups))
        orders = list(s.annotations.get("order") or range(len(groups)))
        what = "groups" if s.annotations.get("group") else "statements"
        for name, given in (("stage", stages), ("order", orders)):
            if len(given) != len(groups):
                raise OptionError(
                    f"T.Pipelined: {name} has {len(given)} entries, but the loop body has "
                    f"{len(groups)} {what}",
                    code="TL0551",
                    span=s.span,
                    help=f"give one entry per {what[:-1]} (bindings and allocations do not count): "
                    f"{len(groups)}; or group statements with group=[[0], [1, 2], …]",
                )
        stage = {n: x for g, x in zip(groups, stages, strict=True) for n in g}
        last = max(stages)
        lead = {n: last - x for n, x in stage.items()}
        allocs = [Item(x) for x in body if type(x) is Alloc]
        in_order: list[tuple[Item, int]] = []
        for n in (n for _, g in sorted(zip(orders, groups, strict=True), key=_order) for n in g):
            x, ahead = work[n], lead[n]
            producer = may_run_ahead(s, x, work, self.outer[-1], unwrapped(x))
            if stage[n] < 0:
                users = [
                    lead[m] for m in range(len(work)) if stage[m] >= 0 and _reads_what(work[m], x)
                ]
                ahead = max(users, default=0) + max(depth - 1, 0)
            in_order.append((self.item(x, ahead, producer), n))
        check_schedule(s, in_order)
        return allocs + [i for i, _ in in_order]


def _order(entry: tuple[int, list[int]]) -> int:
    return entry[0]


def _reads_what(consumer: Stmt, producer: Stmt) -> bool:
    written = {a.buffer.root() for a in effects(producer).writes}
    return any(a.buffer.root() in written for a in effects(consumer).reads)
