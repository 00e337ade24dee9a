# SPDX-License-Identifier: Apache-2.0
"""Inclusive integer intervals `(lo, hi)`; None is unbounded on that side."""

from __future__ import annotations

from typing import TypeAlias

Interval: TypeAlias = tuple[int | None, int | None]

EVERYTHING: Interval = (None, None)


def intersect(a: Interval, b: Interval) -> Interval:
    lo = a[0] if b[0] is None else b[0] if a[0] is None else max(a[0], b[0])
    hi = a[1] if b[1] is None else b[1] if a[1] is None else min(a[1], b[1])
    return lo, hi


def hull(a: Interval, b: Interval) -> Interval:
    lo = None if a[0] is None or b[0] is None else min(a[0], b[0])
    hi = None if a[1] is None or b[1] is None else max(a[1], b[1])
    return lo, hi


def add(a: Interval, b: Interval) -> Interval:
    lo = None if a[0] is None or b[0] is None else a[0] + b[0]
    hi = None if a[1] is None or b[1] is None else a[1] + b[1]
    return lo, hi


def scale(a: Interval, k: int) -> Interval:
    lo, hi = (a[1], a[0]) if k < 0 else a
    return (None if lo is None else lo * k), (None if hi is None else hi * k)


def inside(a: Interval, lo: int, hi: int) -> bool:
    """Is every value of `a` within [lo, hi]?"""
    return a[0] is not None and a[1] is not None and lo <= a[0] and a[1] <= hi


def multiply(a: Interval, b: Interval) -> Interval:
    if None not in a and None not in b:
        products = [x * y for x in a for y in b]  # type: ignore[operator]
        return min(products), max(products)
    lows = a[0] is not None and b[0] is not None and a[0] >= 0 and b[0] >= 0
    if not lows:
        return EVERYTHING
    hi = None if a[1] is None or b[1] is None else a[1] * b[1]
    return a[0] * b[0], hi  # type: ignore[operator]


def minimum(a: Interval, b: Interval) -> Interval:
    lo = None if a[0] is None or b[0] is None else min(a[0], b[0])
    hi = a[1] if b[1] is None else b[1] if a[1] is None else min(a[1], b[1])
    return lo, hi


def maximum(a: Interval, b: Interval) -> Interval:
    lo, hi = minimum(scale(a, -1), scale(b, -1))
    return scale((lo, hi), -1)


def floordiv(a: Interval, d: Interval) -> Interval:
    """Floor division by a divisor that is known to be positive."""
    dlo = d[0] if d[0] is not None and d[0] >= 1 else 1
    dhi = d[1]
    lo = hi = None
    if a[0] is not None:
        # a negative quotient is lowest for the smallest divisor, a positive one for the largest
        lo = a[0] // dlo if a[0] < 0 else (0 if dhi is None else a[0] // dhi)
    if a[1] is not None:
        hi = a[1] // dlo if a[1] >= 0 else (-1 if dhi is None else a[1] // dhi)
    return lo, hi


def floormod(a: Interval, d: Interval) -> Interval:
    """Remainder by a divisor that is known to be positive."""
    hi = None if d[1] is None else d[1] - 1
    if a[0] is not None and a[0] >= 0 and a[1] is not None:
        if d[0] is not None and a[1] < d[0]:
            return a
        hi = a[1] if hi is None else min(hi, a[1])
    return 0, hi


def _trunc(x: int, d: int) -> int:
    return x // d if x >= 0 else -(-x // d)


def truncdiv(a: Interval, d: Interval) -> Interval:
    """Division rounded towards zero by a divisor that is known to be positive."""
    dlo = d[0] if d[0] is not None and d[0] >= 1 else 1
    dhi = d[1]
    lo = hi = None
    if a[0] is not None:
        lo = _trunc(a[0], dlo) if a[0] < 0 else (0 if dhi is None else a[0] // dhi)
    if a[1] is not None:
        hi = a[1] // dlo if a[1] >= 0 else (0 if dhi is None else _trunc(a[1], dhi))
    return lo, hi


def truncmod(a: Interval, d: Interval) -> Interval:
    """Remainder with the sign of the dividend; the divisor is known to be positive."""
    most = None if d[1] is None else d[1] - 1
    hi = most if a[1] is None else 0 if a[1] <= 0 else a[1] if most is None else min(most, a[1])
    least = None if most is None else -most
    lo = least if a[0] is None else 0 if a[0] >= 0 else a[0] if least is None else max(least, a[0])
    return lo, hi


def bit_and(a: Interval, b: Interval) -> Interval:
    """A non-negative operand bounds the result."""
    tops = [x[1] for x in (a, b) if x[0] is not None and x[0] >= 0]
    if not tops:
        return EVERYTHING
    known = [t for t in tops if t is not None]
    return 0, (min(known) if known else None)


def bit_or(a: Interval, b: Interval) -> Interval:
    """Of non-negative operands: below the next power of two (also for xor)."""
    if a[0] is None or b[0] is None or a[0] < 0 or b[0] < 0:
        return EVERYTHING
    if a[1] is None or b[1] is None:
        return 0, None
    return 0, (1 << max(a[1], b[1]).bit_length()) - 1
