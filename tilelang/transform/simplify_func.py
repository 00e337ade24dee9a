# SPDX-License-Identifier: Apache-2.0
"""FLAT → FLAT: the whole function, simpler.

In: what the passes before left. Out: expressions simplified with the ranges and conditions that
hold where they stand; branches that are never taken, loops that never run, values and local arrays
that nothing reads are gone; a loop of one trip is its body.

    for i in serial(1):
        x: T.int32 = (i + t * 8) // 8   →    A[t] = 0
        A[x] = 0                             (0 <= i < 1; x == t)
"""

from __future__ import annotations

from typing import Any

from tilelang.ir import (
    INTRINSICS,
    Alloc,
    Bind,
    Break,
    Buffer,
    Const,
    Continue,
    Expr,
    For,
    If,
    Launch,
    PrimFunc,
    Seq,
    Stmt,
    Store,
    Var,
    const,
    const_int,
    flatten,
    mentions,
    rebuild,
    seq,
    walk,
)

from .manager import PassContext
from .scope import ScopedRewriter
from .summary import StmtRewriter, statements


def run(func: PrimFunc, ctx: PassContext) -> PrimFunc:
    body = _Simplify(func, ctx).stmt(func.body) or seq()
    return func.with_body(_without_dead(body))


class _Simplify(ScopedRewriter):
    def __init__(self, func: PrimFunc, ctx: PassContext) -> None:
        super().__init__(func, ctx)
        self.names = _Names()

    def expr(self, e: Expr) -> Expr:
        return self.facts.simplify(self.names(e))

    def bind(self, s: Bind) -> Stmt | None:
        value = self.expr(s.value)
        if type(value) in (Var, Const) and value.dtype is s.var.dtype:
            self.names.give(s.var, value)
            return None
        return s if value is s.value else Bind(s.var, value, s.span)

    def launch(self, s: Launch) -> Stmt | None:
        """A dimension of one block or thread has index 0."""
        blocks = zip(s.block_vars, map(const_int, s.grid), strict=False)
        for v, n in (*blocks, *zip(s.thread_vars, s.threads, strict=False)):
            if n == 1:
                self.names.give(v, const(0, v.dtype))
        return super().launch(s)

    def branch(self, s: If) -> Stmt | None:
        cond = self.expr(s.cond)
        if type(cond) is Const:
            return self.stmt(s.then if cond.value else s.orelse)
        new = super().branch(If(cond, s.then, s.orelse, s.span))
        if type(new) is If and not flatten(new.then) and not flatten(new.orelse):
            return None
        return new

    def loop(self, s: For) -> Stmt | None:
        extent = self.expr(s.extent)
        one = const(1, extent.dtype)
        if self.facts.prove(extent < one):
            return None
        if self.facts.equal(extent, one) and not _jumps(s.body):
            self.names.give(s.var, self.expr(s.start))
            return self.stmt(s.body)
        new = super().loop(s)
        return None if type(new) is For and not flatten(new.body) else new


class _Names:
    """Variables that are another name of something, written out in expressions."""

    def __init__(self) -> None:
        self.values: dict[Var, Expr] = {}
        self.memo: dict[Expr, Expr] = {}

    def give(self, v: Var, value: Expr) -> None:
        self.values[v] = value
        self.memo = {}

    def __call__(self, e: Any) -> Expr:
        if not self.values:
            return e
        if type(e) is Var:
            return self.values.get(e, e)
        hit = self.memo.get(e)
        if hit is None:
            hit = self.memo[e] = rebuild(e, self)
        return hit


def _jumps(body: Stmt) -> bool:
    return any(type(x) in (Break, Continue) for x in walk(body))


# ---------------------------------------------------------------------------------- dead code


def _without_dead(body: Stmt) -> Stmt:
    """Without values that nothing uses and local arrays that nothing reads.

    `feeds[x]`: what is needed if the name or the array x is.
    """
    feeds: dict[Any, set[Any]] = {}
    live: set[Any] = set()
    touched: set[Buffer] = set()
    optional: dict[Stmt, Any] = {}
    for s in statements(body):
        needs: set[Any] = set()
        needs.update(*(_needs(c) for c in s.children if isinstance(c, Expr)))
        touched.update(y for y in needs if isinstance(y, Buffer))
        if type(s) is Store:
            touched.update((s.buffer, s.buffer.root()))
        target = _result(s) if _EFFECT not in needs else None
        if target is None:
            live |= needs
        else:
            optional[s] = target
            feeds.setdefault(target, set()).update(needs)
    pending = list(live)
    while pending:
        new = feeds.get(pending.pop(), set()) - live
        live |= new
        pending += new
    dead = {s for s, target in optional.items() if target not in live}
    return _Sweep(dead, live, touched).visit(body)


_EFFECT = "effect"


def _result(s: Any) -> Any:
    """The name or the private array that is all that the statement changes, or None."""
    if type(s) is Bind:
        return s.var
    return s.buffer.root() if type(s) is Store and s.buffer.root().is_local else None


def _needs(e: Expr) -> set[Any]:
    """Variables and buffers (and roots) of an expression, and whether it has an effect."""
    out: set[Any] = set()
    for x in mentions(e):
        if type(x) is Buffer:
            root = x.root()
            out.update((x, root), () if root.data is None else _needs(root.data))
        elif type(x) is not str:
            out.add(x)
        elif INTRINSICS[x].effect != "pure":
            out.add(_EFFECT)
    return out


def _is_view_of(view: Buffer, base: Buffer) -> bool:
    """Directly, or through other views."""
    b = view.view_of
    while b is not None and b is not base:
        b = b.view_of
    return b is base


class _Sweep(StmtRewriter):
    def __init__(self, dead: set[Stmt], live: set[Any], touched: set[Buffer]) -> None:
        super().__init__()
        self.dead, self.live, self.touched = dead, live, touched

    def visit_Bind(self, s: Bind) -> Stmt:
        return seq() if s in self.dead else s

    def visit_Store(self, s: Store) -> Stmt:
        return seq() if s in self.dead else s

    def visit_Alloc(self, s: Alloc) -> Stmt:
        if s.buffer.view_of is not None and not self.seen(s.buffer):
            return seq()
        if not s.buffer.is_local:
            return s
        used = s.buffer.root() in self.live and s.buffer in self.touched
        return s if used else seq()

    def seen(self, b: Buffer) -> bool:
        """Does anything access the buffer, or another view of it?"""
        return any(b is t or _is_view_of(t, b) for t in self.touched)

    def visit_Seq(self, s: Seq) -> Stmt:
        return seq(s.stmts, span=s.span) if any(type(x) is Seq for x in s.stmts) else s

    def visit_For(self, s: For) -> Stmt:
        return s if flatten(s.body) else seq()

    def visit_If(self, s: If) -> Stmt:
        return s if flatten(s.then) or flatten(s.orelse) else seq()


__all__ = ["run"]
