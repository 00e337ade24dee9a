# SPDX-License-Identifier: Apache-2.0
"""How warps divide the output tile of a gemm.

In: the tile, the number of warps, the smallest tile of a warp, the user's policy. Out: (warps along
M, warps along N), or None if no division fits."""

from __future__ import annotations

SQUARE, FULL_ROW, FULL_COL = 0, 1, 2

__all__ = ["FULL_COL", "FULL_ROW", "SQUARE", "warp_partition"]


def warp_partition(
    m: int, n: int, warps: int, policy: int, atom_m: int, atom_n: int
) -> tuple[int, int] | None:
    """FULL_ROW puts as many warps on M as fit, FULL_COL on N; SQUARE minimises what the warps of a
    block read from shared memory together (rows of A times warps along N, columns of B times along
    M)."""
    fits = [
        (wm, warps // wm)
        for wm in range(1, warps + 1)
        if warps % wm == 0 and m % (wm * atom_m) == 0 and n % (warps // wm * atom_n) == 0
    ]
    if not fits:
        return None
    if policy == FULL_ROW:
        return max(fits)
    if policy == FULL_COL:
        return min(fits)
    return min(fits, key=lambda w: (m * w[1] + n * w[0], -w[0]))
