# SPDX-License-Identifier: Apache-2.0
"""Operands of a gemm that have come out of something else in another layout.

In: a gemm and the layouts known so far. Out: the fragments whose conversion lets it run on tensor
cores. A product of plain loops costs far more than converting its operands.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .mma import MMA
from .wgmma import WGMMA

if TYPE_CHECKING:
    from tilelang.ir import Buffer
    from tilelang.tileop.base import LowerContext

    from .op import Gemm

__all__ = ["foreign_fragments"]


def foreign_fragments(op: Gemm, ctx: LowerContext) -> list[Buffer]:
    """The fragments among A and C to convert; none if a tensor-core instruction takes all as they
    are, or none takes them in any layout."""
    tensor_cores = (WGMMA, MMA)
    if not ctx.target.is_cuda or any(low.why_not(op, ctx) is None for low in tensor_cores):
        return []
    fragments = [b for b in dict.fromkeys((op.a.buffer, op.c.buffer)) if b.is_fragment]
    free = replace(ctx, layouts={b: x for b, x in ctx.layouts.items() if b not in fragments})
    for low in tensor_cores:
        if low.why_not(op, free) is None:
            wanted = low.layouts(op, free)
            return [b for b in fragments if ctx.layouts.get(b, wanted[b]) != wanted[b]]
    return []
