# SPDX-License-Identifier: Apache-2.0
"""`T.gemm` of float64 by tensor cores: mma.sync.m8n8k4.

In: tiles in shared memory, C in a fragment. Out: for each four columns of K each lane loads one
element of A and of B per 8x8 tile of its warp (there is no ldmatrix of 64-bit elements, so either
operand may lie either way round) and issues the products.
Facts: PTX ISA, "Matrix fragments for mma.m8n8k4 with .f64 floating point type".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilelang.ir import Buffer, Expr, Load, Region, address_of, as_expr, const, is_const
from tilelang.layout import mma_c
from tilelang.tileop.base import LowerContext, Lowering
from tilelang.tileop.cost import gemm

from .mma import operand_layout
from .partition import warp_partition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tilelang.ir import Builder

    from .op import Gemm

__all__ = ["MMA_DOUBLE"]

ATOM, STEP, BITS = 8, 4, 64


def _partition(op: Gemm, ctx: LowerContext) -> tuple[int, int] | None:
    sizes = op.static_sizes
    if sizes is None or ctx.threads % 32:
        return None
    return warp_partition(sizes[0], sizes[1], ctx.threads // 32, op.policy, ATOM, ATOM)


def _why_not(op: Gemm, ctx: LowerContext) -> str | None:
    if not ctx.target.is_cuda or not ctx.target.has_mma:
        return "the target has no mma.sync"
    if any(str(r.dtype) != "float64" for r in (op.a, op.b, op.c)):
        return "it is not float64"
    sizes = op.static_sizes
    if sizes is None:
        return "the tile has a symbolic size"
    if sizes[2] % STEP:
        return f"K = {sizes[2]} is not a multiple of {STEP}"
    if _partition(op, ctx) is None:
        return (
            f"{ctx.threads} threads cannot divide a {sizes[0]} x {sizes[1]} tile into warp tiles "
            f"that are multiples of {ATOM} x {ATOM}"
        )
    if not op.c.buffer.is_fragment or not op.c.is_whole:
        return "C is not a whole fragment"
    for r in (op.a, op.b):
        if not r.buffer.is_shared:
            return f"{r.buffer.name} is not in shared memory"
        if not all(is_const(s) for s in r.buffer.shape):
            return f"{r.buffer.name} has a symbolic shape"
    have = ctx.layouts.get(op.c.buffer)
    if have not in (None, _accumulator(op, ctx)):
        return f"{op.c.buffer.name} already has another layout"
    return None


def _accumulator(op: Gemm, ctx: LowerContext) -> Any:
    sizes, parts = op.static_sizes, _partition(op, ctx)
    assert sizes is not None
    assert parts is not None
    return mma_c(sizes[0], sizes[1], *parts, bits=BITS)


def _layouts(op: Gemm, ctx: LowerContext) -> Mapping[Buffer, Any]:
    out: dict[Buffer, Any] = {op.c.buffer: _accumulator(op, ctx)}
    for buffer in (op.a.buffer, op.b.buffer):
        # single elements are read from any layout; in this one rows of a column share no bank
        out[buffer] = ctx.layouts.get(buffer) or operand_layout(buffer)
    return out


class _Emitter:
    """One gemm for the calling thread's warp."""

    def __init__(self, op: Gemm, ctx: LowerContext, b: Builder) -> None:
        self.op, self.b = op, b
        sizes, parts = op.static_sizes, _partition(op, ctx)
        assert sizes is not None
        assert parts is not None
        (m, n, self.k), (wm, wn) = sizes, parts
        self.tiles_m, self.tiles_n = m // wm // ATOM, n // wn // ATOM
        warp = ctx.tid // 32 if ctx.threads > 32 else const(0)
        lane = b.bind("lane", ctx.facts.simplify(ctx.tid % 32))
        self.row, self.quad = lane // 4, lane % 4
        # the same order as the digits of layout.mma_c: warps along N are neighbours
        self.m0 = b.bind("warp_m", ctx.facts.simplify(warp // wn * (m // wm)))
        self.n0 = b.bind("warp_n", ctx.facts.simplify(warp % wn * (n // wn)))
        self.c = ctx.registers[op.c.buffer]

    def emit(self) -> None:
        op, b = self.op, self.b
        with b.if_(as_expr(op.clear_accum)), b.for_("r", self.c.shape[0], kind="unroll") as r:
            b.store(self.c, (r,), 0)
        af = b.alloc("a_frag", (self.tiles_m,), op.a.dtype)
        bf = b.alloc("b_frag", (self.tiles_n,), op.b.dtype)
        with b.for_("ki", self.k // STEP, kind="unroll") as ki:
            k = ki * STEP + self.quad
            self._load(af, self.tiles_m, op.a, op.trans_a, self.m0 + self.row, k)
            self._load(bf, self.tiles_n, op.b, not op.trans_b, self.n0 + self.row, k)
            with (
                b.for_("mi", self.tiles_m, kind="unroll") as mi,
                b.for_("ni", self.tiles_n, kind="unroll") as ni,
            ):
                c = address_of(self.c, (mi * self.tiles_n + ni) * 2)
                b.call("mma_m8n8k4_f64_f64", c, address_of(af, mi), address_of(bf, ni))

    def _load(self, to: Buffer, count: int, r: Region, turned: bool, first: Expr, k: Expr) -> None:
        """One element per tile. turned: K is the first dimension."""
        with self.b.for_("t", count, kind="unroll") as t:
            at = first + t * ATOM
            row, col = (k, at) if turned else (at, k)
            index = (*r.offsets[:-2], r.offsets[-2] + row, r.offsets[-1] + col)
            self.b.store(to, (t,), Load(r.buffer, index))


def _emit(op: Gemm, ctx: LowerContext, b: Builder) -> None:
    _Emitter(op, ctx, b).emit()


# 64 products a cycle of an A100's multiprocessor; `gemm` counts 16-bit products.
MMA_DOUBLE = Lowering("mma_double", _why_not, gemm(256), _emit, _layouts)
