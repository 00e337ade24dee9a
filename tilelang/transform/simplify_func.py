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
    Load,
    PrimFunc,
    Region,
    Rewriter,
    Seq,
    Stmt,
    Store,
    Var,
    const,
    const_int,
    flatten,
    seq,
    substitute,
    walk,
)

from .manager import PassContext
from .scope import ScopedRewriter, is_pure


def run(func: PrimFunc, ctx: PassContext) -> PrimFunc:
    body = _Simplify(func, ctx).stmt(func.body) or seq()
    return func.with_body(_without_dead(body))


class _Simplify(ScopedRewriter):
    def __init__(self, func: PrimFunc, ctx: PassContext) -> None:
        super().__init__(func, ctx)
        self.names: dict[Var, Expr] = {}

    def expr(self, e: Expr) -> Expr:
        return self.facts.simplify(substitute(e, self.names) if self.names else e)

    def bind(self, s: Bind) -> Stmt | None:
        value = self.expr(s.value)
        if type(value) in (Var, Const) and value.dtype is s.var.dtype:
            self.names[s.var] = value
            return None
        return s if value is s.value else Bind(s.var, value, s.span)

    def launch(self, s: Launch) -> Stmt | None:
        """A dimension of one block or thread has index 0."""
        blocks = zip(s.block_vars, map(const_int, s.grid), strict=False)
        for v, n in (*blocks, *zip(s.thread_vars, s.threads, strict=False)):
            if n == 1:
                self.names[v] = const(0, v.dtype)
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
            self.names[s.var] = self.expr(s.start)
            return self.stmt(s.body)
        new = super().loop(s)
        return None if type(new) is For and not flatten(new.body) else new


def _jumps(body: Stmt) -> bool:
    return any(type(x) in (Break, Continue) for x in walk(body))


# ---------------------------------------------------------------------------------- dead code


def _without_dead(body: Stmt) -> Stmt:
    """Without values that nothing uses and local arrays that nothing reads."""
    while True:
        used: set[Var] = set()
        read: set[Buffer] = set()
        touched: set[Buffer] = set()
        x: Any
        for x in walk(body):
            t = type(x)
            if t is Var:
                used.add(x)
            elif t in (Load, Region):
                read.add(x.buffer.root())
            if t in (Load, Region, Store):
                touched.update((x.buffer, x.buffer.root()))
        pointers = [b.data for b in touched if b.data is not None]
        used.update(x for p in pointers for x in walk(p) if type(x) is Var)
        new: Stmt = _Sweep(used, read, touched).visit(body)
        if new is body:
            return body
        body = new


class _Sweep(Rewriter):
    def __init__(self, used: set[Var], read: set[Buffer], touched: set[Buffer]) -> None:
        super().__init__()
        self.used, self.read, self.touched = used, read, touched

    def visit(self, n: Any) -> Any:
        return n if isinstance(n, Expr) else super().visit(n)

    def visit_Bind(self, s: Bind) -> Stmt:
        return s if s.var in self.used or not is_pure(s.value) else seq()

    def visit_Store(self, s: Store) -> Stmt:
        b = s.buffer.root()
        dead = b.is_local and b not in self.read and all(map(is_pure, (s.value, *s.indices)))
        return seq() if dead else s

    def visit_Alloc(self, s: Alloc) -> Stmt:
        return (
            s if s.buffer in self.touched or s.buffer.is_global or not s.buffer.is_local else seq()
        )

    def visit_Seq(self, s: Seq) -> Stmt:
        return seq(s.stmts, span=s.span) if any(type(x) is Seq for x in s.stmts) else s

    def visit_For(self, s: For) -> Stmt:
        return s if flatten(s.body) else seq()

    def visit_If(self, s: If) -> Stmt:
        return s if flatten(s.then) or flatten(s.orelse) else seq()


__all__ = ["run"]
