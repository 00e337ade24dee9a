# SPDX-License-Identifier: Apache-2.0
"""Reductions of fragments: registers, then warp shuffles, then shared memory across warps.

In: `Reduce` of a fragment into a fragment whose layout is the source's without the reduced
dimension. Out: LOOP-stage code; the result is in every thread that shares the reduced dimension.

    acc = identity;  acc = acc ⊕ F[r] over the thread's registers
    acc = acc ⊕ shfl_xor(acc, 1), …          for the lanes of the reduced dimension
    scratch[tid] = acc; barrier; acc = ⊕ scratch[…]; barrier     for its warps
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilelang.ir import Buffer, Expr, Load, Scope, all_of, call, cast, const

from .base import LowerContext, Lowering
from .cost import elementwise
from .expand import combine, identity, reduce_input

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilelang.ir import Builder

    from .reduce import Reduce

__all__ = ["SHUFFLE"]

WARP = 32


def _why_not(op: Reduce, ctx: LowerContext) -> str | None:
    if ctx.target.is_cpu:
        return "the target is a CPU"
    for r in (op.src, op.dst):
        if not r.buffer.is_fragment:
            return f"{r.buffer.name} is not a fragment"
        if not r.is_whole or r.buffer.view_of is not None:
            return f"{r.buffer.name} is reduced in part"
        if r.buffer.static_shape is None:
            return f"{r.buffer.name} has a symbolic shape"
    return None


def _emit(op: Reduce, ctx: LowerContext, b: Builder) -> None:
    dst = ctx.layouts[op.dst.buffer]
    dtype = op.acc_dtype
    acc = b.alloc("acc", (dst.regs,), dtype)
    _partial(op, ctx, b, acc)
    lanes, warps = _digits(op, ctx)
    for stride, extent in lanes:
        step = stride
        while step < stride * extent:
            _exchange(op, b, acc, dst.regs, step)
            step *= 2
    if warps:
        _across_warps(op, ctx, b, acc, dst.regs, warps)
    regs = ctx.registers[op.dst.buffer]
    with b.for_("r", dst.regs, kind="unroll") as r:
        value: Expr = Load(acc, (r,))
        if not op.clear:
            value = combine(op.kind, cast(Load(regs, (r,)), dtype), value, op.nan_propagate)
        b.store(regs, (r,), value)


def _partial(op: Reduce, ctx: LowerContext, b: Builder, acc: Buffer) -> None:
    """Each thread folds its own registers."""
    src, dst = ctx.layouts[op.src.buffer], ctx.layouts[op.dst.buffer]
    with b.for_("r", dst.regs, kind="unroll") as r:
        b.store(acc, (r,), identity(op.kind, acc.dtype))
    with ctx.scope() as facts, b.for_("r", src.regs, kind="unroll") as r:
        if src.regs > 1:
            facts.bind(r, 0, src.regs)
        coords = src.coords(ctx.tid, r)
        kept = [c for d, c in enumerate(coords) if d != op.axis]
        at = dst.reg(_dst_coords(op, kept))
        valid = src.valid(ctx.tid, r)
        with b.if_(facts.simplify(all_of([] if valid is None else [valid]))):
            x = reduce_input(op.kind, cast(Load(ctx.registers[op.src.buffer], (r,)), acc.dtype))
            index = (facts.simplify(at),)
            b.store(acc, index, combine(op.kind, Load(acc, index), x, op.nan_propagate))


def _dst_coords(op: Reduce, kept: Sequence[Expr]) -> list[Expr]:
    out: list[Expr] = [const(0)] * len(op.dst.extents)
    for d, c in zip(op.dst_dims, kept, strict=True):
        out[d] = c
    return out


def _digits(op: Reduce, ctx: LowerContext) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """(stride, extent) of the thread digits of the reduced dimension: those a shuffle reaches, the
    rest."""
    lanes: list[tuple[int, int]] = []
    warps: list[tuple[int, int]] = []
    for g in ctx.layouts[op.src.buffer].thread_digits:
        if g.dim != op.axis or g.extent == 1:
            continue
        power = g.extent & (g.extent - 1) == 0 and g.stride & (g.stride - 1) == 0
        if power and g.stride * g.extent <= WARP:
            lanes.append((g.stride, g.extent))
        elif power and g.stride < WARP:
            lanes.append((g.stride, WARP // g.stride))
            warps.append((WARP, g.stride * g.extent // WARP))
        else:
            warps.append((g.stride, g.extent))
    return lanes, warps


def _exchange(op: Reduce, b: Builder, acc: Buffer, regs: int, mask: int) -> None:
    with b.for_("r", regs, kind="unroll") as r:
        mine = Load(acc, (r,))
        other = call("shfl_xor", (mine, mask, WARP), acc.dtype)
        b.store(acc, (r,), combine(op.kind, mine, other, op.nan_propagate))


def _across_warps(
    op: Reduce, ctx: LowerContext, b: Builder, acc: Buffer, regs: int, digits: list[tuple[int, int]]
) -> None:
    """All partial results meet in shared memory; every thread folds those of its own group."""
    scratch = b.alloc("scratch", (regs, ctx.threads), acc.dtype, Scope.SHARED)
    with b.for_("r", regs, kind="unroll") as r:
        b.store(scratch, (r, ctx.tid), Load(acc, (r,)))
    ctx.barrier(b)
    base: Any = ctx.tid
    for stride, extent in digits:
        base = base - (ctx.tid // stride) % extent * stride
    base = b.bind("group", ctx.facts.simplify(base))
    with b.for_("r", regs, kind="unroll") as r:
        b.store(acc, (r,), identity(op.kind, acc.dtype))
        _fold(op, b, acc, scratch, r, base, digits)
    ctx.barrier(b)  # the scratch may be another buffer's memory next


def _fold(
    op: Reduce,
    b: Builder,
    acc: Buffer,
    scratch: Buffer,
    r: Expr,
    at: Expr,
    digits: list[tuple[int, int]],
) -> None:
    if not digits:
        value = Load(scratch, (r, at))
        b.store(acc, (r,), combine(op.kind, Load(acc, (r,)), value, op.nan_propagate))
        return
    (stride, extent), rest = digits[0], digits[1:]
    with b.for_("w", extent, kind="unroll") as w:
        _fold(op, b, acc, scratch, r, at + w * stride, rest)


SHUFFLE = Lowering("shuffle", _why_not, elementwise, _emit)
