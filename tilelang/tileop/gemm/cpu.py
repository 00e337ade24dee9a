# SPDX-License-Identifier: Apache-2.0
"""`T.gemm` on a CPU: a register-blocked micro-kernel.

In: a `Gemm` whose tiles are plain row-major arrays. Out: loops over panels of B (kept in the first
cache), panels of A, and k; the innermost body is unrolled over the accumulators, which have
constant indices in a local array, so that a code generator keeps them in vector registers:

    for j0, i0:                                  # nr columns, mr rows
        acc[0:mr * nr] = C[i0 …, j0 …]
        for k:  acc[r, v] = fma(A[i0 + r, k], B[k, j0 + v], acc[r, v])      # for all r, v
        C[i0 …, j0 …] = acc

Operands are of the computing type and B has its rows along N: `pack` sees to that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING, Any

from tilelang.ir import (
    Alloc,
    Broadcast,
    Buffer,
    Const,
    DType,
    Expr,
    Load,
    Region,
    TileStmt,
    as_bool,
    call,
    cast,
    const,
    minimum,
)  # fmt: skip
from tilelang.tileop.base import Lowering
from tilelang.tileop.cost import fixed
from tilelang.tileop.cpu import not_on_cuda
from tilelang.utils import ceildiv

from .pack import FACTORS, Pack, compute_dtype, emit_pack, packed, pieces, ramp, vectors

if TYPE_CHECKING:
    from tilelang.ir import Builder
    from tilelang.tileop.base import LowerContext

    from .op import Gemm

__all__ = ["CPU"]

_PANEL_DEPTH = 256  # rows of B in a panel: with 32 columns of float32 that is 32 KiB
_PAGE = 4096  # bytes after which addresses fall into the same sets of a first-level cache
_WAYS = 8
# Floats from 2^23 to 2^24 are the integers, their bit patterns are consecutive: a sum of integers
# that starts in the middle is exact, and its bits less those of the start are the sum, while it is
# < 2^22.
_MAGIC, _MAGIC_BITS, _MAGIC_REACH = 1.5 * 2**23, 0x4B400000, 2**22
_LATENCY = 8  # accumulators that hide the latency of two fma units (4 cycles each)

At = Callable[[Expr, Expr], Expr]


@dataclass(frozen=True)
class _Plan:
    """m, n, k: the tile. dtype: computed in. lanes: of a vector of it. depth: k per chunk."""

    m: int
    n: int
    k: int
    dtype: DType
    lanes: int
    registers: int
    depth: int

    def rows(self, vectors: int) -> int:
        """Rows per micro-kernel: accumulators, one row of B and one broadcast fit the registers."""
        most = max((self.registers - vectors - 1) // vectors, 1)

        def cost(r: int) -> int:
            return max(r * vectors, r + vectors, _LATENCY)

        def total(mr: int) -> tuple[int, bool, int]:
            rest = self.m % mr
            return self.m // mr * cost(mr) + (cost(rest) if rest else 0), rest > 0, -mr

        return min(range(1, min(most, self.m) + 1), key=total)


def _largest(dtype: DType) -> int:
    """The largest magnitude of an integer."""
    return 1 << (dtype.bits - 1) if dtype.kind == "int" else (1 << dtype.bits) - 1


def _plan(op: Gemm, ctx: LowerContext) -> _Plan | None:
    sizes = (op.m, op.n, op.k)
    if not all(type(e) is Const and e.value > 0 for e in sizes):
        return None
    m, n, k = (int(e.value) for e in sizes if type(e) is Const)
    dtype = compute_dtype(op)
    depth = min(k, _PANEL_DEPTH)
    if dtype.is_float and not op.c.dtype.is_float:
        factor = _largest(ctx.annotations.get(FACTORS, op.a.dtype))
        depth = min(k, (_MAGIC_REACH - 1) // factor**2)
    for d in range(depth, depth // 2, -1):
        if k % d == 0:
            depth = d
            break
    lanes = max(ctx.target.vector_bits // dtype.bits, 1)
    return _Plan(m, n, k, dtype, lanes, ctx.target.vector_registers, depth)


def _at(r: Region, transposed: bool) -> Callable[[Expr, Expr], tuple[Expr, ...]]:
    """Indices of element (i, j) of the (transposed) matrix in the buffer."""

    def index(i: Expr, j: Expr) -> tuple[Expr, ...]:
        x, y = (j, i) if transposed else (i, j)
        return (*r.offsets[:-2], r.offsets[-2] + x, r.offsets[-1] + y)

    return index


def _emit(op: Gemm, ctx: LowerContext, b: Builder) -> None:
    for s in packed(TileStmt(op)):
        part: Any = s
        if type(s) is Alloc:
            b.emit(s)
        elif type(part.op) is Pack:
            emit_pack(part.op, ctx, b)
        else:
            notes = {**ctx.annotations, **part.annotations}
            _emit_packed(part.op, replace(ctx, annotations=notes), b)


def _emit_packed(op: Gemm, ctx: LowerContext, b: Builder) -> None:
    plan = _plan(op, ctx)
    if plan is None:
        _emit_plain(op, b)
        return
    chunks = ceildiv(plan.k, plan.depth)
    clear: Expr = as_bool(op.clear_accum)
    if chunks > 1 or op.clears is None:
        _clear(op, b, clear)
        clear = const(False)
    with b.for_("kb", chunks) as kb:
        k0 = kb * plan.depth
        whole = plan.k % plan.depth == 0
        depth: Expr = const(plan.depth) if whole else minimum(const(plan.depth), plan.k - k0)
        _Panels(op, plan, b, clear, k0, depth).emit()


def _clear(op: Gemm, b: Builder, clear: Expr) -> None:
    at = _at(op.c, False)
    with b.if_(clear), b.for_("i", op.m) as i, b.for_("j", op.n, kind="vectorized") as j:
        b.store(op.c.buffer, at(i, j), const(0, op.c.dtype))


def _emit_plain(op: Gemm, b: Builder) -> None:
    """Three loops, for tiles whose extents only the run knows."""
    c, at, dtype = op.c.buffer, _at(op.c, False), op.c.dtype
    x_at, y_at = _at(op.a, op.trans_a), _at(op.b, op.trans_b)
    _clear(op, b, as_bool(op.clear_accum))
    with b.for_("i", op.m) as i, b.for_("k", op.k) as k:
        x = b.bind("x", cast(Load(op.a.buffer, x_at(i, k)), dtype))
        with b.for_("j", op.n, kind="vectorized") as j:
            y = cast(Load(op.b.buffer, y_at(k, j)), dtype)
            b.store(c, at(i, j), Load(c, at(i, j)) + x * y)


class _Panels:
    """Writes one chunk of k: the micro-kernels over the whole tile."""

    def __init__(
        self, op: Gemm, plan: _Plan, b: Builder, clear: Expr, k0: Expr, depth: Expr
    ) -> None:
        self.op, self.plan, self.b, self.clear = op, plan, b, clear
        self.k0, self.depth = k0, depth
        self.c_at = _at(op.c, False)

    def _thrashes(self) -> bool:
        """Do the rows of a panel of B fall into so few cache sets that they evict each other?"""
        shape = self.op.b.buffer.static_shape
        if shape is None or self.plan.m < 4 * self.plan.rows(2):
            return False
        stride = shape[-1] * self.plan.dtype.bytes
        return _PAGE // gcd(stride, _PAGE) * _WAYS < self.plan.depth

    def emit(self) -> None:
        a = self._rows_of_a()
        width = 2 * self.plan.lanes
        panels, rest = divmod(self.plan.n, width)
        with self.b.for_("jb", panels, vectors=True) as jb:
            if panels:
                self._panel(a, jb * width, (self.plan.lanes,) * 2)
        if rest:
            self._panel(a, const(panels * width), vectors(rest, self.plan.lanes))

    def _rows_of_a(self) -> At:
        op, source = self.op, _at(self.op.a, self.op.trans_a)
        return lambda i, k: Load(op.a.buffer, source(i, self.k0 + k))

    def _panel(self, a: At, j0: Expr, widths: tuple[int, ...]) -> None:
        """All rows of the columns from j0 on."""
        row = self._rows_of_b(j0, sum(widths))
        mr = self.plan.rows(len(widths))
        panels, rest = divmod(self.plan.m, mr)
        with self.b.for_("ib", panels, vectors=True) as ib:
            self._micro(a, row, ib * mr, j0, mr, widths)
        if rest:
            self._micro(a, row, const(panels * mr), j0, rest, widths)

    def _rows_of_b(self, j0: Expr, width: int) -> Callable[[Expr, int, int], Expr]:
        """(k, column, lanes) -> that vector of B in the computing type."""
        op, b, plan = self.op, self.b, self.plan
        source = _at(op.b, False)
        if not self._thrashes():
            return lambda k, j, lanes: _vector(op.b.buffer, source(self.k0 + k, j0 + j), lanes)
        packed = b.alloc("b_panel", (plan.depth * width,), plan.dtype)
        with b.for_("k", self.depth) as k:
            for j, n in pieces(vectors(width, plan.lanes)):
                row = _vector(op.b.buffer, source(self.k0 + k, j0 + j), n)
                b.store(packed, (ramp(k * width + j, n),), row)
        return lambda k, j, lanes: _vector(packed, (k * width + j,), lanes)

    def _micro(
        self,
        a: At,
        row: Callable[[Expr, int, int], Expr],
        i0: Expr,
        j0: Expr,
        rows: int,
        widths: tuple[int, ...],
    ) -> None:
        b, dtype, width = self.b, self.plan.dtype, sum(widths)
        acc = b.alloc("acc", (rows * width,), dtype)
        cells = [(r, j, n) for r in range(rows) for j, n in pieces(widths)]
        for r, j, n in cells:
            b.store(acc, (ramp(const(r * width + j), n),), self._start(i0 + r, j0 + j, n))
        with b.for_("k", self.depth) as k:
            ys = {j: b.bind("b", row(k, j, n)) for r, j, n in cells if r == 0}
            for r in range(rows):
                x = b.bind("a", a(i0 + r, k))
                for j, n in [(j, n) for q, j, n in cells if q == r]:
                    at = const(r * width + j)
                    b.store(acc, (ramp(at, n),), _fma(_wide(x, n), ys[j], _vector(acc, (at,), n)))
        for r, j, n in cells:
            value = _vector(acc, (const(r * width + j),), n)
            index = self.c_at(i0 + r, j0 + j)
            b.store(self.op.c.buffer, _ramped(index, n), self._finish(value, index, n))

    @property
    def _counts(self) -> bool:
        """Are integers summed in floating point?"""
        return self.plan.dtype.is_float and not self.op.c.dtype.is_float

    def _start(self, i: Expr, j: Expr, lanes: int) -> Expr:
        zero = _wide(const(0, self.plan.dtype), lanes)
        if self._counts:
            return _wide(const(_MAGIC, self.plan.dtype), lanes)
        if type(self.clear) is Const and self.clear.value:
            return zero
        return cast(_vector(self.op.c.buffer, self.c_at(i, j), lanes), zero.dtype)

    def _finish(self, value: Expr, index: tuple[Expr, ...], lanes: int) -> Expr:
        c = self.op.c.dtype.with_lanes(lanes)
        if not self._counts:
            return cast(value, c)
        bits = call("reinterpret", (value,), DType("int32").with_lanes(lanes))
        whole = cast(bits - _wide(const(_MAGIC_BITS), lanes), c)
        if type(self.clear) is Const and self.clear.value:
            return whole
        return _vector(self.op.c.buffer, index, lanes) + whole


def _ramped(index: tuple[Expr, ...], lanes: int) -> tuple[Expr, ...]:
    return (*index[:-1], ramp(index[-1], lanes))


def _vector(buffer: Buffer, index: tuple[Expr, ...], lanes: int) -> Expr:
    return Load(buffer, _ramped(index, lanes))


def _wide(x: Expr, lanes: int) -> Expr:
    return x if lanes == 1 else Broadcast(x, lanes)


def _fma(x: Expr, y: Expr, z: Expr) -> Expr:
    return call("fma", (x, y, z), z.dtype) if z.dtype.is_float else x * y + z


CPU = Lowering("cpu", not_on_cuda, fixed, _emit)
