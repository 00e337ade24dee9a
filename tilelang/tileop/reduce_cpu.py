# SPDX-License-Identifier: Apache-2.0
"""Reductions on a CPU.

In: a `Reduce` whose tiles are plain row-major arrays. Out: over the last dimension, a loop whose
order is free, which `vectorize_loops` turns into several vectors of partial results; over another
one, whole rows folded into a row:

    for i: acc[0] = neutral                                 for j: acc[j] = neutral
           for r: acc[0] = acc[0] + src[i, r]               for r, j: acc[j] = acc[j] + src[r, j]
           dst[i] = acc[0]                                  for j: dst[j] = acc[j]
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
        emit_loops(b, op.kept, lambda at: _fold_row(op, b, at), kind="serial")
    elif fits:
        emit_loops(b, op.kept[:-1], lambda at: _fold_rows(op, b, at, row), kind="serial")
    else:
        emit_loops(b, op.kept, lambda at: _fold_row(op, b, at), kind="serial")


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
    start = identity(op.kind, op.acc_dtype)
    if op.clear:
        return start
    old = cast(Load(op.dst.buffer, _place(op, at)), op.acc_dtype)
    if not op.kind.endswith(("max", "min")):
        return old
    return combine(op.kind, old, start, op.nan_propagate)  # a row of NaN is an empty one


def _step(op: Reduce, b: Builder, acc: Buffer, i: Expr, x: Expr) -> None:
    b.store(acc, (i,), combine(op.kind, Load(acc, (i,)), x, op.nan_propagate))


def _fold_row(op: Reduce, b: Builder, at: tuple[Expr, ...]) -> None:
    """One result."""
    acc, zero = b.alloc("acc", (1,), op.acc_dtype), const(0)
    b.store(acc, (zero,), _start(op, at))
    n = op.src.extents[op.axis]
    with b.for_("r", n, kind="vectorized", reassociate=True) as r:
        _step(op, b, acc, zero, _source(op, at, r))
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
