# SPDX-License-Identifier: Apache-2.0
"""Producer and consumer warps for a pipelined loop (sm_90a).

In: TILE stage, a kernel whose only pipelined loop stages all its shared operands by copies that TMA can
do and multiplies them by gemms that wgmma can do. Out: the same kernel with one extra warp. One of its
threads fills a ring of slots by TMA; the warpgroups of the user's threads consume them. Each slot has a
`full` mbarrier (the bytes are there) and an `empty` one (each warpgroup has read it).

    for k in T.Pipelined(K, 3): copy(A[k], S); gemm(S, …)
->  with role(producer):  for k: wait(empty[k % 3]); expect(full[k % 3]); S3[k % 3] <- A[k]
    with role(consumers): for k: wait(full[k % 3]); gemm(S3[k % 3], …)   # one wgmma group in flight
                                 release(empty[(k - 1) % 3])
                          rest of the kernel

The decision asks each op's `why_not` and pins the lowering that it counts on. It is declined with a
note when any op refuses, or when the loop is nested; the kernel then runs without roles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tilelang.ir import (
    Alloc,
    Assume,
    Bind,
    Buffer,
    Builder,
    Evaluate,
    Expr,
    For,
    Launch,
    PrimFunc,
    Return,
    Rewriter,
    Role,
    Scope,
    Stmt,
    TileStmt,
    Var,
    address_of,
    as_expr,
    call,
    const,
    const_int,
    effects,
    expr_effects,
    flatten,
    free_vars,
    refresh,
    seq,
    substitute,
    walk,
)
from tilelang.tileop.copy.tma import TMA, tile_bytes
from tilelang.tileop.gemm.wgmma import operand_why_not
from tilelang.tileop.wait import WaitWgmma
from tilelang.utils import prod

from .kernel_context import kernel_context
from .manager import PassContext
from .plan_pipeline import Slots, inline_binds, normalize, resize, split_producers

__all__ = ["run"]

PRODUCER_THREADS = 32
WARPGROUP = 128
CROWDED = 3 * WARPGROUP
"""From so many consumers on the registers per thread are too few for their accumulators: the producer is a
warpgroup of its own, which gives its registers away (PTX ISA, setmaxnreg: whole warpgroups only)."""
PRODUCER_REGISTERS, CONSUMER_REGISTERS = 32, 160


def run(func: PrimFunc, ctx: PassContext) -> PrimFunc:
    def visit(s: Stmt) -> Stmt:
        if type(s) is Launch:
            return _kernel(s, func, ctx)
        return s.map_children(lambda c: visit(c) if isinstance(c, Stmt) else c)  # type: ignore[no-any-return]

    return func.with_body(visit(func.body))


@dataclass
class Plan:
    """before, loop, after: the kernel's statements around the loop. producers: the copies, with their
    conditions. consumers: the rest of the loop body. stages: slots of the ring. workers: blocks of a
    persistent launch, which walk all tiles; None for a block per tile."""

    before: list[Stmt]
    loop: For
    after: list[Stmt]
    allocs: list[Stmt]
    producers: list[Stmt]
    consumers: list[Stmt]
    stages: int
    workers: int | None = None


class Declined(Exception):
    """Why this kernel gets no roles."""


def _kernel(s: Launch, func: PrimFunc, ctx: PassContext) -> Stmt:
    loops = [x for x in walk(s.body) if type(x) is For and x.kind == "pipelined"]
    if not loops:
        return s
    try:
        plan = _plan(s, loops, func, ctx)
    except Declined as why:
        ctx.note(f"{s.span}: no warp specialisation: {why}")
        return s
    return _Emitter(s, plan).emit()


# ---------------------------------------------------------------------------------- decision


def _plan(s: Launch, loops: list[For], func: PrimFunc, ctx: PassContext) -> Plan:
    body = flatten(s.body)
    loop = loops[0]
    at = next((n for n, x in enumerate(body) if x is loop), -1)
    stages = const_int(as_expr(loop.annotations.get("num_stages") or 0)) or 0
    threads = prod(s.threads)
    if len(loops) > 1 or at < 0:
        raise Declined("the pipelined loop is nested, or not the only one")
    if stages < 2:
        raise Declined("fewer than two stages leave nothing to overlap")
    if loop.annotations.get("order") or loop.annotations.get("stage"):
        raise Declined("the loop has a schedule of the user's")
    if threads % WARPGROUP or s.threads[1] * s.threads[2] != 1:
        raise Declined(f"{s.threads} threads are not whole warpgroups of {WARPGROUP} along x")
    if threads + _producer_threads(threads) > ctx.target.max_threads:
        raise Declined(f"no room for a producer warp beside {threads} threads")
    allocs, producers, consumers = split_producers(
        loop, inline_binds(normalize(flatten(loop.body))), s
    )
    if not producers:
        raise Declined("no copy of the loop can run ahead")
    plan = Plan(body[:at], loop, body[at + 1 :], allocs, producers, consumers, stages)
    _check_ops(s, plan, func, ctx)
    _check_scalars(plan)
    return replace(plan, workers=_workers(s, plan, ctx))


def _workers(s: Launch, plan: Plan, ctx: PassContext) -> int | None:
    """One block per multiprocessor pays when there are more tiles than that: the producer fills the ring for
    the next tile while the consumers store this one. Every tile must have as many loop steps."""
    total = prod([const_int(g) or 0 for g in s.grid]) if all(const_int(g) for g in s.grid) else None
    own = [*s.block_vars, *(x.var for x in plan.before if type(x) is Bind)]
    if total is not None and total <= ctx.target.num_sms:
        return None
    if any(any(v is w for w in own) for v in free_vars(plan.loop.extent)):
        ctx.note(f"{s.span}: not persistent: the number of loop steps depends on the block")
        return None
    if any(type(x) is Return for x in walk(s.body)):
        return None
    return int(ctx.target.num_sms)


def _producer_threads(consumers: int) -> int:
    return WARPGROUP if consumers >= CROWDED else PRODUCER_THREADS


def _check_ops(s: Launch, plan: Plan, func: PrimFunc, ctx: PassContext) -> None:
    lower = kernel_context(s, func, ctx)
    for p in plan.producers:
        if type(p) is not TileStmt:
            raise Declined("a copy is conditional")
        reason = TMA.why_not(p.op, lower)
        if reason is not None:
            raise Declined(f"copy to {p.op.dst.buffer.name}: {reason}")  # type: ignore[attr-defined]
    staged = {p.op.dst.buffer for p in plan.producers}  # type: ignore[attr-defined]
    gemms = [
        x for c in plan.consumers for x in walk(c) if type(x) is TileStmt and x.op.name == "gemm"
    ]
    if not gemms:
        raise Declined("the loop has no gemm")
    for g in gemms:
        op: Any = g.op
        reason = operand_why_not(op, replace(lower, threads=prod(s.threads)))
        if reason is None and op.b.buffer not in staged:
            reason = "B is not staged by the loop"
        if reason is None and _written_in(op.a.buffer, plan.consumers, staged):
            reason = f"{op.a.buffer.name} is written to shared memory in the loop"
        if reason is not None:
            raise Declined(f"gemm: {reason}")
    for c in plan.consumers:
        others = [a for a in effects(c).accesses if a.buffer.root() in staged]
        if others and not (type(c) is TileStmt and c.op.name == "gemm"):
            raise Declined("a staged operand is used outside of a gemm")


def _written_in(buffer: Buffer, stmts: list[Stmt], staged: set[Buffer]) -> bool:
    if not buffer.is_shared or buffer in staged:
        return False
    return any(a.buffer.root() is buffer.root() for x in stmts for a in effects(x).writes)


def _check_scalars(plan: Plan) -> None:
    """What the copies' addresses need must be known to the producer warp too."""
    shared = {x.var for x in plan.before if type(x) is Bind and _duplicable(x)}
    bound = {x.var for x in plan.before if type(x) is Bind} - shared
    for p in plan.producers:
        if any(v in bound for v in free_vars(p)):
            raise Declined("an address depends on a value that only the consumers have")


def _duplicable(x: Bind) -> bool:
    return not expr_effects(x.value).accesses


# ---------------------------------------------------------------------------------- emission


class _Emitter:
    """Writes the two roles."""

    def __init__(self, launch: Launch, plan: Plan) -> None:
        self.launch, self.plan, self.span = launch, plan, plan.loop.span
        self.threads = prod(launch.threads)
        self.groups = self.threads // WARPGROUP
        n = plan.stages
        self.full = Buffer("full", (n,), "uint64", Scope.BARRIER, span=self.span)
        self.empty = Buffer("empty", (n,), "uint64", Scope.BARRIER, span=self.span)
        self.worker = Var("worker") if plan.workers else None
        self.ring = {
            b: Buffer(b.name, (n, *b.shape), b.dtype, b.scope, span=b.span) for b in self._staged()
        }

    def _staged(self) -> list[Buffer]:
        return list(dict.fromkeys(p.op.dst.buffer for p in self.plan.producers))  # type: ignore[attr-defined]

    def emit(self) -> Stmt:
        s, plan = self.launch, self.plan
        allocs, values, work = self._split_before()
        produce = self._per_tile(values, lambda done: self._produce(done))
        consume = self._per_tile(
            values, lambda done: seq(work, self._publish(), self._consume(done), plan.after)
        )
        extra = _producer_threads(self.threads)
        about: list[dict[str, Any]] = [{"name": "producer", "elected": True}, {"name": "consumers"}]
        if extra == WARPGROUP:
            about[0]["registers"], about[1]["registers"] = -PRODUCER_REGISTERS, CONSUMER_REGISTERS
        producer = Role(self.threads, extra, produce, about[0], self.span)
        consumer = Role(0, self.threads, consume, about[1], self.span)
        shared = [] if plan.workers else values
        body = seq(allocs, shared, plan.allocs, self._barriers(), producer, consumer)
        threads = (self.threads + extra, 1, 1)
        grid, blocks = (
            (s.grid, s.block_vars)
            if self.worker is None
            else ((const(plan.workers or 1),), (self.worker,))
        )
        return Launch(
            grid, threads, blocks, s.thread_vars, resize(body, self.ring), s.annotations, s.span
        )

    def _per_tile(self, values: list[Stmt], body: Callable[[Expr], Stmt]) -> Stmt:
        """The body once, or (persistent) for each tile of this worker. `body` gets the number of loop steps
        done before: slots and phases of the ring go on from tile to tile."""
        s, worker, workers = self.launch, self.worker, self.plan.workers
        if worker is None or workers is None:
            return body(const(0))
        b = Builder(self.span)
        total: Expr = const(1)
        for g in s.grid:
            total = total * g
        with b.for_("tile", (total - worker + (workers - 1)) // workers) as t:
            at = worker + t * workers
            for v, g in zip(s.block_vars, s.grid, strict=True):
                b.emit(Bind(v, at if v is s.block_vars[-1] else at % g, self.span))
                b.emit(Assume(v >= const(0)), Assume(v < g))
                at = at // g
            b.emit(values)
            b.emit(body(b.bind("done", t * self.plan.loop.extent)))
        return refresh(b.finish())  # each role binds values of its own

    def _publish(self) -> list[Stmt]:
        """Operands that the consumers wrote before the loop become visible to the async proxy."""
        staged = set(self.ring)
        for c in self.plan.consumers:
            for x in walk(c):
                if type(x) is TileStmt and x.op.name == "gemm":
                    a = x.op.a.buffer  # type: ignore[attr-defined]
                    if a.is_shared and a not in staged:
                        fence = Evaluate(call("fence_proxy_async"), self.span)
                        return [fence, Evaluate(call("sync_threads"), self.span)]
        return []

    def _split_before(self) -> tuple[list[Stmt], list[Stmt], list[Stmt]]:
        """(allocations, pure values that both roles may need, the consumers' statements)."""
        allocs: list[Stmt] = []
        values: list[Stmt] = []
        work: list[Stmt] = []
        for x in self.plan.before:
            pure = type(x) is Assume or (type(x) is Bind and _duplicable(x))
            (allocs if type(x) is Alloc else values if pure else work).append(x)
        return allocs, values, work

    def _barriers(self) -> list[Stmt]:
        n = self.plan.stages
        return [
            Alloc(self.full, {"arrive_count": (1,) * n}, self.span),
            Alloc(self.empty, {"arrive_count": (self.groups,) * n}, self.span),
        ]

    def _slot(self, k: Expr) -> Expr:
        return k % self.plan.stages

    def _parity(self, k: Expr) -> Expr:
        return k // self.plan.stages % 2

    def _at(self, stmts: list[Stmt], k: Expr, step: Expr) -> list[Stmt]:
        """The statements of iteration `k` (from 0), on the ring's slot for `step`."""
        loop = self.plan.loop
        move = Slots({b: (wide, self.plan.stages, 0) for b, wide in self.ring.items()}, step)
        return [move.visit(substitute(x, {loop.var: loop.start + k})) for x in stmts]

    def _produce(self, done: Expr) -> Stmt:
        plan, b = self.plan, Builder(self.span)
        total = sum(tile_bytes(p.op) for p in plan.producers)  # type: ignore[attr-defined]
        with b.for_(plan.loop.var.name, plan.loop.extent) as k:
            step = b.bind("step", done + k)
            slot = b.bind("slot", self._slot(step))
            # a fresh barrier has completed the phase before 0: the first pass does not block
            b.call("mbar_wait", address_of(self.empty, slot), self._parity(step) ^ 1)
            b.call("mbar_expect_tx", address_of(self.full, slot), total)
            pins = {"lowering": "tma", "barrier": address_of(self.full, slot)}
            for p in self._at(plan.producers, k, step):
                b.emit(TileStmt(p.op, {**p.annotations, **pins}, p.span))  # type: ignore[attr-defined]
        return b.finish()

    def _consume(self, done: Expr) -> Stmt:
        plan, b = self.plan, Builder(self.span)
        gemm = self._deferrable()
        with b.for_(plan.loop.var.name, plan.loop.extent) as k:
            step = b.bind("step", done + k)
            slot = b.bind("slot", self._slot(step))
            b.call("mbar_wait", address_of(self.full, slot), self._parity(step))
            for x in self._at([_pinned(c, gemm is not None) for c in plan.consumers], k, step):
                b.emit(x)
            if gemm is None:
                self._release(b, slot)
            else:  # the group just issued stays in flight: the one before is done, so is its slot
                b.call("wgmma_wait", 1)
                with b.if_(k > 0):
                    self._release(b, self._slot(step + (plan.stages - 1)))
        if gemm is not None:
            b.emit(TileStmt(WaitWgmma(0), {}, self.span))
            if plan.workers:  # the next tile needs the last slot too
                with b.if_(plan.loop.extent > 0):
                    self._release(b, self._slot(done + plan.loop.extent - 1))
        return b.finish()

    def _deferrable(self) -> TileStmt | None:
        """The loop's gemm, if it is its last statement and nothing else in the loop touches its result."""
        last = self.plan.consumers[-1]
        if type(last) is not TileStmt or last.op.name != "gemm":
            return None
        c = last.op.c.buffer  # type: ignore[attr-defined]
        others = self.plan.consumers[:-1]
        if any(effects(x).touches(c) or _has_gemm(x) for x in others):
            return None
        return last

    def _release(self, b: Builder, slot: Expr) -> None:
        """One thread of each warpgroup says that the slot has been read."""
        with b.if_(self.launch.thread_vars[0] % WARPGROUP == 0):
            b.call("mbar_arrive", address_of(self.empty, slot))


def _has_gemm(s: Stmt) -> bool:
    return any(type(x) is TileStmt and x.op.name == "gemm" for x in walk(s))


def _pinned(s: Stmt, deferred: bool) -> Stmt:
    """Gemms of the loop are wgmma's; a deferred one is waited for later."""

    class Pin(Rewriter):
        def visit_TileStmt(self, n: TileStmt) -> Stmt:
            if n.op.name != "gemm":
                return n
            return TileStmt(
                n.op, {**n.annotations, "lowering": "wgmma", "in_flight": int(deferred)}, n.span
            )

    return Pin().visit(s)  # type: ignore[no-any-return]
