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
    refresh,
    seq,
    substitute,
    walk,
)
from tilelang.tileop.copy.tma import tile_bytes
from tilelang.tileop.wait import PIN_ONLY, WaitWgmma

from .pipeline_body import unwrapped
from .ring import Slots
from .role_schedule import Point, Schedule, Section, is_gemm, plan_schedule

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


class Channel:
    """Staged buffers that the same statements read: they arrive together and are released
    together.

    readers: the statements, by number. full, empty: the slots' mbarriers. crowd: threads that say
    together that they have read a slot: a warpgroup, after its wgmmas; threads that read with loads
    say so warp by warp."""

    def __init__(self, p: Pipeline, buffers: list[Buffer], readers: frozenset[int], name: str):
        n, span = p.stages, p.loop.span
        self.buffers, self.readers = buffers, readers
        self.full = Buffer(f"full{name}", (n,), "uint64", Scope.BARRIER, span=span)
        self.empty = Buffer(f"empty{name}", (n,), "uint64", Scope.BARRIER, span=span)
        self.copies = [x for x in p.producers if unwrapped(x).op.dst.buffer in buffers]  # type: ignore[attr-defined]
        loads = any(_loads(p.consumers[x], set(buffers)) for x in readers)
        self.crowd = WARP if loads else WARPGROUP


def _channels(p: Pipeline) -> list[Channel]:
    by_readers: dict[frozenset[int], list[Buffer]] = {}
    for b in p.staged:
        reading = (n for n, c in enumerate(p.consumers) if _reads(c, b))
        by_readers.setdefault(frozenset(reading), []).append(b)
    several = len(by_readers) > 1
    return [
        Channel(p, buffers, readers, f"_{buffers[0].name}" if several else "")
        for readers, buffers in by_readers.items()
    ]


def _reads(s: Stmt, b: Buffer) -> bool:
    return any(a.buffer.root() is b for a in effects(s).reads)


class RoleRing:
    """The loop on its ring. counts: it runs more than once, so steps are counted in variables."""

    def __init__(self, pipeline: Pipeline, thread: Var, threads: int, counts: bool) -> None:
        self.pipeline, self.thread, self.threads = pipeline, thread, threads
        self.span, n = pipeline.loop.span, pipeline.stages
        self.channels = _channels(pipeline)
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
        out = list(self.pipeline.allocs)
        for c in self.channels:
            crowds = self.threads // c.crowd
            out.append(Alloc(c.full, {"arrive_count": (1,) * n}, self.span))
            out.append(Alloc(c.empty, {"arrive_count": (crowds,) * n}, self.span))
        return out

    def start(self, producer: bool) -> Stmt:
        """What the role does before anything else."""
        if self.counters is None:
            return seq()
        counter = self.counters[producer]
        return seq(Alloc(counter, {}, self.span), Store(counter, (const(0),), const(0), self.span))

    def _count(self, producer: bool, done: Expr) -> Expr:
        """Steps made before."""
        return done if self.counters is None else Load(self.counters[producer], (const(0),))

    def _step(self, b: Builder, producer: bool, done: Expr, k: Expr) -> Expr:
        """The step of iteration `k`; counted on."""
        if self.counters is None:
            return b.bind("step", done + k)
        step = b.bind("step", self._count(producer, done))
        b.store(self.counters[producer], (const(0),), step + 1)
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
            for c in self.channels:
                # a fresh barrier has completed the phase before 0: the first pass does not block
                b.call("mbar_wait", address_of(c.empty, slot), self._parity(step) ^ 1)
                copies = self._at(c.copies, k, step)
                b.call("mbar_expect_tx", address_of(c.full, slot), _bytes(copies))
                pins = {"lowering": "tma", "barrier": address_of(c.full, slot)}
                for x in copies:
                    b.emit(_with_notes(x, pins))
        return b.finish()

    # ------------------------------------------------------------------------------ consumers

    def consume(self, done: Expr, more: bool) -> Stmt:
        """more: the ring is used again after this loop."""
        p, b = self.pipeline, Builder(self.span)
        plan = plan_schedule(p.consumers, [c.readers for c in self.channels], p.stages)
        count, name = self._count(False, done), p.loop.var.name
        # ptxas runs wgmmas of a role one by one (C7520) where writes to accumulators, pinned by
        # nothing, end up between them
        self._pin_accumulators(b)
        if plan.prologue is None or plan.epilogue is None:
            with b.for_(name, p.loop.extent) as k:
                self._section(b, plan.steady, k, self._step(b, False, done, k))
        else:
            last = p.loop.extent - 1
            with b.if_(p.loop.extent > 0):
                self._section(b, plan.prologue, const(-1), count - 1)
                with b.for_(name, last) as k:
                    self._section(b, plan.steady, k, self._step(b, False, done, k))
                self._section(b, plan.epilogue, last, self._step(b, False, done, last))
        self._finish(b, plan, self._count(False, done), more)
        return b.finish()

    def _section(self, out: Builder, section: Section, k: Expr, step: Expr) -> None:
        """The statements of a section, in iteration `k`. Sections repeat statements of each other:
        each names values of its own."""
        b = Builder(self.span)
        for point, (n, ahead) in zip(section.points, section.order, strict=False):
            self._settle(b, point, k, step)
            self._issue(b, n, k + int(ahead), step + int(ahead))
        self._settle(b, section.points[-1], k, step)
        out.emit(refresh(b.finish()))

    def _issue(self, b: Builder, n: int, k: Expr, step: Expr) -> None:
        """Statement `n` of iteration `k`, when what it reads has arrived."""
        for c in self.channels:
            if n == min(c.readers):
                bar = address_of(c.full, self._slot(step))
                b.call("mbar_wait", bar, self._parity(step))
        b.emit(*self._at([_pinned(self.pipeline.consumers[n])], k, step))

    def _settle(self, b: Builder, point: Point, k: Expr, step: Expr) -> None:
        if point.wait is not None:
            self._wait(b, point.wait, point.done)
        for channel, back in point.release:
            with b.if_(k >= back if back > 0 else True):
                self._release(b, self.channels[channel], step, back)

    def _pin_accumulators(self, b: Builder) -> None:
        """What was written to the accumulators before stays before."""
        gemms = (n.op for s in self.pipeline.consumers for n in walk(s) if is_gemm(n))  # type: ignore[attr-defined]
        written = dict.fromkeys(g.c.buffer for g in gemms if g.clears is not True)
        if written:
            self._wait(b, PIN_ONLY, list(written))

    def _wait(self, b: Builder, pending: int, done: list[Buffer]) -> None:
        b.emit(TileStmt(WaitWgmma(pending, tuple(c.whole() for c in done)), {}, self.span))

    def _finish(self, b: Builder, plan: Schedule, count: Expr, more: bool) -> None:
        """After the loop: all gemms are done, and slots that are needed again are released."""
        p = self.pipeline
        if plan.unfinished:
            written = (c.op.c.buffer for c in p.consumers if is_gemm(c))  # type: ignore[attr-defined]
            self._wait(b, 0, list(dict.fromkeys(written)))
        if not more and self.counters is None:
            return
        last = count - 1 if self.counters else count + p.loop.extent - 1
        for channel, back in plan.last:
            with b.if_(p.loop.extent > back):
                self._release(b, self.channels[channel], last, back)

    def _release(self, b: Builder, c: Channel, step: Expr, back: int) -> None:
        """One thread of each crowd says that all of them have read the slot of `back` steps
        before."""
        stages = self.pipeline.stages
        slot = self._slot(step + (stages - back if back > 0 else -back))  # nothing negative
        if c.crowd == WARP:
            b.call("sync_warp", 0xFFFFFFFF)
        with b.if_(self.thread % c.crowd == 0):
            b.call("mbar_arrive", address_of(c.empty, slot))


def _loads(s: Stmt, staged: set[Buffer]) -> bool:
    """Does `s` read a staged operand other than by a gemm?"""
    if type(s) is TileStmt:
        return s.op.name != "gemm" and any(a.buffer.root() in staged for a in effects(s).reads)
    inner = [c for c in s.children if isinstance(c, Stmt)]
    if inner:
        return any(_loads(c, staged) for c in inner)
    return any(a.buffer.root() in staged for a in effects(s).reads)


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


def _pinned(s: Stmt) -> Stmt:
    """Gemms of the loop are wgmma's; those that the schedule sees are waited for later."""
    later = is_gemm(s)

    class Pin(Rewriter):
        def visit_TileStmt(self, n: TileStmt) -> Stmt:
            if n.op.name != "gemm":
                return n
            return TileStmt(
                n.op, {**n.annotations, "lowering": "wgmma", "in_flight": int(later)}, n.span
            )

    return Pin().visit(s)
