# SPDX-License-Identifier: Apache-2.0
"""Producer and consumer warps for a pipelined loop (sm_90a).

In: TILE stage, a kernel whose only pipelined loop stages all its shared operands by copies that TMA
can do and multiplies them by gemms that wgmma can do. Out: the same kernel with one extra warp. One
of its threads fills a ring of slots by TMA; the warpgroups of the user's threads consume them. Each
slot has a `full` mbarrier (the bytes are there) and an `empty` one (each warpgroup has read it).

    for k in T.Pipelined(K, 3): copy(A[k], S); gemm(S, …)
->  with role(producer):  for k: wait(empty[k % 3]); expect(full[k % 3]); S3[k % 3] <- A[k]
    with role(consumers): for k: wait(full[k % 3]); gemm(S3[k % 3], …)   # one wgmma group in flight
                                 release(empty[(k - 1) % 3])
                          rest of the kernel

The decision asks each op's `why_not` and pins the lowering that it counts on. It is declined with a
note when any op refuses, or when the loop is nested; the kernel then runs without roles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tilelang.ir import (
    Bind,
    Buffer,
    For,
    Launch,
    PrimFunc,
    Return,
    Seq,
    Stmt,
    TileStmt,
    as_expr,
    const_int,
    effects,
    flatten,
    free_vars,
    seq,
    walk,
)
from tilelang.tileop.base import LowerContext
from tilelang.tileop.copy.tma import TMA
from tilelang.tileop.gemm.wgmma import WGMMA, operand_why_not
from tilelang.utils import prod

from .kernel_context import kernel_context
from .manager import PassContext
from .pipeline_body import inline_binds, normalize, split_producers
from .pipeline_legality import without_writes
from .warp_roles import Plan, RoleEmitter, duplicable, producer_threads

__all__ = ["run"]

WARPGROUP = 128


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
    if plan.loop.annotations.get("order") or plan.loop.annotations.get("stage"):
        ctx.note(f"{s.span}: warp roles take the place of the schedule given by order= and stage=")
    return RoleEmitter(s, plan).emit()


# ---------------------------------------------------------------------------------- decision


def _plan(s: Launch, loops: list[For], func: PrimFunc, ctx: PassContext) -> Plan:
    body = flatten(s.body)
    loop = loops[0]
    at = next((n for n, x in enumerate(body) if x is loop), -1)
    stages = const_int(as_expr(loop.annotations.get("num_stages") or 0)) or 0
    threads = prod(s.threads)
    if len(loops) > 1 or at < 0:
        raise Declined("the pipelined loop is nested, or not the only one")
    if stages < 2:
        raise Declined("fewer than two stages leave nothing to overlap")
    if threads % WARPGROUP or s.threads[1] * s.threads[2] != 1:
        raise Declined(f"{s.threads} threads are not whole warpgroups of {WARPGROUP} along x")
    if threads + producer_threads(threads) > ctx.target.max_threads:
        raise Declined(f"no room for a producer warp beside {threads} threads")
    allocs, producers, consumers = split_producers(
        loop, inline_binds(normalize(flatten(loop.body))), s
    )
    if not producers:
        raise Declined("no copy of the loop can run ahead")
    plan = Plan(body[:at], loop, body[at + 1 :], allocs, producers, consumers, stages)
    before, after = (
        flatten(without_writes(seq(x), _staged(plan))) for x in (plan.before, plan.after)
    )
    plan = replace(plan, before=before, after=after)
    _check_ops(s, plan, func, ctx)
    _check_scalars(plan)
    return replace(plan, workers=_workers(s, plan, ctx))


def _workers(s: Launch, plan: Plan, ctx: PassContext) -> int | None:
    """One block per multiprocessor pays when there are more tiles than that: the producer fills
    the ring for
    the next tile while the consumers store this one. Every tile must have as many loop steps."""
    total = prod([const_int(g) or 0 for g in s.grid]) if all(const_int(g) for g in s.grid) else None
    own = [*s.block_vars, *(x.var for x in plan.before if type(x) is Bind)]
    if total is not None and total <= ctx.target.num_sms:
        return None
    if any(any(v is w for w in own) for v in free_vars(plan.loop.extent)):
        ctx.note(f"{s.span}: not persistent: the number of loop steps depends on the block")
        return None
    if any(type(x) is Return for x in walk(s.body)):
        return None
    return int(ctx.target.num_sms)


def _check_ops(s: Launch, plan: Plan, func: PrimFunc, ctx: PassContext) -> None:
    lower = kernel_context(s, func, ctx)
    staged = _staged(plan)
    # a ring's layout is what TMA and wgmma need: one that the user gave is for other schedules
    lower = replace(lower, layouts={b: x for b, x in lower.layouts.items() if b not in staged})
    for p in plan.producers:
        reason = TMA.why_not(p.op, lower)  # type: ignore[attr-defined]
        if reason is not None:
            raise Declined(f"copy to {p.op.dst.buffer.name}: {reason}")  # type: ignore[attr-defined]
    _check_sources(plan)
    gemms = _gemms(plan.consumers)
    if not gemms:
        raise Declined("the loop has no gemm")
    for op in gemms:
        reason = operand_why_not(op, replace(lower, threads=prod(s.threads)))
        if reason is None and op.b.buffer not in staged:
            reason = "B is not staged by the loop"
        if reason is None and _written_in(op.a.buffer, plan.consumers, staged):
            reason = f"{op.a.buffer.name} is written to shared memory in the loop"
        if reason is not None:
            raise Declined(f"gemm: {reason}")
    for c in plan.consumers:
        if any(a.buffer.root() in staged for a in effects(c).writes):
            raise Declined("a staged operand is also written by the consumers")
    _check_layouts(s, plan, gemms, replace(lower, threads=prod(s.threads)))


def _staged(plan: Plan) -> set[Buffer]:
    if not all(type(p) is TileStmt for p in plan.producers):
        raise Declined("a copy is conditional")
    return {p.op.dst.buffer for p in plan.producers}  # type: ignore[attr-defined]


def _check_sources(plan: Plan) -> None:
    """What the producer reads must have been there before the kernel."""
    written = effects(Seq((*plan.before, *plan.after))).writes
    for p in plan.producers:
        source = p.op.src.buffer  # type: ignore[attr-defined]
        if any(a.buffer.root() is source.root() for a in written):
            raise Declined(f"{source.name} is written by this kernel: TMA might read it too early")


def _gemms(stmts: Sequence[Stmt]) -> list[Any]:
    return [x.op for c in stmts for x in walk(c) if type(x) is TileStmt and x.op.name == "gemm"]


def _check_layouts(s: Launch, plan: Plan, gemms: Sequence[Any], ctx: LowerContext) -> None:
    """wgmma reads and writes its operands in one layout only: nobody else may ask for another."""
    wanted: dict[Buffer, Any] = dict(ctx.layouts)
    for op in gemms:
        for buffer, layout in WGMMA.layouts(op, ctx).items():
            if wanted.setdefault(buffer, layout) != layout:
                raise Declined(f"{buffer.name} has, or is needed in, another layout as well")
    for op in _gemms([*plan.before, *plan.after]):
        for r in (op.a, op.b, op.c):
            if r.buffer in wanted:
                raise Declined(f"{r.buffer.name} is also used by a gemm outside of the loop")


def _written_in(buffer: Buffer, stmts: list[Stmt], staged: set[Buffer]) -> bool:
    if not buffer.is_shared or buffer in staged:
        return False
    return any(a.buffer.root() is buffer.root() for x in stmts for a in effects(x).writes)


def _check_scalars(plan: Plan) -> None:
    """What the copies' addresses need must be known to the producer warp too."""
    shared = {x.var for x in plan.before if type(x) is Bind and duplicable(x)}
    bound = {x.var for x in plan.before if type(x) is Bind} - shared
    for p in plan.producers:
        if any(v in bound for v in free_vars(p)):
            raise Declined("an address depends on a value that only the consumers have")
