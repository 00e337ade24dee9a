# SPDX-License-Identifier: Apache-2.0
"""Barriers from the effect model: `sync_threads` wherever two threads could meet on one element.

In: TILE stage after layout inference. Out: the same with `sync_threads` inserted before a statement
that conflicts with an access made since the last barrier. Loop-carried conflicts count. Inside a
`Role` the barrier later becomes a named one of that role's threads.

    T.copy(A, S)                      T.copy(A, S)
    T.copy(S, F)             ->       T.call('sync_threads')
                                      T.copy(S, F)

An asynchronous copy writes its buffer from issue to wait. It conflicts like a write when issued;
when a wait has completed it, it counts as a fresh write of the waiting thread, which others see
only after a barrier. What the async proxy reads (wgmma) is fenced before that barrier. None stands
where threads may diverge: a branch that depends on the thread, or a loop that some threads leave
earlier, is treated as one statement."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tilelang.ir import (
    Access,
    Alloc,
    Buffer,
    Call,
    Const,
    Effects,
    Evaluate,
    For,
    If,
    Launch,
    PrimFunc,
    Region,
    Role,
    Seq,
    Stmt,
    TileStmt,
    Var,
    While,
    call,
    effects,
    flatten,
    seq,
    walk,
)

from .manager import PassContext
from .uniformity import Uniformity

ASYNC_UNITS = ("cp_async",)
PROXY_UNIT = "wgmma"
"""It reads shared memory through the async proxy, which sees ordinary writes only after a fence in
every writing thread and a barrier after that (PTX ISA, fence.proxy.async)."""


def run(func: PrimFunc, ctx: PassContext) -> PrimFunc:
    if not ctx.options.auto_sync:
        return func
    return func.with_body(_launches(func.body, ctx.target.is_cpu))


def _launches(s: Stmt, cpu: bool) -> Stmt:
    """On a CPU only kernels whose threads differ need barriers: there the threads' loops are
    cut."""
    if type(s) is Launch:
        own = set(s.thread_vars)
        if cpu and not any(x in own for x in walk(s.body) if type(x) is Var):
            return s
        body = _Inserter(s).body(s.body)
        return Launch(s.grid, s.threads, s.block_vars, s.thread_vars, body, s.annotations, s.span)
    return s.map_children(lambda c: _launches(c, cpu) if isinstance(c, Stmt) else c)


@dataclass
class State:
    """Accesses since the last barrier, asynchronous writes and reads ever issued, and ordinary
    writes since the last proxy fence."""

    reads: dict[tuple[Any, ...], Access] = field(default_factory=dict)
    writes: dict[tuple[Any, ...], Access] = field(default_factory=dict)
    issued: dict[tuple[Any, ...], Access] = field(default_factory=dict)
    reading: dict[tuple[Any, ...], Access] = field(default_factory=dict)
    unfenced: dict[tuple[Any, ...], Access] = field(default_factory=dict)

    def parts(self) -> tuple[dict[tuple[Any, ...], Access], ...]:
        return self.reads, self.writes, self.issued, self.reading, self.unfenced

    def copy(self) -> State:
        return State(*map(dict, self.parts()))

    def join(self, other: State) -> bool:
        """Takes over what `other` has; did anything change?"""
        before = sum(map(len, self.parts()))
        for mine, theirs in zip(self.parts(), other.parts(), strict=True):
            mine.update(theirs)
        return sum(map(len, self.parts())) != before

    def barrier(self) -> None:
        self.reads.clear()
        self.writes.clear()

    def complete(self, proxied: set[Buffer]) -> None:
        """A wait: what was issued is now written by the waiting thread."""
        self.writes.update(self.issued)
        self.unfenced.update({k: a for k, a in self.issued.items() if a.buffer.root() in proxied})


def _key(a: Access) -> tuple[Any, ...]:
    return (a.buffer.root(), a.region.offsets, a.region.extents, a.unit)


def _span(r: Region, dim: int) -> tuple[int, int] | None:
    lo, n = r.offsets[dim], r.extents[dim]
    return (lo.value, lo.value + n.value) if type(lo) is Const and type(n) is Const else None


def overlap(a: Region, b: Region) -> bool:
    """May the regions share an element (in any two iterations of the loops around them)?"""
    if a.buffer.root() is not b.buffer.root():
        return False
    if a.buffer is not b.buffer:
        return True
    for d in range(len(a.offsets)):
        x, y = _span(a, d), _span(b, d)
        if x is not None and y is not None and (x[1] <= y[0] or y[1] <= x[0]):
            return False
    return True


def _hits(a: Access, others: Iterable[Access]) -> bool:
    return any(
        overlap(a.region, o.region) and not (a.kind == "atomic" and o.kind == "atomic")
        for o in others
    )


class _Inserter:
    """Works on one kernel; `scratch` runs of a loop body find its entry state without emitting."""

    def __init__(self, launch: Launch) -> None:
        self.state = State()
        self.uniform = Uniformity(launch)
        self.shared = _communicating(launch)
        self.proxied = {a.buffer.root() for a in _proxied(launch.body)}

    def body(self, s: Stmt) -> Stmt:
        return seq([self.stmt(x) for x in flatten(s)], span=s.span)

    def stmt(self, s: Any) -> Stmt:
        t = type(s)
        if t is Seq:
            return self.body(s)
        if t is For and self.uniform.loop(s, s.start, s.extent):
            before = self.barrier_for(self.unseen(s.body), s)
            body = self.loop(s.body)
            return seq(before, For(s.var, s.start, s.extent, body, s.kind, s.annotations, s.span))
        if t is While and self.uniform.loop(s, s.cond):
            before = self.barrier_for(self.unseen(s.body), s)
            self.leaf(Evaluate(s.cond))
            return seq(before, While(s.cond, self.loop(s.body), s.span))
        if t is If and self.uniform.expr(s.cond):
            return self.branch(s)
        if t is Role:
            return self.role(s)
        if _is_call(s, "cp_async_wait"):
            self.state.complete(self.proxied)
            return s
        if _is_call(s, "wgmma_wait") or (t is TileStmt and s.op.name == "wait_wgmma"):
            self.state.reads.update(self.state.reading)
            return s
        return seq(self.leaf(s), s)

    def loop(self, body: Stmt) -> Stmt:
        """The body again until its entry state holds what its end leaves behind."""
        entry = self.state.copy()
        while True:
            self.state = entry.copy()
            out = self.body(body)
            if not entry.join(self.state):
                break
        self.state.join(entry)  # the loop may run zero times
        return out

    def branch(self, s: If) -> Stmt:
        """A barrier that one side needs stands before the branch: it then serves what follows
        too."""
        inside = [a for a in _effects(s).accesses if a.buffer.root() in self.shared]
        before = self.barrier_for(inside, s)
        self.leaf(Evaluate(s.cond))
        entry = self.state.copy()
        then = self.body(s.then)
        after = self.state
        self.state = entry
        orelse = None if s.orelse is None else self.body(s.orelse)
        self.state.join(after)
        return seq(before, If(s.cond, then, orelse, s.span))

    def role(self, s: Role) -> Stmt:
        """Roles meet only through mbarriers, which the pass that made the roles has placed."""
        outer, self.state = self.state, State()
        body = self.body(s.body)
        self.state = outer
        return Role(s.first, s.threads, body, s.annotations, s.span)

    def leaf(self, s: Stmt) -> Stmt | None:
        """Records the effects of `s`; the barrier that must stand before it, or None."""
        e = _effects(s)
        accesses = [a for a in e.accesses if a.buffer.root() in self.shared]
        barrier = self.barrier_for(accesses, s)
        if e.barrier:
            barrier = seq(barrier, self.fence(s)) if self.state.unfenced else barrier
            self.state.barrier()
        for a in accesses:
            if a.kind == "read":
                self.state.reads[_key(a)] = a
                if a.unit == PROXY_UNIT and s.annotations.get("in_flight"):  # type: ignore[attr-defined]
                    self.state.reading[_key(a)] = a
            elif a.unit in ASYNC_UNITS:
                self.state.issued[_key(a)] = a
            else:
                self.state.writes[_key(a)] = a
                if a.buffer.root() in self.proxied:
                    self.state.unfenced[_key(a)] = a
        return barrier

    def barrier_for(self, accesses: Iterable[Access], s: Stmt) -> Stmt | None:
        """What must stand before `s`, which makes these accesses. A barrier also takes the fence
        of what was written before it: so that one barrier serves both."""
        unseen = self.state.unfenced.values()
        if not any(
            self.conflicts(a) or (a.unit == PROXY_UNIT and _hits(a, unseen)) for a in accesses
        ):
            return None
        fence = self.fence(s)
        self.state.barrier()
        return seq(fence, Evaluate(call("sync_threads"), s.span))

    def unseen(self, body: Stmt) -> list[Access]:
        """What the async proxy reads in a loop and threads have written before it: fenced once,
        before the loop, not in every iteration."""
        unfenced = list(self.state.unfenced.values())
        return [a for a in _proxied(body) if _hits(a, unfenced)] if unfenced else []

    def fence(self, s: Stmt) -> Stmt | None:
        """This thread's writes, made visible to the async proxy."""
        if not self.state.unfenced:
            return None
        self.state.unfenced.clear()
        return Evaluate(call("fence_proxy_async"), s.span)

    def conflicts(self, a: Access) -> bool:
        if a.kind == "read":
            return _hits(a, self.state.writes.values())
        return _hits(a, self.state.writes.values()) or _hits(a, self.state.reads.values())


def _effects(s: Stmt) -> Effects:
    """Effects of a statement; a tile op pinned to an asynchronous unit writes through that unit."""
    e = effects(s)
    unit = s.annotations.get("lowering") if type(s) is TileStmt else None
    if unit == "tma":  # mbarriers order it, which the pass or the user who pinned it has placed
        return Effects(tuple(a for a in e.accesses if not a.buffer.is_shared), e.barrier, e.opaque)
    if unit == PROXY_UNIT or unit in ASYNC_UNITS:
        return Effects(
            tuple(Access(a.region, a.kind, unit) for a in e.accesses), e.barrier, e.opaque
        )
    if type(s) is If:
        inner = [_effects(x) for x in (*flatten(s.then), *flatten(s.orelse))]
        out = effects(Evaluate(s.cond))
        for i in inner:
            out = out | i
        return out
    return e


def _is_call(s: Stmt, op: str) -> bool:
    return type(s) is Evaluate and type(s.value) is Call and s.value.op == op


def _communicating(launch: Launch) -> set[Buffer]:
    """Buffers through which threads of a block can meet: shared ones, and global ones both read and
    written."""
    e = effects(launch.body)
    seen: dict[Buffer, set[str]] = {}
    for a in e.accesses:
        seen.setdefault(a.buffer.root(), set()).add(a.kind)
    allocated = [x.buffer for x in walk(launch.body) if type(x) is Alloc]
    shared = {b.root() for b in (*seen, *allocated) if b.is_shared}
    return shared | {
        b for b, kinds in seen.items() if b.is_global and "read" in kinds and len(kinds) > 1
    }


def _proxied(s: Stmt) -> list[Access]:
    """What operations in `s` read through the async proxy."""
    ops = (x for x in walk(s) if type(x) is TileStmt)
    return [a for x in ops for a in _effects(x).accesses if a.unit == PROXY_UNIT and _read(a)]


def _read(a: Access) -> bool:
    return a.kind == "read" and a.buffer.is_shared


__all__ = ["overlap", "run"]
