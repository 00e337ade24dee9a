# SPDX-License-Identifier: Apache-2.0
"""Bulk tensor copies between global and shared memory by the TMA unit (sm_90).

In: `Copy` between a global region and a shared tile, in one dtype. Out: one `tma_load` or
`tma_store` per box, issued by the one thread that runs the statement. Loads complete on the
mbarrier element in `ctx.annotations["barrier"]`; elements outside of the tensor are 0 on loads and
dropped on stores. Facts: PTX ISA, cp.async.bulk.tensor; CUDA driver API, cuTensorMapEncodeTiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilelang.errors import LayoutError
from tilelang.ir import (
    Evaluate,
    Region,
    TensorMap,
    Var,
    address_of,
    call,
    const,
    const_int,
    is_const,
)
from tilelang.ir.dtype import HANDLE
from tilelang.layout import Layout, make_swizzled
from tilelang.tileop.base import LowerContext, Lowering
from tilelang.tileop.cost import fixed
from tilelang.utils import prod

if TYPE_CHECKING:
    from tilelang.ir import Builder, Expr

    from .op import Copy

__all__ = ["TMA", "Boxes", "boxes_of", "tile_bytes", "tma_why_not"]

MAX_BOX = 256  # elements per box dimension
MAX_RANK = 5
ALIGN = 16  # bytes: global address, strides, inner box extent


@dataclass(frozen=True)
class Boxes:
    """How a shared tile is split: `count` boxes of `inner` columns each, swizzled over `swizzle`
    bytes."""

    inner: int
    count: int
    swizzle: int


def boxes_of(layout: Layout | None, shape: tuple[int, ...], bits: int) -> Boxes | None:
    """The boxes that write exactly this layout, or None if TMA cannot."""
    cols = shape[-1]
    if layout is None or (layout.swizzle is None and layout.is_row_major):
        return Boxes(cols, 1, 0) if cols <= MAX_BOX and cols * bits // 8 % ALIGN == 0 else None
    if layout.swizzle is None:
        return None
    width = 16 << layout.swizzle.bits
    inner = width * 8 // bits
    if width not in (32, 64, 128) or cols % inner:
        return None

    wanted = make_swizzled(shape, bits, width, "box")
    return Boxes(inner, cols // inner, width) if layout == wanted else None


def _sides(op: Copy) -> tuple[Region, Region] | None:
    """(global region, shared region), or None."""
    if op.src.buffer.is_global and op.dst.buffer.is_shared:
        return op.source, op.target
    if op.dst.buffer.is_global and op.src.buffer.is_shared:
        return op.target, op.source
    return None


def _loads(op: Copy) -> bool:
    return op.src.buffer.is_global


def tma_why_not(op: Copy, ctx: LowerContext) -> str | None:
    if not ctx.target.is_cuda or not ctx.target.has_tma:
        return "the target has no TMA"
    if not ctx.options.tma or op.disable_tma:
        return "TMA is switched off"
    if op.prefer_instruction in ("cp_async", "sync"):
        return f"prefer_instruction={op.prefer_instruction!r} was asked for"
    sides = _sides(op)
    if sides is None:
        return "it copies between global and shared memory only"
    g, s = sides
    if g.dtype is not s.dtype:
        return f"it cannot convert {op.src.dtype} to {op.dst.dtype}"
    safe = ctx.safe_values.get(g.buffer)
    if _loads(op) and safe is not None and not is_const(safe, 0):
        return f"outside of {g.buffer.name} it gives 0, not {safe}"
    return _geometry(op, g, s, ctx)


def _geometry(op: Copy, g: Region, s: Region, ctx: LowerContext) -> str | None:
    rank = len(g.buffer.shape)
    if rank > MAX_RANK:
        return f"{g.buffer.name} has more than {MAX_RANK} dimensions"
    if any(is_const(e, 0) for e in g.buffer.shape):
        return f"{g.buffer.name} is empty"
    each = ALIGN * 8 // g.dtype.bits
    strides = g.buffer.effective_strides()
    if const_int(strides[-1]) != 1:
        return f"the last dimension of {g.buffer.name} is not contiguous"
    for st in strides[:-1]:
        if not ctx.facts.divisible(st, each):
            return f"rows of {g.buffer.name} are no multiple of {ALIGN} bytes apart ({st} elements)"
    extents = [const_int(e) for e in op.pairing.extents]
    if any(e is None for e in extents):
        return "the tile has a symbolic size"
    moving = list(g.squeezed())
    if not moving or moving[-1] != rank - 1:
        return f"the tile does not run along the last dimension of {g.buffer.name}"
    if [const_int(g.extents[d]) for d in moving] != [const_int(s.extents[d]) for d in s.squeezed()]:
        return "the two sides have different shapes"
    if any(e is not None and e > MAX_BOX for e in extents[:-1]):
        return f"a box has at most {MAX_BOX} rows"
    if extents[-1] * g.dtype.bits // 8 % ALIGN:  # type: ignore[operator]
        return f"rows of the tile are no multiple of {ALIGN} bytes"
    return None


def tile_bytes(op: Copy) -> int:
    """Bytes that arrive in shared memory: the whole box, whatever part of it is outside of the
    tensor."""
    return prod([int(const_int(e) or 0) for e in op.pairing.extents]) * op.src.dtype.bits // 8


def _emit(op: Copy, ctx: LowerContext, b: Builder) -> None:
    sides = _sides(op)
    assert sides is not None
    g, s = sides
    shape = tuple(int(const_int(x) or 0) for x in s.buffer.shape)
    boxes = boxes_of(ctx.layouts.get(s.buffer), shape, s.dtype.bits)
    if boxes is None:
        raise LayoutError(
            f"TMA cannot {'fill' if _loads(op) else 'read'} {s.buffer.name}: its layout "
            f"{ctx.layouts.get(s.buffer)} is not "
            "made of boxes",
            code="TL1153",
            span=b.span,
            help="leave its layout to the compiler, or annotate "
            "tilelang.layout.make_swizzled_layout",
        )
    desc = _descriptor(g, boxes, ctx)
    leader = ctx.tid == 0 if ctx.annotations.get("leader") else const(True)
    with b.if_(leader):
        if ctx.annotations.get("leader") and _loads(op):
            b.call("mbar_announce", ctx.annotations["barrier"], tile_bytes(op))
        mask = ctx.annotations.get("cluster_mask")
        if mask is None:
            _issue(op, ctx, b, boxes, desc)
        else:
            _share(op, ctx, b, boxes, desc, mask)
        if ctx.annotations.get("commit"):
            b.call("tma_store_commit")


def _share(
    op: Copy, ctx: LowerContext, b: Builder, boxes: Boxes, desc: Var, mask: Expr
) -> None:  # fmt: skip
    """The first block of the mask loads for all of them, those outside of it for themselves."""
    rank = b.bind("rank", call("block_rank_in_cluster", [], "int32"))
    first = call("popcount", [(mask & -mask) - 1], "int32")
    with b.if_(rank == first):
        _issue(op, ctx, b, boxes, desc, mask)
    with b.if_((mask >> rank & 1) == 0):
        _issue(op, ctx, b, boxes, desc)


def _issue(
    op: Copy, ctx: LowerContext, b: Builder, boxes: Boxes, desc: Var, mask: Expr | None = None
) -> None:  # fmt: skip
    sides = _sides(op)
    assert sides is not None
    g, s = sides
    for n in range(boxes.count):
        place = [*s.offsets[:-1], s.offsets[-1] + n * boxes.inner]
        coords = [*reversed(g.offsets)]
        coords[0] = coords[0] + n * boxes.inner
        at = address_of(s.buffer, *place)
        if _loads(op):
            head = [at, desc, ctx.annotations["barrier"]]
            if mask is None:
                b.emit(Evaluate(call("tma_load", [*head, *coords]), b.span))
            else:
                b.emit(Evaluate(call("tma_load_multicast", [*head, mask, *coords]), b.span))
        else:
            b.emit(Evaluate(call("tma_store", [desc, at, *coords]), b.span))


def _descriptor(g: Region, boxes: Boxes, ctx: LowerContext) -> Var:
    """The kernel argument that describes this tensor cut into these boxes; one per distinct cut."""
    box = [1] * len(g.extents)
    for d in g.squeezed():
        box[d] = int(const_int(g.extents[d]) or 1)
    box[-1] = boxes.inner
    key = (tuple(reversed(box)), boxes.swizzle)
    for m in ctx.tensor_maps:
        if m.buffer is g.buffer and (m.box, m.swizzle) == key:
            return m.var
    var = Var(f"{g.buffer.name}_desc", HANDLE)
    dims, strides = tuple(reversed(g.buffer.shape)), tuple(reversed(g.buffer.effective_strides()))
    ctx.tensor_maps.append(TensorMap(var, g.buffer, dims, strides, key[0], boxes.swizzle, g.dtype))
    return var


TMA = Lowering("tma", tma_why_not, fixed, _emit)
