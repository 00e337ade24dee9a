# SPDX-License-Identifier: Apache-2.0
"""May a statement of a pipelined loop run iterations ahead of its place? By which unit?

In: a loop, one of its statements (with its conditions) and the rest of the body. The answers come
from the effect model alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from tilelang.ir import (
    INTRINSICS,
    Alloc,
    Bind,
    Buffer,
    Call,
    Effects,
    Expr,
    For,
    If,
    Launch,
    Load,
    Parallel,
    PrimFunc,
    Rewriter,
    Seq,
    Stmt,
    Store,
    TileStmt,
    effects,
    expr_effects,
    flatten,
    free_vars,
    seq,
    walk,
)
from tilelang.tileop.copy.cp_async import CP_ASYNC

from .kernel_context import kernel_context
from .manager import PassContext
from .scope import conjuncts


def may_run_ahead(
    loop: For, guarded: Stmt, body: Sequence[Stmt], launch: Stmt, inner: Stmt | None = None
) -> bool:
    """`guarded` is a copy from global memory to a shared buffer (maybe under conditions) that reads
    nothing the loop changes, whose buffer nothing else writes, reads before it, or uses outside the
    loop. One that nobody reads has no consumer to run ahead of, and nothing that waits for it."""
    copy = inner if inner is not None else guarded
    if type(copy) is not TileStmt or copy.op.name != "copy":
        return False
    src, dst = copy.op.src, copy.op.dst  # type: ignore[attr-defined]
    if not (
        src.buffer.is_global
        and dst.buffer.is_shared
        and dst.is_whole
        and dst.buffer.view_of is None
    ):
        return False
    inside = effects(Seq(tuple(body)))
    if inside.opaque or any(a.buffer.root() is src.buffer.root() for a in inside.writes):
        return False
    if not any(a.buffer.root() is dst.buffer for a in inside.reads):
        return False
    if _has_views(launch, dst.buffer):  # they do not know of slots
        return False
    if not _closed(guarded, loop, inside):
        return False
    return (
        _only_writer(copy, body, dst.buffer)
        and _dominates(copy, guarded, body)
        and not _used_outside(loop, launch, dst.buffer)
    )


def _has_views(launch: Stmt, buffer: Buffer) -> bool:
    return any(
        type(x) is Alloc and x.buffer is not buffer and x.buffer.root() is buffer
        for x in walk(launch)
    )


def _closed(guarded: Stmt, loop: For, inside: Effects) -> bool:
    """Conditions and addresses depend only on the loop variable and on what the loop does not
    change."""
    exprs: list[Expr] = []
    s: Stmt = guarded
    while type(s) is If:
        exprs.append(s.cond)
        s = s.then
    copy: Any = s
    exprs += [*copy.op.src.offsets, *copy.op.src.extents, *copy.op.dst.offsets]
    bound = {x.var for x in walk(loop.body) if type(x) in (Bind, For)}  # type: ignore[attr-defined]
    for e in exprs:
        if any(v in bound for v in free_vars(e)):
            return False
        if any(type(x) is Call and INTRINSICS[x.op].effect != "pure" for x in walk(e)):
            return False
        for a in expr_effects(e).accesses:
            if a.buffer.is_fragment or any(
                w.buffer.root() is a.buffer.root() for w in inside.writes
            ):
                return False
    return True


def _only_writer(copy: Stmt, body: Sequence[Stmt], buffer: Buffer) -> bool:
    writers = [
        x
        for s in body
        for x in _leaves(s)
        if any(a.buffer.root() is buffer for a in effects(x).writes)
    ]
    return all(w is copy for w in writers)


def _leaves(s: Stmt) -> list[Stmt]:
    if type(s) is If:
        return [y for x in (*flatten(s.then), *flatten(s.orelse)) for y in _leaves(x)]
    return [s]


def _dominates(copy: Stmt, guarded: Stmt, body: Sequence[Stmt]) -> bool:
    """Every read of the buffer comes after the copy, under at least its conditions."""
    buffer = copy.op.dst.buffer  # type: ignore[attr-defined]
    conds: list[Expr] = []
    s: Stmt = guarded
    while type(s) is If:
        conds += conjuncts(s.cond)
        s = s.then
    seen = False

    def walk_body(stmts: Sequence[Stmt], guards: list[Expr]) -> bool:
        nonlocal seen
        for x in stmts:
            if x is copy or x is guarded:
                seen = True
                continue
            if type(x) is If:
                inner = [*guards, *conjuncts(x.cond)]
                if not walk_body(flatten(x.then), inner) or not walk_body(
                    flatten(x.orelse), guards
                ):
                    return False
                continue
            if any(a.buffer.root() is buffer for a in effects(x).reads) and not (
                seen and all(any(c is g for g in guards) for c in conds)
            ):
                return False
        return True

    return walk_body(list(body), [])


def _used_outside(loop: For, launch: Stmt, buffer: Buffer) -> bool:
    """Is the buffer read in the kernel outside this loop? (What the last iteration left would be
    there.) What is only written there is never seen: see `without_writes`."""

    def uses(n: Any) -> bool:
        if n is loop or (type(n) is For and n.var is loop.var):
            return False
        t = type(n)
        if t is Load:
            return n.buffer.root() is buffer or any(uses(c) for c in n.children)
        if t is TileStmt:
            e = n.op.effects()
            mine = [w.buffer.root() is buffer for w in e.writes]
            return any(a.buffer.root() is buffer for a in e.reads) or (any(mine) and not all(mine))
        return any(uses(c) for c in n.children)

    return uses(launch)


class _WithoutWrites(Rewriter):
    pre = True

    def __init__(self, buffers: Collection[Buffer]) -> None:
        super().__init__()
        self.buffers = buffers

    def visit_TileStmt(self, s: TileStmt) -> Stmt:
        return seq() if any(w.buffer in self.buffers for w in effects(s).writes) else s

    def visit_Store(self, s: Store) -> Stmt:
        return seq() if s.buffer in self.buffers else s

    def visit_Parallel(self, s: Parallel) -> Stmt:
        out = self.descend(s)
        return seq() if not flatten(out.body) else out


def without_writes(s: Any, buffers: Collection[Buffer]) -> Any:
    """`s` without the writes of buffers that nothing reads from there: a ring's buffer that is
    cleared before the loop, which fills all of it."""
    return _WithoutWrites(buffers).visit(s) if buffers else s


def plan_copy_unit(
    stmt: Stmt, launch: Stmt, func: PrimFunc, ctx: PassContext
) -> tuple[Stmt, str | None]:
    """Pins the copy to cp.async where that is legal: (statement, "cp_async" or None)."""
    if type(stmt) is If:
        inner, unit = plan_copy_unit(stmt.then, launch, func, ctx)
        return If(stmt.cond, inner, stmt.orelse, stmt.span), unit
    assert type(stmt) is TileStmt
    assert type(launch) is Launch
    reason = CP_ASYNC.why_not(stmt.op, kernel_context(launch, func, ctx))
    if reason is not None:
        ctx.note(f"copy to {stmt.op.dst.buffer.name} is not cp.async: {reason}")  # type: ignore[attr-defined]
        return stmt, None
    return TileStmt(stmt.op, {**stmt.annotations, "lowering": "cp_async"}, stmt.span), "cp_async"
