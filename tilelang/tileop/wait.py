# SPDX-License-Identifier: Apache-2.0
"""`T.wait_wgmma`: the accumulators of asynchronous gemms become readable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tilelang.ir import Effects, Region, TileOp, node

from .base import LowerContext, Lowering
from .cost import fixed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tilelang.ir import Buffer, Builder

    from .checks import CheckContext

__all__ = ["PIN_ONLY", "WaitWgmma"]

PIN_ONLY = -1


def _why_not(op: WaitWgmma, ctx: LowerContext) -> str | None:
    return None if ctx.target.is_cuda and ctx.target.has_wgmma else "the target has no wgmma"


def _nothing_to_wait_for(op: WaitWgmma, ctx: LowerContext) -> str | None:
    return "gemms may be in flight" if _why_not(op, ctx) is None else None


def _emit(op: WaitWgmma, ctx: LowerContext, b: Builder) -> None:
    from .gemm.wgmma import (
        pin,
        wait_for,
    )  # gemm and wait share the package's base: late, to break the cycle

    if op.pending == PIN_ONLY:
        for r in op.done:
            pin(b, ctx.registers[r.buffer])
    elif op.done:
        wait_for(b, op.pending, [ctx.registers[r.buffer] for r in op.done])
    else:
        wait_for(b, op.pending, ctx.in_flight if op.pending == 0 else [])


@node
class WaitWgmma(TileOp):
    """Until at most `pending` groups of asynchronous gemms are unfinished (PTX ISA,
    wgmma.wait_group). done: the accumulators that are read after it, if that is known. PIN_ONLY:
    nothing is waited for, `done` only keeps its writes before this place."""

    pending: int = 0
    done: tuple[Region, ...] = ()

    name: ClassVar[str] = "wait_wgmma"  # type: ignore[misc]
    LOWERINGS: ClassVar[tuple[Lowering, ...]] = (
        Lowering("wgmma", _why_not, fixed, _emit),
        Lowering("nothing", _nothing_to_wait_for, fixed, lambda op, ctx, b: None),
    )

    def check(self, ctx: CheckContext) -> None:
        """Any number of groups may be pending."""

    def effects(self) -> Effects:
        return Effects(opaque=True)  # it orders what it does not name: nothing may move across

    def reference(
        self, env: Mapping[Buffer, Any], safe: Mapping[Buffer, Any] | None = None
    ) -> None:
        """Gemms of the oracle finish at once."""
