# SPDX-License-Identifier: Apache-2.0
"""The remainder of a division of floats, in vectors: what C's fmod gives, bit for bit.

In: x and y, float or double. Out: x - trunc(x / y) * y, exact, with the sign of x. Where the
quotient is below 2**(bits of the significand) the product and the difference need no rounding but
the one of a fused multiply-add, and the quotient rounds at most up to the next whole number. The
rest (long quotients, infinities, NaN, y = 0) is left to the C library, behind a branch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .writer import Value

__all__ = ["fmod"]

_LONGEST = {"float": 2.0**23, "double": 2.0**52}


def fmod(x: Value, y: Value) -> Value:
    """The remainder of each lane."""
    fn = x.fn
    size = fn.intrinsic("fabs", y)
    quotient = fn.intrinsic("trunc", x / y)
    rest = fn.intrinsic("fma", -quotient, y, x)
    rounded_up = rest.cmp("one", 0.0) & (rest.cmp("olt", 0.0) ^ x.cmp("olt", 0.0))
    rest = rounded_up.select(rest + fn.intrinsic("copysign", size, x), rest)
    below = fn.intrinsic("fabs", x).cmp("olt", size)  # y may be infinite
    short = fn.intrinsic("fabs", quotient).cmp("olt", _LONGEST[x.elem]) | below
    usual = below.select(x, fn.intrinsic("copysign", rest, x))
    any_long = fn.any_lane(short ^ True)
    (out,) = fn.unless(any_long ^ True, [usual], lambda: [fn.binary("frem", x, y)])
    return out
