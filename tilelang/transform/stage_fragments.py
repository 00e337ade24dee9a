# SPDX-License-Identifier: Apache-2.0
"""The decisions of layout inference, written into the tree.

In: a kernel and the layouts of its buffers. Out: the same with layouts on its `Alloc`s and plans on
its `Parallel` nests. A statement that would touch a fragment element of another thread gets a
shared copy of that fragment: that is how two layouts of one fragment meet. Single elements outside
of nests are staged by the base class."""

from __future__ import annotations

from operator import is_
from typing import Any

from tilelang.ir import (
    Alloc,
    Buffer,
    Load,
    Parallel,
    Scope,
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

from .fragment_access import fragment_accesses
from .layout_choice import reduce_layout
from .ownership import holds, same_owner
from .stage_elements import Elements

__all__ = ["Finish", "move"]


def move(src: Buffer, dst: Buffer, span: Any) -> Parallel:
    """A whole buffer copied to another of its shape, element by element."""
    coords = loop_vars(len(src.shape))
    return Parallel(coords, src.shape, Store(dst, coords, Load(src, coords), span), {}, span)


class Finish(Elements):
    """Writes the decisions into the tree, and stages fragments whose owner is another thread."""

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
