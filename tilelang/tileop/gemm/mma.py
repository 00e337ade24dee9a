# SPDX-License-Identifier: Apache-2.0
"""`T.gemm` by warp-level tensor-core instructions: ldmatrix + mma.sync.m16n8kX.

In: tiles in shared memory (swizzled) or A in a fragment of operand layout, C in a fragment. Out:
for each step of 32 bytes of K, each warp loads its A and B matrices with ldmatrix and issues its
mma's. In bytes the geometry is the same for 8-, 16- and 32-bit operands; only 16-bit ones can be
transposed while they are loaded, so the others need K contiguous in both operands.
Facts: PTX ISA, "Matrix fragments for mma.m16n8k8/16/32" and "ldmatrix"."""

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
from tilelang.layout import Layout, make_swizzled, mma_a, mma_c
from tilelang.tileop.base import LowerContext, Lowering
from tilelang.tileop.cost import gemm

from .partition import warp_partition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tilelang.ir import Builder

    from .op import Gemm

__all__ = ["MMA", "STEP_BYTES", "instruction", "k_step", "operand_layout"]

ATOM_M, ATOM_N, STEP_BYTES = 16, 8, 32
_INSTRUCTIONS = {
    # operand and accumulator dtype -> their names in the instruction
    ("float16", "float32"): ("f16", "f32"),
    ("float16", "float16"): ("f16", "f16"),
    ("bfloat16", "float32"): ("bf16", "f32"),
    ("tfloat32", "float32"): ("tf32", "f32"),
    ("int8", "int32"): ("s8", "s32"),
    ("uint8", "int32"): ("u8", "s32"),
    ("float8_e4m3fn", "float32"): ("e4m3", "f32"),
    ("float8_e5m2", "float32"): ("e5m2", "f32"),
}
_FP8_ARCH = 89


def operand_type(op: Gemm, ctx: LowerContext) -> str:
    """The dtype that is multiplied: float32 counts as tf32 only where the user has allowed it."""
    a = str(op.a.dtype)
    return "tfloat32" if a == "float32" and ctx.options.allow_tf32 else a


def instruction(op: Gemm, ctx: LowerContext) -> tuple[str, str] | None:
    """The names of operand and accumulator in the instruction."""
    key = (operand_type(op, ctx), str(op.c.dtype))
    return _INSTRUCTIONS.get(key) if op.a.dtype is op.b.dtype else None


def k_step(op: Gemm) -> int:
    """Elements of K per instruction."""
    return STEP_BYTES * 8 // op.a.dtype.bits


def _chunk(op: Gemm) -> int:
    """Elements in the 16 bytes of a matrix row; also those of one A fragment per thread."""
    return k_step(op) // 2


def _partition(op: Gemm, ctx: LowerContext) -> tuple[int, int] | None:
    sizes = op.static_sizes
    if sizes is None or ctx.threads % 32:
        return None
    return warp_partition(sizes[0], sizes[1], ctx.threads // 32, op.policy, ATOM_M, ATOM_N)


def _why_not(op: Gemm, ctx: LowerContext) -> str | None:
    if not ctx.target.is_cuda or not ctx.target.has_mma:
        return "the target has no mma.sync"
    return _shape_why_not(op, ctx) or _operands_why_not(op, ctx) or _layout_why_not(op, ctx)


def _shape_why_not(op: Gemm, ctx: LowerContext) -> str | None:
    if instruction(op, ctx) is None:
        return f"there is no instruction for {op.a.dtype} x {op.b.dtype} -> {op.c.dtype}"
    if op.a.dtype.is_float and op.a.dtype.bits == 8 and ctx.target.arch < _FP8_ARCH:
        return f"mma.sync of {op.a.dtype} needs sm_{_FP8_ARCH}"
    if op.a.dtype.bits != 16 and (op.trans_a or not op.trans_b):
        return f"K must be contiguous in both operands of {op.a.dtype}"
    sizes = op.static_sizes
    if sizes is None:
        return "the tile has a symbolic size"
    if sizes[2] % k_step(op):
        return f"K = {sizes[2]} is not a multiple of {k_step(op)}"
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
        aligned = [ctx.facts.divisible(o, _chunk(op)) for o in r.offsets[-1:]]
        if r.buffer.is_shared and not all(aligned):
            return f"{r.buffer.name} is read from an offset that is no multiple of 16 bytes"
        if r.buffer.is_shared and not is_const(r.buffer.shape[-1]):
            return f"{r.buffer.name} has a symbolic shape"
        if r.buffer.is_shared and r.buffer.shape[-1].value % _chunk(op):  # type: ignore[attr-defined]
            return f"rows of {r.buffer.name} are no multiple of 16 bytes"
    return None


def _layout_why_not(op: Gemm, ctx: LowerContext) -> str | None:
    for buffer, wanted in _layouts(op, ctx).items():
        have = ctx.layouts.get(buffer)
        if buffer.is_fragment and have not in (None, wanted):
            return f"{buffer.name} already has another layout"
        if buffer.is_shared and have is not None and have.vector_width() % _chunk(op):
            return f"16 bytes of a row of {buffer.name} do not lie together in its layout"
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
    sizes, parts = op.static_sizes, _partition(op, ctx)
    assert sizes is not None
    assert parts is not None
    m, n, k = sizes
    out: dict[Buffer, Any] = {op.c.buffer: mma_c(m, n, *parts)}
    for buffer in (op.a.buffer, op.b.buffer):
        if buffer.is_fragment:
            out[buffer] = mma_a(m, k, *parts, bits=op.a.dtype.bits)
        else:  # ldmatrix reads any layout that keeps 16 bytes together
            out[buffer] = ctx.layouts.get(buffer) or operand_layout(buffer)
    return out


class _Emitter:
    """One gemm for the calling thread's warp."""

    def __init__(self, op: Gemm, ctx: LowerContext, b: Builder) -> None:
        self.op, self.ctx, self.b = op, ctx, b
        sizes, parts = op.static_sizes, _partition(op, ctx)
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
        self.step, self.chunk = k_step(op), _chunk(op)

    def emit(self) -> None:
        """Fragments are double-buffered: the matrices of the next step load while this one
        multiplies."""
        op, b = self.op, self.b
        clear = as_expr(op.clear_accum)
        with b.if_(clear), b.for_("r", self.c.shape[0], kind="unroll") as r:
            b.store(self.c, (r,), 0)
        steps = self.k // self.step
        self.copies = min(steps, 2)
        bf = b.alloc("b_frag", (self.copies * self.tiles_n * self.chunk // 2,), op.b.dtype)
        af = None
        if not op.a.buffer.is_fragment:
            af = b.alloc("a_frag", (self.copies * self.tiles_m * self.chunk,), op.a.dtype)
        self._load(af, bf, const(0))
        with b.for_("ki", steps, kind="unroll") as ki:
            with b.if_(ki + 1 < steps):
                self._load(af, bf, ki + 1)
            self._products(af, bf, ki, steps)

    def _load(self, af: Buffer | None, bf: Buffer, ki: Expr) -> None:
        if af is not None:
            self._load_a(af, self._a_base(ki), ki * self.step)
        self._load_b(bf, self._b_base(ki), ki * self.step)

    def _a_base(self, ki: Expr) -> Expr:
        return ki % self.copies * (self.tiles_m * self.chunk)

    def _b_base(self, ki: Expr) -> Expr:
        return ki % self.copies * (self.tiles_n * self.chunk // 2)

    def _address(self, r: Region, row: Expr, col: Expr) -> Expr:
        index = [*r.offsets[:-2], r.offsets[-2] + row, r.offsets[-1] + col]
        return address_of(r.buffer, *index)

    def _load_a(self, af: Buffer, base: Expr, k0: Expr) -> None:
        """Four matrices of 8 rows: rows 0-7 and 8-15 at the first 16 bytes of k, then at the
        next."""
        lane, b = self.lane, self.b
        with b.for_("mi", self.tiles_m, kind="unroll") as mi:
            m0 = self.m0 + mi * ATOM_M
            if self.op.trans_a:
                at = self._address(
                    self.op.a, k0 + lane % 8 + lane // 16 * 8, m0 + lane // 8 % 2 * 8
                )
            else:
                at = self._address(self.op.a, m0 + lane % 16, k0 + lane // 16 * self.chunk)
            to = address_of(af, base + mi * self.chunk)
            b.call("ldmatrix", 4, int(self.op.trans_a), to, at)

    def _load_b(self, bf: Buffer, base: Expr, k0: Expr) -> None:
        """Two n-tiles of 8 at a time (both 16 bytes of k of the first, then of the second)."""
        b, chunk = self.b, self.chunk
        with b.for_("ni", self.tiles_n // 2, kind="unroll") as ni:
            b.call(
                "ldmatrix",
                4,
                int(not self.op.trans_b),
                address_of(bf, base + ni * chunk),
                self._b_address(k0, ni * 16),
            )
        if self.tiles_n % 2:
            last = self.tiles_n - 1
            at = self._b_address(k0, const(last * ATOM_N))
            to = address_of(bf, base + last * chunk // 2)
            b.call("ldmatrix", 2, int(not self.op.trans_b), to, at)

    def _b_address(self, k0: Expr, n: Expr) -> Expr:
        lane, n0 = self.lane, self.n0 + n
        if self.op.trans_b:
            col = k0 + lane // 8 % 2 * self.chunk
            return self._address(self.op.b, n0 + lane % 8 + lane // 16 * 8, col)
        return self._address(self.op.b, k0 + lane % 16, n0 + lane // 16 * 8)

    def _products(self, af: Buffer | None, bf: Buffer, ki: Expr, steps: int) -> None:
        b, chunk = self.b, self.chunk
        name = f"mma_m16n8k{self.step}_{'_'.join(instruction(self.op, self.ctx) or ())}"
        with (
            b.for_("mi", self.tiles_m, kind="unroll") as mi,
            b.for_("ni", self.tiles_n, kind="unroll") as ni,
        ):
            if af is None:
                a = address_of(self.ctx.registers[self.op.a.buffer], (mi * steps + ki) * chunk)
            else:
                a = address_of(af, self._a_base(ki) + mi * chunk)
            c = address_of(self.c, (mi * self.tiles_n + ni) * 4)
            b.call(name, c, a, address_of(bf, self._b_base(ki) + ni * (chunk // 2)))


def _emit(op: Gemm, ctx: LowerContext, b: Builder) -> None:
    _Emitter(op, ctx, b).emit()


MMA = Lowering("mma", _why_not, gemm(1024), _emit, _layouts)
