# SPDX-License-Identifier: Apache-2.0
"""TILE → TILE (CPU): neighbouring blocks of the grid share what they load.

In: a kernel whose blocks walk a loop with copies that do not depend on all block variables. Out: a
coarser grid; a block of it runs a group of the old ones in step, one statement after the other, so
that such a copy is made once for all who read it. Buffers get one part per block that has its own:

    launch(8, 8) as bx, by:                  launch(2, 2) as gx, gy:
        clear(C)                                 for y, x in 4, 4: clear(C[y, x])
        for k:                                   for k:
            copy(A[by, k], SA)             →         for y in 4: copy(A[gy*4 + y, k], SA[y])
            copy(B[k, bx], SB)                       for x in 4: copy(B[k, gx*4 + x], SB[x])
            gemm(SA, SB, C)                          for y, x in 4, 4: gemm(SA[y], SB[x], C[y, x])
        copy(C, D[by, bx])                       for y, x in 4, 4: copy(C[y, x], D[…])

Blocks promise nothing about their order, and within each of them nothing moves, so any kernel may
be treated so; it is done where a loop around a `T.gemm` has something to share and while the parts
fit the second-level cache.
"""

from __future__ import annotations

from typing import Any

from tilelang.ir import (
    Alloc,
    Assume,
    Bind,
    Buffer,
    Expr,
    For,
    Launch,
    Load,
    PrimFunc,
    Region,
    Rewriter,
    Scope,
    Stmt,
    Store,
    Var,
    const,
    const_int,
    flatten,
    free_vars,
    minimum,
    refresh,
    seq,
    substitute,
)
from tilelang.utils import prod

from .block_groups import NONE, Dependence, Dims, factors
from .manager import PassContext

__all__ = ["run"]


def run(func: PrimFunc, ctx: PassContext) -> PrimFunc:
    stmts = [_grouped(s) if type(s) is Launch else s for s in flatten(func.body)]
    return func.with_body(seq(stmts))


def _grouped(s: Launch) -> Launch:
    plan = Dependence(s)
    if not plan.found():
        return s
    counts = factors(plan)
    return s if prod(counts) == 1 else _Writer(plan, counts).launch()


class _Writer:
    """Writes the kernel over groups of `counts` blocks."""

    def __init__(self, plan: Dependence, counts: tuple[int, ...]) -> None:
        self.plan, self.counts = plan, counts
        self.vars, self.grid = plan.launch.block_vars, plan.launch.grid
        self.groups = tuple(
            v if n == 1 else Var(f"{v.name}_group", v.dtype)
            for v, n in zip(self.vars, counts, strict=True)
        )
        self.names: list[Bind | Assume] = []
        self.parts = {b: self._parted(b) for b in plan.allocs}

    def launch(self) -> Launch:
        s = self.plan.launch
        allocs = [
            Alloc(self.parts[b], {k: v for k, v in a.annotations.items() if k != "init"}, a.span)
            for b, a in self.plan.allocs.items()
        ]
        body = seq(allocs, self.body(s.body))
        grid = tuple(
            e if n == 1 else (e + (n - 1)) // n for e, n in zip(s.grid, self.counts, strict=True)
        )
        return Launch(grid, s.threads, self.groups, s.thread_vars, body, s.annotations, s.span)

    def grouped(self, dims: Dims) -> list[int]:
        """Those of which a group has several, outermost first: x is the innermost."""
        return sorted((d for d in dims if self.counts[d] > 1), reverse=True)

    def _parted(self, b: Buffer) -> Buffer:
        count = prod(self.counts[d] for d in self.plan.dims[b])
        if count == 1:
            return b
        scope = Scope.LOCAL if b.scope == Scope.VAR else b.scope  # several are no variable
        shape = (b.shape[0] * count, *b.shape[1:])
        return Buffer(b.name, shape, b.dtype, scope, span=b.span)

    # ------------------------------------------------------------------------------ statements

    def body(self, s: Stmt) -> list[Stmt]:
        """The statements of a body; neighbours of the same dimensions share their loops."""
        out: list[Stmt] = []
        run: list[Stmt] = []
        dims, depth = NONE, len(self.names)
        for x in map(_initial, flatten(s)):
            if x is None:
                continue
            if isinstance(x, (Bind, Assume)):
                self.names.append(x)
                continue
            steps = self.plan.in_step(x)
            here = NONE if steps else self.plan.of_stmt(x)
            if run and (steps or here != dims):
                out.append(self.nest(run, dims))
                run = []
            if steps:
                out.append(self.loop(x))
            else:
                run.append(x)
                dims = here
        if run:
            out.append(self.nest(run, dims))
        del self.names[depth:]
        return out

    def loop(self, s: Any) -> Stmt:
        """A loop that all blocks of the group walk in step."""
        inner = seq(self.body(s.body))
        out = For(s.var, s.start, s.extent, inner, s.kind, s.annotations, s.span)
        return self.named(out, NONE)

    def named(self, s: Stmt, dims: Dims) -> Stmt:
        """The statement, after the names that it uses and what is known in its dimensions."""
        needed: list[Stmt] = []
        free = set(free_vars(s))
        for x in reversed(self.names):
            if x.var in free if isinstance(x, Bind) else self.plan.of_expr(x.cond) <= dims:
                needed.append(x)
                free |= set(free_vars(x))
        return refresh(seq(needed[::-1], s)) if needed else s

    def nest(self, stmts: list[Stmt], dims: Dims) -> Stmt:
        """The statements once for each block of the group that differs in `dims`."""
        own = self.grouped(dims)
        loops = {d: Var(self.vars[d].name, self.vars[d].dtype) for d in own}
        body = self.named(seq(stmts), dims)
        place = {self.vars[d]: self.groups[d] * self.counts[d] + loops[d] for d in own}
        body = _Parts(self, loops).visit(substitute(body, place))
        facts: list[Stmt] = []
        extents: dict[int, Expr] = {}
        for d in own:
            count, known = self.counts[d], const_int(self.grid[d])
            extents[d] = const(count, loops[d].dtype)
            if known is None or known % count:  # the last group is smaller
                first = self.groups[d] * count
                extents[d] = minimum(extents[d], self.grid[d] - first)
                facts.append(Assume(first + loops[d] < self.grid[d]))
        body = refresh(seq(facts, body))
        for d in reversed(own):
            body = For(loops[d], const(0, loops[d].dtype), extents[d], body, "serial")
        return body


def _initial(s: Stmt) -> Stmt | None:
    """An allocation stands around it all; what remains here is the value that it starts with."""
    if type(s) is not Alloc:
        return s
    init = s.annotations.get("init")
    if init is None:
        return None
    return Store(s.buffer, tuple(const(0) for _ in s.buffer.shape), init, s.span)


class _Parts(Rewriter):
    """Accesses of the block's buffers go to the part of the block that `loops` name."""

    def __init__(self, writer: _Writer, loops: dict[int, Var]) -> None:
        super().__init__()
        self.writer, self.loops = writer, loops

    def _at(self, b: Buffer) -> Expr | None:
        """The first row of the part; None for a buffer that all share."""
        if self.writer.parts.get(b, b) is b:
            return None
        part: Expr = const(0)
        for d in self.writer.grouped(self.writer.plan.dims[b]):
            part = part * self.writer.counts[d] + self.loops[d]
        return part * b.shape[0]

    def visit_Alloc(self, s: Alloc) -> Stmt:
        if s.buffer not in self.writer.parts:
            return s
        value: Any = _initial(s)
        return seq() if value is None else self.visit_Store(value)

    def visit_Load(self, e: Load) -> Expr:
        at = self._at(e.buffer)
        if at is None:
            return e
        return Load(self.writer.parts[e.buffer], (at + e.indices[0], *e.indices[1:]))

    def visit_Store(self, s: Store) -> Stmt:
        at = self._at(s.buffer)
        if at is None:
            return s
        index = (at + s.indices[0], *s.indices[1:])
        return Store(self.writer.parts[s.buffer], index, s.value, s.span)

    def visit_Region(self, r: Region) -> Region:
        at = self._at(r.buffer)
        if at is None:
            return r
        return Region(self.writer.parts[r.buffer], (at + r.offsets[0], *r.offsets[1:]), r.extents)
