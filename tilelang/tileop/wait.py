# SPDX-License-Identifier: Apache-2.0
"""`T.wait_wgmma`: the accumulators of asynchronous gemms become readable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tilelang.ir import Effects, Region, TileOp, node, read, write

from .base import LowerContext, Lowering

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tilelang.ir import Buffer, Builder

    from .checks import CheckContext


def _why_not(op: WaitWgmma, ctx: LowerContext) -> str | None:
    return None if ctx.target.is_cuda and ctx.target.has_wgmma else "the target has no wgmma"


def _emit(op: WaitWgmma, ctx: LowerContext, b: Builder) -> None:
    from .gemm.wgmma import wait_for  # the gemm package imports this layer's base

    wait_for(b, op.pending, ctx.registers[op.c.buffer])


@node
class WaitWgmma(TileOp):
    """Until at most `pending` groups of wgmma's that accumulate into `c` are unfinished."""

    c: Region
    pending: int = 0

    name: ClassVar[str] = "wait_wgmma"  # type: ignore[misc]
    LOWERINGS: ClassVar[tuple[Lowering, ...]] = (
        Lowering("wgmma", _why_not, lambda op, ctx: 0.0, _emit),
    )

    def check(self, ctx: CheckContext) -> None:
        """Made by the compiler only."""

    def effects(self) -> Effects:
        return Effects((read(self.c), write(self.c)))

    def reference(
        self, env: Mapping[Buffer, Any], safe: Mapping[Buffer, Any] | None = None
    ) -> None:
        """Gemms of the oracle finish at once."""
