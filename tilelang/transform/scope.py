# SPDX-License-Identifier: Apache-2.0
"""`ScopedRewriter`: rewriting statements with the facts that hold at each of them.

In: a function at LOOP or FLAT stage. While a subclass rewrites a statement, `self.facts` (an
`arith.Facts`) knows the ranges of the loop, block and thread variables around it, the conditions of
the branches taken, the user's `T.assume`s, and the values of the `Bind`s before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tilelang.arith import Facts
from tilelang.ir import (
    INTRINSICS,
    And,
    Assume,
    Bind,
    Break,
    Buffer,
    Continue,
    Evaluate,
    Expr,
    For,
    If,
    Launch,
    Load,
    Node,
    PrimFunc,
    Return,
    Seq,
    Stmt,
    Store,
    Var,
    While,
    const,
    flatten,
    logical_not,
    mentions,
    seq,
    walk,
)

from .manager import PassContext


def conjuncts(cond: Expr) -> list[Expr]:
    """The conditions that `cond` is the conjunction of."""
    if type(cond) is not And:
        return [cond]
    return [*conjuncts(cond.a), *conjuncts(cond.b)]  # type: ignore[attr-defined]


def pointed(address: Any) -> Buffer:
    """The buffer that an `address_of` call points into."""
    return address.args[0].buffer


def accessed(n: Node) -> set[Buffer]:
    """The buffers of all loads and stores, those behind pointers included."""
    return {x.buffer for x in walk(n) if type(x) is Load or type(x) is Store}


def has_load(e: Expr) -> bool:
    return any(type(x) is Buffer for x in mentions(e))


def uses(e: Expr, v: Var) -> bool:
    """Does `v` occur in `e`?"""
    return v in mentions(e)


def is_pure(e: Expr) -> bool:
    """No call in `e` has an effect (loads are allowed)."""
    return all(type(x) is not str or INTRINSICS[x].effect == "pure" for x in mentions(e))


def leaves(s: Stmt | None) -> bool:
    """Does control never pass the end of `s`?"""
    last = flatten(s)[-1:]
    return bool(last) and (
        type(last[0]) in (Break, Continue, Return)
        or (type(last[0]) is If and leaves(last[0].then) and leaves(last[0].orelse))
    )


def function_facts(func: PrimFunc, ctx: PassContext) -> Facts:
    """Facts of the whole function: dimensions are not negative, and the version's assumptions."""
    facts = Facts()
    for p in func.params:
        if isinstance(p, Buffer):
            for e in p.shape:
                if type(e) is Var:
                    facts.bind_nonneg(e)
    for cond in ctx.assumptions:
        facts.assume(cond)
    for s in flatten(func.body):
        if type(s) is Assume:
            facts.assume(s.cond)
    return facts


class ScopedRewriter:
    """Subclasses override `expr`, `store`, `evaluate`, `loop`, …; each returns the new statement,
    or None to drop it. `expr` is called on every expression of a statement, in its scope.
    """

    def __init__(self, func: PrimFunc, ctx: PassContext) -> None:
        self.ctx = ctx
        self.facts = function_facts(func, ctx)

    # ------------------------------------------------------------------------------ scopes

    @contextmanager
    def scope(self) -> Iterator[Facts]:
        """Facts added inside hold only there."""
        outer = self.facts
        self.facts = outer.child()
        self.scope_changed()
        try:
            yield self.facts
        finally:
            self.facts = outer
            self.scope_changed()

    def scope_changed(self) -> None:
        """The facts are others now: a subclass with a memo clears it."""

    def assume(self, cond: Expr) -> None:
        """Adds a condition that holds for the rest of this scope."""
        self.facts.assume(cond)
        self.scope_changed()

    # ------------------------------------------------------------------------------ statements

    def stmt(self, s: Stmt | None) -> Stmt | None:
        if s is None:
            return None
        handler = _HANDLERS.get(type(s))
        return handler(self, s) if handler is not None else s.map_children(self._child)

    def _child(self, n: Any) -> Any:
        return self.expr(n) if isinstance(n, Expr) else (self.stmt(n) or seq())

    def expr(self, e: Expr) -> Expr:
        return e

    def sequence(self, s: Seq) -> Stmt | None:
        """A Seq is the body of something that opened a scope, or of the function."""
        out: list[Stmt | None] = []
        for x in s.stmts:
            new = self.stmt(x)
            out.append(new)
            self.learn(x, new)
        return seq(out, span=s.span)

    def learn(self, old: Any, new: Stmt | None) -> None:
        """What the statements after `old` (rewritten to `new`) may rely on."""
        t = type(old)
        if t is Bind:
            self.facts.define(old.var, new.value if type(new) is Bind else old.value)
            self.scope_changed()
        elif t is Assume:
            self.assume(old.cond)
        elif t is If and leaves(old.then) and not leaves(old.orelse):
            self.assume(logical_not(old.cond))

    def bind(self, s: Bind) -> Stmt | None:
        value = self.expr(s.value)
        return s if value is s.value else Bind(s.var, value, s.span)

    def store(self, s: Store) -> Stmt | None:
        return s.map_children(self.expr)

    def evaluate(self, s: Evaluate) -> Stmt | None:
        return s.map_children(self.expr)

    def branch(self, s: If) -> Stmt | None:
        cond = self.expr(s.cond)
        with self.scope():
            self.assume(s.cond)
            then = self.stmt(s.then)
        orelse = None
        if s.orelse is not None:
            with self.scope():
                self.assume(logical_not(s.cond))
                orelse = self.stmt(s.orelse)
        if cond is s.cond and then is s.then and orelse is s.orelse:
            return s
        return If(cond, then or seq(), orelse, s.span)

    def loop(self, s: For) -> Stmt | None:
        start, extent = self.expr(s.start), self.expr(s.extent)
        with self.scope():
            self.facts.bind(s.var, start, extent)
            body = self.stmt(s.body)
        if start is s.start and extent is s.extent and body is s.body:
            return s
        return For(s.var, start, extent, body or seq(), s.kind, s.annotations, s.span)

    def while_(self, s: While) -> Stmt | None:
        cond = self.expr(s.cond)
        with self.scope():
            body = self.stmt(s.body)
        return s if cond is s.cond and body is s.body else While(cond, body or seq(), s.span)

    def launch(self, s: Launch) -> Stmt | None:
        grid = tuple(self.expr(g) for g in s.grid)
        with self.scope():
            if "when" in s.annotations:
                self.assume(s.annotations["when"])
            for v, g in zip(s.block_vars, grid, strict=False):
                self.facts.bind(v, const(0, v.dtype), g)
            for v, n in zip(s.thread_vars, s.threads, strict=False):
                self.facts.bind(v, const(0, v.dtype), const(n, v.dtype))
            body = self.stmt(s.body)
        return Launch(
            grid, s.threads, s.block_vars, s.thread_vars, body or seq(), s.annotations, s.span
        )


_HANDLERS: dict[type, Any] = {
    Seq: lambda r, s: r.sequence(s),
    Bind: lambda r, s: r.bind(s),
    Store: lambda r, s: r.store(s),
    Evaluate: lambda r, s: r.evaluate(s),
    If: lambda r, s: r.branch(s),
    For: lambda r, s: r.loop(s),
    While: lambda r, s: r.while_(s),
    Launch: lambda r, s: r.launch(s),
}
