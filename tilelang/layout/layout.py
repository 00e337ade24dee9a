# SPDX-License-Identifier: Apache-2.0
"""`Layout`: where the elements of a shared or global tile lie in memory.

Logical coordinates -> address in elements: digits with strides, then an optional XOR swizzle of the
address.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import gcd, prod
from typing import TYPE_CHECKING, Any

from tilelang.errors import InternalError
from tilelang.ir import as_expr

from . import digits as dg
from .digits import Digit
from .swizzle import Swizzle

if TYPE_CHECKING:
    from tilelang.ir import Expr

    from .table import LayoutTable

CHUNK_BYTES = 16  # what one lane of ldmatrix, cp.async and TMA's swizzle moves
ROWS_PER_ATOM = 8  # rows after which a swizzle pattern repeats (PTX ISA, tensor-map swizzle modes)


class Layout:
    """See the module docstring. Immutable, hashable. `offset` is added before the swizzle."""

    __slots__ = ("__dict__", "digits", "offset", "shape", "swizzle")

    def __init__(
        self,
        shape: Sequence[int],
        digits: Sequence[tuple[int, int, int, int]],
        swizzle: Swizzle | None = None,
        offset: int = 0,
    ) -> None:
        self.shape = tuple(int(s) for s in shape)
        self.digits = dg.normal(Digit(*d) for d in digits)
        self.swizzle = swizzle if swizzle is not None and swizzle.bits else None
        self.offset = offset
        dg.padded_extents(self.digits, self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def why_no_digits(self) -> str | None:
        return None

    @cached_property
    def size(self) -> int:
        """Elements of memory it needs, padding included."""
        if 0 in self.shape:
            return 0
        top = self.offset + 1
        for d in self.digits:
            reach = -(-self.shape[d.dim] // d.div)
            top += (min(d.extent, reach) - 1) * d.stride
        return (
            top if self.swizzle is None else -(-top // self.swizzle.segment) * self.swizzle.segment
        )

    # -------------------------------------------------------------------------------- the mapping

    def address_at(self, coords: Sequence[Any]) -> Any:
        """The address; on ints, numpy arrays or expressions."""
        fields = self._fields
        if fields is None or self.swizzle is None:
            plain = dg.contribution(self.digits, coords, self.shape) + self.offset
            return plain if self.swizzle is None else self.swizzle.apply(plain)
        chunk, row, rest = (dg.contribution(f, coords, self.shape) for f in fields)
        return rest + self.offset + (chunk ^ row) * (1 << self.swizzle.base)

    def address(self, coords: Sequence[Any]) -> Expr:
        """The address of `coords` in elements."""
        return as_expr(self.address_at(coords))

    @cached_property
    def _fields(self) -> tuple[list[Digit], list[Digit], list[Digit]] | None:
        """The digits that make up the swizzled bits, those that make up the XOR source (both from
        bit 0), and all that are not swizzled; None if the digits do not end at these bits.
        """
        s = self.swizzle
        if s is None or self.offset:
            return None
        low, high = s.base + s.shift, s.base + s.shift + s.bits
        chunk, row, rest = [], [], []
        for d in self.digits:
            for part in _cut_at_bits(d, self.shape[d.dim], (s.base, s.base + s.bits, low, high)):
                if part is None:
                    return None
                first = part.stride
                inside_chunk = (1 << s.base) <= first < (1 << (s.base + s.bits))
                if inside_chunk:
                    chunk.append(part._replace(stride=first >> s.base))
                else:
                    rest.append(part)
                if (1 << low) <= first < (1 << high):
                    row.append(part._replace(stride=first >> low))
        return list(dg.normal(chunk)), list(dg.normal(row)), list(dg.normal(rest))

    @property
    def is_linear(self) -> bool:
        """Is the address a fixed stride times each coordinate?"""
        return self.strides is not None

    @cached_property
    def strides(self) -> tuple[int, ...] | None:
        """Elements between neighbours along each dimension; None if there is no such number."""
        if self.swizzle is not None or len({d.dim for d in self.digits}) != len(self.digits):
            return None
        out = [0] * self.ndim
        for d in self.digits:
            out[d.dim] = d.stride
        return tuple(out)

    @property
    def is_row_major(self) -> bool:
        return self == Layout.row_major(self.shape)

    def vector_width(self, dim: int = -1) -> int:
        """The longest run v along `dim` such that x % v == 0 implies v contiguous elements at an
        address that is a multiple of v.
        """
        dim %= self.ndim
        run = [d for d in self.digits if d.dim == dim and d.div == 1]
        if self.shape[dim] == 1 or not run or run[0].stride != 1:
            return 1
        first = run[0]
        width = gcd(first.extent, self.offset)
        for d in self.digits:
            if d is not first:
                width = gcd(width, d.stride)
        if first.end > self.shape[dim]:
            width = gcd(width, self.shape[dim])
        return width if self.swizzle is None else gcd(width, 1 << self.swizzle.base)

    def is_one_to_one(self) -> bool:
        """Do different coordinates have different addresses? By digit algebra; by enumeration only
        when the digits overlap.
        """
        if self.swizzle is not None and self.swizzle.shift < self.swizzle.bits:
            return False
        reach = 1
        for d in self.digits:
            extent = min(d.extent, -(-self.shape[d.dim] // d.div))
            if extent > 1 and d.stride < reach:
                return self._enumerated_one_to_one()
            reach += (extent - 1) * d.stride
        return True

    def _enumerated_one_to_one(self) -> bool:
        import numpy as np

        addresses = np.broadcast_to(
            self.address_at(np.indices(self.shape, sparse=True)), self.shape
        ).ravel()
        return len(np.unique(addresses)) == addresses.size

    # ------------------------------------------------------------------------------- constructors

    @staticmethod
    def row_major(shape: Sequence[int]) -> Layout:
        return Layout.strided(shape, [prod(shape[d + 1 :]) for d in range(len(shape))])

    @staticmethod
    def strided(shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Layout:
        return Layout(
            shape, [Digit(d, 1, s, strides[d]) for d, s in enumerate(shape)], None, offset
        )

    # --------------------------------------------------------------------------------- derivation

    def prepend(self, extent: int) -> Layout:
        """`extent` such tiles one after the other (a ring's slots), each aligned to the swizzle's
        period.
        """
        period = 1 if self.swizzle is None else self.swizzle.period
        stride = -(-self.size // period) * period
        digits = [Digit(0, 1, extent, stride), *(d._replace(dim=d.dim + 1) for d in self.digits)]
        return Layout((extent, *self.shape), digits, self.swizzle, self.offset)

    def permute(self, dims: Sequence[int]) -> Layout:
        """Dimension k of the result is dimension `dims[k]` of this one; the memory stays."""
        new = {old: k for k, old in enumerate(dims)}
        digits = [d._replace(dim=new[d.dim]) for d in self.digits]
        return Layout([self.shape[d] for d in dims], digits, self.swizzle, self.offset)

    def reshape(self, shape: Sequence[int]) -> Layout | LayoutTable:
        """The same memory with another shape (row-major); a table where radices do not nest."""
        from .table import LayoutTable

        if prod(shape) != prod(self.shape):
            raise InternalError(f"cannot reshape {self.shape} to {tuple(shape)}")
        flat = [prod(self.shape[d + 1 :]) for d in range(self.ndim)]
        if dg.padded_extents(self.digits, self.shape)[1:] == self.shape[1:]:
            found = dg.split_flat([d._replace(div=d.div * flat[d.dim]) for d in self.digits], shape)
            if found is not None:
                return Layout(shape, found, self.swizzle, self.offset)
        reason = f"the digits of {self.shape} do not nest with the extents of {tuple(shape)}"
        return LayoutTable.reshaped(self, shape, reason)

    # --------------------------------------------------------------------------------- comparison

    def _key(self) -> tuple[Any, ...]:
        return self.shape, self.digits, self.swizzle, self.offset

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        text = f"Layout({list(self.shape)}, {[tuple(d) for d in self.digits]}"
        text += "" if self.swizzle is None else f", swizzle={tuple(self.swizzle)}"
        return text + (f", offset={self.offset})" if self.offset else ")")


def _cut_at_bits(d: Digit, shape: int, bits: Sequence[int]) -> list[Digit | None]:
    """The digit cut where its stride passes one of the address bits; [None] if it cannot be cut
    there.
    """
    extent = d.extent if d.end < shape else max(1, -(-shape // d.div))
    top = d.end >= shape
    out: list[Digit | None] = []
    div, stride = d.div, d.stride
    for bit in sorted(set(bits)):
        edge = 1 << bit
        if stride >= edge or stride * extent <= edge:
            continue
        if edge % stride or (extent % (edge // stride) and not top):
            return [None]
        step = edge // stride
        out.append(Digit(d.dim, div, step, stride))
        div, stride, extent = div * step, edge, -(-extent // step)
    # strides that are no multiple of a bit's edge above them would carry into it
    if any(stride >= (1 << b) and stride % (1 << b) for b in bits):
        return [None]
    out.append(Digit(d.dim, div, extent, stride))
    return out


def make_swizzled(
    shape: Sequence[int], dtype_bits: int, swizzle_bytes: int | None = None, interleave: str = "row"
) -> Layout:
    """A tile (…, rows, columns) whose 16-byte chunks are XORed by row, so that 8 rows of a column
    of chunks lie in different banks; leading dimensions stack.

    interleave="row": rows stay whole (ldmatrix, cp.async). "box": columns are split into boxes of
    the swizzle width, one box after the other, as TMA writes and wgmma reads. swizzle_bytes: 128,
    64, 32; None: the widest that the row allows; 0: none (boxes are then 16 bytes wide). A row that
    cannot be swizzled stays row-major.
    """
    if len(shape) < 2:
        return Layout.row_major(shape)
    rows, cols = int(shape[-2]), int(shape[-1])
    row_bytes = cols * dtype_bits // 8
    chunk = CHUNK_BYTES * 8 // dtype_bits
    if interleave == "box":
        tile = _boxes(rows, cols, dtype_bits, swizzle_bytes, chunk)
    else:
        tile = Layout(
            (rows, cols),
            Layout.row_major((rows, cols)).digits,
            _row_swizzle(row_bytes, swizzle_bytes, chunk),
        )
    for extent in reversed(shape[:-2]):
        tile = tile.prepend(int(extent))
    return tile


def _row_swizzle(row_bytes: int, swizzle_bytes: int | None, chunk: int) -> Swizzle | None:
    """Which address bits to XOR for whole rows of `row_bytes`: those of the lowest power of two in
    the row length change from row to row, but not below a line of all banks.
    """
    low = (row_bytes & -row_bytes).bit_length() - 1  # row_bytes == 2**low * odd
    bits = (
        min(low - 4, 3)
        if swizzle_bytes is None
        else max(swizzle_bytes // CHUNK_BYTES, 1).bit_length() - 1
    )
    if bits <= 0 or bits > low - 4:
        return None
    return Swizzle(bits, chunk.bit_length() - 1, max(low, 7) - 4)


def _boxes(rows: int, cols: int, dtype_bits: int, swizzle_bytes: int | None, chunk: int) -> Layout:
    """Boxes of the swizzle width, each starting on a whole atom of 8 rows."""
    row_bytes = cols * dtype_bits // 8
    if swizzle_bytes is None:
        swizzle_bytes = next((w for w in (128, 64, 32) if row_bytes % w == 0), 0)
    bits = (swizzle_bytes // CHUNK_BYTES).bit_length() - 1 if swizzle_bytes else 0
    width = chunk << bits
    padded_rows = -(-rows // ROWS_PER_ATOM) * ROWS_PER_ATOM
    digits = [
        Digit(1, 1, width, 1),
        Digit(0, 1, rows, width),
        Digit(1, width, max(1, -(-cols // width)), padded_rows * width),
    ]
    return Layout((rows, cols), digits, Swizzle(bits, chunk.bit_length() - 1, 3) if bits else None)


__all__ = ["Layout", "make_swizzled"]
