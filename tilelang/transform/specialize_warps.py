# SPDX-License-Identifier: Apache-2.0
"""Producer and consumer warps for pipelined loops (sm_90a).

In: TILE stage, a kernel whose pipelined loops stage operands by copies that TMA can do and multiply
by gemms that wgmma can do. Out: the same kernel with one extra warp. One of its threads fills rings
of slots by TMA; the warpgroups of the user's threads consume them. Each slot has a `full` mbarrier
(the bytes are there) and an `empty` one (every reader has read it).

    for k in T.Pipelined(K, 3): copy(A[k], S); gemm(S, …)
->  with role(producer):  for k: wait(empty[k % 3]); expect(full[k % 3]); S3[k % 3] <- A[k]
    with role(consumers): for k: wait(full[k % 3]); gemm(S3[k % 3], …)   # one wgmma group in flight
                                 release(empty[(k - 1) % 3])
                          rest of the kernel

Loops may stand side by side and in other loops and branches, whose conditions the producer then
evaluates too. The decision asks each op's `why_not` and pins the lowering that it counts on. It is
declined with a note when any op refuses; the kernel then runs without roles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tilelang.ir import (
    Alloc,
    Bind,
    Break,
    Buffer,
    Expr,
    For,
    If,
    Launch,
    Parallel,
    PrimFunc,
    Return,
    Stmt,
    TileStmt,
    Var,
    While,
    as_expr,
    const_int,
    effects,
    expr_effects,
    flatten,
    free_vars,
    walk,
)
from tilelang.tileop.base import LowerContext
from tilelang.tileop.copy.tma import TMA
from tilelang.tileop.gemm.wgmma import WGMMA, operand_why_not
from tilelang.utils import prod

from .kernel_context import kernel_context
from .manager import PassContext
from .pipeline_body import inline_binds, normalize, split_producers, unwrapped
from .role_ring import Pipeline
from .uniformity import Uniformity
from .warp_roles import Plan, RoleEmitter, leads, producer_threads

__all__ = ["run"]

WARPGROUP = 128
_SLACK = 2048  # bytes that barriers and the alignment of tiles may take


def run(func: PrimFunc, ctx: PassContext) -> PrimFunc:
    def visit(s: Stmt) -> Stmt:
        if type(s) is Launch:
            return _kernel(s, func, ctx)
        return s.map_children(lambda c: visit(c) if isinstance(c, Stmt) else c)

    return func.with_body(visit(func.body))


class Declined(Exception):
    """Why this kernel gets no roles."""


def _kernel(s: Launch, func: PrimFunc, ctx: PassContext) -> Stmt:
    loops = [x for x in walk(s.body) if type(x) is For and x.kind == "pipelined"]
    if not loops:
        return s
    try:
        plan = _plan(s, loops, func, ctx)
    except Declined as why:
        ctx.note(f"{s.span}: no warp specialisation: {why}")
        return s
    if any(x.annotations.get("order") or x.annotations.get("stage") for x in loops):
        ctx.note(f"{s.span}: warp roles take the place of the schedule given by order= and stage=")
    return RoleEmitter(s, plan).emit()


# ---------------------------------------------------------------------------------- decision


def _plan(s: Launch, loops: list[For], func: PrimFunc, ctx: PassContext) -> Plan:
    threads = prod(s.threads)
    if not ctx.options.wgmma:
        raise Declined("its gemms would be wgmma's, which are switched off")
    if threads % WARPGROUP or s.threads[1] * s.threads[2] != 1:
        raise Declined(f"{s.threads} threads are not whole warpgroups of {WARPGROUP} along x")
    if threads + producer_threads(threads) > ctx.target.max_threads:
        raise Declined(f"no room for a producer warp beside {threads} threads")
    if any(type(x) is Return for x in walk(s.body)):
        raise Declined("threads may leave the kernel early")
    pipelines = tuple(_pipeline(s, x) for x in loops)
    _check_ops(s, pipelines, func, ctx)
    duplicable = _duplicable(s)
    _check_control(s, pipelines, duplicable)
    _check_memory(s, pipelines, ctx)
    return Plan(pipelines, duplicable, _workers(s, pipelines, ctx))


def _pipeline(s: Launch, loop: For) -> Pipeline:
    stages = const_int(as_expr(loop.annotations.get("num_stages") or 0)) or 0
    if stages < 2:
        raise Declined("fewer than two stages leave nothing to overlap")
    inner = list(walk(loop.body))
    if any(type(x) is For and x.kind == "pipelined" for x in inner):
        raise Declined("a pipelined loop stands in another")
    if any(type(x) is Break for x in inner):
        raise Declined("the pipelined loop may end early")
    allocs, producers, consumers = split_producers(
        loop, inline_binds(normalize(flatten(loop.body))), s
    )
    if not producers:
        raise Declined("no copy of the loop can run ahead")
    if not _gemms(consumers):
        raise Declined("the loop has no gemm")
    return Pipeline(loop, allocs, producers, consumers, stages)


def _workers(s: Launch, pipelines: Sequence[Pipeline], ctx: PassContext) -> int | None:
    """One block per multiprocessor pays when there are more tiles than that: the producer fills
    the ring for the next tile while the consumers store this one. Every tile must have as many loop
    steps."""
    body = flatten(s.body)
    if len(pipelines) > 1 or not any(x is pipelines[0].loop for x in body):
        return None
    total = prod([const_int(g) or 0 for g in s.grid]) if all(const_int(g) for g in s.grid) else None
    own = [*s.block_vars, *(x.var for x in body if type(x) is Bind)]
    if total is not None and total <= ctx.target.num_sms:
        return None
    if any(any(v is w for w in own) for v in free_vars(pipelines[0].loop.extent)):
        ctx.note(f"{s.span}: not persistent: the number of loop steps depends on the block")
        return None
    return int(ctx.target.num_sms)


def _check_ops(s: Launch, pipelines: Sequence[Pipeline], func: PrimFunc, ctx: PassContext) -> None:
    lower = kernel_context(s, func, ctx)
    staged = {b for p in pipelines for b in p.staged}
    # a ring's layout is what TMA and wgmma need: one that the user gave is for other schedules
    lower = replace(
        lower,
        layouts={b: x for b, x in lower.layouts.items() if b not in staged},
        threads=prod(s.threads),
    )
    written = effects(s.body).writes
    for p in pipelines:
        for c in p.producers:
            op: Any = unwrapped(c).op  # type: ignore[attr-defined]
            reason = TMA.why_not(op, lower)
            if reason is not None:
                raise Declined(f"copy to {op.dst.buffer.name}: {reason}")
            if any(a.buffer.root() is op.src.buffer.root() for a in written):
                raise Declined(
                    f"{op.src.buffer.name} is written by this kernel: TMA might read it too early"
                )
        for c in p.consumers:
            if any(a.buffer.root() in staged for a in effects(c).writes):
                raise Declined("a staged operand is also written by the consumers")
        for gemm in _gemms(p.consumers):
            reason = operand_why_not(gemm, lower)
            if reason is not None:
                raise Declined(f"gemm: {reason}")
    _check_layouts(s, pipelines, lower)


def _gemms(stmts: Iterable[Any]) -> list[Any]:
    return [x.op for c in stmts for x in walk(c) if type(x) is TileStmt and x.op.name == "gemm"]


def _check_layouts(s: Launch, pipelines: Sequence[Pipeline], ctx: LowerContext) -> None:
    """wgmma reads and writes its operands in one layout only: nobody else may ask for another."""
    wanted: dict[Buffer, Any] = dict(ctx.layouts)
    inside = [op for p in pipelines for op in _gemms(p.consumers)]
    for op in inside:
        for buffer, layout in WGMMA.layouts(op, ctx).items():
            if wanted.setdefault(buffer, layout) != layout:
                raise Declined(f"{buffer.name} has, or is needed in, another layout as well")
    for op in _gemms(_others(s.body, {p.loop for p in pipelines})):
        shared = [r.buffer for r in (op.a, op.b, op.c) if r.buffer in wanted]
        if shared and WGMMA.why_not(op, replace(ctx, layouts=wanted)) is not None:
            raise Declined(f"{shared[0].name} is also used by a gemm that cannot be wgmma")


def _others(s: Stmt, loops: set[For]) -> Iterator[Stmt]:
    """The statements outside of the loops, outermost first, without what is in them."""
    if s in loops:
        return
    inner = [c for c in s.children if isinstance(c, Stmt)]
    if not inner:
        yield s
    for c in inner:
        yield from _others(c, loops)


def _duplicable(s: Launch) -> Callable[[Expr], bool]:
    """May the producer evaluate an expression too? It has one value for the whole block, and reads
    nothing that the kernel writes."""
    uniform, written = Uniformity(s), {a.buffer.root() for a in effects(s.body).writes}
    bound: set[Var] = set()

    def yes(e: Expr) -> bool:
        e_effects = expr_effects(e)
        if e_effects.opaque or e_effects.writes or not uniform.expr(e):
            return False
        if any(v in bound for v in free_vars(e)):
            return False
        return all(
            a.buffer.is_global and a.buffer.root() not in written for a in e_effects.accesses
        )

    for x in walk(s.body):  # in order: what depends on a value that it may not evaluate, it may not
        if type(x) is Bind and not yes(x.value):
            bound.add(x.var)
    return yes


def _check_control(
    s: Launch, pipelines: Sequence[Pipeline], duplicable: Callable[[Expr], bool]
) -> None:
    """What leads to the loops, and the copies' conditions and addresses, must be known to the
    producer too."""
    loops = tuple(p.loop for p in pipelines)

    def visit(x: Stmt) -> None:
        if x in loops or not leads(x, loops):
            return
        if type(x) is Parallel:
            raise Declined("the pipelined loop stands in a parallel one")
        heads: list[Expr] = []
        if isinstance(x, For):
            heads = [x.start, x.extent]
        elif isinstance(x, (If, While)):
            heads = [x.cond]
        if not all(duplicable(e) for e in heads):
            raise Declined("whether the loop runs depends on what only the consumers know")
        for c in x.children:
            if isinstance(c, Stmt):
                visit(c)

    visit(s.body)
    for p in pipelines:
        # inside the loop its own variable counts as known: it is uniform if the extent is
        exprs = [p.loop.start, p.loop.extent, *(e for c in p.producers for e in _addresses(c))]
        if not all(duplicable(e) for e in exprs):
            raise Declined("an address depends on a value that only the consumers have")


def _addresses(s: Any) -> list[Expr]:
    """The conditions and offsets of a copy."""
    if isinstance(s, If):
        return [s.cond, *_addresses(s.then)]
    return [*s.op.src.offsets, *s.op.src.extents, *s.op.dst.offsets]


def _check_memory(s: Launch, pipelines: Sequence[Pipeline], ctx: PassContext) -> None:
    """Rings live as long as the kernel: no other buffer can lie where they are."""
    slots = {b: p.stages for p in pipelines for b in p.staged}
    total = sum(
        prod(x.buffer.static_shape or (0,)) * x.buffer.dtype.bits // 8 * slots.get(x.buffer, 1)
        for x in walk(s.body)
        if type(x) is Alloc and x.buffer.is_shared and x.buffer.view_of is None
    )
    reusable = any(
        type(x) is Alloc and x.buffer.is_shared and x.buffer not in slots for x in walk(s.body)
    )
    if total + _SLACK > ctx.target.max_smem and (reusable or len(pipelines) > 1):
        raise Declined(f"its rings and tiles would take {total} bytes of shared memory together")
