# SPDX-License-Identifier: Apache-2.0
"""Writes the producer and consumer roles of a planned kernel.

In: a `Plan`: what runs before, in and after the pipelined loop, and which statements are copies.
Out: the kernel with a ring of slots, a `full` and an `empty` mbarrier per slot, and two `Role`s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilelang.errors import OptionError
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
    Rewriter,
    Role,
    Scope,
    Stmt,
    TileStmt,
    Var,
    address_of,
    call,
    const,
    effects,
    expr_effects,
    refresh,
    seq,
    substitute,
    walk,
)
from tilelang.tileop.copy.tma import tile_bytes
from tilelang.tileop.wait import WaitWgmma
from tilelang.utils import prod

from .ring import Slots, resize

__all__ = ["Plan", "RoleEmitter", "duplicable", "producer_threads"]

PRODUCER_THREADS = 32
WARP, WARPGROUP = 32, 128
CROWDED = 3 * WARPGROUP
"""From so many consumers on the registers per thread are too few for their accumulators: the
producer is a warpgroup of its own, which gives its registers away (PTX ISA, setmaxnreg: whole
warpgroups only)."""
PRODUCER_REGISTERS, MOST_REGISTERS = 32, 240
REGISTER_FILE = 65536
"""32-bit registers of a multiprocessor (CUDA C++ programming guide, compute capability 9.0)."""


@dataclass
class Plan:
    """before, loop, after: the kernel's statements around the loop. producers: the copies, with
    their conditions. consumers: the rest of the loop body. stages: slots of the ring. workers:
    blocks of a persistent launch, which walk all tiles; None for a block per tile."""

    before: list[Stmt]
    loop: For
    after: list[Stmt]
    allocs: list[Stmt]
    producers: list[Stmt]
    consumers: list[Stmt]
    stages: int
    workers: int | None = None


def producer_threads(consumers: int) -> int:
    return WARPGROUP if consumers >= CROWDED else PRODUCER_THREADS


def duplicable(x: Bind) -> bool:
    return not expr_effects(x.value).accesses


class RoleEmitter:
    """Writes the two roles."""

    def __init__(self, launch: Launch, plan: Plan) -> None:
        self.launch, self.plan, self.span = launch, plan, plan.loop.span
        self.threads = prod(launch.threads)
        # Slots that only gemms read are released by a warpgroup, after its wgmmas; threads that
        # read them with loads say so warp by warp.
        loads = any(_loads(x, set(self._staged())) for x in plan.consumers)
        self.readers = WARP if loads else WARPGROUP
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
        registers = self._registers()
        extra = WARPGROUP if registers else producer_threads(self.threads)
        about: list[dict[str, Any]] = [{"name": "producer", "elected": True}, {"name": "consumers"}]
        if registers:
            about[0]["registers"], about[1]["registers"] = -registers[0], registers[1]
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

    def _registers(self) -> tuple[int, int] | None:
        """Registers per thread of the producer (what it keeps) and of the consumers (what they
        get): as annotated, and by themselves where the consumers are many. What the consumers get
        must be there, or they wait for it for ever."""
        notes = self.launch.annotations
        keep, get = notes.get("producer_registers"), notes.get("consumer_registers")
        if notes.get("reallocate_registers") is False:
            return None
        if keep is None and get is None and producer_threads(self.threads) < WARPGROUP:
            return None
        keep = PRODUCER_REGISTERS if keep is None else keep
        threads = self.threads + WARPGROUP
        blocks = notes.get("min_blocks") or 1
        pool = REGISTER_FILE // (threads * blocks) // 8 * 8 * threads  # at the start all are equal
        most = (pool - keep * WARPGROUP) // self.threads // 8 * 8
        get = min(most, MOST_REGISTERS) if get is None else get
        if not keep <= get <= most:
            raise OptionError(
                f"{self.threads} consumer threads of {get} registers and {WARPGROUP} producer "
                f"threads of {keep} are not possible",
                code="TL0567",
                span=self.launch.span,
                help=f"{blocks} block(s) of {threads} threads share {REGISTER_FILE} registers: "
                f"beside such a producer at most {most} for a consumer, and no fewer than its own",
            )
        return keep, get

    def _per_tile(self, values: list[Stmt], body: Callable[[Expr], Stmt]) -> Stmt:
        """The body once, or (persistent) for each tile of this worker. `body` gets the number of
        loop steps done before: slots and phases of the ring go on from tile to tile."""
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
            pure = type(x) is Assume or (type(x) is Bind and duplicable(x))
            (allocs if type(x) is Alloc else values if pure else work).append(x)
        return allocs, values, work

    def _barriers(self) -> list[Stmt]:
        n = self.plan.stages
        return [
            Alloc(self.full, {"arrive_count": (1,) * n}, self.span),
            Alloc(self.empty, {"arrive_count": (self.threads // self.readers,) * n}, self.span),
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
        copies: list[Any] = list(plan.producers)
        total = sum(tile_bytes(c.op) for c in copies)
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
        """The loop's gemm, if it is its last statement and nothing else in the loop touches its
        result, or changes registers that it reads."""
        last = self.plan.consumers[-1]
        if type(last) is not TileStmt or last.op.name != "gemm":
            return None
        c = last.op.c.buffer  # type: ignore[attr-defined]
        a = last.op.a.buffer  # type: ignore[attr-defined]
        for x in self.plan.consumers[:-1]:
            e = effects(x)
            if e.touches(c) or _has_gemm(x):
                return None
            if a.is_fragment and any(w.buffer.root() is a.root() for w in e.writes):
                return None
        return last

    def _release(self, b: Builder, slot: Expr) -> None:
        """One thread of each group of readers says that all of them have read the slot."""
        if self.readers == WARP:
            b.call("sync_warp", 0xFFFFFFFF)
        with b.if_(self.launch.thread_vars[0] % self.readers == 0):
            b.call("mbar_arrive", address_of(self.empty, slot))


def _loads(s: Stmt, staged: set[Buffer]) -> bool:
    """Does `s` read a staged operand other than by a gemm?"""
    if type(s) is TileStmt:
        return s.op.name != "gemm" and any(a.buffer.root() in staged for a in effects(s).reads)
    inner = [c for c in s.children if isinstance(c, Stmt)]
    if inner:
        return any(_loads(c, staged) for c in inner)
    return any(a.buffer.root() in staged for a in effects(s).reads)


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

    return Pin().visit(s)
