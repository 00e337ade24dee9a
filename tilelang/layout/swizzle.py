# SPDX-License-Identifier: Apache-2.0
"""`Swizzle`: address bits XORed with higher ones."""

from __future__ import annotations

from typing import Any, NamedTuple


class Swizzle(NamedTuple):
    """On element addresses: bits [base, base + bits) ^= bits [base + shift, base + shift + bits).

    shift >= bits, so the source is not changed and applying it twice gives the address back.
    """

    bits: int
    base: int
    shift: int

    @property
    def period(self) -> int:
        """Elements after which the pattern repeats: tiles start at a multiple of this."""
        return 1 << (self.base + self.shift + self.bits)

    @property
    def segment(self) -> int:
        """Addresses move only within aligned segments of this many elements."""
        return 1 << (self.base + self.bits)

    def apply(self, address: Any) -> Any:
        """The swizzled address; on ints, numpy arrays or expressions."""
        source = (address >> (self.base + self.shift)) & ((1 << self.bits) - 1)
        return address ^ (source << self.base)
