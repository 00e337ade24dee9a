# SPDX-License-Identifier: Apache-2.0
"""`T.gemm` on a CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilelang.ir import Load, as_bool, cast, const

from ..base import Lowering
from ..cpu import not_on_cuda

if TYPE_CHECKING:
    from tilelang.ir import Builder

    from ..base import LowerContext
    from .op import Gemm


def _emit(op: Gemm, ctx: LowerContext, b: Builder) -> None:
    c = op.c.buffer
    with b.for_("i", op.m) as i, b.for_("j", op.n) as j:
        at = (*op.c.offsets[:-2], op.c.offsets[-2] + i, op.c.offsets[-1] + j)
        with b.if_(as_bool(op.clear_accum)):
            b.store(c, at, const(0, c.dtype))
        with b.for_("k", op.k) as k:
            x, y = ((k, i) if op.trans_a else (i, k)), ((j, k) if op.trans_b else (k, j))
            pa = (*op.a.offsets[:-2], op.a.offsets[-2] + x[0], op.a.offsets[-1] + x[1])
            pb = (*op.b.offsets[:-2], op.b.offsets[-2] + y[0], op.b.offsets[-1] + y[1])
            prod = cast(Load(op.a.buffer, pa), c.dtype) * cast(Load(op.b.buffer, pb), c.dtype)
            b.store(c, at, Load(c, at) + prod)


CPU = Lowering("cpu", not_on_cuda, lambda op, ctx: 1.0, _emit)
