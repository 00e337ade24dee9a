# SPDX-License-Identifier: Apache-2.0
"""Reductions on a CPU.

In: a `Reduce` whose tiles are plain row-major arrays. Out: over the last dimension, a vector of
partial results that walks the row, then a fold of its lanes; over another one, whole rows folded
into a row:

    for i: acc[0:16] = neutral                              for j: acc[j] = neutral
           for jo: acc[l] = acc[l] + src[i, jo * 16 + l]    for r, j: acc[j] = acc[j] + src[r, j]
           dst[i] = acc[0] + acc[1] + …                     for j: dst[j] = acc[j]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilelang.ir import Buffer, Const, Expr, Load, cast, const

from .base import Lowering
from .cost import fixed
from .cpu import emit_loops, not_on_cuda
from .expand import combine, identity, reduce_input

if TYPE_CHECKING:
    from tilelang.ir import Builder

    from .base import LowerContext
    from .reduce import Reduce

__all__ = ["CPU"]

_MAX_ROW = 4096  # elements of a row of partial results: it lives on the stack


def _emit(op: Reduce, ctx: LowerContext, b: Builder) -> None:
    last = op.axis == len(op.src.extents) - 1
    row = op.src.extents[-1]
    fits = type(row) is Const and 0 < row.value <= _MAX_ROW
    if last:
        lanes = max(ctx.target.vector_bits // op.acc_dtype.bits, 1)
        emit_loops(b, op.kept, lambda at: _fold_row(op, b, at, lanes), kind="serial")
    elif fits:
        emit_loops(b, op.kept[:-1], lambda at: _fold_rows(op, b, at, row), kind="serial")
    else:
        emit_loops(b, op.kept, lambda at: _fold_row(op, b, at, 1), kind="serial")


def _source(op: Reduce, at: tuple[Expr, ...], r: Expr) -> Expr:
    """The element at `at` (the kept dimensions) and `r`, ready to be folded."""
    point = list(at)
    point.insert(op.axis, r)
    index = tuple(o + p for o, p in zip(op.src.offsets, point, strict=True))
    return reduce_input(op.kind, cast(Load(op.src.buffer, index), op.acc_dtype))


def _place(op: Reduce, at: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Indices of the result of the kept dimensions `at`."""
    index = list(op.dst.offsets)
    for d, loop in zip(op.dst_dims, at, strict=True):
        index[d] = index[d] + loop
    return tuple(index)


def _start(op: Reduce, at: tuple[Expr, ...]) -> Expr:
    if op.clear:
        return identity(op.kind, op.acc_dtype)
    return cast(Load(op.dst.buffer, _place(op, at)), op.acc_dtype)


def _step(op: Reduce, b: Builder, acc: Buffer, i: Expr, x: Expr) -> None:
    b.store(acc, (i,), combine(op.kind, Load(acc, (i,)), x, op.nan_propagate))


def _fold_row(op: Reduce, b: Builder, at: tuple[Expr, ...], lanes: int) -> None:
    """One result; `lanes` partial results, if the row is long enough."""
    n = op.src.extents[op.axis]
    lanes = min(lanes, n.value) if type(n) is Const else lanes
    acc = b.alloc("acc", (max(lanes, 1),), op.acc_dtype)
    zero = const(0)
    b.store(acc, (zero,), _start(op, at))
    if lanes > 1:
        with b.for_("l", lanes - 1, kind="vectorized") as lane:
            b.store(acc, (lane + 1,), identity(op.kind, op.acc_dtype))
    with b.for_("ro", n // max(lanes, 1)) as ro, b.for_("l", lanes, kind="vectorized") as lane:
        _step(op, b, acc, lane, _source(op, at, ro * lanes + lane))
    rest = n % max(lanes, 1)
    with b.for_("l", rest) as lane:
        _step(op, b, acc, lane, _source(op, at, n - rest + lane))
    width = lanes
    while width > 1:  # fold the upper lanes onto the lower ones
        half = (width + 1) // 2
        with b.for_("l", width - half, kind="vectorized") as lane:
            _step(op, b, acc, lane, Load(acc, (lane + half,)))
        width = half
    b.store(op.dst.buffer, _place(op, at), cast(Load(acc, (zero,)), op.dst.dtype))


def _fold_rows(op: Reduce, b: Builder, at: tuple[Expr, ...], row: Expr) -> None:
    """A row of results: the reduced dimension is not the last."""
    acc = b.alloc("acc", (row,), op.acc_dtype)
    with b.for_("j", row, kind="vectorized") as j:
        b.store(acc, (j,), _start(op, (*at, j)))
    with b.for_("r", op.src.extents[op.axis]) as r, b.for_("j", row, kind="vectorized") as j:
        _step(op, b, acc, j, _source(op, (*at, j), r))
    with b.for_("j", row, kind="vectorized") as j:
        b.store(op.dst.buffer, _place(op, (*at, j)), cast(Load(acc, (j,)), op.dst.dtype))


CPU = Lowering("cpu", not_on_cuda, fixed, _emit)
