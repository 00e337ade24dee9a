# SPDX-License-Identifier: Apache-2.0
"""LOOP → LOOP: accesses of global buffers that may be out of bounds get a guard.

In: accesses as lowerings emit them. Out: the same where ranges, the conditions around (the user's
own guards) and `T.assume` prove them in bounds; else

    C[i] = A[i] + 1      →     if i < M:
                                   C[i] = A[i] + 1            # the store's guard proves the load
    S[v] = A[i + v]      →     S[v] = T.if_then_else(i + v < M, A[i + v], safe value)

Only the tests that are not proved are emitted; index loads are guarded level by level; the parts
of a guard that a loop does not change are tested outside it. What lies behind a pointer is the
business of whoever took it, except an atomic update.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any

from tilelang.arith import Facts
from tilelang.ir import (
    INTRINSICS,
    And,
    Buffer,
    Call,
    Const,
    Evaluate,
    Expr,
    For,
    If,
    IfThenElse,
    Launch,
    Load,
    Or,
    PrimFunc,
    Ramp,
    Seq,
    Stmt,
    Store,
    all_of,
    cast,
    const,
    flatten,
    if_then_else,
    logical_not,
    mentions,
    rebuild,
    seq,
)

from .manager import PassContext
from .scope import ScopedRewriter, conjuncts, has_load, uses


def run(func: PrimFunc, ctx: PassContext) -> PrimFunc:
    if not ctx.options.bounds_guard:
        return func
    return func.with_body(_Guard(func, ctx).stmt(func.body) or seq())


class _Guard(ScopedRewriter):
    def __init__(self, func: PrimFunc, ctx: PassContext) -> None:
        super().__init__(func, ctx)
        self.safe: Mapping[Buffer, Any] = {}
        self.memo: dict[Expr, Expr] = {}

    def scope_changed(self) -> None:
        self.memo.clear()

    # ------------------------------------------------------------------------------ statements

    def launch(self, s: Launch) -> Stmt | None:
        outer, self.safe = self.safe, s.annotations.get("safe_values", {})
        out = super().launch(s)
        self.safe = outer
        return out

    def store(self, s: Store) -> Stmt | None:
        indices = tuple(self.expr(i) for i in s.indices)
        cond = self.in_bounds(s.buffer, indices, self.facts)
        if type(cond) is Const:
            return None if not cond.value else self.stored(s, indices, self.expr(s.value))
        value = self.guarded(s.value, self.facts.under(cond), {})
        return If(cond, self.stored(s, indices, value), None, s.span)

    def stored(self, s: Store, indices: tuple[Expr, ...], value: Expr) -> Stmt:
        if value is s.value and all(map(is_, indices, s.indices)):
            return s
        return Store(s.buffer, indices, value, s.span)

    def evaluate(self, s: Evaluate) -> Stmt | None:
        """A call that updates global memory, or whose arguments read it, is guarded as a whole."""
        call = s.value
        if type(call) is not Call or INTRINSICS[call.op].effect not in ("memory", "opaque"):
            return super().evaluate(s)
        conds = [self.update_bounds(call, self.facts)]
        if INTRINSICS[call.op].effect == "opaque":
            conds += self.argument_bounds(call)
        cond = all_of(conds)
        if type(cond) is Const:
            return (
                Evaluate(self.children(call, self.facts, self.memo), s.span) if cond.value else None
            )
        inner = self.children(call, self.facts.under(cond), {})
        return If(cond, Evaluate(inner, s.span), None, s.span)

    def sequence(self, s: Seq) -> Stmt | None:
        return seq(_merged(flatten(super().sequence(s))), span=s.span)

    def loop(self, s: For) -> Stmt | None:
        new = super().loop(s)
        return _hoisted(new) if type(new) is For and type(new.body) is If else new

    # ------------------------------------------------------------------------------ expressions

    def expr(self, e: Expr) -> Expr:
        return self.guarded(e, self.facts, self.memo)

    def guarded(self, e: Expr, facts: Facts, memo: dict[Expr, Expr]) -> Expr:
        """`e` with guards on its loads, where `facts` hold."""
        if not self.reads_global(e):
            return e
        hit = memo.get(e)
        if hit is None:
            hit = memo[e] = self.guard(e, facts, memo)
        return hit

    def guard(self, e: Any, facts: Facts, memo: dict[Expr, Expr]) -> Expr:
        t = type(e)
        if t is Load:
            indices = tuple(self.guarded(i, facts, memo) for i in e.indices)
            cond = self.in_bounds(e.buffer, indices, facts)
            load = Load(e.buffer, indices)
            return if_then_else(cond, load, self.safe_value(e.buffer, load))
        if t is IfThenElse:
            cond = self.guarded(e.cond, facts, memo)
            a = self.guarded(e.a, facts.under(e.cond), {})
            b = self.guarded(e.b, facts.under(logical_not(e.cond)), {})
            return if_then_else(cond, a, b)
        if t in (And, Or):
            first = e.a if t is And else logical_not(e.a)
            second = self.guarded(e.b, facts.under(first), {})
            return t(self.guarded(e.a, facts, memo), second)
        if t is Call:
            new = self.children(e, facts, memo)
            cond = self.update_bounds(e, facts)
            zero = new if e.dtype.is_handle else cast(const(0), e.dtype)
            return if_then_else(cond, new, zero) if not e.dtype.is_handle else new
        return self.children(e, facts, memo)

    def children(self, e: Expr, facts: Facts, memo: dict[Expr, Expr]) -> Expr:
        if type(e) is Call and e.op == "address_of":
            load: Any = e.args[0]
            indices = tuple(self.guarded(i, facts, memo) for i in load.indices)
            return Call("address_of", (Load(load.buffer, indices),), e.dtype)
        new: Expr = rebuild(e, lambda c: self.guarded(c, facts, memo))
        return new

    def reads_global(self, e: Expr) -> bool:
        return any(type(x) is Buffer and x.is_global for x in mentions(e))

    def safe_value(self, b: Buffer, load: Load) -> Expr:
        return cast(self.safe.get(b.root(), const(0)), load.dtype)

    # ------------------------------------------------------------------------------ bounds

    def in_bounds(self, b: Buffer, indices: Sequence[Expr], facts: Facts) -> Expr:
        """What is to be tested for `b[indices]` to be in bounds; constant if that is known."""
        if not b.is_global or len(indices) != b.ndim:
            return const(True)
        tests: list[Expr] = []
        for i, extent in zip(indices, b.shape, strict=True):
            low, high = (
                (i, i) if type(i) is not Ramp else (i.base, i.base + i.stride * (i.lanes - 1))
            )
            if low.dtype.lanes > 1:
                continue
            if low.dtype.kind != "uint":
                tests.append(low >= const(0, low.dtype))
            tests.append(high < extent)
        needed: list[Expr] = []
        for t in tests:
            known = facts.decide(t)
            if known is False:
                self.ctx.note(f"{b.name}[{', '.join(map(str, indices))}] is always out of bounds")
                return const(False)
            if known is None:
                needed.append(t)
        return all_of(needed)

    def update_bounds(self, call: Call, facts: Facts) -> Expr:
        """The bounds of the elements that an atomic call updates."""
        row = INTRINSICS[call.op]
        if row.effect != "memory" or row.unit != "generic":
            return const(True)
        conds: list[Expr] = []
        for n, kind in row.pointers.items():
            target = call.args[n] if n < len(call.args) else None
            if kind == "atomic" and type(target) is Call and target.op == "address_of":
                load: Any = target.args[0]
                indices = tuple(self.guarded(i, facts, {}) for i in load.indices)
                conds.append(self.in_bounds(load.buffer, indices, facts))
        return all_of(conds)

    def argument_bounds(self, call: Call) -> list[Expr]:
        """The bounds of the elements that are arguments of an extern call, outermost loads only."""
        out: list[Expr] = []
        for a in call.args:
            if type(a) is Load:
                indices = tuple(self.expr(i) for i in a.indices)
                out.append(self.in_bounds(a.buffer, indices, self.facts))
        return out


def _merged(stmts: list[Stmt]) -> list[Stmt]:
    """Neighbours under one condition become one If (the condition reads no memory)."""
    out: list[Stmt] = []
    for s in stmts:
        last = out[-1] if out else None
        if (
            type(s) is If
            and type(last) is If
            and s.cond is last.cond
            and s.orelse is None
            and last.orelse is None
            and not has_load(s.cond)
        ):
            out[-1] = If(s.cond, seq(last.then, s.then), None, last.span)
        else:
            out.append(s)
    return out


def _hoisted(loop: For) -> Stmt:
    """Parts of the body's only condition that the loop does not change are tested before it."""
    body = loop.body
    if type(body) is not If or body.orelse is not None:
        return loop
    parts = conjuncts(body.cond)
    fixed = [c for c in parts if not has_load(c) and not uses(c, loop.var)]
    if not fixed:
        return loop
    rest = all_of(c for c in parts if has_load(c) or uses(c, loop.var))
    inner = body.then if type(rest) is Const else If(rest, body.then, None, body.span)
    new = For(loop.var, loop.start, loop.extent, inner, loop.kind, loop.annotations, loop.span)
    return If(all_of(fixed), new, None, loop.span)
