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
distances hold in every iteration, under conditions and `continue` too. What may run ahead is decided
by effects alone: a copy whose buffer is read before it is written in the same iteration, or whose
source is written in the loop, stays where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tilelang.errors import OptionError
from tilelang.ir import (
    INTRINSICS,
    Alloc,
    Bind,
    Break,
    Buffer,
    Call,
    Const,
    Continue,
    Effects,
    Evaluate,
    Expr,
    For,
    If,
    Load,
    PrimFunc,
    Region,
    Rewriter,
    Stmt,
    Store,
    TileStmt,
    Var,
    as_expr,
    call,
    const,
    effects,
    expr_effects,
    flatten,
    logical_and,
    logical_not,
    refresh,
    seq,
    substitute,
    walk,
)

from .manager import PassContext
from .pipeline_legality import may_run_ahead, plan_copy_unit


def run(func: PrimFunc, ctx: PassContext) -> PrimFunc:
    """Rewrites every pipelined loop, innermost first."""
    return func.with_body(_Pipeliner(func, ctx).visit(func.body))


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
        return resize(s, self.resized) if self.resized else s

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
            return self.manual(s, body, depth)
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

    def manual(self, s: For, body: list[Stmt], depth: int) -> list[Item]:
        """`order=` and `stage=`: one entry per statement that is no binding; -1 for a copy that the
        compiler places (at the top, `num_stages - 1` iterations before its first consumer)."""
        work = [x for x in body if type(x) not in (Alloc, Bind)]
        stage = list(s.annotations.get("stage") or [0] * len(work))
        order = list(s.annotations.get("order") or range(len(work)))
        for name, given in (("stage", stage), ("order", order)):
            if len(given) != len(work):
                raise OptionError(
                    f"T.Pipelined: {name} has {len(given)} entries, but the loop body has {len(work)} statements",
                    code="TL0551",
                    span=s.span,
                    help=f"give one entry per statement (bindings and allocations do not count): {len(work)}",
                )
        last = max(stage)
        lead = [last - x for x in stage]
        allocs = [Item(x) for x in body if type(x) is Alloc]
        placed: list[tuple[int, int, Item]] = []
        for n, (x, o) in enumerate(zip(work, order, strict=True)):
            ahead = lead[n]
            producer = may_run_ahead(s, x, work, self.outer[-1], unwrapped(x))
            if stage[n] < 0:
                users = [
                    lead[m] for m in range(len(work)) if stage[m] >= 0 and _reads_what(work[m], x)
                ]
                ahead = max(users, default=0) + max(depth - 1, 0)
            placed.append((o, n, self.item(x, ahead, producer)))
        in_order = sorted(placed, key=lambda p: (p[0], p[1]))
        check_schedule(s, [(i, n) for _, n, i in in_order])
        return allocs + [i for _, _, i in in_order]


def check_schedule(loop: For, items: list[tuple[Item, int]]) -> None:
    """Refuses `order=`/`stage=` under which a statement would meet what another has not done yet.

    items: in the order of the new body, with their place in the old one. Item x of iteration k runs at
    time (k - lead, place in the new body). Buffers in ring slots carry no dependence backwards.
    """
    at = {n: (-i.lead, place) for place, (i, n) in enumerate(items)}
    by_number = sorted(((n, i) for i, n in items), key=lambda p: p[0])
    for x, a in by_number:
        for y, b in by_number:
            if x < y and _depends(a, b, ring=False) and not at[x] < at[y]:
                _refuse_schedule(loop, x, y, a, b, "in the same iteration")
            later = (at[x][0] + 1, at[x][1])
            if x < y and _depends(b, a, ring=True) and not at[y] < later:
                _refuse_schedule(loop, y, x, b, a, "of the iteration before")


def _depends(a: Item, b: Item, ring: bool) -> bool:
    """Must `a` come before `b`? ring: buffers that get a slot per iteration do not count."""
    skip = {*a.buffers, *b.buffers} if ring else set()

    def meet(first: Any, second: Any) -> bool:
        return any(
            p.buffer.root() is q.buffer.root() and p.buffer not in skip
            for p in first
            for q in second
        )

    return (
        meet(a.effects.writes, b.effects.reads)
        or meet(a.effects.writes, b.effects.writes)
        or meet(a.effects.reads, b.effects.writes)
    )


def _refuse_schedule(loop: For, x: int, y: int, a: Item, b: Item, when: str) -> None:
    names = sorted(
        {
            p.buffer.name
            for p in (*a.effects.writes, *b.effects.writes)
            if b.effects.touches(p.buffer) and a.effects.touches(p.buffer)
        }
    )
    raise OptionError(
        f"T.Pipelined: under this order and stage statement {y} runs before statement {x} {when}, but both use "
        f"{', '.join(names)}",
        code="TL0552",
        span=loop.span,
        help=f"give statement {y} a later stage, or a later place in order, than statement {x} (counted from 0)",
    )


def _reads_what(consumer: Stmt, producer: Stmt) -> bool:
    written = {a.buffer.root() for a in effects(producer).writes}
    return any(a.buffer.root() in written for a in effects(consumer).reads)


# ---------------------------------------------------------------------------------- body shape


def normalize(stmts: Sequence[Stmt]) -> list[Stmt]:
    """`continue` becomes a branch around the rest of the body, so that copies can be taken out of it."""
    out: list[Stmt] = []
    for n, s in enumerate(stmts):
        if type(s) is If:
            then, orelse = flatten(s.then), flatten(s.orelse)
            if then and type(then[-1]) is Continue:
                rest = normalize([*orelse, *stmts[n + 1 :]])
                if then[:-1]:
                    out.append(If(s.cond, seq(then[:-1]), seq(rest) if rest else None, s.span))
                elif rest:
                    out.append(If(logical_not(s.cond), seq(rest), None, s.span))
                return out
        out.append(s)
    return out


def inline_binds(stmts: list[Stmt]) -> list[Stmt]:
    """Pure bindings of the loop body are substituted into what follows (a copy that runs ahead needs
    its own value of them). A binding that reads memory stays."""
    out: list[Stmt] = []
    mapping: dict[Any, Any] = {}
    for s in stmts:
        if mapping:
            s = substitute(s, mapping)
        if type(s) is Bind and not expr_effects(s.value).accesses and _pure(s.value):
            mapping[s.var] = s.value
        elif type(s) is If:
            out.append(If(s.cond, seq(inline_binds(flatten(s.then))), s.orelse, s.span))
        else:
            out.append(s)
    return out


def _pure(e: Expr) -> bool:
    return all(type(x) is not Call or INTRINSICS[x.op].effect == "pure" for x in walk(e))


def split_producers(
    loop: For, body: list[Stmt], launch: Stmt
) -> tuple[list[Stmt], list[Stmt], list[Stmt]]:
    """(allocations, copies that may run ahead, the rest in order). A copy under `if`s is taken out
    with its conditions; the branch stays for what remains in it."""
    allocs = [x for x in body if type(x) is Alloc]
    producers: list[Stmt] = []

    def take(stmts: list[Stmt], guards: list[Expr]) -> list[Stmt]:
        rest: list[Stmt] = []
        for x in stmts:
            if type(x) is If and x.orelse is None:
                inner = take(flatten(x.then), [*guards, x.cond])
                if inner:
                    rest.append(If(x.cond, seq(inner), None, x.span))
                continue
            guarded = _guarded(x, guards)
            if type(x) is TileStmt and may_run_ahead(loop, guarded, body, launch, x):
                producers.append(guarded)
            else:
                rest.append(x)
        return rest

    return allocs, producers, take([x for x in body if type(x) is not Alloc], [])


def unwrapped(s: Stmt) -> Stmt:
    """The statement inside its conditions."""
    while type(s) is If and s.orelse is None:
        s = s.then
    return s


def _guarded(s: Stmt, guards: list[Expr]) -> Stmt:
    if not guards:
        return s
    cond = guards[0]
    for g in guards[1:]:
        cond = logical_and(cond, g)
    return If(cond, s, None, s.span)


# ---------------------------------------------------------------------------------- emission


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
        out: list[Stmt] = []
        for p in range(self.max_lead):
            out.append(
                refresh(
                    self.iteration(const(p - self.max_lead, self.loop.extent.dtype), prologue=True)
                )
            )
        return out

    def iteration(self, base: Expr, prologue: bool) -> Stmt:
        """One base iteration: item by item, waits before uses, commits after each group.

        The first wait moves to the top where what it waits for was issued in an earlier iteration: the
        barrier behind it then also orders this iteration's copies after the last one's reads.
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
        commits of this iteration; negative: they are issued in this iteration and not committed yet.
        None: it reads nothing asynchronous. Inside another ring every group is waited for."""
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
            return body  # type: ignore[no-any-return]
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

    def visit_Region(self, n: Region) -> Region:
        hit = self.slots.get(n.buffer)
        if hit is None:
            return n
        return Region(hit[0], (self.slot(hit[1]), *n.offsets), (const(1), *n.extents))


def resize(s: Stmt, resized: dict[Buffer, Buffer]) -> Stmt:
    """Allocations (and layout annotations) of buffers that became rings."""

    class Allocs(Rewriter):
        def visit_Alloc(self, n: Alloc) -> Stmt:
            return Alloc(resized[n.buffer], n.annotations, n.span) if n.buffer in resized else n

    return Allocs().visit(s)  # type: ignore[no-any-return]
