# SPDX-License-Identifier: Apache-2.0
"""Where tiles live: fragments in registers, layouts in memory, as mixed-radix digits."""

from .digits import Digit, Replica
from .fragment import Fragment
from .layout import Layout, make_swizzled
from .mma import mma_a, mma_b, mma_c, wgmma_a, wgmma_c
from .named import (
    make_full_bank_swizzled_layout,
    make_half_bank_swizzled_layout,
    make_linear_layout,
    make_quarter_bank_swizzled_layout,
    make_swizzled_layout,
)
from .swizzle import Swizzle
from .table import FragmentTable, LayoutTable
from .trace import fragment_from_functions, layout_from_function

__all__ = [
    "Digit",
    "Fragment",
    "FragmentTable",
    "Layout",
    "LayoutTable",
    "Replica",
    "Swizzle",
    "bank_conflicts",
    "fragment_from_functions",
    "layout_from_function",
    "make_full_bank_swizzled_layout",
    "make_half_bank_swizzled_layout",
    "make_linear_layout",
    "make_quarter_bank_swizzled_layout",
    "make_swizzled",
    "make_swizzled_layout",
    "mma_a",
    "mma_b",
    "mma_c",
    "wgmma_a",
    "wgmma_c",
]


def __getattr__(name: str) -> object:
    if name == "bank_conflicts":  # needs numpy at import, which a compile does not
        from .banks import bank_conflicts

        return bank_conflicts
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
