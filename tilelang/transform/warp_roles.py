# SPDX-License-Identifier: Apache-2.0
"""Writes the producer and consumer roles of a planned kernel.

In: a `Plan`: the pipelined loops whose copies a producer warp makes. Out: the kernel with two
`Role`s. Each has the control flow around those loops; the producer has of the rest only the scalars
that its copies need, the consumers have everything else. `role_ring` writes the loops themselves.
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
    Break,
    Builder,
    Continue,
    Expr,
    For,
    If,
    Launch,
    Role,
    Seq,
    Stmt,
    Var,
    While,
    const,
    effects,
    flatten,
    refresh,
    seq,
)
from tilelang.utils import prod

from .pipeline_legality import without_writes
from .ring import resize
from .role_ring import Pipeline, RoleRing

__all__ = ["Plan", "RoleEmitter", "leads", "producer_threads"]

PRODUCER_THREADS = 32
WARP, WARPGROUP = 32, 128
CROWDED = 3 * WARPGROUP
"""From so many consumers on the registers per thread are too few for their accumulators: the
producer is a warpgroup of its own, which gives its registers away (PTX ISA, setmaxnreg: whole
warpgroups only)."""
PRODUCER_REGISTERS, MOST_REGISTERS = 32, 240
REGISTER_FILE, PARTITIONS = 65536, 4
"""32-bit registers of a multiprocessor, and its parts that warps are dealt to (CUDA C++ programming
guide, compute capability 9.0)."""
_SCALARS = 32
"""Registers that a thread needs beside its tiles: addresses, rows' statistics, temporaries."""


@dataclass(frozen=True)
class Plan:
    """pipelines: the loops with a ring. duplicable: may the producer evaluate this too? workers:
    blocks of a persistent launch, which walk all tiles; None for a block per tile."""

    pipelines: tuple[Pipeline, ...]
    duplicable: Callable[[Expr], bool]
    workers: int | None = None


def producer_threads(consumers: int) -> int:
    return WARPGROUP if consumers >= CROWDED else PRODUCER_THREADS


def leads(s: Stmt, loops: tuple[For, ...]) -> bool:
    """Does the way to the loops depend on `s`? It contains one of them, or leaves a loop around."""
    t = type(s)
    if t is Break or t is Continue or any(s is x for x in loops):
        return True
    inner = [c for c in s.children if isinstance(c, Stmt)]
    if t is For or t is While:  # its jumps are its own
        return any(_holds(c, loops) for c in inner)
    return any(leads(c, loops) for c in inner)


def _holds(s: Stmt, loops: tuple[For, ...]) -> bool:
    if any(s is x for x in loops):
        return True
    return any(_holds(c, loops) for c in s.children if isinstance(c, Stmt))


class RoleEmitter:
    """Writes the two roles."""

    def __init__(self, launch: Launch, plan: Plan) -> None:
        self.launch, self.plan, self.span = launch, plan, plan.pipelines[0].loop.span
        self.threads = prod(launch.threads)
        self.worker = Var("worker") if plan.workers else None
        self.loops = tuple(p.loop for p in plan.pipelines)
        self.staged = {b for p in plan.pipelines for b in p.staged}
        nested = [not any(x is p.loop for x in flatten(launch.body)) for p in plan.pipelines]
        self.rings = [
            RoleRing(p, launch.thread_vars[0], self.threads, counts)
            for p, counts in zip(plan.pipelines, nested, strict=True)
        ]

    def emit(self) -> Stmt:
        s, plan = self.launch, self.plan
        allocs = [x for x in flatten(s.body) if type(x) is Alloc]
        work = [x for x in flatten(s.body) if type(x) is not Alloc]
        produce = self._per_tile(lambda done: self._producer(seq(work), done))
        consume = self._per_tile(lambda done: self._consumers(seq(work), done))
        registers = self._registers()
        extra = WARPGROUP if registers else producer_threads(self.threads)
        about: list[dict[str, Any]] = [{"name": "producer", "elected": True}, {"name": "consumers"}]
        if registers:
            about[0]["registers"], about[1]["registers"] = -registers[0], registers[1]
        counters = [(r.start(True), r.start(False)) for r in self.rings]
        producer = Role(
            self.threads, extra, seq([p for p, _ in counters], produce), about[0], self.span
        )
        consumer = Role(
            0, self.threads, seq([c for _, c in counters], consume), about[1], self.span
        )
        body = seq(allocs, [r.allocs() for r in self.rings], producer, consumer)
        grid, blocks = (
            (s.grid, s.block_vars)
            if self.worker is None
            else ((const(plan.workers or 1),), (self.worker,))
        )
        resized = {b: wide for r in self.rings for b, wide in r.slots.items()}
        threads = (self.threads + extra, 1, 1)
        return Launch(
            grid, threads, blocks, s.thread_vars, resize(body, resized), s.annotations, s.span
        )

    def _producer(self, s: Stmt, done: Expr) -> Stmt | None:
        """What of `s` the producer does."""
        for ring in self.rings:
            if s is ring.pipeline.loop:
                return ring.produce(done)
        if isinstance(s, Seq):
            return seq([self._producer(x, done) for x in flatten(s)])
        if isinstance(s, Bind):
            return s if self.plan.duplicable(s.value) else None
        if isinstance(s, Assume):
            return s if self.plan.duplicable(s.cond) else None
        if not leads(s, self.loops):
            return None
        if isinstance(s, If):
            orelse = None if s.orelse is None else self._producer(s.orelse, done)
            return If(s.cond, self._producer(s.then, done) or seq(), orelse, s.span)
        return s.map_children(lambda c: self._producer(c, done) if isinstance(c, Stmt) else c)

    def _consumers(self, s: Any, done: Expr) -> Stmt:
        """The kernel with each of the loops on its ring."""
        for ring in self.rings:
            if s is ring.pipeline.loop:
                return ring.consume(done, more=self.worker is not None)
        if not leads(s, self.loops):  # what the copies overwrite need not be written before
            return without_writes(s, self.staged)
        return s.map_children(lambda c: self._consumers(c, done) if isinstance(c, Stmt) else c)

    def _registers(self) -> tuple[int, int] | None:
        """Registers per thread of the producer (what it keeps) and of the consumers (what they
        get): as annotated, and by themselves where the consumers are many. What the consumers get
        must be there, or they wait for it for ever."""
        notes = self.launch.annotations
        keep, get = notes.get("producer_registers"), notes.get("consumer_registers")
        if notes.get("reallocate_registers") is False:
            return None
        if keep is None and get is None and not self._needs_more():
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

    def _needs_more(self) -> bool:
        """Would one producer warp leave the consumers fewer registers than their tiles take? Warps
        are dealt to the parts of the register file: 9 of them leave as few as 12 do."""
        if self.threads >= CROWDED:
            return True
        warps = -(-(self.threads + PRODUCER_THREADS) // WARP // PARTITIONS)
        most = REGISTER_FILE // PARTITIONS // (warps * WARP) // 8 * 8
        tiles = {
            a.buffer.root()
            for p in self.plan.pipelines
            for x in p.consumers
            for a in effects(x).accesses
            if a.buffer.is_fragment
        }
        bits = sum(prod(b.static_shape or (0,)) * b.dtype.bits for b in tiles)
        return bits // 32 // self.threads + _SCALARS > most

    def _per_tile(self, body: Callable[[Expr], Stmt | None]) -> Stmt:
        """The body once, or (persistent) for each tile of this worker. `body` gets the number of
        loop steps done before: slots and phases of the ring go on from tile to tile."""
        s, worker, workers = self.launch, self.worker, self.plan.workers
        if worker is None or workers is None:
            return refresh(body(const(0)) or seq())  # each role binds values of its own
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
            (loop,) = self.loops
            b.emit(body(t * loop.extent))
        return refresh(b.finish())
