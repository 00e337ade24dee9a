# SPDX-License-Identifier: Apache-2.0
"""TILE -> LOOP: every tile op becomes what its chosen lowering emits, every `Parallel` the calling
thread's share of it, every fragment the thread's registers.

    F = T.alloc_buffer((16, 64), 'float32', scope='local.fragment', annotations={'layout': …})
    for i, j in T.Parallel(16, 64, annotations={'plan': …}): F[i, j] = A[i, j]
->
    F = T.alloc_buffer((8,), 'float32', scope='local')
    for v in T.vectorized(8): F[v] = A[tid // 8, tid % 8 * 8 + v]
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilelang.errors import InternalError
from tilelang.ir import (
    Alloc,
    Assume,
    Bind,
    Buffer,
    Builder,
    Call,
    Evaluate,
    Expr,
    For,
    If,
    Launch,
    Load,
    Parallel,
    PrimFunc,
    Rewriter,
    Role,
    Scope,
    Seq,
    Stmt,
    Store,
    TileStmt,
    Var,
    While,
    all_of,
    call,
    const,
    effects,
    expr_effects,
    seq,
    substitute,
    walk,
)
from tilelang.tileop.base import LowerContext, select
from tilelang.tileop.cpu import lower_parallel
from tilelang.tileop.distribute import distribute

from . import each_thread
from .kernel_context import kernel_context, linear_thread
from .manager import PassContext
from .ownership import held_by_all
from .summary import statements

__all__ = ["run"]


def run(func: PrimFunc, ctx: PassContext) -> PrimFunc:
    return func.with_body(_top(func.body, func, ctx)).with_attr("stage", "LOOP")


def _top(s: Stmt, func: PrimFunc, ctx: PassContext) -> Stmt:
    if type(s) is not Launch:
        if not any(type(x) is Launch for x in walk(s)):  # a CPU function without a kernel
            outer = Launch((), (1, 1, 1), (), (), s)
            return Lowerer(kernel_context(outer, func, ctx)).kernel(s)
        return s.map_children(lambda c: _top(c, func, ctx) if isinstance(c, Stmt) else c)
    tid = linear_thread(s)
    named = Var("tid") if type(tid) not in (Var,) and s.threads != (1, 1, 1) else None
    lower = Lowerer(kernel_context(s, func, ctx, tid if named is None else named))
    body = lower.kernel(each_thread.named(s) if ctx.target.is_cpu else s.body)
    if named is not None:
        body = seq(Bind(named, tid), body)
    maps = {"tensor_maps": tuple(lower.ctx.tensor_maps)} if lower.ctx.tensor_maps else {}
    return Launch(
        s.grid, s.threads, s.block_vars, s.thread_vars, body, {**s.annotations, **maps}, s.span
    )


class Lowerer:
    """Lowers the statements of one kernel; `ctx.facts` follows the scopes."""

    def __init__(self, ctx: LowerContext) -> None:
        self.ctx = ctx
        self.roles = 0
        self.blockwide: dict[Buffer, Buffer] = {}

    def kernel(self, s: Stmt) -> Stmt:
        out = self.stmt(s)
        return substitute(out, self.blockwide) if self.blockwide else out

    def stmt(self, s: Stmt | None) -> Any:
        if s is None:
            return None
        handler = _HANDLERS.get(type(s))
        if handler is not None:
            return handler(self, s)
        if type(s) is Evaluate:
            return self.evaluate(s)
        return self._held(s)

    def scoped(self, s: Stmt | None, *facts: Any) -> Any:
        """`s` lowered in a scope of its own; facts: callables on the new Facts."""
        with self.ctx.scope() as inner:
            for f in facts:
                f(inner)
            return self.stmt(s)

    def sequence(self, s: Seq) -> Stmt:
        with self.ctx.scope():
            return seq([self.stmt(x) for x in s.stmts], span=s.span)

    # -------------------------------------------------------------------------- simple statements

    def alloc(self, s: Alloc) -> Stmt:
        b = s.buffer
        if self.ctx.target.is_cpu and b.is_fragment:
            # a tile of the block as a whole, as shared memory is; `local` belongs to single threads
            base = None if b.view_of is None else self.blockwide.get(b.view_of, b.view_of)
            self.blockwide[b] = Buffer(
                b.name, b.shape, b.dtype, Scope.SHARED, b.strides, base, b.span
            )
            return Alloc(b, {}, s.span)
        if b.is_fragment:
            layout = s.annotations["layout"]
            base = None if b.view_of is None else self.ctx.registers[b.view_of]
            if base is not None and base.dtype is b.dtype:  # another name for the same registers
                self.ctx.layouts[b], self.ctx.registers[b] = layout, base
                return seq()
            regs = Buffer(b.name, (layout.regs,), b.dtype, Scope.LOCAL, None, base, b.span)
            self.ctx.layouts[b], self.ctx.registers[b] = layout, regs
            return Alloc(regs, {}, s.span)
        if "layout" in s.annotations:
            self.ctx.layouts[b] = s.annotations["layout"]
        return s

    def bind(self, s: Bind) -> Stmt:
        s = self._held(s)
        if s.var.dtype.is_int and not expr_effects(s.value).accesses:
            self.ctx.facts.define(s.var, s.value)
        return s

    def assume(self, s: Assume) -> Stmt:
        self.ctx.facts.assume(s.cond)
        return s

    def loop(self, s: For) -> Stmt:
        start, extent = (self._held(Evaluate(e, s.span)).value for e in (s.start, s.extent))
        body = self.scoped(s.body, lambda f: f.bind(s.var, start, extent))
        return For(s.var, start, extent, body, s.kind, s.annotations, s.span)

    def while_(self, s: While) -> Stmt:
        cond = self._held(Evaluate(s.cond, s.span)).value
        return While(cond, self.scoped(s.body), s.span)

    def branch(self, s: If) -> Stmt:
        cond = self._held(Evaluate(s.cond, s.span)).value
        pure = not expr_effects(cond).accesses
        then = self.scoped(s.then, *([lambda f: f.assume(cond)] if pure else []))
        return If(cond, then, self.scoped(s.orelse), s.span)

    def evaluate(self, s: Evaluate) -> Stmt:
        if type(s.value) is Call and s.value.op == "sync_threads":
            b = Builder(s.span)
            self.ctx.barrier(b)
            return b.finish()
        return self._owned(s)

    def store(self, s: Store) -> Stmt:
        return self._owned(s)

    # ------------------------------------------------------------------------------ tile statements

    def tile_op(self, s: TileStmt) -> Stmt:
        lowerings = s.op.LOWERINGS  # type: ignore[attr-defined]
        choice = select(lowerings, s.op, self._annotated(s), s.annotations.get("lowering"))
        b = Builder(s.span)
        choice.lowering.emit(s.op, self._annotated(s), b)
        out = b.finish()
        if any(type(x) in (Parallel, TileStmt) for x in statements(out)):
            return self.scoped(out)  # a plain form: lower what it is made of
        return out

    def _annotated(self, s: TileStmt) -> LowerContext:
        return replace(self.ctx, annotations={**self.ctx.annotations, **s.annotations})

    def parallel(self, s: Parallel) -> Stmt:
        if self.ctx.target.is_cpu:
            return lower_parallel(
                Parallel(s.vars, s.extents, self.scoped(s.body), s.annotations, s.span)
            )
        b = Builder(s.span)
        e = effects(s.body)
        once = e.opaque or any(not (w.buffer.is_fragment or w.buffer.is_local) for w in e.writes)
        plan = s.annotations.get("plan")

        def body(values: dict[Var, Expr]) -> None:
            point = substitute(s.body, values)
            b.emit(_Registers(self.ctx).visit(point))

        distribute(b, self.ctx, s, plan, once, body)
        return b.finish()

    def role(self, s: Role) -> Stmt:
        """A warp role: its own thread index, its own barrier."""
        self.roles += 1
        barrier_id, outer = self.roles, self.ctx
        b = Builder(s.span)
        here = outer.tid >= s.first if s.first else const(True)
        if s.first + s.threads < outer.threads:
            here = all_of((here, outer.tid < s.first + s.threads))
        facts = outer.facts.child()
        with b.if_(here):
            tid = outer.tid
            if s.first:
                tid = b.bind("role_tid", outer.tid - s.first)
            if type(tid) is Var:
                facts.bind(tid, 0, s.threads)
            self.ctx = replace(
                outer,
                tid=tid,
                threads=s.threads,
                facts=facts,
                barrier=lambda bb: bb.call("named_barrier_sync", barrier_id, s.threads),
            )
            self._registers(b, s)
            if any(
                type(x) is TileStmt and x.annotations.get("lowering") == "wgmma"
                for x in walk(s.body)
            ):
                from tilelang.tileop.gemm.wgmma import warpgroup_index  # layouts: not on a CPU

                self.ctx.warpgroup = warpgroup_index(b, self.ctx)
            body = self.stmt(s.body)
            if s.annotations.get("elected"):
                first_warp = tid < 32 if s.threads > 32 else const(True)
                with b.if_(first_warp), b.if_(call("elect_one", (), "bool")):
                    b.emit(body)
            else:
                b.emit(body)
        self.ctx = outer
        return b.finish()

    def _registers(self, b: Builder, s: Role) -> None:
        change = s.annotations.get("registers")
        if change is not None and self.ctx.target.has_setmaxnreg:
            b.call("setmaxnreg_inc" if change > 0 else "setmaxnreg_dec", abs(change))

    # -------------------------------------------------------------------------- fragment elements

    def _owned(self, s: Stmt) -> Stmt:
        """A statement outside `Parallel` that touches fragment elements: executed by their
        owner."""
        if self.ctx.target.is_cpu:
            return s
        found = [x for x in walk(s) if type(x) in (Load, Store) and x.buffer.is_fragment]  # type: ignore[attr-defined]
        if not found:
            return s
        if type(s) is Store and s.buffer.is_local:  # each thread has its own
            return self._held(s)
        stores = [x for x in found if type(x) is Store]
        owner: Any = stores[0] if stores else found[0]
        layout = self.ctx.layouts[owner.buffer]
        mine = layout.coords(self.ctx.tid, layout.reg(owner.indices))
        guards = [a == i for a, i in zip(mine, owner.indices, strict=True)]
        shared = any(not w.buffer.is_fragment and not w.buffer.is_local for w in effects(s).writes)
        if shared and layout.is_replicated:
            guards.append(layout.replica(self.ctx.tid) == const(0))
        cond = self.ctx.facts.simplify(all_of(guards))
        b = Builder(s.span)
        with b.if_(cond):
            b.emit(_Registers(self.ctx).visit(s))
        return b.finish()

    def _held(self, s: Any) -> Any:
        """What every thread evaluates, on elements that every thread holds (`stage_elements`)."""
        if self.ctx.target.is_cpu:
            return s
        found = [x for x in walk(s) if type(x) is Load and x.buffer.is_fragment]
        for x in found:
            if not held_by_all(self.ctx.layouts[x.buffer], x.indices):
                raise InternalError(f"not every thread holds {x} in {s}")
        return _Registers(self.ctx).visit(s) if found else s


class _Registers(Rewriter):
    """Element accesses of fragments -> the thread's registers."""

    pre = True

    def __init__(self, ctx: LowerContext) -> None:
        super().__init__()
        self.ctx = ctx

    def _register(self, n: Any) -> tuple[Buffer, tuple[Expr, ...]]:
        indices = tuple(self.visit(i) for i in n.indices)
        layout = self.ctx.layouts[n.buffer]
        return self.ctx.registers[n.buffer], (self.ctx.facts.simplify(layout.reg(indices)),)

    def visit_Load(self, n: Load) -> Expr:
        return Load(*self._register(n)) if n.buffer.is_fragment else self.descend(n)

    def visit_Store(self, n: Store) -> Stmt:
        if not n.buffer.is_fragment:
            return self.descend(n)
        buffer, index = self._register(n)
        return Store(buffer, index, self.visit(n.value), n.span)

    def visit_For(self, n: For) -> Stmt:
        with self.ctx.scope() as facts:
            facts.bind(n.var, n.start, n.extent)
            self.memo = {}
            out: Stmt = self.descend(n)
        self.memo = {}
        return out


_HANDLERS: dict[type, Any] = {
    Seq: Lowerer.sequence,
    Alloc: Lowerer.alloc,
    Bind: Lowerer.bind,
    Assume: Lowerer.assume,
    For: Lowerer.loop,
    While: Lowerer.while_,
    If: Lowerer.branch,
    Store: Lowerer.store,
    TileStmt: Lowerer.tile_op,
    Parallel: Lowerer.parallel,
    Role: Lowerer.role,
}
