# SPDX-License-Identifier: Apache-2.0
"""What a lowering costs: cycles of a multiprocessor whose other units are idle.

In: an op and a context. Out: a number good enough to order the lowerings of one op; no time.
Rates per cycle and multiprocessor: 128 FMA lanes; mma.sync 1024 and wgmma 4096 products of 16-bit
operands, half of it at 32 bits and twice at 8 (NVIDIA A100 and H100 architecture whitepapers; what
one mma.sync reaches on sm_90 is half of wgmma at best).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilelang.ir import Region, const_int
from tilelang.utils import prod

if TYPE_CHECKING:
    from .base import LowerContext

__all__ = ["elementwise", "fixed", "gemm", "products", "simt"]

_UNKNOWN = 64  # a symbolic extent
_LANES = 128
_MISS = (
    8  # a scalar product also loads two operands from shared memory, and computes where they are
)


def fixed(op: Any, ctx: LowerContext) -> float:
    """Of the only lowering on its target."""
    return 0.0


def _extent(e: Any) -> int:
    n = const_int(e)
    return _UNKNOWN if n is None else n


def products(op: Any) -> int:
    """Multiply-adds of a gemm."""
    return prod([_extent(e) for e in (op.m, op.n, op.k)])


def gemm(per_cycle: int) -> Any:
    """The cost of a gemm by a unit that does `per_cycle` products of 16-bit operands."""
    return lambda op, ctx: products(op) * op.a.dtype.bits / 16 / per_cycle


def elementwise(op: Any, ctx: LowerContext) -> float:
    """Each element of the largest operand once, by all threads."""
    sizes = [prod([_extent(e) for e in r.extents]) for r in op.children if type(r) is Region]
    return max(sizes, default=1) / min(_LANES, max(ctx.threads, 1))


def simt(op: Any, ctx: LowerContext) -> float:
    """Element loops. A reduction keeps only the owners of its results busy."""
    if op.name == "gemm":
        return products(op) * _MISS / _LANES
    if op.name == "reduce":
        results = prod([_extent(e) for e in op.kept])
        return elementwise(op, ctx) * max(1.0, ctx.threads / max(results, 1)) * 2
    return elementwise(op, ctx)
