# SPDX-License-Identifier: Apache-2.0
"""One pipelined loop of a kernel with warp roles: the producer's side and the consumers'.

In: a `Pipeline`: the loop, and which of its statements are copies. Out: two loops over one ring of
slots. Each slot has a `full` mbarrier (the bytes are there) and an `empty` one (every reader has
read it). Slots and phases follow a count of steps: of a loop at the top of the kernel that is its
own iteration (on from the tile before); of a nested one each role counts in a variable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilelang.ir import (
    Alloc,
    Buffer,
    Builder,
    Expr,
    For,
    If,
    Load,
    Rewriter,
    Scope,
    Stmt,
    Store,
    TileStmt,
    Var,
    address_of,
    const,
    effects,
    if_then_else,
    seq,
    substitute,
    walk,
)
from tilelang.tileop.copy.tma import tile_bytes
from tilelang.tileop.wait import WaitWgmma

from .pipeline_body import unwrapped
from .ring import Slots

__all__ = ["Pipeline", "RoleRing"]

WARP, WARPGROUP = 32, 128


@dataclass(frozen=True)
class Pipeline:
    """producers: the copies, with their conditions. consumers: the rest of the loop body. stages:
    slots of the ring."""

    loop: For
    allocs: list[Stmt]
    producers: list[Stmt]
    consumers: list[Stmt]
    stages: int

    @property
    def staged(self) -> list[Buffer]:
        """What the copies fill."""
        return list(dict.fromkeys(unwrapped(p).op.dst.buffer for p in self.producers))  # type: ignore[attr-defined]


class RoleRing:
    """The loop on its ring. counts: it runs more than once, so steps are counted in variables."""

    def __init__(self, pipeline: Pipeline, thread: Var, threads: int, counts: bool) -> None:
        self.pipeline, self.thread, self.threads = pipeline, thread, threads
        self.span, n = pipeline.loop.span, pipeline.stages
        # Slots that only gemms read are released by a warpgroup, after its wgmmas; threads that
        # read them with loads say so warp by warp.
        loads = any(_loads(x, set(pipeline.staged)) for x in pipeline.consumers)
        self.readers = WARP if loads else WARPGROUP
        self.full = Buffer("full", (n,), "uint64", Scope.BARRIER, span=self.span)
        self.empty = Buffer("empty", (n,), "uint64", Scope.BARRIER, span=self.span)
        self.slots = {
            b: Buffer(b.name, (n, *b.shape), b.dtype, b.scope, span=b.span) for b in pipeline.staged
        }
        self.counters = (
            [Buffer("step", (1,), "int32", Scope.VAR, span=self.span) for _ in range(2)]
            if counts
            else None
        )

    def allocs(self) -> list[Stmt]:
        n = self.pipeline.stages
        return [
            *self.pipeline.allocs,
            Alloc(self.full, {"arrive_count": (1,) * n}, self.span),
            Alloc(self.empty, {"arrive_count": (self.threads // self.readers,) * n}, self.span),
        ]

    def start(self, producer: bool) -> Stmt:
        """What the role does before anything else."""
        if self.counters is None:
            return seq()
        counter = self.counters[producer]
        return seq(Alloc(counter, {}, self.span), Store(counter, (const(0),), const(0), self.span))

    def _step(self, b: Builder, producer: bool, done: Expr, k: Expr) -> Expr:
        """The step of iteration `k`; counted on."""
        if self.counters is None:
            return b.bind("step", done + k)
        counter = self.counters[producer]
        step = b.bind("step", Load(counter, (const(0),)))
        b.store(counter, (const(0),), step + 1)
        return step

    def _slot(self, step: Expr) -> Expr:
        return step % self.pipeline.stages

    def _parity(self, step: Expr) -> Expr:
        return step // self.pipeline.stages % 2

    def _at(self, stmts: list[Stmt], k: Expr, step: Expr) -> list[Stmt]:
        """The statements of iteration `k` (from 0), on the ring's slot for `step`."""
        loop, n = self.pipeline.loop, self.pipeline.stages
        move = Slots({b: (wide, n, 0) for b, wide in self.slots.items()}, step)
        return [move.visit(substitute(x, {loop.var: loop.start + k})) for x in stmts]

    # ------------------------------------------------------------------------------ producer

    def produce(self, done: Expr) -> Stmt:
        """done: steps before this loop, where they are not counted."""
        loop, b = self.pipeline.loop, Builder(self.span)
        with b.for_(loop.var.name, loop.extent) as k:
            step = self._step(b, True, done, k)
            slot = b.bind("slot", self._slot(step))
            # a fresh barrier has completed the phase before 0: the first pass does not block
            b.call("mbar_wait", address_of(self.empty, slot), self._parity(step) ^ 1)
            copies = self._at(self.pipeline.producers, k, step)
            b.call("mbar_expect_tx", address_of(self.full, slot), _bytes(copies))
            pins = {"lowering": "tma", "barrier": address_of(self.full, slot)}
            for c in copies:
                b.emit(_with_notes(c, pins))
        return b.finish()

    # ------------------------------------------------------------------------------ consumers

    def consume(self, done: Expr, more: bool) -> Stmt:
        """more: the ring is used again after this loop."""
        p, b = self.pipeline, Builder(self.span)
        deferred = self._deferrable()
        more = more or self.counters is not None
        with b.for_(p.loop.var.name, p.loop.extent) as k:
            step = self._step(b, False, done, k)
            slot = b.bind("slot", self._slot(step))
            b.call("mbar_wait", address_of(self.full, slot), self._parity(step))
            for x in self._at([_pinned(c, deferred) for c in p.consumers], k, step):
                b.emit(x)
            if not deferred:
                self._release(b, slot)
            else:  # the group just issued stays in flight: the one before is done, so is its slot
                b.call("wgmma_wait", 1)
                with b.if_(k > 0):
                    self._release(b, self._slot(step + (p.stages - 1)))
        if deferred:
            b.emit(TileStmt(WaitWgmma(0), {}, self.span))
            if more:
                with b.if_(p.loop.extent > 0):
                    self._release(b, self._slot(self._last_step(done)))
        return b.finish()

    def _last_step(self, done: Expr) -> Expr:
        if self.counters is None:
            return done + self.pipeline.loop.extent - 1
        return Load(self.counters[False], (const(0),)) - 1

    def _deferrable(self) -> bool:
        """Is the loop's only gemm its last statement, and does nothing else in the loop touch its
        result or change its operands?"""
        *others, last = self.pipeline.consumers
        if type(last) is not TileStmt or last.op.name != "gemm":
            return False
        op: Any = last.op
        operands = {op.a.buffer.root(), op.b.buffer.root()}
        for x in others:
            e = effects(x)
            if e.touches(op.c.buffer) or _has_gemm(x):
                return False
            if any(w.buffer.root() in operands for w in e.writes):
                return False
        return True

    def _release(self, b: Builder, slot: Expr) -> None:
        """One thread of each group of readers says that all of them have read the slot."""
        if self.readers == WARP:
            b.call("sync_warp", 0xFFFFFFFF)
        with b.if_(self.thread % self.readers == 0):
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


def _bytes(copies: list[Stmt]) -> Expr:
    """Bytes that arrive in this step: those of the copies whose conditions hold."""
    total: Expr = const(0)
    for c in copies:
        size: Expr = const(tile_bytes(unwrapped(c).op))  # type: ignore[attr-defined]
        if type(c) is If:
            size = if_then_else(c.cond, size, const(0))
        total = total + size
    return total


def _with_notes(s: Stmt, notes: dict[str, Any]) -> Stmt:
    if type(s) is If:
        return If(s.cond, _with_notes(s.then, notes), None, s.span)
    assert type(s) is TileStmt
    return TileStmt(s.op, {**s.annotations, **notes}, s.span)


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
