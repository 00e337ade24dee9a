# SPDX-License-Identifier: Apache-2.0
"""Reductions on a CPU: serial over the reduced dimension, in a local accumulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilelang.ir import Load, cast

from .base import Lowering
from .cpu import emit_loops, not_on_cuda
from .expand import combine, identity, reduce_input

if TYPE_CHECKING:
    from tilelang.ir import Builder, Expr

    from .base import LowerContext
    from .reduce import Reduce


def _emit(op: Reduce, ctx: LowerContext, b: Builder) -> None:
    acc_dtype = op.acc_dtype
    src, dst = op.src.buffer, op.dst.buffer
    acc = b.alloc("acc", (1,), acc_dtype)

    def body(loops: tuple[Expr, ...]) -> None:
        at = list(op.dst.offsets)
        for d, loop in zip(op.dst_dims, loops, strict=True):
            at[d] = at[d] + loop
        start = identity(op.kind, acc_dtype) if op.clear else cast(Load(dst, tuple(at)), acc_dtype)
        b.store(acc, (0,), start)
        with b.for_("r", op.src.extents[op.axis]) as r:
            point = list(loops)
            point.insert(op.axis, r)
            index = tuple(o + p for o, p in zip(op.src.offsets, point, strict=True))
            x = reduce_input(op.kind, cast(Load(src, index), acc_dtype))
            b.store(acc, (0,), combine(op.kind, Load(acc, (r * 0,)), x, op.nan_propagate))
        b.store(dst, at, cast(Load(acc, (r * 0,)), dst.dtype))

    emit_loops(b, op.kept, body)


CPU = Lowering("cpu", not_on_cuda, lambda op, ctx: 1.0, _emit)
