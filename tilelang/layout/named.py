# SPDX-License-Identifier: Apache-2.0
"""Layouts by the names that programs use: `make_swizzled_layout(buffer)` and its family."""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.errors import ShapeError
from tilelang.ir import Buffer

from .layout import Layout, make_swizzled

__all__ = [
    "make_full_bank_swizzled_layout",
    "make_half_bank_swizzled_layout",
    "make_linear_layout",
    "make_quarter_bank_swizzled_layout",
    "make_swizzled_layout",
]


def _tile(buffer: Buffer | Sequence[int], bits: int) -> tuple[tuple[int, ...], int]:
    """Shape and bits per element of a buffer, or of a shape of 16-bit elements."""
    if not isinstance(buffer, Buffer):
        return tuple(int(s) for s in buffer), bits
    if buffer.static_shape is None:
        raise ShapeError(
            f"`{buffer.name}` has no constant shape, a layout needs one",
            code="TL0317",
            help="give the layout of one tile",
        )
    return buffer.static_shape, buffer.dtype.bits * buffer.dtype.lanes


def make_swizzled_layout(
    buffer: Buffer | Sequence[int], k_major: bool = True, allow_pad: bool = True, bits: int = 16
) -> Layout:
    """Rows whose 16-byte chunks are XORed by row, so that columns of chunks have no bank conflicts.
    Which dimension is reduced (`k_major`) makes no difference: both are read in whole chunks."""
    return make_swizzled(*_tile(buffer, bits))


def make_full_bank_swizzled_layout(buffer: Buffer | Sequence[int], bits: int = 16) -> Layout:
    """128-byte boxes, as TMA and wgmma use them."""
    return make_swizzled(*_tile(buffer, bits), 128, "box")


def make_half_bank_swizzled_layout(buffer: Buffer | Sequence[int], bits: int = 16) -> Layout:
    """64-byte boxes."""
    return make_swizzled(*_tile(buffer, bits), 64, "box")


def make_quarter_bank_swizzled_layout(buffer: Buffer | Sequence[int], bits: int = 16) -> Layout:
    """32-byte boxes."""
    return make_swizzled(*_tile(buffer, bits), 32, "box")


def make_linear_layout(buffer: Buffer | Sequence[int]) -> Layout:
    """Row-major."""
    return Layout.row_major(_tile(buffer, 16)[0])
