# SPDX-License-Identifier: Apache-2.0
"""What the statements of a block access, for passes that reorder and merge loops.

In: statements at LOOP stage. Out: per statement an `Info`, computed once; whether two statements
may change places. Two tensors that may overlap count as one.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any

from tilelang.ir import (
    Alloc,
    Bind,
    Buffer,
    Expr,
    For,
    If,
    Launch,
    Load,
    PrimFunc,
    Seq,
    Stmt,
    Store,
    Var,
    mentions,
    walk,
)

from .manager import PassContext
from .scope import is_pure

Place = tuple[Buffer, tuple[Expr, ...]]


@dataclass
class Info:
    """reads, writes: what storage. places: all accesses, (buffer, indices) -> is it written.
    used, bound: variables. rigid: it does more than compute and store, and stays where it is.
    loops: the loops inside; leaves: how many statements that are none."""

    reads: set[Any] = field(default_factory=set)
    writes: set[Any] = field(default_factory=set)
    places: dict[Place, bool] = field(default_factory=dict)
    used: set[Var] = field(default_factory=set)
    bound: set[Var] = field(default_factory=set)
    rigid: bool = False
    loops: list[For] = field(default_factory=list)
    leaves: int = 0

    def add(self, other: Info) -> None:
        self.reads |= other.reads
        self.writes |= other.writes
        for place, written in other.places.items():
            self.places[place] = self.places.get(place, False) or written
        self.used |= other.used
        self.bound |= other.bound
        self.rigid |= other.rigid
        self.loops += other.loops
        self.leaves += other.leaves


class Accesses:
    """aliased: tensors that may overlap each other."""

    def __init__(self, aliased: Set[Buffer]) -> None:
        self.aliased = aliased
        self.known: dict[Stmt, Info] = {}

    def storage(self, b: Buffer) -> Any:
        root = b.root()
        return "aliased" if root in self.aliased else root

    def of(self, s: Stmt) -> Info:
        hit = self.known.get(s)
        if hit is None:
            hit = self.known[s] = Info()
            self.collect(s, hit)
        return hit

    def collect(self, s: Any, out: Info) -> None:
        t = type(s)
        if t is Seq:
            for x in s.stmts:
                out.add(self.of(x))
            return
        out.leaves += t in (Store, Bind)
        out.rigid = t not in (Store, Bind, Alloc, For, If)
        if t is For and "vectors" in s.annotations:  # a micro-kernel: there is nothing to merge
            out.rigid = True
            return
        if t is For:
            out.bound.add(s.var)
            out.loops.append(s)
        elif t is Bind:
            out.bound.add(s.var)
        elif t in (Store, Alloc):
            out.writes.add(self.storage(s.buffer))
            if t is Store:
                out.places[s.buffer, s.indices] = True
        for c in s.children:
            if isinstance(c, Stmt):
                out.add(self.of(c))
            elif isinstance(c, Expr):
                self.expression(c, out)

    def expression(self, e: Expr, out: Info) -> None:
        found = mentions(e)
        out.used.update(x for x in found if type(x) is Var)
        if not is_pure(e) or "address_of" in found:
            out.rigid = True
        if any(type(x) is Buffer for x in found):
            for x in walk(e):
                if type(x) is Load:
                    out.reads.add(self.storage(x.buffer))
                    out.places.setdefault((x.buffer, x.indices), False)

    def independent(self, x: Stmt, y: Stmt) -> bool:
        """May the two change places?"""
        a, b = self.of(x), self.of(y)
        return not (
            a.rigid
            or b.rigid
            or a.writes & (b.reads | b.writes)
            or b.writes & a.reads
            or a.bound & b.used
            or b.bound & a.used
        )


def aliased(func: PrimFunc, ctx: PassContext, launch: Launch) -> frozenset[Buffer]:
    """The tensors of a kernel that may overlap each other."""
    if ctx.options.noalias:
        return frozenset(launch.annotations.get("no_restrict", ()))
    return frozenset(p for p in func.params if isinstance(p, Buffer))


__all__ = ["Accesses", "Info", "Place", "aliased"]
