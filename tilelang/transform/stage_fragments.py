# SPDX-License-Identifier: Apache-2.0
"""The decisions of layout inference, written into the tree.

In: a kernel and the layouts of its buffers. Out: the same with layouts on its `Alloc`s and plans on
its `Parallel` nests. A statement that would touch a fragment element of another thread gets a
shared copy of that fragment: that is how two layouts of one fragment meet, and how a value that all
threads need (a bound, a condition) comes from the register of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any

from tilelang.ir import (
    Alloc,
    Bind,
    Buffer,
    Evaluate,
    Expr,
    For,
    If,
    Load,
    Parallel,
    Rewriter,
    Role,
    Scope,
    Seq,
    Stmt,
    Store,
    TileStmt,
    const_int,
    seq,
    substitute,
)
from tilelang.tileop.distribute import LoopPlan
from tilelang.tileop.expand import loop_vars
from tilelang.utils import prod

from .fragment_access import FragmentAccess, fragment_accesses
from .layout_choice import reduce_layout
from .ownership import held_by_all, holds, same_owner

if TYPE_CHECKING:
    from .infer_layouts import Inference

__all__ = ["Finish", "move"]


def move(src: Buffer, dst: Buffer, span: Any) -> Parallel:
    """A whole buffer copied to another of its shape, element by element."""
    coords = loop_vars(len(src.shape))
    return Parallel(coords, src.shape, Store(dst, coords, Load(src, coords), span), {}, span)


class Redirect(Rewriter):
    """These loads, from other buffers."""

    pre = True

    def __init__(self, copies: Mapping[Expr, Buffer]) -> None:
        super().__init__()
        self.copies = copies

    def visit_Load(self, n: Load) -> Expr:
        indices = tuple(self.visit(i) for i in n.indices)
        return Load(self.copies.get(n, n.buffer), indices)


class Finish(Rewriter):
    """Writes the decisions into the tree, and stages fragments whose owner is another thread."""

    pre = True

    def __init__(self, inference: Inference) -> None:
        super().__init__()
        self.inf = inference
        self.threads = inference.ctx.threads

    def visit_Seq(self, s: Seq) -> Stmt:
        return seq([self.visit(x) for x in s.stmts], span=s.span)

    def visit_Role(self, s: Role) -> Stmt:
        outer, self.threads = self.threads, s.threads
        out: Stmt = self.descend(s)
        self.threads = outer
        return out

    def visit_Alloc(self, s: Alloc) -> Stmt:
        layout = self.inf.layouts.get(s.buffer)
        return s if layout is None else Alloc(s.buffer, {**s.annotations, "layout": layout}, s.span)

    def visit_Parallel(self, s: Parallel) -> Stmt:
        if any(const_int(e) == 0 for e in s.extents):
            return seq()
        plan = self.inf.plan(s)
        if plan is None:
            return s
        accesses = fragment_accesses(s)
        foreign = [a for a in accesses if not holds(s, plan, self.inf.layouts[a.buffer], a.indices)]
        if not foreign:
            return Parallel(s.vars, s.extents, s.body, {**s.annotations, "plan": plan}, s.span)
        return self._staged(s, plan, list(dict.fromkeys(a.buffer for a in foreign)))

    def _staged(self, s: Parallel, plan: LoopPlan, buffers: list[Buffer]) -> Stmt:
        """Fragments that the plan does not own are read from (and written to) a shared copy."""
        anchors = {
            a.buffer
            for a in fragment_accesses(s)
            if len(a.indices) == len(plan.index) and all(map(is_, a.indices, plan.index))
        }
        before: list[Stmt] = []
        after: list[Stmt] = []
        mapping: dict[Buffer, Buffer] = {}
        written = {a.buffer for a in fragment_accesses(s) if a.writes}
        for f in buffers:
            copy = mapping[f] = Buffer(
                f"{f.name}_staged", f.shape, f.dtype, Scope.SHARED, span=s.span
            )
            before += [Alloc(copy), self._move(f, copy, s)]
            if f in written:
                after.append(self._move(copy, f, s))
            size = prod(f.static_shape or (0,)) * f.dtype.bytes
            self.inf.ctx.notes.append(
                f"{s.span}: {f.name} is converted through shared memory ({size} bytes): this loop "
                "needs it in another layout"
            )
        body = substitute(s.body, mapping)
        moved = Parallel(s.vars, s.extents, body, s.annotations, s.span)
        if anchors & set(buffers):  # the anchor itself had to move: plan again without it
            self.inf.threads[moved] = self.inf.threads[s]
            return seq(before, self.visit_Parallel(moved), after)
        return seq(
            before,
            Parallel(s.vars, s.extents, body, {**s.annotations, "plan": plan}, s.span),
            after,
        )

    def _move(self, src: Buffer, dst: Buffer, s: Stmt) -> Stmt:
        nest = move(src, dst, s.span)
        self.inf.threads[nest] = self.inf.threads.get(s, self.threads)
        return self.visit_Parallel(nest)

    # ------------------------------------------------------------------------- single elements

    def visit_Bind(self, s: Bind) -> Stmt:
        before, value = self._for_all(s, s.value)
        return seq(before, Bind(s.var, value, s.span)) if before else s

    def visit_If(self, s: If) -> Stmt:
        before, cond = self._for_all(s, s.cond)
        return seq(before, If(cond, self.visit(s.then), s.orelse and self.visit(s.orelse), s.span))

    def visit_For(self, s: For) -> Stmt:
        before, start = self._for_all(s, s.start)
        more, extent = self._for_all(s, s.extent)
        loop = For(s.var, start, extent, self.visit(s.body), s.kind, s.annotations, s.span)
        return seq(before, more, loop)

    def visit_Store(self, s: Store) -> Stmt:
        accesses = fragment_accesses(s)
        if s.buffer.is_local:  # each thread has its own
            return self._shared_for(s, [a for a in accesses if not self._everywhere(a)])
        return self._shared_for(s, self._not_the_owners(accesses))

    def visit_Evaluate(self, s: Evaluate) -> Stmt:
        return self._shared_for(s, self._not_the_owners(fragment_accesses(s)))

    def _everywhere(self, a: FragmentAccess) -> bool:
        return held_by_all(self.inf.layouts[a.buffer], a.indices)

    def _not_the_owners(self, accesses: Sequence[FragmentAccess]) -> list[FragmentAccess]:
        """Those of a statement that is executed by the owner of the first which the owner may not
        hold."""
        if not accesses:
            return []
        owner, layouts = accesses[0], self.inf.layouts
        return [
            a
            for a in accesses[1:]
            if not (
                layouts[a.buffer] == layouts[owner.buffer]
                and all(map(is_, a.indices, owner.indices))
            )
            and not self._everywhere(a)
        ]

    def _for_all(self, s: Stmt, value: Expr) -> tuple[list[Stmt], Expr]:
        """A value that every thread needs: what goes before `s`, and the value from then on."""
        foreign = [a for a in fragment_accesses(value) if not self._everywhere(a)]
        before, redirect = self._copies(s, foreign)
        return before, redirect.visit(value) if before else value

    def _shared_for(self, s: Stmt, foreign: Sequence[FragmentAccess]) -> Stmt:
        """The statement with these elements read from shared copies."""
        before, redirect = self._copies(s, foreign)
        return seq(before, redirect.visit(s)) if before else s

    def _copies(self, s: Stmt, foreign: Sequence[FragmentAccess]) -> tuple[list[Stmt], Redirect]:
        before: list[Stmt] = []
        copies: dict[Buffer, Buffer] = {}
        for f in dict.fromkeys(a.buffer for a in foreign):
            copy = copies[f] = Buffer(
                f"{f.name}_staged", f.shape, f.dtype, Scope.SHARED, span=s.span
            )
            before += [Alloc(copy), self._move(f, copy, s)]
            self.inf.ctx.notes.append(
                f"{s.span}: {f.name} goes through shared memory: a thread needs an element here "
                "that is in the registers of another"
            )
        return before, Redirect({Load(a.buffer, a.indices): copies[a.buffer] for a in foreign})

    def visit_TileStmt(self, s: TileStmt) -> Stmt:
        if s.op.name != "reduce" or s.annotations.get("lowering") != "shuffle":
            return s
        op: Any = s.op
        wanted = reduce_layout(self.inf.layouts[op.src.buffer], op)
        dst = op.dst.buffer
        if same_owner(wanted, self.inf.layouts[dst]):
            return s
        temp = Buffer(f"{dst.name}_reduced", dst.shape, dst.dtype, Scope.FRAGMENT, span=s.span)
        self.inf.layouts[temp] = wanted
        moved = substitute(s, {dst: temp})
        self.inf.threads[moved] = self.inf.threads[s]
        load_old = [] if op.clear else [self._move(dst, temp, s)]
        alloc = Alloc(temp, {"layout": wanted}, s.span)
        return seq(alloc, load_old, moved, self._move(temp, dst, s))
