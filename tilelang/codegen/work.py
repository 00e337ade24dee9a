# SPDX-License-Identifier: Apache-2.0
"""How much work a block of a CPU kernel is, and from how many blocks on several threads share it.

In: a `Kernel` at DEVICE stage. Out: a `Split`. The estimate counts statements times the trips of
the loops around them; it only has to tell microseconds from milliseconds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tilelang.ir import (
    Buffer,
    Const,
    Expr,
    For,
    Kernel,
    Stmt,
    Store,
    While,
    const_int,
    mentions,
)
from tilelang.utils import ceildiv, prod

__all__ = ["Split", "split"]

_UNKNOWN_TRIPS = 64
_WHOLE = 60_000  # work below which a call stays on its thread: some 20 µs, four times a wake-up
_CHEAP = ("fma", "address_of", "make_vector", "reinterpret")


class Split(NamedTuple):
    """many: the blocks from which on threads share them. work: of a block."""

    many: int
    work: int


def split(kernel: Kernel) -> Split | None:
    """None if the grid is known and too small, or if blocks write to parts of one byte."""
    work = _work(kernel.body)
    if work is None:
        return None
    many = max(2, ceildiv(_WHOLE, work))
    grid = [const_int(e) for e in kernel.grid]
    if all(n is not None for n in grid) and prod(n or 0 for n in grid) < many:
        return None
    return Split(many, work)


def _work(s: Any) -> int | None:
    """Of a statement with all its trips; None if it writes to a part of a byte of a tensor."""
    if type(s) is Store and s.buffer.dtype.bits < 8 and s.buffer.root().is_global:
        return None
    own = inner = 0
    for x in s.children:
        if isinstance(x, Stmt):
            part = _work(x)
            if part is None:
                return None
            inner += part
        elif isinstance(x, Expr):
            own += _cost(x)
    if type(s) is For:
        trips = s.extent.value if type(s.extent) is Const else _UNKNOWN_TRIPS
        return 1 + own + max(int(trips), 0) * inner
    return 1 + own + inner * (_UNKNOWN_TRIPS if type(s) is While else 1)


def _cost(e: Expr) -> int:
    """Of an expression: what it loads, and the functions it calls (of mathematics, mostly)."""
    used = mentions(e)
    calls = sum(type(x) is str and x not in _CHEAP for x in used)
    return sum(type(x) is Buffer for x in used) + 4 * calls * max(1, e.dtype.lanes // 4)
