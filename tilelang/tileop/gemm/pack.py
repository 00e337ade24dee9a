# SPDX-License-Identifier: Apache-2.0
"""Operands of a CPU gemm in the form that its micro-kernel reads.

In: a `Gemm`. Out: the same with operands of the computing type and B not transposed, after the
`Pack`s that make them. They are statements of their own, so that blocks which share an operand can
share its packed form too (`transform.group_blocks`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tilelang.ir import (
    Alloc,
    Buffer,
    DType,
    Effects,
    Expr,
    Load,
    Ramp,
    Region,
    Scope,
    Stmt,
    TileOp,
    TileStmt,
    call,
    cast,
    const,
    node,
    read,
    write,
)
from tilelang.tileop.base import Lowering
from tilelang.tileop.cost import fixed
from tilelang.tileop.cpu import emit_loops, not_on_cuda
from tilelang.tileop.regions import region_reads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tilelang.ir import Builder
    from tilelang.tileop.base import LowerContext
    from tilelang.tileop.checks import CheckContext

    from .op import Gemm

__all__ = [
    "FACTORS", "Pack", "compute_dtype", "emit_pack", "packed", "pieces", "ramp", "vectors",
]  # fmt: skip

FACTORS = "factors"  # annotation: the dtype that the operands had before they were packed

_GATHERED = 8  # elements of one vector, each from a row of its own


def compute_dtype(op: Gemm) -> DType:
    """float32 for narrow floats; also for 8-bit integers, whose products are exact in it."""
    a, c = op.a.dtype, op.c.dtype
    if c.is_float:
        return DType("float64") if c.bits == 64 else DType("float32")
    return DType("float32") if a.bits <= 8 or a.is_float else c


def packed(s: TileStmt) -> list[Stmt]:
    """The statements for a gemm: packs of what needs it, and the gemm of their results."""
    op: Gemm = s.op  # type: ignore[assignment]
    if op.static_sizes is None or 0 in op.static_sizes:
        return [s]
    dtype = compute_dtype(op)
    out: list[Stmt] = []
    a, b = op.a, op.b
    if a.dtype is not dtype:
        a = _pack(out, a, dtype, False, s.span)
    if b.dtype is not dtype or op.trans_b:
        b = _pack(out, b, dtype, op.trans_b, s.span)
    if not out:
        return [s]
    gemm = type(op)(a, b, op.c, op.trans_a, False, op.policy, op.clear_accum)
    return [*out, TileStmt(gemm, {**s.annotations, FACTORS: op.a.dtype}, s.span)]


def _pack(out: list[Stmt], src: Region, dtype: DType, transposed: bool, span: Any) -> Region:
    shape = src.extents[-2:]
    name = f"{src.buffer.name}_packed"
    dst = Buffer(name, shape[::-1] if transposed else shape, dtype, Scope.SHARED, span=span)
    out += [Alloc(dst, {}, span), TileStmt(Pack(src, dst.whole(), transposed), {}, span)]
    return dst.whole()


def emit_pack(op: Pack, ctx: LowerContext, b: Builder) -> None:
    dst, (rows, columns) = op.dst, op.dst.extents[-2:]

    def source(i: Expr, j: Expr) -> Expr:
        x, y = (j, i) if op.transposed else (i, j)
        offsets = op.src.offsets
        return Load(op.src.buffer, (*offsets[:-2], offsets[-2] + x, offsets[-1] + y))

    def place(i: Expr, j: Expr) -> tuple[Expr, ...]:
        return (*dst.offsets[:-2], dst.offsets[-2] + i, dst.offsets[-1] + j)

    if not op.transposed:
        emit_loops(
            b, (rows, columns),
            lambda at: b.store(dst.buffer, place(*at), cast(source(*at), dst.dtype)),
        )  # fmt: skip
        return
    count = int(columns.value)  # type: ignore[attr-defined]
    whole, rest = divmod(count, _GATHERED)

    def columns_from(j0: Expr, widths: tuple[int, ...]) -> None:
        """Each row of the source is read along; a vector takes an element of each."""
        with b.for_("k", rows) as k:
            for j, n in pieces(widths):
                parts = [source(k, j0 + (j + t)) for t in range(n)]
                kind = op.src.dtype.with_lanes(n)
                value = parts[0] if n == 1 else call("make_vector", parts, kind)
                index = place(k, j0 + j)
                b.store(dst.buffer, (*index[:-1], ramp(index[-1], n)), cast(value, dst.dtype))

    with b.for_("jb", whole) as jb:
        if whole:
            columns_from(jb * _GATHERED, (_GATHERED,))
    if rest:
        columns_from(const(whole * _GATHERED), vectors(rest, _GATHERED))


@node
class Pack(TileOp):
    """dst = src, or its transpose, converted: matrices in the last two dimensions. The compiler's
    own operation: programs say `T.copy` and `T.gemm`."""

    src: Region
    dst: Region
    transposed: bool

    name: ClassVar[str] = "pack"  # type: ignore[misc]
    LOWERINGS: ClassVar[tuple[Lowering, ...]] = (Lowering("cpu", not_on_cuda, fixed, emit_pack),)

    def check(self, ctx: CheckContext) -> None:
        """Nothing that a user could get wrong."""

    def effects(self) -> Effects:
        reads = region_reads(self.src, self.dst)
        return reads | Effects((read(self.src), write(self.dst)))

    def reference(
        self, env: Mapping[Buffer, Any], safe: Mapping[Buffer, Any] | None = None
    ) -> None:
        from tilelang.tileop import numeric

        x = numeric.matrix(env[self.src.buffer], self.src)
        x = numeric.cast_array(x.T if self.transposed else x, self.src.dtype, self.dst.dtype)
        numeric.write_box(env[self.dst.buffer], self.dst, x.reshape(numeric.ints(self.dst.extents)))


def vectors(width: int, lanes: int) -> tuple[int, ...]:
    """`width` columns as vectors: whole ones, then powers of two."""
    out = [lanes] * (width // lanes)
    rest = width % lanes
    while rest:
        out.append(1 << (rest.bit_length() - 1))
        rest -= out[-1]
    return tuple(out)


def pieces(widths: tuple[int, ...]) -> list[tuple[int, int]]:
    """(first column, lanes) of vectors side by side."""
    return [(sum(widths[:v]), n) for v, n in enumerate(widths)]


def ramp(base: Expr, lanes: int) -> Expr:
    return base if lanes == 1 else Ramp(base, const(1, base.dtype), lanes)
