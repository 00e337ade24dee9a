# SPDX-License-Identifier: Apache-2.0
"""How much work a block of a CPU kernel is, and from how many blocks on several threads share it.

In: a `Kernel` at DEVICE stage. Out: a `Split`. The estimate counts statements times the trips of
the loops around them; it only has to tell microseconds from milliseconds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tilelang.ir import (
    Call,
    Const,
    Expr,
    For,
    Kernel,
    Load,
    Node,
    Stmt,
    Store,
    While,
    const_int,
    walk,
)
from tilelang.utils import ceildiv, prod

__all__ = ["Split", "split"]

_UNKNOWN_TRIPS = 64
_WHOLE = 60_000  # work below which a call stays on its thread: some 20 µs, four times a wake-up
_PART = 10_000  # work that a thread should find in a part


class Split(NamedTuple):
    """many: the blocks from which on threads share them. least: blocks of a part."""

    many: int
    least: int


def split(kernel: Kernel) -> Split | None:
    """None if the grid is known and too small, or if blocks write to parts of one byte."""
    if any(_writes_part_of_byte(x) for x in walk(kernel.body)):
        return None
    work = _work(kernel.body)
    many = max(2, ceildiv(_WHOLE, work))
    grid = [const_int(e) for e in kernel.grid]
    if all(n is not None for n in grid) and prod(n or 0 for n in grid) < many:
        return None
    return Split(many, max(1, ceildiv(_PART, work)))


def _writes_part_of_byte(x: Node) -> bool:
    return type(x) is Store and x.buffer.dtype.bits < 8 and x.buffer.root().is_global


def _work(s: Any) -> int:
    if s is None:
        return 0
    inner = sum(_work(x) for x in s.children if isinstance(x, Stmt))
    own = 1 + sum(_cost(x) for x in s.children if isinstance(x, Expr))
    if type(s) is For:
        trips = s.extent.value if type(s.extent) is Const else _UNKNOWN_TRIPS
        return own + max(int(trips), 0) * inner
    return own + inner * (_UNKNOWN_TRIPS if type(s) is While else 1)


def _cost(e: Node) -> int:
    """Of an expression: loads, calls (of mathematics, mostly), and the width of vectors."""
    total = 0
    for x in walk(e):
        if type(x) is Load:
            total += 1
        elif type(x) is Call and x.op not in ("fma", "address_of"):
            total += 4 * max(1, x.dtype.lanes // 4)
    return total
