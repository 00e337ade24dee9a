# SPDX-License-Identifier: Apache-2.0
"""LOOP → LOOP (CPU): what single threads of a block do becomes loops over the threads.

In: a kernel whose statements mention its thread variables. Out: none are left; statements that
differ from thread to thread stand in loops, cut at barriers and at what the block does once;
private values that live across a cut get one element per thread.

    x[0] = tx * 2                       for t in serial(64): x[t, 0] = t * 2
    T.sync_threads()             →
    C[tx] = x[0]                        for t in serial(64): C[t] = x[t, 0]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilelang.errors import TargetError
from tilelang.ir import (
    INTRINSICS,
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
    Launch,
    Load,
    PrimFunc,
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

from .lane_exchange import Exchange, distribute, has_collective, is_cut
from .manager import PassContext
from .scope import accessed, leaves
from .summary import summary


def run(func: PrimFunc, ctx: PassContext) -> PrimFunc:
    stmts = [_serialized(s) if type(s) is Launch else s for s in flatten(func.body)]
    return func.with_body(seq(stmts))


def _serialized(s: Launch) -> Launch:
    used = summary(s.body).used
    every = has_collective(s.body)  # what lanes exchange depends on who they are
    named = zip(s.thread_vars, s.threads, strict=False)
    threads = [(v, n) for v, n in named if every or v in used]
    if not (threads or every):
        return s
    alone = {v: const(0, v.dtype) for v, n in threads if n == 1}
    body = substitute(s.body, alone)
    threads = [(v, n) for v, n in threads if n > 1]
    if threads or every:
        body = _Fission(threads).run(body)
    return Launch(s.grid, s.threads, s.block_vars, s.thread_vars, body, s.annotations, s.span)


def _is_barrier(s: Stmt) -> bool:
    whole = type(s) is Evaluate and type(s.value) is Call and s.value.op == "sync_threads"
    return whole or is_cut(s)


# Instructions of units that a CPU lacks, and waits for threads that run later.
_GPU_ONLY = frozenset(
    {
        n
        for n, row in INTRINSICS.items()
        if row.header in ("ldmatrix", "mma", "wgmma", "mbarrier", "tma")
    }
    | {"named_barrier_arrive"}
)


class _Fission:
    """vars, buffers: names and private arrays whose values differ from thread to thread."""

    def __init__(self, threads: list[tuple[Var, int]]) -> None:
        self.threads = threads
        self.vars: set[Var] = {v for v, _ in threads}
        self.buffers: set[Buffer] = set()
        self.private: dict[Buffer, Buffer] = {}
        self.exported: dict[Var, Buffer] = {}

    def run(self, body: Stmt) -> Stmt:
        self.check(body)
        body = Exchange(self.index, self.count).run(body)
        self.settle(body)
        body = distribute(body, self.differs)
        self.settle(body)
        return seq(self.emit(self.plan(body, top=True)))

    def settle(self, body: Stmt) -> None:
        """Marks until nothing new is found."""
        while True:
            before = len(self.vars) + len(self.buffers)
            self.mark(body, False)
            if len(self.vars) + len(self.buffers) == before:
                break

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

    def check(self, body: Stmt) -> None:
        for x in walk(body):
            if type(x) is Call and x.op in _GPU_ONLY:
                raise TargetError(
                    f"T.{x.op} is an instruction of the GPU that has no meaning on a CPU",
                    code="TL0630",
                    help="use T.copy, T.gemm or T.sync_threads, or compile for a CUDA target",
                )

    # ------------------------------------------------------------------------------ groups

    def plan(self, s: Stmt, top: bool = False) -> list[Any]:
        """Statements, (statement, plans of its parts), and groups: lists of statements that one
        thread after the other executes."""
        out: list[Any] = []
        stmts = flatten(s)
        for n, x in enumerate(stmts):
            if _is_barrier(x):
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
        return self.whole(x) or any(map(_is_barrier, inner)) or any(map(self.mixed_or_whole, inner))

    def check_group(self, group: list[Stmt], leaves_inner: bool) -> None:
        for x in group:
            if any(_is_barrier(y) for y in walk(x) if isinstance(y, Stmt)):
                raise TargetError(
                    "a barrier that only some threads of the block reach",
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
