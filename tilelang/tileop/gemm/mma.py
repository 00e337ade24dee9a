# SPDX-License-Identifier: Apache-2.0
"""`T.gemm` by warp-level tensor-core instructions: ldmatrix + mma.sync.m16n8k16.

In: tiles in shared memory (swizzled) or A in a fragment of operand layout, C in a fragment. Out:
for each 16-wide step of K, each warp loads its A and B matrices with ldmatrix and issues its mma's.
Facts: PTX ISA, "Matrix fragments for mma.m16n8k16" and "ldmatrix"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilelang.ir import (
    Buffer,
    Expr,
    Region,
    address_of,
    as_expr,
    const,
    const_int,
    is_const,
)
from tilelang.layout import Fragment, Layout, make_swizzled, mma_a, mma_c
from tilelang.tileop.base import LowerContext, Lowering

from .partition import warp_partition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tilelang.ir import Builder

    from .op import Gemm

__all__ = ["MMA", "operand_layout"]

ATOM_M, ATOM_N, ATOM_K = 16, 8, 16
_NAMES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}
_TYPES = {("float16", "float32"), ("float16", "float16"), ("bfloat16", "float32")}


def _sizes(op: Gemm) -> tuple[int, int, int] | None:
    sizes = [const_int(e) for e in (op.m, op.n, op.k)]
    return None if None in sizes else (sizes[0], sizes[1], sizes[2])  # type: ignore[return-value]


def _partition(op: Gemm, ctx: LowerContext) -> tuple[int, int] | None:
    sizes = _sizes(op)
    if sizes is None or ctx.threads % 32:
        return None
    return warp_partition(sizes[0], sizes[1], ctx.threads // 32, op.policy, ATOM_M, ATOM_N)


def _why_not(op: Gemm, ctx: LowerContext) -> str | None:
    if not ctx.target.is_cuda or not ctx.target.has_mma:
        return "the target has no mma.sync"
    return _shape_why_not(op, ctx) or _operands_why_not(op, ctx) or _layout_why_not(op, ctx)


def _shape_why_not(op: Gemm, ctx: LowerContext) -> str | None:
    a, c = op.a.dtype, op.c.dtype
    if (str(a), str(c)) not in _TYPES or op.b.dtype is not a:
        return f"there is no m16n8k16 for {a} x {op.b.dtype} -> {c}"
    sizes = _sizes(op)
    if sizes is None:
        return "the tile has a symbolic size"
    if sizes[2] % ATOM_K:
        return f"K = {sizes[2]} is not a multiple of {ATOM_K}"
    if _partition(op, ctx) is None:
        return (
            f"{ctx.threads} threads cannot divide a {sizes[0]} x {sizes[1]} tile into warp tiles "
            f"that are multiples of {ATOM_M} x {ATOM_N}"
        )
    return None


def _operands_why_not(op: Gemm, ctx: LowerContext) -> str | None:
    if not op.c.buffer.is_fragment or not op.c.is_whole:
        return "C is not a whole fragment"
    if not op.b.buffer.is_shared:
        return "B is not in shared memory"
    if op.a.buffer.is_fragment and (op.trans_a or not op.a.is_whole):
        return "A is a transposed or partial fragment"
    if not (op.a.buffer.is_shared or op.a.buffer.is_fragment):
        return "A is neither in shared memory nor in a fragment"
    for r in (op.a, op.b):
        if r.buffer.is_shared and not all(ctx.facts.divisible(o, 8) for o in r.offsets[-2:]):
            return f"{r.buffer.name} is read from an offset that is no multiple of 8"
        if r.buffer.is_shared and not is_const(r.buffer.shape[-1]):
            return f"{r.buffer.name} has a symbolic shape"
        if r.buffer.is_shared and r.buffer.shape[-1].value % 8:  # type: ignore[attr-defined]
            return f"rows of {r.buffer.name} are no multiple of 16 bytes"
    return None


def _layout_why_not(op: Gemm, ctx: LowerContext) -> str | None:
    wanted = _layouts(op, ctx)
    for buffer in (op.c.buffer, op.a.buffer):
        have = ctx.layouts.get(buffer)
        if isinstance(have, Fragment) and have != wanted[buffer]:
            return f"{buffer.name} already has another layout"
    return None


def operand_layout(buffer: Buffer) -> Layout:
    """The swizzled layout of a shared operand: ldmatrix reads 8 rows of 16 bytes without conflict.
    Leading dimensions (pipeline slots) stack."""
    shape = [int(const_int(s) or 0) for s in buffer.shape]
    out = make_swizzled(tuple(shape[-2:]), buffer.dtype.bits)
    for n in reversed(shape[:-2]):
        out = out.prepend(n)
    return out


def _layouts(op: Gemm, ctx: LowerContext) -> Mapping[Buffer, Any]:
    sizes, parts = _sizes(op), _partition(op, ctx)
    assert sizes is not None
    assert parts is not None
    m, n, k = sizes
    out: dict[Buffer, Any] = {op.c.buffer: mma_c(m, n, *parts)}
    if op.a.buffer.is_fragment:
        out[op.a.buffer] = mma_a(m, k, *parts)
    else:
        out[op.a.buffer] = operand_layout(op.a.buffer)
    out[op.b.buffer] = operand_layout(op.b.buffer)
    return out


class _Emitter:
    """One gemm for the calling thread's warp."""

    def __init__(self, op: Gemm, ctx: LowerContext, b: Builder) -> None:
        self.op, self.ctx, self.b = op, ctx, b
        sizes, parts = _sizes(op), _partition(op, ctx)
        assert sizes is not None
        assert parts is not None
        (m, n, self.k), (wm, wn) = sizes, parts
        self.tiles_m, self.tiles_n = m // wm // ATOM_M, n // wn // ATOM_N
        self.warp_m, self.warp_n = m // wm, n // wn
        warp = ctx.tid // 32 if ctx.threads > 32 else const(0)
        self.lane = b.bind("lane", ctx.facts.simplify(ctx.tid % 32))
        # the same order as the digits of layout.mma_c: warps along N are neighbours
        self.m0 = b.bind("warp_m", ctx.facts.simplify(warp // wn * self.warp_m))
        self.n0 = b.bind("warp_n", ctx.facts.simplify(warp % wn * self.warp_n))
        self.c = ctx.registers[op.c.buffer]

    def emit(self) -> None:
        """Fragments are double-buffered: the matrices of the next step load while this one
        multiplies."""
        op, b = self.op, self.b
        clear = as_expr(op.clear_accum)
        with b.if_(clear), b.for_("r", self.c.shape[0], kind="unroll") as r:
            b.store(self.c, (r,), 0)
        steps = self.k // ATOM_K
        self.copies = min(steps, 2)
        bf = b.alloc("b_frag", (self.copies * self.tiles_n * 4,), op.b.dtype)
        af = None
        if not op.a.buffer.is_fragment:
            af = b.alloc("a_frag", (self.copies * self.tiles_m * 8,), op.a.dtype)
        self._load(af, bf, const(0))
        with b.for_("ki", steps, kind="unroll") as ki:
            with b.if_(ki + 1 < steps):
                self._load(af, bf, ki + 1)
            self._products(af, bf, ki, steps)

    def _load(self, af: Buffer | None, bf: Buffer, ki: Expr) -> None:
        if af is not None:
            self._load_a(af, ki % self.copies * (self.tiles_m * 8), ki * ATOM_K)
        self._load_b(bf, ki % self.copies * (self.tiles_n * 4), ki * ATOM_K)

    def _address(self, r: Region, row: Expr, col: Expr) -> Expr:
        index = [*r.offsets[:-2], r.offsets[-2] + row, r.offsets[-1] + col]
        return address_of(r.buffer, *index)

    def _load_a(self, af: Buffer, base: Expr, k0: Expr) -> None:
        """Four 8x8 matrices: rows 0-7 and 8-15 at k 0-7, then at k 8-15."""
        lane, b = self.lane, self.b
        with b.for_("mi", self.tiles_m, kind="unroll") as mi:
            m0 = self.m0 + mi * ATOM_M
            if self.op.trans_a:
                at = self._address(
                    self.op.a, k0 + lane % 8 + lane // 16 * 8, m0 + lane // 8 % 2 * 8
                )
            else:
                at = self._address(self.op.a, m0 + lane % 16, k0 + lane // 16 * 8)
            b.call("ldmatrix", 4, int(self.op.trans_a), address_of(af, base + mi * 8), at)

    def _load_b(self, bf: Buffer, base: Expr, k0: Expr) -> None:
        """Two n-tiles of 8 at a time (k 0-7 and 8-15 of the first, then of the second)."""
        b = self.b
        with b.for_("ni", self.tiles_n // 2, kind="unroll") as ni:
            b.call(
                "ldmatrix",
                4,
                int(not self.op.trans_b),
                address_of(bf, base + ni * 8),
                self._b_address(k0, ni * 16),
            )
        if self.tiles_n % 2:
            last = self.tiles_n - 1
            at = self._b_address(k0, const(last * ATOM_N))
            b.call("ldmatrix", 2, int(not self.op.trans_b), address_of(bf, base + last * 4), at)

    def _b_address(self, k0: Expr, n: Expr) -> Expr:
        lane, n0 = self.lane, self.n0 + n
        if self.op.trans_b:
            return self._address(self.op.b, n0 + lane % 8 + lane // 16 * 8, k0 + lane // 8 % 2 * 8)
        return self._address(self.op.b, k0 + lane % 16, n0 + lane // 16 * 8)

    def _products(self, af: Buffer | None, bf: Buffer, ki: Expr, steps: int) -> None:
        b, op = self.b, self.op
        name = f"mma_m16n8k16_{_NAMES[op.a.dtype]}_{_NAMES[op.c.dtype]}"
        with (
            b.for_("mi", self.tiles_m, kind="unroll") as mi,
            b.for_("ni", self.tiles_n, kind="unroll") as ni,
        ):
            if af is None:
                a = address_of(self.ctx.registers[op.a.buffer], (mi * steps + ki) * 8)
            else:
                a = address_of(af, ki % self.copies * (self.tiles_m * 8) + mi * 8)
            c = address_of(self.c, (mi * self.tiles_n + ni) * 4)
            b.call(name, c, a, address_of(bf, ki % self.copies * (self.tiles_n * 4) + ni * 4))


def _emit(op: Gemm, ctx: LowerContext, b: Builder) -> None:
    _Emitter(op, ctx, b).emit()


MMA = Lowering("mma", _why_not, lambda op, ctx: 10.0, _emit, _layouts)
