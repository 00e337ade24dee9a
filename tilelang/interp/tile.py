# SPDX-License-Identifier: Apache-2.0
"""The oracle: what a function at TILE stage means, executed in numpy.

In: a `PrimFunc` as the front end made it, and its inputs (numpy arrays and numbers, outputs left
out). Out: its output arrays. Tile ops run by their `reference`, elementwise nests as whole-array
expressions, everything else statement by statement. Uninitialised memory is poison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .thread import execute

if TYPE_CHECKING:
    from tilelang.ir import PrimFunc

__all__ = ["run"]


def run(func: PrimFunc, *arguments: Any) -> list[Any]:
    """The outputs of `func`; arrays given for other parameters are changed in place."""
    return execute(func, arguments)
