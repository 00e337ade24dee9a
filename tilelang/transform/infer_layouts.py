# SPDX-License-Identifier: Apache-2.0
"""Layouts of fragments and shared buffers, and how each `Parallel` nest is spread over threads.

In: TILE stage. Out: TILE stage in which
* a tile op is either kept with its chosen lowering (`annotations["lowering"]`) or replaced by its
  plain form (`Parallel` nests),
* every `Parallel` of static extents carries `annotations["plan"]` (a `LoopPlan`),
* every fragment's `Alloc` carries its `Fragment`, every shared one's its `Layout` (none:
  row-major).

Hard constraints come first (tensor-core operands, the user's annotations), then they are propagated
along copies, loops and reductions; what is still free is chosen for wide accesses, the largest
fragment first. Two layouts wanted for one fragment are no error: the nest that cannot own an
element under its plan goes through a shared copy of the fragment (barriers are inserted later, from
effects).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import islice
from typing import Any

from tilelang.errors import InternalError, LayoutError, TileError
from tilelang.ir import (
    Alloc,
    Buffer,
    Evaluate,
    Expr,
    Launch,
    Parallel,
    PrimFunc,
    Rewriter,
    Role,
    Scope,
    Stmt,
    TileStmt,
    as_expr,
    call,
    const_int,
    is_const,
    seq,
    substitute,
    walk,
)
from tilelang.layout import Fragment, FragmentTable, Layout, LayoutTable
from tilelang.tileop.base import LowerContext, select
from tilelang.tileop.distribute import LoopPlan, solve
from tilelang.tileop.expand import expand
from tilelang.tileop.gemm.foreign import foreign_fragments
from tilelang.utils import prod

from .fragment_access import FragmentAccess, fragment_accesses
from .kernel_context import kernel_context
from .layout_choice import default_fragment, reduce_layout, restrict, vector_run
from .manager import PassContext
from .split_folds import is_fold, split_folds
from .stage_fragments import Finish, move
from .store_epilogue import staged_store

__all__ = ["run"]


def run(func: PrimFunc, ctx: PassContext) -> PrimFunc:
    return func.with_body(_Launches(func, ctx).visit(func.body))


class _Launches(Rewriter):
    pre = True

    def __init__(self, func: PrimFunc, ctx: PassContext) -> None:
        super().__init__()
        self.func, self.ctx = func, ctx

    def visit_Launch(self, s: Launch) -> Stmt:
        return Inference(s, kernel_context(s, self.func, self.ctx)).run()


class Inference:
    """Layouts of one kernel."""

    def __init__(self, launch: Launch, ctx: LowerContext) -> None:
        self.launch, self.ctx = launch, ctx
        self.layouts: dict[Buffer, Any] = {}
        self.threads: dict[Stmt, int] = {}
        self.nests: list[Parallel] = []
        self.reductions: list[Any] = []
        self.views: list[Buffer] = []
        self.steps: list[tuple[Callable[[Any], bool], Any]] = []
        self.meets: dict[Buffer, list[int]] = {}
        self.fixed: set[Buffer] = set()
        self.bulk_stores = False

    def run(self) -> Stmt:
        s = self.launch
        self._user_layouts()
        body = self._expand(s.body, self.ctx.threads)
        self.views = [b for b in self._fragments(body) if b.view_of is not None]
        self._list_steps()
        self._propagate(range(len(self.steps)))
        self._choose_rest(body)
        self._check_views()
        body = Finish(self).visit(body)
        if self.bulk_stores:  # shared memory must outlive the stores that read it
            body = seq(body, Evaluate(call("tma_store_wait", [0]), s.span))
        return Launch(s.grid, s.threads, s.block_vars, s.thread_vars, body, s.annotations, s.span)

    # ------------------------------------------------------------------------------ constraints

    def _user_layouts(self) -> None:
        for buffer, layout in dict(self.launch.annotations.get("layouts", {})).items():
            if isinstance(layout, FragmentTable):
                raise LayoutError(
                    f"the layout given for `{buffer.name}` is not supported: "
                    f"{layout.why_no_digits}",
                    code="TL1123",
                    span=buffer.span or self.launch.span,
                    help="use a layout that is a sum of digits of the coordinates (//, %, * and +)",
                )
            wanted = Fragment if buffer.is_fragment else (Layout, LayoutTable)
            if isinstance(layout, wanted):
                self.layouts[buffer] = layout
                self.fixed.add(buffer)

    def _expand(self, s: Any, threads: int) -> Any:
        """Chooses lowerings; ops without a special one become loops. Collects nests and
        reductions."""
        t = type(s)
        if t is TileStmt:
            return self._tile_op(s, threads)
        if t is Role:
            return Role(s.first, s.threads, self._expand(s.body, s.threads), s.annotations, s.span)
        if t is Parallel:
            parts = split_folds(s)
            for n in parts:
                self._nest(n, threads)
            return seq(parts)
        return s.map_children(lambda c: self._expand(c, threads) if isinstance(c, Stmt) else c)

    def _tile_op(self, s: Any, threads: int) -> Stmt:
        annotations = {**self.ctx.annotations, **s.annotations}
        ctx = replace(self.ctx, threads=threads, layouts=self.layouts, annotations=annotations)
        if s.op.name == "gemm" and (foreign := foreign_fragments(s.op, ctx)):
            return self._converted(s, foreign, threads)
        try:
            choice = select(s.op.LOWERINGS, s.op, ctx, s.annotations.get("lowering"))
        except TileError as error:
            error.at(s.span)
            raise
        self.ctx.notes.append(f"{s.span}: T.{s.op.name}: {choice.text()}")
        if choice.lowering.name == "simt":
            return self._through_shared(s, ctx, threads) or self._expand(
                expand(s.op, s.span), threads
            )
        for buffer, layout in choice.lowering.layouts(s.op, ctx).items():
            self._require(buffer, layout, s)
        out = TileStmt(s.op, {**s.annotations, "lowering": choice.lowering.name}, s.span)
        if s.op.name == "reduce":
            self.reductions.append(out)
        self.threads[out] = threads
        return out

    def _converted(self, s: TileStmt, foreign: Sequence[Buffer], threads: int) -> Stmt:
        """A gemm on fragments of another layout works on copies in its own."""
        op: Any = s.op
        temps = {
            b: Buffer(f"{b.name}_operand", b.shape, b.dtype, Scope.FRAGMENT, span=s.span)
            for b in foreign
        }
        kept = is_const(as_expr(op.clear_accum), True)
        before = [move(b, t, s.span) for b, t in temps.items() if b is not op.c.buffer or not kept]
        after = [move(t, b, s.span) for b, t in temps.items() if b is op.c.buffer]
        gemm = self._tile_op(substitute(s, temps), threads)
        moves = (
            [self._expand(x, threads) for x in before],
            [self._expand(x, threads) for x in after],
        )
        return seq([Alloc(t, {}, s.span) for t in temps.values()], moves[0], gemm, moves[1])

    def _through_shared(self, s: Any, ctx: LowerContext, threads: int) -> Stmt | None:
        """The staged form of a store of accumulators, where that is better (see
        `store_epilogue`)."""
        op = s.op
        if op.name != "copy" or not (op.src.buffer.is_fragment and op.dst.buffer.is_global):
            return None
        layout = self.layouts.get(op.src.buffer)
        staged = None if layout is None else staged_store(op, layout, self.launch, ctx, s.span)
        if staged is None:
            return None
        self.layouts.update(staged.layouts)
        self.bulk_stores = self.bulk_stores or staged.bulk
        return self._expand(staged.stmt, threads)

    def _require(self, buffer: Buffer, layout: Any, s: Any) -> None:
        """A hard constraint. The first one wins; an op that meets another layout converts
        (fragments)
        or reads what is there (shared)."""
        if buffer not in self.layouts:
            self.layouts[buffer] = layout
        elif buffer in self.fixed and self.layouts[buffer] != layout:
            raise InternalError(
                f"the lowering chosen for {s.op.name} wants another layout of {buffer.name} than "
                "the user's",
                span=s.span,
            )

    def _nest(self, s: Parallel, threads: int) -> None:
        self.nests.append(s)
        self.threads[s] = threads

    # ------------------------------------------------------------------------------ propagation

    def _list_steps(self) -> None:
        """What can give a fragment its layout, and which of it each fragment meets."""
        for n in self.nests:
            self._step(self._through_nest, n, [a.buffer for a in fragment_accesses(n)])
        for r in self.reductions:
            self._step(self._through_reduction, r.op, [r.op.src.buffer, r.op.dst.buffer])
        for v in self.views:
            self._step(self._through_view, v, [v, v.view_of])

    def _step(self, step: Callable[[Any], bool], what: Any, buffers: Iterable[Any]) -> None:
        for b in dict.fromkeys(buffers):
            self.meets.setdefault(b, []).append(len(self.steps))
        self.steps.append((step, what))

    def _propagate(self, steps: Iterable[int]) -> None:
        """These steps, and again those that meet a fragment that has got its layout: in rounds, to
        a fixed point."""
        queue = [(0, n) for n in steps]
        queued = set(queue)
        while queue:
            turn, n = at = heappop(queue)
            queued.remove(at)
            known = len(self.layouts)
            step, what = self.steps[n]
            if not step(what):
                continue
            for b in islice(self.layouts, known, None):
                for m in self.meets.get(b, ()):
                    again = (turn + (m <= n), m)
                    if again not in queued:
                        queued.add(again)
                        heappush(queue, again)

    def _through_nest(self, n: Parallel) -> bool:
        accesses = fragment_accesses(n)
        unknown = [a for a in accesses if a.buffer not in self.layouts]
        if not unknown:
            return False
        loop = self._loop_layout(n, accesses)
        if loop is None:
            return False
        changed = False
        for a in unknown:
            dims = self._bare_dims(n, a)
            if dims is not None and a.buffer not in self.layouts:
                self.layouts[a.buffer] = restrict(loop, dims)
                changed = True
        return changed

    def _loop_layout(self, n: Parallel, accesses: Sequence[FragmentAccess]) -> Fragment | None:
        """The layout of the loop domain, if a fragment of known layout is indexed by all loop
        variables."""
        for a in accesses:
            layout = self.layouts.get(a.buffer)
            dims = self._bare_dims(n, a)
            if layout is not None and dims is not None and len(dims) == len(n.vars):
                return layout.permute([dims.index(d) for d in range(len(dims))])
        return None

    def _bare_dims(self, n: Parallel, a: FragmentAccess) -> list[int] | None:
        """Positions of the loop variables that index the fragment, if each index is a distinct loop
        variable running over the whole dimension."""
        dims: list[int] = []
        for e, size in zip(a.indices, a.buffer.shape, strict=True):
            at = [k for k, v in enumerate(n.vars) if v is e]
            if not at or at[0] in dims or n.extents[at[0]] is not size:
                return None
            dims.append(at[0])
        return dims

    def _through_view(self, v: Buffer) -> bool:
        """A view of a fragment names the same registers: one layout gives the other."""
        base = v.view_of
        assert base is not None
        for known, other in ((base, v), (v, base)):
            if known in self.layouts and other not in self.layouts:
                self.layouts[other] = self._reshaped(known, other)
                return True
        return False

    def _reshaped(self, known: Buffer, other: Buffer) -> Any:
        shape = other.static_shape
        if shape is None or known.dtype.bits != other.dtype.bits:
            raise LayoutError(
                f"`{other.name}` ({other.dtype}) and `{known.name}` ({known.dtype}) are the same "
                "registers seen with different widths",
                code="TL1124",
                span=other.span,
                help="a view of a fragment has elements as wide; go through a shared buffer",
            )
        return self.layouts[known].reshape(shape)

    def _check_views(self) -> None:
        for v in self.views:
            base = v.view_of
            assert base is not None
            if self.layouts[v] != self._reshaped(base, v):
                raise LayoutError(
                    f"`{v.name}` is a view of `{base.name}`, but they are used in ways that need "
                    "different layouts",
                    code="TL1125",
                    span=v.span,
                    help="T.copy one of them to a fragment of its own",
                )

    def _through_reduction(self, op: Any) -> bool:
        src, dst = op.src.buffer, op.dst.buffer
        if src in self.layouts and dst not in self.layouts:
            self.layouts[dst] = reduce_layout(self.layouts[src], op)
            return True
        return False

    def _choose_rest(self, body: Stmt) -> None:
        """Free choice, the largest fragment first: what it decides for the others matters most."""
        for b in sorted(self._fragments(body), key=lambda b: -prod(b.static_shape or (1,))):
            if b in self.layouts:
                continue
            steps = self.meets.get(b, [])
            nests = [self.nests[n] for n in steps if n < len(self.nests)]
            threads = self.threads[nests[0]] if nests else self.ctx.threads
            self.layouts[b] = default_fragment(b, threads, nests)
            self._propagate(steps)

    def _fragments(self, body: Stmt) -> list[Buffer]:
        return [x.buffer for x in walk(body) if type(x) is Alloc and x.buffer.is_fragment]

    # ------------------------------------------------------------------------------ plans

    def plan(self, n: Parallel) -> LoopPlan | None:
        """The distribution of a nest: along the fragment it writes, else one it reads, else by
        itself."""
        accesses = fragment_accesses(n)
        best: tuple[int, LoopPlan] | None = None
        for a in accesses:
            if is_fold(n, a):  # whoever owns the element runs all of its updates
                return self._along(n, self.layouts[a.buffer], a.indices)
            if self._may_leave(n, a):  # some iterations have no element of it
                continue
            solved = {f[0] for e in a.indices if (f := solve(e, n.vars)) is not None}
            plan = self._along(n, self.layouts[a.buffer], a.indices)
            if best is None or len(solved) > best[0]:
                best = (len(solved), plan)
        if best is not None:
            return best[1]
        sizes = [const_int(e) for e in n.extents]
        if any(x is None for x in sizes):
            return None
        shape = tuple(x for x in sizes if x is not None)
        given = n.annotations.get("loop_layout")
        layout = (
            given
            if isinstance(given, Fragment)
            else default_fragment(n, self.threads[n], (n,), shape)
        )
        return LoopPlan(layout, n.vars, vector_run(layout, n.vars, n.vars))

    def _may_leave(self, n: Parallel, a: FragmentAccess) -> bool:
        """Do the variables run beyond the fragment (a test in the body keeps them inside)?"""
        extents = dict(zip(n.vars, n.extents, strict=True))
        for e, size in zip(a.indices, a.buffer.static_shape or (), strict=False):
            found = solve(e, n.vars)
            start = None if found is None else const_int(found[1])
            extent = None if found is None else const_int(extents[found[0]])
            if start is not None and extent is not None and not 0 <= start <= size - extent:
                return True
        return False

    def _along(self, n: Parallel, layout: Any, indices: tuple[Expr, ...]) -> LoopPlan:
        """The nest distributed like a fragment that it accesses. Of a part of the fragment only the
        registers of that part are walked, where they are the same in every thread."""
        whole = LoopPlan(layout, indices, vector_run(layout, indices, n.vars))
        extents = dict(zip(n.vars, n.extents, strict=True))
        part, index = layout, []
        for d, (e, size) in enumerate(zip(indices, layout.shape, strict=True)):
            found = solve(e, n.vars)
            if found is None or const_int(found[1]) is None or const_int(extents[found[0]]) is None:
                return whole
            extent, start = const_int(extents[found[0]]), const_int(found[1])
            index.append(found[0])
            if (start, extent) == (0, size):
                continue
            assert start is not None
            assert extent is not None
            if not 0 <= start <= size - extent:
                return whole
            cut = part.slice(d, start, extent) if isinstance(part, Fragment) else None
            if cut is None:
                return whole
            part = cut[0]
        if part is layout or len(set(index)) != len(index):
            return whole
        return LoopPlan(part, tuple(index), vector_run(part, index, n.vars))
