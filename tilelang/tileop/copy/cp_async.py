# SPDX-License-Identifier: Apache-2.0
"""Global -> shared copies by cp.async: each thread issues whole 4-, 8- or 16-byte chunks.

In: `Copy` of a global region to a shared one, no conversion. Out: LOOP-stage `cp_async` calls whose
predicate zero-fills what lies outside of the tensor. The caller commits and waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilelang.ir import Expr, Region, Var, address_of, all_of, const, const_int, is_const
from tilelang.tileop.base import LowerContext, Lowering
from tilelang.tileop.cost import elementwise
from tilelang.tileop.regions import points
from tilelang.utils import ceildiv, prod

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilelang.ir import Buffer, Builder

    from .op import Copy

__all__ = ["CP_ASYNC", "chunk_bytes", "in_bounds"]

CHUNKS = (16, 8, 4)
"""Bytes one cp.async moves (PTX ISA, cp.async: cp-size)."""


def _why_not(op: Copy, ctx: LowerContext) -> str | None:
    src, dst = op.src.buffer, op.dst.buffer
    if not ctx.target.is_cuda or not ctx.target.has_cp_async:
        return "the target has no cp.async"
    if not ctx.options.async_copy:
        return "asynchronous copies are switched off"
    if not (src.is_global and dst.is_shared):
        return "it copies from global to shared memory only"
    if src.dtype is not dst.dtype:
        return f"it cannot convert {src.dtype} to {dst.dtype}"
    safe = ctx.safe_values.get(src)
    if safe is not None and not is_const(safe, 0):
        return f"outside of {src.name} it gives 0, not {safe}"
    if op.prefer_instruction == "sync":
        return "a synchronous copy was asked for"
    if chunk_bytes(op, ctx) is None:
        return f"rows of {src.name} are not contiguous in both buffers from 4-byte boundaries on"
    return None


def chunk_bytes(op: Copy, ctx: LowerContext) -> int | None:
    """The widest chunk that is contiguous, aligned, and wholly inside or outside of the tensor."""
    p = op.pairing
    extents = [const_int(e) for e in p.extents]
    if not extents or any(e is None for e in extents):
        return None
    last = len(extents) - 1
    layout = ctx.layouts.get(op.dst.buffer)
    together = CHUNKS[0] * 8 if layout is None else layout.vector_width()  # elements
    if not p.src or p.src[-1] != last or p.dst[-1] != last:
        return None
    for size in CHUNKS:
        n = size * 8 // op.src.dtype.bits
        if n and together % n:
            continue
        if n and extents[last] % n == 0 and _aligned(op.src, ctx, n) and _aligned(op.dst, ctx, n):  # type: ignore[operator]
            return size
    return None


def _aligned(r: Region, ctx: LowerContext, n: int) -> bool:
    """Do all rows of the region start at a multiple of n elements, and end with the tensor at
    one?"""
    strides = r.buffer.effective_strides()
    if const_int(strides[-1]) != 1:
        return False
    if not ctx.facts.divisible(r.offsets[-1], n) or not ctx.facts.divisible(r.buffer.shape[-1], n):
        return False
    return all(
        ctx.facts.divisible(s, n) or is_const(dim, 1)
        for s, dim in zip(strides[:-1], r.buffer.shape, strict=False)
    )


def in_bounds(buffer: Buffer, index: Sequence[Expr], ctx: LowerContext) -> Expr:
    """The condition that is not provable: every index inside its dimension."""
    conds: list[Expr] = []
    for i, n in zip(index, buffer.shape, strict=True):
        for c in (i >= const(0, i.dtype), i < n):
            c = ctx.facts.simplify(c)
            if not ctx.facts.prove(c):
                conds.append(c)
    return all_of(conds)


def _emit(op: Copy, ctx: LowerContext, b: Builder) -> None:
    size = chunk_bytes(op, ctx)
    assert size is not None
    n = size * 8 // op.src.dtype.bits
    p = op.pairing
    extents = [int(const_int(e) or 0) for e in p.extents]
    chunks = [*extents[:-1], extents[-1] // n]
    total = prod(chunks)
    trips = ceildiv(total, ctx.threads)
    with ctx.scope() as facts, b.for_("c", trips, kind="unroll") as c:
        if type(c) is Var:
            facts.bind(c, 0, trips)
        flat = c * ctx.threads + ctx.tid
        with b.if_(const(True) if total % ctx.threads == 0 else flat < total):
            at = [facts.simplify(x) for x in _split(flat, chunks, n)]
            src = tuple(facts.simplify(i) for i in points(op.src, p.src, at))
            dst = tuple(facts.simplify(i) for i in points(op.dst, p.dst, at))
            pred = in_bounds(op.src.buffer, src, ctx)
            b.call(
                "cp_async",
                size,
                address_of(op.dst.buffer, *dst),
                address_of(op.src.buffer, *src),
                pred,
            )


def _split(flat: Expr, chunks: list[int], n: int) -> list[Expr]:
    """Coordinates (in elements) of chunk `flat`."""
    out: list[Expr] = []
    rest = flat
    for d in range(len(chunks) - 1, -1, -1):
        x = rest if d == 0 else rest % chunks[d]
        out.append(x * n if d == len(chunks) - 1 else x)
        rest = rest // chunks[d]
    return out[::-1]


CP_ASYNC = Lowering("cp_async", _why_not, elementwise, _emit)
