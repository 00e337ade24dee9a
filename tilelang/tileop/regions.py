# SPDX-License-Identifier: Apache-2.0
"""How regions meet: the loop domain of a copy, and the points of a region.

In: two `Region`s. Out: a `Pairing`, which says over which extents to loop and which loop moves
which dimension of each side. Everything that copies element by element (the reference, the SIMT and
CPU lowerings, cp.async, TMA) takes its domain from here, so they cannot disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilelang.ir import NOTHING, Const, Effects, Expr, Region, const, expr_effects

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilelang.ir import Buffer

__all__ = ["Pairing", "nearness", "pair", "points", "region_reads"]


def nearness(buffer: Buffer) -> int:
    """0 global, 1 shared, 2 private to threads (fragment, local, var)."""
    if buffer.is_global:
        return 0
    return 1 if buffer.is_shared else 2


@dataclass(frozen=True)
class Pairing:
    """extents: the loop domain, no constant 1 among them. src, dst: per dimension of that side the
    loop that moves it, or None where it stays at its offset."""

    extents: tuple[Expr, ...]
    src: tuple[int | None, ...]
    dst: tuple[int | None, ...]

    def touched(self, region: Region, dims: tuple[int | None, ...]) -> Region:
        """The part of `region` that the loops really visit."""
        one = const(1)
        extents = tuple(one if d is None else self.extents[d] for d in dims)
        return Region(region.buffer, region.offsets, extents)


def points(region: Region, dims: Sequence[int | None], loops: Sequence[Expr]) -> tuple[Expr, ...]:
    """Indices into the region's buffer at a point of the loop domain."""
    return tuple(
        o if d is None else o + loops[d] for o, d in zip(region.offsets, dims, strict=True)
    )


def pair(src: Region, dst: Region) -> Pairing:
    """The domain of a copy.

    With as many dimensions longer than 1 on both sides these meet in order; else the extents are
    aligned on the right and 1 is repeated. Where the two sides differ the side nearer to the
    threads says how many elements there are: the other is a place in a larger tensor.
    """
    near_src = nearness(src.buffer) > nearness(dst.buffer)
    s, d = src.squeezed(), dst.squeezed()
    if len(s) == len(d):
        extents = tuple(
            src.extents[i] if near_src else dst.extents[j] for i, j in zip(s, d, strict=True)
        )
        return _without_ones(extents, _numbered(src, s), _numbered(dst, d))
    return _aligned(src, dst, near_src)


def _numbered(region: Region, moving: tuple[int, ...]) -> list[int | None]:
    order = {dim: n for n, dim in enumerate(moving)}
    return [order.get(dim) for dim in range(len(region.extents))]


def _aligned(src: Region, dst: Region, near_src: bool) -> Pairing:
    n = max(len(src.extents), len(dst.extents))
    one = const(1)
    s_ext = (one,) * (n - len(src.extents)) + src.extents
    d_ext = (one,) * (n - len(dst.extents)) + dst.extents
    extents: list[Expr] = []
    s_dims: list[int | None] = []
    d_dims: list[int | None] = []
    for i, (a, b) in enumerate(zip(s_ext, d_ext, strict=True)):
        s_moves, d_moves = not _is_one(a), not _is_one(b)
        near = a if near_src else b
        if s_moves and d_moves:
            extents.append(near)
        elif (
            _is_one(near)
            and nearness(src.buffer) != nearness(dst.buffer)
            and not _is_const(b if near_src else a)
        ):
            s_moves = d_moves = False  # an extent that is 1 but was not folded to it
            extents.append(one)
        else:
            extents.append(a if s_moves else b)
        s_dims.append(i if s_moves else None)
        d_dims.append(i if d_moves else None)
    return _without_ones(
        tuple(extents), s_dims[n - len(src.extents) :], d_dims[n - len(dst.extents) :]
    )


def _without_ones(
    extents: tuple[Expr, ...], src: list[int | None], dst: list[int | None]
) -> Pairing:
    kept = [i for i, e in enumerate(extents) if not _is_one(e)]
    order = {old: new for new, old in enumerate(kept)}

    def renumbered(dims: list[int | None]) -> tuple[int | None, ...]:
        return tuple(None if d is None else order.get(d) for d in dims)

    return Pairing(tuple(extents[i] for i in kept), renumbered(src), renumbered(dst))


def _is_const(e: Expr) -> bool:
    return type(e) is Const


def _is_one(e: Expr) -> bool:
    return type(e) is Const and bool(e.value == 1)


def region_reads(*regions: Region) -> Effects:
    """Loads inside the offsets of regions (`A[idx[i], :]` reads idx)."""
    out = NOTHING
    for region in regions:
        for offset in region.offsets:
            out = out | expr_effects(offset)
    return out
