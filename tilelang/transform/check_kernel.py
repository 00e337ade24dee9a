# SPDX-License-Identifier: Apache-2.0
"""PreLowerSemanticCheck: what a user can get wrong, said before anything is lowered.

In: a function at TILE stage. Out: the same function, or a `TileError` that names the user's line:
loops that do not nest, statements that have no meaning in a `T.Parallel`, variables and buffers
used where they do not exist, shapes that cannot be known, and whatever the `check()` of a tile op
finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from tilelang.errors import (
    LanguageError,
    ResourceError,
    ScopeError,
    ShapeError,
    TargetError,
    TileError,
)
from tilelang.ir import (
    INTRINSICS,
    Alloc,
    Bind,
    Buffer,
    Call,
    Const,
    Expr,
    For,
    If,
    Launch,
    Load,
    Node,
    Parallel,
    PrimFunc,
    Region,
    Role,
    Scope,
    Seq,
    Stmt,
    Store,
    TileStmt,
    Var,
    While,
    const,
    const_int,
    flatten,
    free_vars,
    walk,
)  # fmt: skip
from tilelang.tileop import CheckContext
from tilelang.tileop.checks import describe
from tilelang.utils import prod

from .manager import PassContext

__all__ = ["run"]

_MAX_Z = 64  # CUDA C++ Programming Guide, "Technical Specifications": z-dimension of a block
_MAX_CLUSTER = 8  # ibid., clusters: what every GPU with clusters has
_MAX_BLOCKS_YZ = 65535  # ibid.: y- or z-dimension of a grid
# Instructions of units that a CPU lacks. (For mbarriers it lacks the memory: `init_barriers`.)
_GPU_ONLY = frozenset(
    n for n, row in INTRINSICS.items() if row.header in ("ldmatrix", "mma", "wgmma", "tma")
)


def run(func: PrimFunc, ctx: PassContext) -> PrimFunc:
    if ctx.options.semantic_check:
        checker = _Checker(ctx)
        known = checker.parameters(func)
        checker.stmt(func.body, _Place(frozenset(known), frozenset(_buffers(func))))
    return func


def _buffers(func: PrimFunc) -> list[Buffer]:
    return [p for p in func.params if isinstance(p, Buffer)]


@dataclass(frozen=True)
class _Place:
    """What exists at a statement. parallel: the `T.Parallel` around it, if any; symbolic: its
    variables whose extents are not constants. span: the nearest one."""

    variables: frozenset[Var]
    buffers: frozenset[Buffer]
    parallel: Parallel | None = None
    symbolic: frozenset[Var] = frozenset()
    inner: frozenset[Buffer] = frozenset()
    span: Any = None


@dataclass
class _Checker:
    ctx: PassContext
    allocated: dict[Buffer, Any] = field(default_factory=dict)

    # ------------------------------------------------------------------------------ parameters

    def parameters(self, func: PrimFunc) -> set[Var]:
        """Variables that a call gives; a shape that cannot be solved for them is an error."""
        known = {p for p in func.params if isinstance(p, Var)}
        for b in _buffers(func):
            known.update(e for e in (*b.shape, *(b.strides or ())) if isinstance(e, Var))
        for b in _buffers(func):
            for e in (*b.shape, *(b.strides or ())):
                for v in free_vars(e):
                    if v not in known:
                        raise ShapeError(
                            f"nothing gives `{v.name}` in the shape of {b.name} a value: it never "
                            "stands alone in a shape",
                            code="TL0325",
                            span=b.span or func.span,
                            notes=[describe(b)],
                            help=f"use {v.name} alone as a dimension of a tensor, or pass it as a "
                            "scalar parameter",
                        )
        return known

    # ------------------------------------------------------------------------------ statements

    def stmt(self, s: Stmt | None, at: _Place) -> None:
        for x in flatten(s):
            here = at if getattr(x, "span", None) is None else replace(at, span=x.span)
            at = replace(self._one(x, here), span=at.span)

    def _one(self, s: Stmt, at: _Place) -> _Place:
        """Checks a statement; what exists after it."""
        handler = _HANDLERS.get(type(s))
        if handler is None:
            self.uses(s, at)
            for c in s.children:
                if isinstance(c, Stmt):
                    self.stmt(c, at)
            return at
        return handler(self, s, at) or at

    def bind(self, s: Bind, at: _Place) -> _Place:
        self.uses(s, at)
        return replace(at, variables=at.variables | {s.var})

    def alloc(self, s: Alloc, at: _Place) -> _Place:
        b = s.buffer
        span = b.span or at.span
        if b.view_of is not None:
            self.known_buffer(b.view_of, at)
        for e in b.shape:
            for v in free_vars(e):
                if v not in at.variables:
                    raise ShapeError(
                        f"the shape of {b.name} uses `{v.name}`, which has no value here",
                        code="TL0326",
                        span=span,
                        notes=[describe(b)],
                        help="use a compile-time number or a dimension of a tensor argument",
                    )
            if type(e) is not Const and not b.is_global and b.view_of is None:
                raise ShapeError(
                    f"{b.name} has the extent `{e}`, which is not known at compile time",
                    code="TL0327",
                    span=span,
                    notes=[describe(b)],
                    help="allocate a fixed tile and loop over the rest, or declare the dimension "
                    "with T.const",
                )
        self.allocated[b] = at.span
        inner = at.inner | {b} if at.parallel is not None else at.inner
        return replace(at, buffers=at.buffers | {b}, inner=inner)

    def store(self, s: Store, at: _Place) -> None:
        self.uses(s, at)

    def loop(self, s: For, at: _Place) -> None:
        if s.kind == "pipelined" and at.parallel is not None:
            self.refuse(
                "T.Pipelined cannot be inside T.Parallel", at, s, "TL0120",
                "put the T.Pipelined loop around the T.Parallel one",
            )  # fmt: skip
        self.uses_in((s.start, s.extent), at)
        self.stmt(s.body, replace(at, variables=at.variables | {s.var}))

    def branch(self, s: If, at: _Place) -> None:
        self.uses_in((s.cond,), at)
        self.stmt(s.then, at)
        self.stmt(s.orelse, at)

    def while_(self, s: While, at: _Place) -> None:
        self.uses_in((s.cond,), at)
        self.stmt(s.body, at)

    def role(self, s: Role, at: _Place) -> None:
        self.stmt(s.body, at)

    def launch(self, s: Launch, at: _Place) -> None:
        self.uses_in(s.grid, at)
        if self.ctx.target.is_cuda:
            self.block_size(s.threads, at)
            self.grid_size(s.grid, at)
        if prod(s.annotations.get("cluster_dims", (1,))) > 1:
            self.clusters(s, at)
        own = {*s.block_vars, *s.thread_vars}
        self.stmt(s.body, replace(at, variables=at.variables | own))

    def block_size(self, threads: tuple[int, int, int], at: _Place) -> None:
        target, total = self.ctx.target, prod(threads)
        if total > target.max_threads or threads[2] > _MAX_Z:
            raise ResourceError(
                f"T.Kernel asks for {total} threads {threads}; a block of {target.arch_name} has "
                f"at most {target.max_threads}, and {_MAX_Z} along z",
                code="TL0711",
                span=at.span,
                help="use fewer threads: T.Parallel gives each of them several elements",
            )

    def clusters(self, s: Launch, at: _Place) -> None:
        """Blocks of a cluster fill the grid, and the GPU has clusters."""
        dims, target = s.annotations["cluster_dims"], self.ctx.target
        if target.is_cpu or target.arch < 90:
            raise TargetError(
                f"T.Kernel(cluster_dims={dims}) requires sm_90 (Hopper) or later, the target is "
                f"{target}",
                code="TL0651",
                span=s.span or at.span,
                help="compile for a Hopper target, or leave cluster_dims out",
            )
        sizes = [const_int(e) for e in (*s.grid, *(const(1),) * (3 - len(s.grid)))]
        uneven = any(n is not None and n % d for n, d in zip(sizes, dims, strict=True))
        if prod(dims) > _MAX_CLUSTER or uneven:
            raise ResourceError(
                f"clusters of {dims} blocks do not fill a grid of {s.grid}"
                if uneven
                else f"a cluster of {dims} has more than {_MAX_CLUSTER} blocks",
                code="TL0713",
                span=s.span or at.span,
                help="make every extent of the grid a multiple of the cluster's",
            )

    def grid_size(self, grid: Sequence[Expr], at: _Place) -> None:
        """Along y and z a launch has few blocks; a size known at run time is the driver's to
        refuse."""
        for axis, extent in zip("yz", grid[1:], strict=False):
            size = const_int(extent)
            if size is not None and size > _MAX_BLOCKS_YZ:
                raise ResourceError(
                    f"T.Kernel asks for {size} blocks along {axis}; a GPU launches at most "
                    f"{_MAX_BLOCKS_YZ} along y and z",
                    code="TL0712",
                    span=at.span,
                    help="give the largest extent first: along x there may be 2147483647",
                )

    def parallel(self, s: Parallel, at: _Place) -> None:
        if at.parallel is not None:
            self.refuse(
                "T.Parallel cannot be inside another T.Parallel", at, s, "TL0121",
                "write one loop over all the indices: for i, j in T.Parallel(m, n)",
            )  # fmt: skip
        self.uses_in(s.extents, at)
        symbolic = {v for v, e in zip(s.vars, s.extents, strict=True) if type(e) is not Const}
        inside = replace(
            at, parallel=s, symbolic=frozenset(symbolic), inner=frozenset(),
            variables=at.variables | set(s.vars),
        )  # fmt: skip
        self.stmt(s.body, inside)

    def tile(self, s: TileStmt, at: _Place) -> None:
        if at.parallel is not None:
            self.refuse(
                f"T.{s.op.name} works on whole tiles and cannot be inside T.Parallel", at, s,
                "TL0122", "move it out of the loop, or write the elementwise statement",
            )  # fmt: skip
        self.uses(s.op, at)
        spans = s.annotations.get("spans") or {}
        op: Any = s.op
        try:
            op.check(CheckContext(self.ctx.target, s.span or at.span, spans))
        except TileError as error:
            raise error.at(at.span) from None

    def refuse(self, message: str, at: _Place, s: Stmt, code: str, help: str) -> NoReturn:
        notes = []
        outer = at.parallel.span if at.parallel is not None else None
        if outer is not None:
            notes.append(f"the outer T.Parallel is at {outer.place}")
        raise LanguageError(message, code=code, span=s.span or at.span, notes=notes, help=help)

    # ------------------------------------------------------------------------------ uses

    def uses(self, n: Node, at: _Place) -> None:
        """Variables and buffers in the expressions of one statement (not in statements below)."""
        if type(n) is Store:
            self.access(n.buffer, n.indices, at)
        self.uses_in([c for c in n.children if not isinstance(c, Stmt)], at)

    def uses_in(self, parts: Iterable[Any], at: _Place) -> None:
        for part in parts:
            for x in walk(part):
                if type(x) is Var and x not in at.variables:
                    raise LanguageError(
                        f"`{x.name}` is used where it has no value",
                        code="TL0123",
                        span=at.span,
                        help="assign it in the same block or outside of it; what changes in a loop "
                        "or an if is a T.alloc_var",
                    )
                if type(x) is Call and self.ctx.target.is_cpu:
                    self.on_cpu(x.op, at)
                if type(x) is Load:
                    self.access(x.buffer, x.indices, at)
                elif type(x) is Region:
                    self.known_buffer(x.buffer, at)

    def on_cpu(self, op: str, at: _Place) -> None:
        if op == "named_barrier_arrive":
            raise TargetError(
                "T.named_barrier_arrive has no meaning on a CPU, where threads take turns from one "
                "wait to the next",
                code="TL0633",
                span=at.span,
                help="use T.sync_threads() for all threads of the block",
            )
        if op in _GPU_ONLY:
            raise TargetError(
                f"{op} is an instruction of the GPU that has no meaning on a CPU",
                code="TL0630",
                span=at.span,
                help="use T.copy, T.gemm or T.sync_threads, or compile for a CUDA target",
            )

    def known_buffer(self, b: Buffer, at: _Place) -> None:
        if b in at.buffers or b.root() in at.buffers or b.data is not None:
            return
        if b in self.allocated:
            why, help = "was allocated in another block of the kernel", "allocate it before both"
        else:
            why, help = "is not allocated here", "pass it as a parameter, or allocate it first"
        raise ScopeError(
            f"{b.name} is used here but {why}",
            code="TL0424",
            span=at.span,
            notes=[describe(b)],
            help=help,
        )

    def access(self, b: Buffer, indices: tuple[Expr, ...], at: _Place) -> None:
        self.known_buffer(b, at)
        if at.parallel is None:
            return
        own = {v for v in at.parallel.vars for i in indices if v in free_vars(i)}
        if b.scope == Scope.LOCAL and own and b not in at.inner:
            (first, *_) = own
            raise ScopeError(
                f"{b.name} is private to each thread, so `{first.name}` of T.Parallel, which "
                "runs over all threads, cannot index it",
                code="TL0425",
                span=at.span,
                notes=[describe(b)],
                help=f"allocate {b.name} with T.alloc_fragment, or loop with T.serial",
            )
        if b.is_fragment and own & at.symbolic:
            (first, *_) = own & at.symbolic
            raise ScopeError(
                f"fragment {b.name} is indexed by `{first.name}`, whose range is not known at "
                "compile time",
                code="TL0426",
                span=at.span,
                notes=[describe(b)],
                help="let T.Parallel run over the whole tile and test the index inside",
            )


_HANDLERS: dict[type, Any] = {
    Seq: lambda c, s, at: c.stmt(s, at),
    Bind: _Checker.bind,
    Alloc: _Checker.alloc,
    Store: _Checker.store,
    For: _Checker.loop,
    If: _Checker.branch,
    While: _Checker.while_,
    Role: _Checker.role,
    Launch: _Checker.launch,
    Parallel: _Checker.parallel,
    TileStmt: _Checker.tile,
}
