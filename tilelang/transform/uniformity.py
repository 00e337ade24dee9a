# SPDX-License-Identifier: Apache-2.0
"""Which values are the same in all threads of a block, and which loops all threads run alike.

In: a kernel (TILE stage). Out: answers about its expressions and loops. A barrier may stand only
where all threads come by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tilelang.ir import (
    Alloc,
    Bind,
    Break,
    Buffer,
    Call,
    Continue,
    Expr,
    For,
    If,
    Launch,
    Load,
    Parallel,
    Stmt,
    Store,
    TileStmt,
    Var,
    While,
    effects,
    walk,
)
from tilelang.ir.intrinsics import TABLE

from .ownership import held_by_all

__all__ = ["Uniformity"]


class Uniformity:
    """Does an expression have one value for all threads of the block?

    Sources of divergence: thread variables, fragment elements that not every thread holds, results
    that intrinsics give each thread for itself, and variables and thread-private arrays that are
    assigned such values, under such conditions, or by a tile op or through a pointer.

    layouts: of fragments, where they are not yet annotations of their `Alloc`s."""

    def __init__(self, launch: Launch, layouts: Mapping[Buffer, Any] | None = None) -> None:
        self.layouts = _annotated(launch) if layouts is None else layouts
        self.held: dict[Load, bool] = {}
        self.divergent: set[Var | Buffer] = {*launch.thread_vars, *_written_elsewhere(launch)}
        while self._grow(launch.body, False):
            pass

    def expr(self, e: Expr) -> bool:
        return not any(self._source(x) for x in walk(e))

    def _source(self, x: Any) -> bool:
        t = type(x)
        if t is Var:
            return x in self.divergent
        if t is Load:
            return x.buffer.root() in self.divergent or not self._held(x)
        return t is Call and TABLE[x.op].per_thread

    def _held(self, x: Load) -> bool:
        """Has every thread this element?"""
        if not x.buffer.is_fragment:
            return True
        if x not in self.held:
            layout = self.layouts.get(x.buffer)
            self.held[x] = layout is not None and held_by_all(layout, x.indices)
        return self.held[x]

    def loop(self, s: For | While, *control: Expr) -> bool:
        """Do all threads go through the same iterations, each to its end?"""
        return all(self.expr(e) for e in control) and not self._jumps(s.body, False)

    def _jumps(self, s: Stmt, under: bool) -> bool:
        """May some threads leave this iteration of the loop around `s` where others stay?"""
        t = type(s)
        if t is Break or t is Continue:
            return under
        if t is For or t is While:
            return False  # its jumps are its own
        if t is If:
            under = under or not self.expr(s.cond)  # type: ignore[attr-defined]
        return any(self._jumps(c, under) for c in s.children if isinstance(c, Stmt))

    def _grow(self, s: Any, under: bool) -> bool:
        t = type(s)
        if t is Bind:
            return self._mark(s.var, not self.expr(s.value))
        if t is Store:
            private = s.buffer.is_local
            return private and self._mark(
                s.buffer.root(), under or not all(self.expr(e) for e in (*s.indices, s.value))
            )
        if t is If:
            under = under or not self.expr(s.cond)
        elif t is While:
            under = under or not self.loop(s, s.cond)
        elif t is For:
            under = under or not self.loop(s, s.start, s.extent)
            changed = self._mark(s.var, under)
            return self._grow(s.body, under) or changed
        changed = False
        if t is Parallel:
            for v in s.vars:
                changed = self._mark(v, True) or changed
        for c in s.children:
            if isinstance(c, Stmt):
                changed = self._grow(c, under) or changed
        return changed

    def _mark(self, x: Var | Buffer, divergent: bool) -> bool:
        if divergent and x not in self.divergent:
            self.divergent.add(x)
            return True
        return False


def _annotated(launch: Launch) -> dict[Buffer, Any]:
    found = [x for x in walk(launch.body) if type(x) is Alloc and x.buffer.is_fragment]
    return {x.buffer: x.annotations["layout"] for x in found if "layout" in x.annotations}


def _written_elsewhere(launch: Launch) -> Iterator[Buffer]:
    """Thread-private arrays that are written other than by stores."""
    for x in walk(launch.body):
        if type(x) is TileStmt:
            yield from (a.buffer.root() for a in effects(x).writes if a.buffer.is_local)
        elif type(x) is Call:
            row = TABLE[x.op]
            for i, arg in enumerate(x.args):
                may_write = row.effect == "opaque" or row.pointers.get(i, "read") != "read"
                if may_write and type(arg) is Call and arg.op == "address_of":
                    target: Any = arg.args[0]
                    if target.buffer.is_local:
                        yield target.buffer.root()
