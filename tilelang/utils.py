# SPDX-License-Identifier: Apache-2.0
"""Integer helpers that every layer needs and that know nothing about kernels."""

from __future__ import annotations

import math
from collections.abc import Iterable

__all__ = ["align_up", "ceildiv", "is_power_of_2", "next_power_of_2", "prod"]


def ceildiv(a: int, b: int) -> int:
    """`a / b` rounded up, exactly, for any signs."""
    return -(-a // b)


def align_up(value: int, alignment: int) -> int:
    """The smallest multiple of `alignment` that is not below `value`."""
    return ceildiv(value, alignment) * alignment


def is_power_of_2(value: int) -> bool:
    """Whether `value` is 1, 2, 4, ..."""
    return value > 0 and value & (value - 1) == 0


def next_power_of_2(value: int) -> int:
    """The smallest power of two that is not below `value`; 1 for zero and less."""
    return 1 << max(value - 1, 0).bit_length()


def prod(values: Iterable[int]) -> int:
    """The product, 1 for no values: the number of elements of a shape."""
    return math.prod(values)
