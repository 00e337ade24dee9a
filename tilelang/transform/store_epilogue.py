# SPDX-License-Identifier: Apache-2.0
"""How an accumulator fragment reaches global memory.

In: a copy from a fragment to a global tensor whose threads hold pieces of rows too short for wide
stores. Out: the same through shared memory, or None (then each thread stores what it holds).

On sm_90 the tile goes in chunks of one swizzled row through two buffers, each written by the bulk
engine while the next is filled:

    for each chunk c:  at most one store unread; barrier; S[c % 2] = cast(C[:, chunk]); fence;
    barrier
                       one thread: C_global[:, chunk] <- S[c % 2]
Elsewhere the whole tile is staged, and rows of 16 bytes are stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilelang.ir import (
    Alloc,
    Buffer,
    Evaluate,
    Launch,
    Load,
    Parallel,
    Region,
    Role,
    Scope,
    Stmt,
    Store,
    TileStmt,
    call,
    cast,
    const,
    const_int,
    seq,
    walk,
)
from tilelang.layout import make_swizzled
from tilelang.tileop import Copy
from tilelang.tileop.base import LowerContext
from tilelang.tileop.copy.tma import TMA
from tilelang.tileop.expand import expand_staged_store, loop_vars
from tilelang.tileop.regions import points
from tilelang.utils import prod

from .layout_choice import ACCESS_BYTES, registers_in_row

__all__ = ["Staged", "staged_store"]

ALIGNMENT_SLACK = 2048  # bytes that aligning swizzled buffers may cost
CHUNK_BYTES = 128  # a row of the widest swizzle
BUFFERS = 2


@dataclass(frozen=True)
class Staged:
    """The statements, the layouts of the shared buffers in them, and whether stores are left in
    flight."""

    stmt: Stmt
    layouts: Mapping[Buffer, Any]
    bulk: bool


def staged_store(
    op: Copy, layout: Any, launch: Launch, ctx: LowerContext, span: Any
) -> Staged | None:
    """layout: of the source fragment. Only for stores of 16-bit elements: pairs of them fill half a
    memory sector, while pairs of 32-bit ones fill a whole one."""
    extents = [const_int(e) for e in op.pairing.extents]
    if len(extents) != 2 or None in extents or op.dst.dtype.bytes != 2:
        return None
    if registers_in_row(layout) * op.dst.dtype.bytes >= ACCESS_BYTES:
        return None
    rows, cols = (int(e or 0) for e in extents)
    bulk = _bulk(op, rows, cols, launch, ctx, span)
    if bulk is not None:
        return bulk
    if cols % 8 or not _fits(rows * cols * op.dst.dtype.bytes, launch, ctx):
        return None
    stage = Buffer(f"{op.src.buffer.name}_out", (rows, cols), op.dst.dtype, Scope.SHARED, span=span)
    layouts = {stage: make_swizzled((rows, cols), op.dst.dtype.bits)}
    return Staged(expand_staged_store(op, stage, span), layouts, False)


def _fits(extra: int, launch: Launch, ctx: LowerContext) -> bool:
    """Is there shared memory for `extra` bytes more? Without warp roles they may lie where a buffer
    that is dead by then was."""
    nodes = list(walk(launch.body))
    taken = sum(
        prod(x.buffer.static_shape or (0,)) * x.buffer.dtype.bytes
        for x in nodes
        if type(x) is Alloc and not x.buffer.is_fragment and not x.buffer.is_local
    )
    roles = any(type(x) is Role for x in nodes)
    limit = ctx.target.max_smem - ALIGNMENT_SLACK
    return (taken + extra if roles else max(taken, extra)) <= limit


def _bulk(
    op: Copy, rows: int, cols: int, launch: Launch, ctx: LowerContext, span: Any
) -> Staged | None:
    width = CHUNK_BYTES // op.dst.dtype.bytes
    if cols % width or not any(type(x) is Role for x in walk(launch.body)):
        return None
    shape = (BUFFERS, rows, width)
    if not _fits(prod(shape) * op.dst.dtype.bytes, launch, ctx):
        return None
    stage = Buffer(f"{op.src.buffer.name}_out", shape, op.dst.dtype, Scope.SHARED, span=span)
    stores = [_chunk_copy(op, stage, c, width) for c in range(cols // width)]
    if any(TMA.why_not(s, ctx) is not None for s in stores):
        return None
    out: list[Stmt] = [Alloc(stage, {}, span)]
    for c, store in enumerate(stores):
        # the first chunk may follow the last one of the tile before: in the same buffer if they are
        # odd
        unread = BUFFERS - 1 if c or len(stores) % BUFFERS == 0 else 0
        out += [
            Evaluate(call("tma_store_wait", [unread]), span),
            Evaluate(call("sync_threads"), span),
            _fill_chunk(op, stage, c, width, span),
            Evaluate(call("fence_proxy_async"), span),
            Evaluate(call("sync_threads"), span),
            TileStmt(store, {"lowering": "tma", "leader": True, "commit": True}, span),
        ]
    layouts = {stage: make_swizzled(shape, op.dst.dtype.bits, CHUNK_BYTES, "box")}
    return Staged(seq(out, span=span), layouts, True)


def _chunk_copy(op: Copy, stage: Buffer, c: int, width: int) -> Copy:
    """The bulk store of chunk `c`."""
    along = op.pairing.dst.index(1)
    offsets, extents = list(op.dst.offsets), list(op.dst.extents)
    offsets[along], extents[along] = offsets[along] + c * width, const(width)
    _, rows, _ = stage.shape
    source = Region(stage, (const(c % BUFFERS), const(0), const(0)), (const(1), rows, const(width)))
    return Copy(source, Region(op.dst.buffer, tuple(offsets), tuple(extents)))


def _fill_chunk(op: Copy, stage: Buffer, c: int, width: int, span: Any) -> Stmt:
    i, j = loop_vars(2)
    value = Load(op.src.buffer, points(op.src, op.pairing.src, (i, j + c * width)))
    into = Store(stage, (const(c % BUFFERS), i, j), cast(value, stage.dtype), span)
    return Parallel((i, j), (stage.shape[1], const(width)), into, {}, span)
