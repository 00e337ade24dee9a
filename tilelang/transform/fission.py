# SPDX-License-Identifier: Apache-2.0
"""Loops over the threads of a block (or over the blocks of a grid), cut where all of them meet.

In: statements of single threads. Out: groups of statements, each in loops over the threads; between
the groups, what is done once. Private values that live across a cut get one element per thread.
Used by `serialize_threads` and `serialize_blocks`, which say what differs and where the cuts are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilelang.errors import TargetError
from tilelang.ir import (
    Alloc,
    Bind,
    Break,
    Buffer,
    Call,
    Continue,
    Evaluate,
    Expr,
    For,
    If,
    Load,
    Return,
    Rewriter,
    Scope,
    Stmt,
    Store,
    Var,
    While,
    const,
    flatten,
    free_vars,
    refresh,
    seq,
    substitute,
    walk,
)
from tilelang.utils import prod

from .lane_exchange import Exchange, distribute, is_cut
from .scope import accessed, leaves


def is_grid_barrier(s: Stmt) -> bool:
    return type(s) is Evaluate and type(s.value) is Call and s.value.op == "sync_grid"


class Fission:
    """vars, buffers: names and private arrays whose values differ from thread to thread."""

    who = "threads of the block"

    def __init__(self, threads: list[tuple[Var, int]]) -> None:
        self.threads = threads
        self.vars: set[Var] = {v for v, _ in threads}
        self.buffers: set[Buffer] = set()
        self.private: dict[Buffer, Buffer] = {}
        self.exported: dict[Var, Buffer] = {}

    def run(self, body: Stmt) -> Stmt:
        body = Exchange(self.index, self.count).run(body)
        self.settle(body)
        body = distribute(body, self.differs)
        self.settle(body)
        return self.cut(body)

    def cut(self, body: Stmt) -> Stmt:
        return seq(self.emit(self.plan(body, top=True)))

    def settle(self, body: Stmt) -> None:
        """Marks until nothing new is found."""
        while True:
            before = len(self.vars) + len(self.buffers)
            self.mark(body, False)
            if len(self.vars) + len(self.buffers) == before:
                break

    def is_barrier(self, s: Stmt) -> bool:
        """Do the threads meet here?"""
        whole = type(s) is Evaluate and type(s.value) is Call and s.value.op == "sync_threads"
        return whole or is_cut(s)

    # ------------------------------------------------------------------------------ what differs

    def differs(self, e: Expr) -> bool:
        return any(
            (type(x) is Var and x in self.vars)
            or (type(x) is Load and x.buffer.root() in self.buffers)
            for x in walk(e)
        )

    def mark(self, s: Stmt | None, inside: bool) -> None:
        """Finds what is written under a condition, or with a value, that differs."""
        if s is None:
            return
        t: Any = type(s)
        here = inside or any(self.differs(c) for c in s.children if isinstance(c, Expr))
        if (t is Bind and here) or (t is For and here):
            self.vars.add(s.var)  # type: ignore[attr-defined]
        elif t is Store and here and s.buffer.is_local:  # type: ignore[attr-defined]
            self.buffers.add(s.buffer.root())  # type: ignore[attr-defined]
        elif t is Evaluate and here:
            self.buffers.update(b.root() for b in accessed(s) if b.is_local)
        for c in s.children:
            if isinstance(c, Stmt):
                self.mark(c, here)

    def whole(self, s: Stmt) -> bool:
        """Must the statement be executed by one thread after the other?"""
        if any(self.differs(c) for c in s.children if isinstance(c, Expr)):
            return True
        if type(s) is Store and s.buffer.root() in self.buffers:
            return True
        if type(s) is Evaluate and any(b.root() in self.buffers for b in accessed(s)):
            return True
        inner = [c for c in s.children if isinstance(c, Stmt)]
        parts = [p for c in inner for p in flatten(c)]
        if type(s) in (For, While) and any(self.jumps(p) for p in parts):
            return True
        return bool(parts) and all(self.whole(p) for p in parts)

    def jumps(self, s: Stmt) -> bool:
        """Is there a jump that only some threads take?"""
        if any(self.differs(c) for c in s.children if isinstance(c, Expr)):
            return any(type(x) in (Break, Continue, Return) for x in walk(s))
        return any(self.jumps(p) for c in s.children if isinstance(c, Stmt) for p in flatten(c))

    # ------------------------------------------------------------------------------ groups

    def plan(self, s: Stmt, top: bool = False) -> list[Any]:
        """Statements, (statement, plans of its parts), and groups: lists of statements that one
        thread after the other executes."""
        out: list[Any] = []
        stmts = flatten(s)
        for n, x in enumerate(stmts):
            if self.is_barrier(x):
                out.append(None)
            elif type(x) is Alloc or not self.mixed_or_whole(x):
                out.append(x)
            elif not self.whole(x):
                out.append((x, [self.plan(c) for c in x.children if isinstance(c, Stmt)]))
            else:
                leaves = any(type(y) is Return for y in walk(x))
                group = stmts[n:] if leaves else [x]
                self.check_group(group, leaves and not top)
                if out and isinstance(out[-1], list):
                    out[-1] += group
                else:
                    out.append(group)
                if leaves:
                    break
        return out

    def mixed_or_whole(self, x: Stmt) -> bool:
        inner = [p for c in x.children if isinstance(c, Stmt) for p in flatten(c)]
        return (
            self.whole(x)
            or any(map(self.is_barrier, inner))
            or any(map(self.mixed_or_whole, inner))
        )

    def check_group(self, group: list[Stmt], leaves_inner: bool) -> None:
        for x in group:
            if any(
                self.is_barrier(y) or is_grid_barrier(y) for y in walk(x) if isinstance(y, Stmt)
            ):
                raise TargetError(
                    f"a barrier that only some {self.who} reach",
                    code="TL0631",
                    span=x.span,
                    help="move the barrier out of the condition",
                )
            if leaves_inner:
                raise TargetError(
                    "on a CPU a thread cannot return from within a loop of the whole block",
                    code="TL0632",
                    span=x.span,
                    help="put the rest of the body under a condition",
                )

    # ------------------------------------------------------------------------------ writing

    def emit(self, plan: list[Any]) -> list[Stmt]:
        self.exported = self.crossing(plan)
        out: list[Stmt] = [Alloc(b) for b in self.exported.values()]
        return out + self.write(plan)

    def write(self, plan: list[Any]) -> list[Stmt]:
        out: list[Stmt] = []
        for item in plan:
            if isinstance(item, list):
                out.append(self.group(item))
            elif isinstance(item, tuple):
                x, parts = item
                bodies = iter([seq(self.write(p)) for p in parts])
                out.append(
                    x.map_children(lambda c, b=bodies: next(b) if isinstance(c, Stmt) else c)
                )
            elif type(item) is Alloc and item.buffer.root() in self.buffers:
                out.append(Alloc(self.widened(item.buffer), item.annotations, item.span))
            elif item is not None:
                out.append(item)
        return out

    def crossing(self, plan: list[Any]) -> dict[Var, Buffer]:
        """Names that one group binds and another uses, with the array that keeps them between."""
        bound: dict[Var, int] = {}
        groups = list(_groups(plan))
        for n, g in enumerate(groups):
            for s in g:
                if type(s) is Bind:
                    bound[s.var] = n
        out: dict[Var, Buffer] = {}
        for n, g in enumerate(groups):
            for v in free_vars(seq(g)):
                if bound.get(v, n) != n:
                    out[v] = Buffer(v.name, (self.count,), v.dtype, Scope.LOCAL)
        return out

    @property
    def count(self) -> int:
        return prod(n for _, n in self.threads)

    @property
    def index(self) -> Expr:
        """The calling thread among those of the block."""
        out: Expr = const(0)
        for v, n in reversed(self.threads):
            out = out * n + v
        return out

    def widened(self, b: Buffer) -> Buffer:
        """The private array with one element per thread."""
        hit = self.private.get(b)
        if hit is None:
            view = None if b.view_of is None else self.widened(b.view_of)
            shape = (const(self.count), *b.shape)
            hit = self.private[b] = Buffer(b.name, shape, b.dtype, Scope.LOCAL, None, view, b.span)
        return hit

    def group(self, stmts: list[Stmt]) -> Stmt:
        own = {x.buffer for s in stmts for x in walk(s) if type(x) is Alloc}
        outside = {b for s in stmts for b in accessed(s) if b.root() in self.buffers} - own
        body = seq(_structured(stmts, stmts[0].span))
        before = [
            Bind(v, Load(self.exported[v], (self.index,)))
            for v in free_vars(body)
            if v in self.exported
        ]
        after = [
            Store(self.exported[s.var], (self.index,), s.var)
            for s in stmts
            if type(s) is Bind and s.var in self.exported
        ]
        private = {b: self.widened(b) for b in outside}
        body = refresh(seq(before, _Private(private, self.index).visit(body), after))
        for n, (v, extent) in enumerate(self.threads):
            loop = Var(v.name, v.dtype)
            kind = "serial" if n else "vectorized"
            body = substitute(body, {v: loop})
            body = For(
                loop, const(0, v.dtype), const(extent, v.dtype), body, kind, {}, stmts[0].span
            )
        return body


def _groups(plan: list[Any]) -> Iterator[list[Stmt]]:
    for item in plan:
        if isinstance(item, list):
            yield item
        elif isinstance(item, tuple):
            for part in item[1]:
                yield from _groups(part)


def _structured(stmts: list[Stmt], span: Any) -> list[Stmt]:
    """The same without `Return`: what follows a return is the other branch."""
    out: list[Stmt] = []
    for n, s in enumerate(stmts):
        if type(s) is Return:
            return out
        if not any(type(x) is Return for x in walk(s)):
            out.append(s)
            continue
        if type(s) is not If:
            raise TargetError(
                "on a CPU a thread cannot return from within a loop",
                code="TL0622",
                span=span,
                help="put the rest of the body under a condition",
            )
        rest = stmts[n + 1 :]
        then = _structured([*flatten(s.then), *(() if leaves(s.then) else rest)], span)
        orelse = _structured([*flatten(s.orelse), *(() if leaves(s.orelse) else rest)], span)
        out.append(If(s.cond, seq(then), seq(refresh(seq(orelse))) if orelse else None, s.span))
        return out
    return out


class _Private(Rewriter):
    """Accesses of private arrays get the thread as first index."""

    def __init__(self, private: dict[Buffer, Buffer], index: Expr) -> None:
        super().__init__()
        self.private, self.index = private, index

    def visit_Load(self, e: Load) -> Expr:
        new = self.private.get(e.buffer)
        return e if new is None else Load(new, (self.index, *e.indices))

    def visit_Store(self, s: Store) -> Stmt:
        new = self.private.get(s.buffer)
        return s if new is None else Store(new, (self.index, *s.indices), s.value, s.span)
