# SPDX-License-Identifier: Apache-2.0
"""The lowering of any op that is correct everywhere: element loops that threads share out.

In: an op. Out: its plain form (`expand`), whose `Parallel` nests the calling pass distributes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import cost
from .base import LowerContext, Lowering
from .cpu import not_on_cpu

if TYPE_CHECKING:
    from tilelang.ir import Builder

__all__ = ["SIMT"]


def _emit(op: Any, ctx: LowerContext, b: Builder) -> None:
    from .expand import expand  # on first use: to write kernels needs none of it

    b.emit(expand(op, b.span))


SIMT = Lowering("simt", not_on_cpu, cost.simt, _emit)
