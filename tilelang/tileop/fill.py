# SPDX-License-Identifier: Apache-2.0
"""`T.fill` and `T.clear`: one value into every element of a region."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tilelang.errors import ScopeError
from tilelang.ir import Effects, Expr, Region, Scope, TileOp, cast, expr_effects, node, write

from .base import LowerContext, Lowering
from .checks import CheckContext, describe
from .cost import fixed
from .cpu import emit_loops, not_on_cuda
from .regions import points, region_reads
from .simt import SIMT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tilelang.ir import Buffer, Builder


def _emit(op: Fill, ctx: LowerContext, b: Builder) -> None:
    dims = op.dst.squeezed()
    order = {d: n for n, d in enumerate(dims)}
    moving = [order.get(d) for d in range(len(op.dst.extents))]
    value = b.bind("value", cast(op.value, op.dst.dtype))

    def body(loops: tuple[Expr, ...]) -> None:
        b.store(op.dst.buffer, points(op.dst, moving, loops), value)

    emit_loops(b, [op.dst.extents[d] for d in dims], body)


@node
class Fill(TileOp):
    """`T.fill(dst, value)`: dst[...] = cast(value), evaluated once. Writes outside of a global
    tensor are dropped."""

    dst: Region
    value: Expr

    name: ClassVar[str] = "fill"  # type: ignore[misc]
    LOWERINGS: ClassVar[tuple[Lowering, ...]] = (
        Lowering("cpu", not_on_cuda, fixed, _emit),
        SIMT,
    )

    def check(self, ctx: CheckContext) -> None:
        if self.dst.buffer.scope == Scope.BARRIER:
            raise ScopeError(
                f"T.fill: {self.dst.buffer.name} is a barrier, which holds no data",
                code="TL0421",
                span=ctx.span,
                marks=ctx.marks("dst"),
                notes=[describe(self.dst)],
                help="barriers are initialised by T.alloc_barrier(arrive_count)",
            )

    def effects(self) -> Effects:
        reads = expr_effects(self.value) | region_reads(self.dst)
        return reads | Effects((write(self.dst),))

    def reference(
        self, env: Mapping[Buffer, Any], safe: Mapping[Buffer, Any] | None = None
    ) -> None:
        """Fills in `env`; `value` is a constant by now."""
        from . import numeric

        x = numeric.constant(numeric.value(cast(self.value, self.dst.dtype)), self.dst.dtype)
        box = numeric.broadcast(x, numeric.ints(self.dst.extents))
        numeric.write_box(env[self.dst.buffer], self.dst, box)
