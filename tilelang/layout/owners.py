# SPDX-License-Identifier: Apache-2.0
"""Comparing who holds what: the thread axes of two fragments cut into common cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from .fragment import Fragment

# A stretch of the thread axis: its extent, and the digit (dim, div) that chooses the position in
# it; dim FREE: every position holds a replica; dim NONE: only position 0 holds anything.
Cell: TypeAlias = tuple[int, int, int]
FREE = -1
NONE = -2


def contains(mine: Fragment, theirs: Fragment) -> bool | None:
    """Does each thread that holds an element in `theirs` hold it in `mine`? None: radices do not
    nest.
    """
    a, b = cells(mine), cells(theirs)
    if a is None or b is None:
        return None
    a.reverse()
    b.reverse()
    while a and b:
        (ea, da, va), (eb, db, vb) = a.pop(), b.pop()
        step = min(ea, eb)
        if ea % step or eb % step:
            return None
        if da != FREE and (da, va) != (db, vb):
            return False  # two different digits differ for some element
        if ea > step:
            a.append((ea // step, da, va * step))
        if eb > step:
            b.append((eb // step, db, vb * step))
    return True


def cells(f: Fragment) -> list[Cell] | None:
    """The thread axis from thread 0 up, gaps included; None if an idle stretch is no whole
    multiple.
    """
    out: list[Cell] = []
    at = 1
    for stride, extent, d in f.thread_axis:
        if stride % at:
            return None
        if stride > at:
            out.append((stride // at, NONE, 0))
        if d is None:
            out.append((extent, FREE, 0))
        else:
            out += _digit_cells(d.dim, d.div, extent, f.shape[d.dim])
        at = stride * extent
    if f.threads % at:
        return None
    if f.threads > at:
        out.append((f.threads // at, NONE, 0))
    return out


def _digit_cells(dim: int, div: int, extent: int, shape: int) -> list[Cell]:
    """A digit; where its coordinate never reaches it, it is always 0."""
    return [(extent, NONE, 0) if div >= shape else (extent, dim, div)]
