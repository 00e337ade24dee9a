# SPDX-License-Identifier: Apache-2.0
"""`T.copy` on a CPU: a loop nest over the elements, the innermost vectorised."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilelang.ir import Load, cast
from tilelang.tileop.base import Lowering
from tilelang.tileop.cost import fixed
from tilelang.tileop.cpu import emit_loops, not_on_cuda
from tilelang.tileop.regions import points

if TYPE_CHECKING:
    from tilelang.ir import Builder, Expr
    from tilelang.tileop.base import LowerContext

    from .op import Copy


def _emit(op: Copy, ctx: LowerContext, b: Builder) -> None:
    p = op.pairing

    def body(loops: tuple[Expr, ...]) -> None:
        value = Load(op.src.buffer, points(op.src, p.src, loops))
        b.store(op.dst.buffer, points(op.dst, p.dst, loops), cast(value, op.dst.dtype))

    emit_loops(b, p.extents, body)


CPU = Lowering("cpu", not_on_cuda, fixed, _emit)
