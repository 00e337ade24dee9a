# SPDX-License-Identifier: Apache-2.0
"""Which tensors are written past the caches (by non-temporal stores), in LLVM and in C.

In: a kernel. Out: the tensors that it only writes and that are larger than a cache. Such a store
saves reading the line that it overwrites: a third of the traffic of a copy. It must be a whole,
aligned line; whether the tensor starts at one is tested once per call.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from tilelang.ir import Add, Buffer, Const, Expr, Mul, mentions, walk

if TYPE_CHECKING:
    from collections.abc import Set

    from tilelang.ir import Kernel

LINE = 64  # bytes of a cache line
_LARGE = 32 << 20  # bytes: beyond what a core finds again in a cache


def streamed(k: Kernel, features: Set[str]) -> list[Buffer]:
    """The kernel's tensors that are to be written past the caches."""
    if "avx512f" not in features:  # a line is one register
        return []
    large = [b for b in k.args if isinstance(b, Buffer) and _bytes(b) >= _LARGE]
    if not large:
        return []
    read: set[Buffer] = set()
    for x in walk(k.body):
        if isinstance(x, Expr):
            read |= {b.root() for b in mentions(x) if type(b) is Buffer}
    return [b for b in large if b not in read]


def _bytes(b: Buffer) -> int:
    count = b.dtype.bits * b.dtype.lanes // 8
    for n in b.static_shape or (0,):
        count *= n
    return count


def whole_line(b: Buffer, base: Expr, lanes: int) -> bool:
    """Is the run of `lanes` elements from `base` one line of a tensor that starts at a line?"""
    size = b.dtype.bits * b.dtype.lanes // 8
    return size * lanes == LINE and known_multiple(base) * size % LINE == 0


def known_multiple(e: Expr) -> int:
    """A number that divides the value of `e` (0: the value is 0)."""
    if type(e) is Const:
        return abs(int(e.value))
    if isinstance(e, Mul):
        return known_multiple(e.a) * known_multiple(e.b)
    if isinstance(e, Add):
        return gcd(known_multiple(e.a), known_multiple(e.b))
    return 1


__all__ = ["LINE", "known_multiple", "streamed", "whole_line"]
