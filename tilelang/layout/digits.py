# SPDX-License-Identifier: Apache-2.0
"""Mixed-radix digits: the algebra that fragments and memory layouts share.

A coordinate x of dimension `dim` is cut into digits `(x // div) % extent`; a digit times its
`stride` is its contribution to an axis (threads, registers, addresses). The functions here work on
Python ints, numpy arrays and IR expressions alike, because they only use operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, NamedTuple

from tilelang.errors import InternalError


class Digit(NamedTuple):
    """Contributes ((x[dim] // div) % extent) * stride to an axis."""

    dim: int
    div: int
    extent: int
    stride: int

    @property
    def end(self) -> int:
        """Where the next digit of the coordinate starts."""
        return self.div * self.extent

    @property
    def axis_end(self) -> int:
        """Where the next digit on the axis may start."""
        return self.stride * self.extent


class Replica(NamedTuple):
    """`extent` copies, `stride` threads apart."""

    extent: int
    stride: int


def digit(x: Any, div: int, extent: int, top: bool) -> Any:
    """One digit of `x`; the top one needs no remainder, as x stays below its end."""
    v = x if div == 1 else x // div
    return v if top else v % extent


def contribution(digits: Iterable[Digit], coords: Sequence[Any], shape: Sequence[int]) -> Any:
    """The sum of all digits of `coords`; each coordinate is within `shape`."""
    total: Any = 0
    for d in digits:
        total = total + digit(coords[d.dim], d.div, d.extent, d.end >= shape[d.dim]) * d.stride
    return total


def normal(digits: Iterable[Digit]) -> tuple[Digit, ...]:
    """Sorted by stride; digits of extent 1 dropped; neighbours on both sides merged."""
    out: list[Digit] = []
    for d in sorted((d for d in digits if d.extent != 1), key=lambda d: (d.stride, d.dim, d.div)):
        last = out[-1] if out else None
        if last and last.dim == d.dim and d.div == last.end and d.stride == last.axis_end:
            out[-1] = Digit(d.dim, last.div, last.extent * d.extent, last.stride)
        else:
            out.append(d)
    return tuple(out)


def normal_replicas(replicas: Iterable[tuple[int, int]]) -> tuple[Replica, ...]:
    """The same for replicas."""
    out: list[Replica] = []
    for extent, stride in sorted(replicas, key=lambda r: r[1]):
        if extent == 1:
            continue
        if out and out[-1].extent * out[-1].stride == stride:
            out[-1] = Replica(out[-1].extent * extent, out[-1].stride)
        else:
            out.append(Replica(extent, stride))
    return tuple(out)


def padded_extents(digits: Iterable[Digit], shape: Sequence[int]) -> tuple[int, ...]:
    """Per dimension the extent that its digits cover; they must be a complete mixed radix."""
    by_dim: list[list[Digit]] = [[] for _ in shape]
    for d in digits:
        by_dim[d.dim].append(d)
    out: list[int] = []
    for dim, found in enumerate(by_dim):
        at = 1
        for d in sorted(found, key=lambda d: d.div):
            if d.div != at:
                raise InternalError(f"digits of dimension {dim} leave a gap or overlap: {found}")
            at = d.end
        if at < shape[dim]:
            raise InternalError(f"digits of dimension {dim} cover {at} of {shape[dim]}: {found}")
        out.append(at)
    return tuple(out)


def split_flat(digits: Iterable[Digit], shape: Sequence[int]) -> list[Digit] | None:
    """The digits of a row-major flattened index, re-cut into digits of `shape`; None if the radices
    do not nest.

    Each digit comes in as (dim ignored, div on the flat index, extent, stride).
    """
    ends = [prod(shape[d:]) for d in range(len(shape))]
    starts = [prod(shape[d + 1 :]) for d in range(len(shape))]
    out: list[Digit] = []
    for d in digits:
        div, extent, stride = d.div, d.extent, d.stride
        while extent > 1:
            dim = next(
                (
                    k
                    for k in range(len(shape) - 1, -1, -1)
                    if starts[k] <= div and (div < ends[k] or k == 0)
                ),
                None,
            )
            if dim is None or div % starts[dim]:
                return None
            room = -(-ends[dim] // div)
            if dim == 0 or extent <= room:
                if dim != 0 and ends[dim] % (div * extent):
                    return None
                out.append(Digit(dim, div // starts[dim], extent, stride))
                break
            if ends[dim] % div or extent % room:
                return None
            out.append(Digit(dim, div // starts[dim], room, stride))
            div, extent, stride = div * room, extent // room, stride * room
    return out


def unflatten(flat: Any, shape: Sequence[int]) -> tuple[Any, ...]:
    """Row-major coordinates of a flat index."""
    return tuple(digit(flat, prod(shape[d + 1 :]), s, d == 0) for d, s in enumerate(shape))


def flatten(coords: Sequence[Any], shape: Sequence[int]) -> Any:
    """Row-major flat index of coordinates."""
    total: Any = 0
    for d, x in enumerate(coords):
        total = total + x * prod(shape[d + 1 :])
    return total
