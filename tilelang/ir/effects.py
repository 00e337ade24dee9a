# SPDX-License-Identifier: Apache-2.0
"""The one effect model: which regions a statement reads, writes or updates, and how.

The pipeliner, the barrier inserter, the warp specialiser and the interpreter all ask this model;
nothing else decides what depends on what (design law 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .buffer import Buffer, Region
from .expr import Call, Expr, Load, Var, const
from .intrinsics import TABLE
from .node import session_memo
from .stmt import (
    Alloc,
    Assert,
    Assume,
    Bind,
    Evaluate,
    For,
    If,
    Launch,
    Parallel,
    Role,
    Seq,
    Stmt,
    Store,
    TileStmt,
    While,
)
from .sweep import sweep
from .visit import mentions, substitute, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

READ, WRITE, ATOMIC = "read", "write", "atomic"


@dataclass(frozen=True)
class Access:
    """One access: `kind` is read, write or atomic. `unit` says which engine does it: "generic" (the
    thread's own loads and stores), "cp_async", "tma" or "wgmma" (asynchronous, their own waits)."""

    region: Region
    kind: str
    unit: str = "generic"

    @property
    def buffer(self) -> Buffer:
        return self.region.buffer

    @property
    def writes(self) -> bool:
        return self.kind != READ


@dataclass(frozen=True)
class Effects:
    """All accesses of a statement, in program order; `barrier`: every thread of the block arrives;
    `opaque`: it may touch anything (an extern call; what its pointers name is in `accesses`)."""

    accesses: tuple[Access, ...] = ()
    barrier: bool = False
    opaque: bool = False

    @property
    def reads(self) -> tuple[Access, ...]:
        return tuple(a for a in self.accesses if a.kind == READ)

    @property
    def writes(self) -> tuple[Access, ...]:
        return tuple(a for a in self.accesses if a.kind != READ)

    def __or__(self, other: Effects) -> Effects:
        return Effects(
            self.accesses + other.accesses,
            self.barrier or other.barrier,
            self.opaque or other.opaque,
        )

    def touches(self, buffer: Buffer) -> bool:
        root = buffer.root()
        return self.opaque or any(a.buffer.root() is root for a in self.accesses)


NOTHING = Effects()


def read(region: Region, unit: str = "generic") -> Access:
    return Access(region, READ, unit)


def write(region: Region, unit: str = "generic") -> Access:
    return Access(region, WRITE, unit)


def atomic(region: Region) -> Access:
    return Access(region, ATOMIC)


def expr_effects(e: Expr) -> Effects:
    """Loads (and effects of intrinsic calls) inside an expression."""
    if all(type(x) is Var for x in mentions(e)):
        return NOTHING
    found: list[Access] = []
    flags = [False, False]
    seen: set[Expr] = set()

    def go(x: Expr) -> None:
        if x in seen:
            return
        seen.add(x)
        if type(x) is Load:
            found.append(read(_point(x.buffer, x.indices)))
        elif type(x) is Call:
            _call_effects(x, found, flags)
            if x.op == "address_of":  # taking an address reads the indices, not the element
                for i in x.args[0].children:
                    go(i)
                return
        for c in x.children:
            go(c)

    go(e)
    return Effects(tuple(found), flags[0], flags[1])


def updates_once_per_thread(s: Stmt) -> bool:
    """Does this statement of TILE stage, outside of `Parallel`, update memory by every thread that
    comes by? (What touches a fragment element is executed by the element's owner alone.)"""
    nodes: list[Any] = list(walk(s))
    return any(type(x) is Call and x.op in _UPDATES for x in nodes) and not any(
        type(x) in (Load, Store) and x.buffer.is_fragment for x in nodes
    )


_UPDATES = ("atomic_add", "atomic_max", "atomic_min", "atomic_or")


def _point(buffer: Buffer, indices: tuple[Expr, ...]) -> Region:
    return Region(buffer, indices, tuple(const(1) for _ in indices))


def _call_effects(x: Call, found: list[Access], flags: list[bool]) -> None:
    row = TABLE[x.op]
    flags[0] |= row.effect == "barrier"
    flags[1] |= row.effect == "opaque"
    for i, target in enumerate(x.args):
        kind = row.pointers.get(i, "rw" if row.effect == "opaque" else None)
        if kind is not None and type(target) is Call and target.op == "address_of":
            load: Any = target.args[0]
            # how many elements lie behind a pointer is the intrinsic's business
            region = load.buffer.whole()
            kinds = (READ, WRITE) if kind == "rw" else (kind,)
            found.extend(Access(region, k, row.unit) for k in kinds)


def _exprs(es: Iterable[Expr]) -> Effects:
    out = NOTHING
    for e in es:
        out = out | expr_effects(e)
    return out


def effects(s: Stmt | None) -> Effects:
    """The effects of a statement with everything below it. The regions of a loop are those of its
    body, widened over the loop variable (`sweep`)."""
    of = _EFFECTS.get(type(s))
    if of is None:
        return NOTHING
    memo = session_memo("effects")
    hit: Effects | None = memo.get(s)
    if hit is None:
        hit = memo[s] = of(s)
    return hit


def _tile_effects(s: TileStmt) -> Effects:
    out: Effects = s.op.effects()
    return out


def _store_effects(s: Store) -> Effects:
    return _exprs((*s.indices, s.value)) | Effects((write(_point(s.buffer, s.indices)),))


def _loop_effects(s: For) -> Effects:
    return _exprs((s.start, s.extent)) | _widen(effects(s.body), {s.var: (s.start, s.extent)})


def _parallel_effects(s: Parallel) -> Effects:
    ranges = {v: (const(0), e) for v, e in zip(s.vars, s.extents, strict=True)}
    return _exprs(s.extents) | _widen(effects(s.body), ranges)


def _sequence(s: Seq) -> Effects:
    out: list[Access] = []
    barrier = opaque = False
    bound: dict[Var, Expr] = {}
    local: set[Buffer] = set()
    for x in s.stmts:
        e = effects(x)
        barrier, opaque = barrier or e.barrier, opaque or e.opaque
        for a in e.accesses:
            r = a.region
            if bound:
                r = substitute(r, bound)
            out.append(Access(r, a.kind, a.unit))
        if type(x) is Bind:
            bound[x.var] = substitute(x.value, bound)
        elif type(x) is Alloc:
            local.add(x.buffer)
    return Effects(tuple(a for a in out if a.buffer not in local), barrier, opaque)


def _widen(e: Effects, loops: Mapping[Var, tuple[Expr, Expr]]) -> Effects:
    return Effects(
        tuple(Access(sweep(a.region, loops), a.kind, a.unit) for a in e.accesses),
        e.barrier,
        e.opaque,
    )


# A statement that is not here (break, continue, return, Alloc) touches no memory.
_EFFECTS: dict[type, Callable[[Any], Effects]] = {
    TileStmt: _tile_effects,
    Store: _store_effects,
    Evaluate: lambda s: expr_effects(s.value),
    Bind: lambda s: expr_effects(s.value),
    Seq: _sequence,
    If: lambda s: expr_effects(s.cond) | effects(s.then) | effects(s.orelse),
    For: _loop_effects,
    Parallel: _parallel_effects,
    While: lambda s: expr_effects(s.cond) | effects(s.body),
    Launch: lambda s: effects(s.body),
    Role: lambda s: effects(s.body),
    Assert: lambda s: expr_effects(s.cond),
    Assume: lambda s: expr_effects(s.cond),
}
