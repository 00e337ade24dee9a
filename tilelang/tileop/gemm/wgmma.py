# SPDX-License-Identifier: Apache-2.0
"""`T.gemm` by warpgroup-level tensor-core instructions (sm_90a): wgmma.mma_async from shared
memory.

In: B in a shared tile, A in another or in registers, C in a fragment. Out: one asynchronous group
of wgmma's, which is waited for. Ordinary writes to the tiles need a proxy fence first:
`insert_syncs` places it. Where `ctx.annotations` have `in_flight`, whoever put it there orders the
tiles (by mbarriers), and if it is not 0 the group stays unfinished.
Facts: PTX ISA, "Asynchronous warpgroup level matrix instructions": matrix descriptors, register
fragments; the leading/stride byte offsets per swizzle and major were checked on an H200.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilelang.ir import (
    Buffer,
    Expr,
    Region,
    address_of,
    as_expr,
    call,
    cast,
    const,
    const_int,
    logical_not,
    logical_or,
)
from tilelang.layout import Layout, make_swizzled, wgmma_a, wgmma_c
from tilelang.tileop.base import LowerContext, Lowering
from tilelang.tileop.cost import gemm

from .mma import STEP_BYTES, instruction, k_step
from .partition import FULL_COL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tilelang.ir import Builder

    from .op import Gemm

__all__ = ["WGMMA", "box_layout", "wait_for"]

WARPGROUP = 128
ATOM_M, MAX_N = 64, 256
_SWIZZLE_CODE = {128: 1, 64: 2, 32: 3}


def _legal_columns(op: Gemm, n: int) -> bool:
    """PTX ISA, wgmma.mma_async: N is a multiple of 8; of integers beyond 24, of 16."""
    return n % 8 == 0 and n <= MAX_N and (op.a.dtype.is_float or n <= 24 or n % 16 == 0)


def _partition(op: Gemm, groups: int) -> tuple[int, int] | None:
    """Warpgroups along M first (they share B), then along N; with FULL_COL the other way round."""
    sizes = op.static_sizes
    assert sizes is not None
    order = range(1, groups + 1) if op.policy == FULL_COL else range(groups, 0, -1)
    for gm in order:
        gn = groups // gm
        whole = gm * gn == groups and sizes[0] % (ATOM_M * gm) == 0 and sizes[1] % gn == 0
        if whole and _legal_columns(op, sizes[1] // gn):
            return gm, gn
    return None


def _why_not(op: Gemm, ctx: LowerContext) -> str | None:
    if not ctx.target.is_cuda or not ctx.target.has_wgmma:
        return "the target has no wgmma"
    if not ctx.options.wgmma:
        return "wgmma is switched off"
    if not ctx.options.auto_sync and "in_flight" not in ctx.annotations:
        return "its fences come with the automatic barriers, which are switched off"
    return operand_why_not(op, ctx) or _layout_why_not(op, ctx)


def _layout_why_not(op: Gemm, ctx: LowerContext) -> str | None:
    for buffer, layout in _layouts(op, ctx).items():
        if ctx.layouts.get(buffer, layout) != layout:
            return f"{buffer.name} already has another layout"
    return None


def _register_a(op: Gemm) -> bool:
    return op.a.buffer.is_fragment and op.a.is_whole and not op.trans_a


def operand_why_not(op: Gemm, ctx: LowerContext) -> str | None:
    """What speaks against wgmma when TMA stages the operands."""
    if instruction(op, ctx) is None:
        return f"there is no such wgmma for {op.a.dtype} x {op.b.dtype} -> {op.c.dtype}"
    if not op.b.buffer.is_shared:
        return "B is not in shared memory"
    if not op.a.buffer.is_shared and not _register_a(op):
        return "A is neither in shared memory nor a whole fragment that is not transposed"
    if not op.c.buffer.is_fragment or not op.c.is_whole:
        return "C is not a whole fragment"
    sizes = op.static_sizes
    if sizes is None:
        return "the tile has a symbolic size"
    if sizes[2] % k_step(op):
        return f"K = {sizes[2]} is not a multiple of {k_step(op)}"
    if op.a.dtype.bits != 16 and (op.trans_a or not op.trans_b):
        return f"K must be contiguous in both operands of {op.a.dtype}"
    if ctx.threads % WARPGROUP:
        return f"{ctx.threads} threads are not whole warpgroups of {WARPGROUP}"
    for r in (op.b,) if _register_a(op) else (op.a, op.b):
        reason = _shared_why_not(r)
        if reason is not None:
            return reason
    return _division_why_not(op, ctx)


def _shared_why_not(r: Region) -> str | None:
    """What speaks against a matrix descriptor of this operand."""
    b = r.buffer
    if b.view_of is not None or b.static_shape is None:
        return f"{b.name} is a view of another buffer, or has a symbolic shape"
    if r.extents[-2:] != b.shape[-2:]:
        return f"only a part of {b.name} is multiplied"
    if b.shape[-1].value * b.dtype.bits // 8 % 32:  # type: ignore[attr-defined]
        return f"rows of {b.name} are no multiple of 32 bytes"
    if b.shape[-2].value % 8:  # type: ignore[attr-defined]
        return f"{b.name} has a number of rows that is no multiple of 8"
    return None


def _division_why_not(op: Gemm, ctx: LowerContext) -> str | None:
    """What speaks against the shares of the warpgroups."""
    groups, sizes = ctx.threads // WARPGROUP, op.static_sizes
    assert sizes is not None
    m, n, _ = sizes
    parts = _partition(op, groups)
    if parts is None:
        tile = f"a {m} x {n} tile into multiples of {ATOM_M} x 8"
        return f"{groups} warpgroups cannot divide {tile}"
    b = Operand.of(op.b, op.trans_b)
    if parts[1] > 1 and not b.k_major and n // parts[1] % b.columns_of_box:
        return (
            f"{n // parts[1]} columns of {op.b.buffer.name} for each warpgroup are no whole number "
            f"of boxes of {b.columns_of_box}"
        )
    return None


def box_layout(buffer: Buffer) -> Layout:
    """The tile as TMA boxes of the widest swizzle, one after the other; leading dimensions
    stack."""
    shape = tuple(int(const_int(s) or 0) for s in buffer.shape)
    return make_swizzled(shape, buffer.dtype.bits, None, "box")


def _layouts(op: Gemm, ctx: LowerContext) -> Mapping[Buffer, Any]:
    sizes = op.static_sizes
    assert sizes is not None
    m, n, k = sizes
    parts = _partition(op, ctx.threads // WARPGROUP)
    assert parts is not None
    registers = _register_a(op)
    return {
        op.c.buffer: wgmma_c(m, n, *parts),
        op.a.buffer: wgmma_a(m, k, *parts, bits=op.a.dtype.bits)
        if registers
        else box_layout(op.a.buffer),
        op.b.buffer: box_layout(op.b.buffer),
    }


@dataclass(frozen=True)
class Operand:
    """A shared operand: the bytes to step along K (per 32) and along M or N (per element row).

    k_major: K is contiguous. width: bytes of a swizzled row. rows: rows of a box.
    """

    region: Region
    k_major: bool
    width: int
    rows: int

    @staticmethod
    def of(r: Region, k_major: bool) -> Operand:
        row_bytes = (const_int(r.buffer.shape[-1]) or 0) * r.dtype.bits // 8
        width = next(w for w in (128, 64, 32) if row_bytes % w == 0)
        return Operand(r, k_major, width, const_int(r.buffer.shape[-2]) or 0)

    @property
    def box(self) -> int:
        """Bytes of one box."""
        return self.rows * self.width

    @property
    def columns_of_box(self) -> int:
        """Elements of M or N side by side in a box, where these are contiguous."""
        return self.width * 8 // self.region.dtype.bits

    def descriptor(self) -> Expr:
        start = address_of(self.region.buffer, *self.region.offsets)
        lbo = 16 if self.k_major else self.box  # K-major swizzled: not used by the hardware
        return call("wgmma_desc", (start, lbo, 8 * self.width, _SWIZZLE_CODE[self.width]), "uint64")

    def k_offset(self, step: Any) -> Any:
        """Bytes from the start to k-step `step`."""
        if not self.k_major:
            return step * (STEP_BYTES * 8 // self.region.dtype.bits * self.width)
        per_box = self.width // STEP_BYTES
        return step // per_box * self.box + step % per_box * STEP_BYTES

    def outer_offset(self, at: Any) -> Any:
        """Bytes from the start to row (or column) `at` of the outer dimension."""
        if self.k_major:
            return at * self.width
        # pieces begin at whole boxes, see _division_why_not
        return at // self.columns_of_box * self.box


def _emit(op: Gemm, ctx: LowerContext, b: Builder) -> None:
    sizes = op.static_sizes
    assert sizes is not None
    m, n, k = sizes
    parts, types = _partition(op, ctx.threads // WARPGROUP), instruction(op, ctx)
    assert parts is not None
    assert types is not None
    tiles, cols, steps = m // parts[0] // ATOM_M, n // parts[1], k // k_step(op)
    bb = Operand.of(op.b, op.trans_b)
    regs = ctx.registers[op.c.buffer]
    kept = logical_not(as_expr(op.clear_accum))
    group = ctx.warpgroup if ctx.warpgroup is not None else warpgroup_index(b, ctx)
    b_off = bb.outer_offset(group % parts[1] * cols) if parts[1] > 1 else const(0)
    db = b.bind("desc_b", bb.descriptor() + cast(b_off // 16, "uint64"))
    left = _left_operand(op, ctx, b, group // parts[1] * (m // parts[0]), steps)
    form = "rs" if _register_a(op) else "ss"
    name = f"wgmma_m64n{cols}k{k_step(op)}_{types[0]}_{types[1]}_{form}"
    asynchronous = bool(ctx.annotations.get("in_flight"))
    if not asynchronous and op.clears is not True:
        pin(b, regs)  # what was written to them stays before: else ptxas may not overlap anything
    b.call("wgmma_fence")
    with (
        b.for_("ki", steps, kind="unroll") as ki,
        b.for_("mi", tiles, kind="unroll") as mi,
    ):
        at_b = db + cast(as_expr(bb.k_offset(ki)) // 16, "uint64")
        at_c = address_of(regs, mi * (cols // 2))
        adds = cast(logical_or(ki > 0, kept), "int32")  # the first product of a sum may replace it
        b.call(name, int(op.trans_a), int(not op.trans_b), at_c, left(mi, ki), at_b, adds)
    b.call("wgmma_commit")
    if asynchronous:
        if not any(regs is r for r in ctx.in_flight):
            ctx.in_flight.append(regs)
    else:
        wait_for(b, 0, [regs])


def _left_operand(
    op: Gemm, ctx: LowerContext, b: Builder, first_row: Expr, steps: int
) -> Callable[[Expr, Expr], Expr]:
    """(row tile, k step) -> the A operand there: registers, or a descriptor."""
    if _register_a(op):
        regs = ctx.registers[op.a.buffer]
        each = k_step(op) // 2  # of the 64 x k operand a thread holds 64 k / 128
        return lambda mi, ki: address_of(regs, (mi * steps + ki) * each)
    a = Operand.of(op.a, not op.trans_a)
    start = a.outer_offset(first_row)
    da = b.bind("desc_a", a.descriptor() + cast(start // 16, "uint64"))
    return lambda mi, ki: da + cast((a.k_offset(ki) + a.outer_offset(mi * ATOM_M)) // 16, "uint64")


def warpgroup_index(b: Builder, ctx: LowerContext) -> Expr:
    """Index of the calling thread's warpgroup, in a form that the compiler knows to be uniform."""
    if ctx.threads <= WARPGROUP:
        return const(0)
    return b.bind("warpgroup", call("warp_uniform", (ctx.tid // WARPGROUP,), "int32"))


def wait_for(b: Builder, pending: int, accumulators: Sequence[Buffer]) -> None:
    """Waits, and keeps the compiler from reading accumulators before it."""
    b.call("wgmma_wait", pending)
    for regs in accumulators:
        pin(b, regs)


def pin(b: Builder, regs: Buffer) -> None:
    """Reads and writes of registers stay on their side of this."""
    b.call("reg_fence", regs.shape[0], address_of(regs, 0))


WGMMA = Lowering("wgmma", _why_not, gemm(4096), _emit, _layouts)
