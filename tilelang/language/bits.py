# SPDX-License-Identifier: Apache-2.0
"""Positions of bits: `T.__ffs` and `T.__fns`, as the functions of CUDA C++ of these names.

Both are written in terms of `clz` and `popcount`, so they mean the same on every target.
"""

from __future__ import annotations

from typing import Any

from tilelang import ir
from tilelang.ir import DType, Expr, call, const

from .math import fail, operand
from .trace import current

_WORD = DType("uint32")


def _unsigned(x: Any, what: str) -> Expr:
    e = operand(x, what)
    if not e.dtype.is_int:
        raise fail(f"{what} of a {e.dtype}", "TL0273", "give an integer")
    return ir.cast(e, "uint64" if e.dtype.bits == 64 else "uint32")


def ffs(x: Any) -> Expr:
    """Position of the least significant bit that is set, from 1 on; 0 if none is."""
    e = _unsigned(x, "T.__ffs")
    lowest = e & (const(0, e.dtype) - e)
    return const(e.dtype.bits) - call("clz", [lowest], "int32")


def fns(mask: Any, base: Any, offset: Any) -> Expr:
    """Position of the `offset`-th set bit of `mask`, counted from bit `base` on: upwards if offset
    is positive, downwards if it is negative; 0: `base` itself, if it is set. 0xffffffff if there is
    no such bit."""
    t = current("T.__fns")
    word = t.bind("mask", ir.cast(_unsigned(mask, "T.__fns"), _WORD))
    at = t.bind("base", ir.cast(operand(base, "T.__fns"), _WORD))
    step = t.bind("offset", ir.cast(operand(offset, "T.__fns"), "int32"))
    up = word & (const(0xFFFFFFFF, _WORD) << at)
    down = word & (const(0xFFFFFFFF, _WORD) >> (const(31, _WORD) - at))
    part = t.bind("part", ir.select(step > 0, up, ir.select(step < 0, down, word & _bit(at))))
    total = _count(part)
    # The n-th from above is the (total - n + 1)-th from below.
    rank = t.bind("rank", ir.select(step < 0, total + step + 1, ir.maximum(step, const(1))))
    place: Expr = const(0, _WORD)
    left: Expr = rank
    for width in (16, 8, 4, 2, 1):  # where the lower half has too few bits, go on in the upper one
        low = t.bind("low", _count((part >> place) & const((1 << width) - 1, _WORD)))
        beyond = t.bind("beyond", low < left)
        place = t.bind("place", ir.select(beyond, place + const(width, _WORD), place))
        left = t.bind("left", ir.select(beyond, left - low, left))
    known = ir.And(rank >= 1, rank <= total)
    return t.bind("position", ir.select(known, place, const(0xFFFFFFFF, _WORD)))


def _bit(at: Expr) -> Expr:
    return const(1, _WORD) << at


def _count(e: Expr) -> Expr:
    return call("popcount", [e], "int32")


__all__ = ["ffs", "fns"]
