# SPDX-License-Identifier: Apache-2.0
"""Is a schedule that the user wrote (`order=`, `stage=`) one that keeps every dependence?

In: the items in their new order. Out: nothing, or an OptionError that names the two statements.
"""

from __future__ import annotations

from typing import Any

from tilelang.errors import OptionError
from tilelang.ir import (
    For,
)

from .ring import Item

__all__ = ["check_schedule"]


def check_schedule(loop: For, items: list[tuple[Item, int]]) -> None:
    """Refuses `order=`/`stage=` under which a statement would meet what another has not done yet.

    items: in the order of the new body, with their place in the old one. Item x of iteration k runs
    at time (k - lead, place in the new body). Buffers in ring slots carry no dependence backwards.
    """
    at = {n: (-i.lead, place) for place, (i, n) in enumerate(items)}
    by_number = sorted(((n, i) for i, n in items), key=lambda p: p[0])
    for x, a in by_number:
        for y, b in by_number:
            if x < y and _depends(a, b, ring=False) and not at[x] < at[y]:
                _refuse_schedule(loop, x, y, a, b, "in the same iteration")
            later = (at[x][0] + 1, at[x][1])
            if x < y and _depends(b, a, ring=True) and not at[y] < later:
                _refuse_schedule(loop, y, x, b, a, "of the iteration before")


def _depends(a: Item, b: Item, ring: bool) -> bool:
    """Must `a` come before `b`? ring: buffers that get a slot per iteration do not count."""
    skip = {*a.buffers, *b.buffers} if ring else set()

    def meet(first: Any, second: Any) -> bool:
        return any(
            p.buffer.root() is q.buffer.root() and p.buffer not in skip
            for p in first
            for q in second
        )

    return (
        meet(a.effects.writes, b.effects.reads)
        or meet(a.effects.writes, b.effects.writes)
        or meet(a.effects.reads, b.effects.writes)
    )


def _refuse_schedule(loop: For, x: int, y: int, a: Item, b: Item, when: str) -> None:
    names = sorted(
        {
            p.buffer.name
            for p in (*a.effects.writes, *b.effects.writes)
            if b.effects.touches(p.buffer) and a.effects.touches(p.buffer)
        }
    )
    raise OptionError(
        f"T.Pipelined: under this order and stage statement {y} runs before statement {x} {when}, "
        f"but both use "
        f"{', '.join(names)}",
        code="TL0552",
        span=loop.span,
        help=f"give statement {y} a later stage, or a later place in order, than statement {x} "
        f"(counted from 0)",
    )
