# SPDX-License-Identifier: Apache-2.0
"""`T.im2col`: the rows of a convolution as a matrix, tile by tile.

In: an image tensor [n, h, w, c] and a tile [pixels, k] of the matrix whose row m is output pixel m
(of all images, row by row) and whose column k is channel k % c under filter tap k // c. Out: the
tile's elements, 0 where the filter lies over the padding or the matrix has ended.
"""

from __future__ import annotations

from typing import Any

from tilelang import ir
from tilelang.errors import ShapeError
from tilelang.ir import Expr, Load, Region, const

from .hints import count
from .loops import Parallel
from .operands import region
from .protocol import Protocol
from .trace import Trace, current
from .values import plain, store


def im2col(
    img: Any,
    col: Any,
    nhw_step: Any,
    c_step: Any,
    kernel: int,
    stride: int,
    dilation: int,
    pad: int,
) -> None:
    """Fills the tile `col` of pixels from nhw_step * rows on and columns from c_step * columns on.

    kernel, stride, dilation, pad: of both directions of the image.
    """
    t = current("T.im2col")
    source, tile = region(t, img, "T.im2col: img"), region(t, col, "T.im2col: col")
    moving = _dimensions(t, source, tile)
    k, s, d = (
        count(t, f"T.im2col: {n}", v, 1)
        for n, v in (("kernel", kernel), ("stride", stride), ("dilation", dilation))
    )
    p = count(t, "T.im2col: pad", pad, 0)
    _, h, w, c = source.buffer.shape
    reach = d * (k - 1) + 1
    height, width = ((size + 2 * p - reach) // s + 1 for size in (h, w))
    if any(type(e) is ir.Const and e.value < 1 for e in (height, width)):
        raise t.error(
            f"T.im2col: a filter of {reach} does not fit into {h} x {w} with padding {p}",
            "TL0314",
            "check kernel, dilation and pad",
            ShapeError,
        )
    rows, columns = (tile.extents[n] for n in moving)
    loops = Protocol(t).loop(Parallel(rows, columns), ["pixel", "k"], True, (), False)
    for i, j in loops:
        m = ir.as_expr(plain(nhw_step)) * rows + i
        tap = ir.as_expr(plain(c_step)) * columns + j
        image, pixel = m // (height * width), m % (height * width)
        y = pixel // width * s + tap // (c * k) * d - p
        x = pixel % width * s + tap // c % k * d - p
        inside = _all(y >= 0, y < h, x >= 0, x < w, tap < c * (k * k))
        value = Load(source.buffer, (image, y, x, tap % c))
        zero = ir.cast(const(0), source.dtype)
        place = dict(zip(moving, (i, j), strict=True))
        at = tuple(o + place[n] if n in place else o for n, o in enumerate(tile.offsets))
        store(t, tile.buffer, at, ir.if_then_else(inside, value, zero))


def _dimensions(t: Trace, source: Region, tile: Region) -> tuple[int, ...]:
    """The two dimensions of the tile; the image must be the whole of a global tensor."""
    extents = tile.extents
    leading = all(type(e) is ir.Const and e.value == 1 for e in extents[:-2])
    if len(extents) < 2 or not leading:
        raise t.error(
            f"T.im2col: col has extents {list(extents)}, not those of a matrix",
            "TL0315",
            "a tile of pixels x columns",
            ShapeError,
        )
    if len(source.buffer.shape) != 4 or not source.buffer.is_global:
        raise t.error(
            f"T.im2col: img must be a global tensor [n, h, w, c], got {source.buffer!r}",
            "TL0330",
            "pass the whole tensor",
            ShapeError,
        )
    return len(extents) - 2, len(extents) - 1


def _all(*conditions: Expr) -> Expr:
    out = conditions[0]
    for c in conditions[1:]:
        out = ir.And(out, c)
    return out


c2d_im2col = im2col

__all__ = ["c2d_im2col", "im2col"]
