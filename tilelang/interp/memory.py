# SPDX-License-Identifier: Apache-2.0
"""Memory as the executors see it: bounds-checked, poisoned, addressed logically or physically.

A `Memory` is one instance of a buffer (per call, block or thread). Reads outside of a *global*
buffer give its safe value and writes there are dropped; anywhere else they are a `BoundsError`. A
buffer with a layout keeps its elements where the layout puts them, so that pointers and descriptors
into it mean what they mean on the device.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tilelang.errors import BoundsError
from tilelang.ir import Buffer, DType
from tilelang.tileop import numeric

from .values import Value, from_storage, literal, to_storage

__all__ = ["Memory", "Pointer", "fresh"]


def _same(x: Any) -> Any:
    return x


def _reader(dtype: DType) -> Callable[[Any], Value]:
    """Turns one array element into a value."""
    if dtype.is_bool:
        return bool
    if not dtype.is_float:
        return int
    return np.float32 if dtype.bits < 32 else _same


class Memory:
    """array: the elements by logical index. flat: the storage by physical offset (the same bytes).
    table: logical index -> offset, where that is not row-major."""

    __slots__ = ("array", "buffer", "dtype", "flat", "is_global", "read", "safe", "shape", "table")

    def __init__(
        self, buffer: Buffer, array: Any, flat: Any = None, table: Any = None, safe: Any = 0
    ) -> None:
        self.buffer = buffer
        self.dtype: DType = buffer.dtype
        self.array = array
        self.table = table
        self.shape = array.shape if table is None else table.shape
        self.flat = flat if flat is not None else _storage(array)
        self.is_global = buffer.root().is_global
        self.read = _reader(self.dtype)
        self.safe: Any = literal(safe, self.dtype) if self.is_global else 0

    # ------------------------------------------------------------------------------ one element

    def get(self, index: tuple[int, ...]) -> Value:
        for i, n in zip(index, self.shape, strict=True):
            if not 0 <= i < n:
                if self.is_global:
                    return self.safe
                raise self._outside(index)
        return self.read(self.array[index] if self.table is None else self.flat[self.table[index]])

    def has(self, index: tuple[int, ...]) -> bool:
        return all(0 <= i < n for i, n in zip(index, self.shape, strict=True))

    def put(self, index: tuple[int, ...], value: Value) -> None:
        for i, n in zip(index, self.shape, strict=True):
            if not 0 <= i < n:
                if self.is_global:
                    return
                raise self._outside(index)
        if self.table is None:
            self.array[index] = value
        else:
            self.flat[self.table[index]] = value

    # ------------------------------------------------------------------------------ a vector

    def get_run(self, index: tuple[int, ...], lanes: int) -> Value:
        """`lanes` elements from an index on, along the last dimension."""
        place = self._run(index, lanes)
        if place is None:
            return self.gather((*index[:-1], index[-1] + np.arange(lanes)))
        x = self.array[place] if self.table is None else self.flat[self.table[place]]
        return from_storage(x, self.dtype).copy()

    def put_run(self, index: tuple[int, ...], lanes: int, value: Value) -> None:
        place = self._run(index, lanes)
        if place is None:
            self.scatter((*index[:-1], index[-1] + np.arange(lanes)), value)
        elif self.table is None:
            self.array[place] = value
        else:
            self.flat[self.table[place]] = value

    def _run(self, index: tuple[int, ...], lanes: int) -> tuple[Any, ...] | None:
        """The run as a subscript, or None if it is not all inside."""
        last = index[-1]
        for i, n in zip(index, self.shape, strict=True):
            if not 0 <= i < n:
                return None
        return (*index[:-1], slice(last, last + lanes)) if last + lanes <= self.shape[-1] else None

    def _outside(self, index: Any) -> BoundsError:
        at = ", ".join(map(str, index))
        return BoundsError(
            f"{self.buffer.name}[{at}] is outside of {self.buffer!r}",
            code="TL1221",
            help="keep the index inside",
        )

    # ------------------------------------------------------------------------------ many elements

    def gather(self, index: tuple[Any, ...], mask: Any = True) -> Value:
        """Elements at index arrays; where the mask is false anything."""
        inside, clipped = self._clip(index, mask)
        place = self.array if self.table is None else self.flat
        x = (
            place[clipped if self.table is None else self.table[clipped]]
            if self._any()
            else self.safe
        )
        out = from_storage(np.asarray(x), self.dtype)
        return out if inside is True else np.where(inside, out, self.safe)

    def scatter(self, index: tuple[Any, ...], value: Value, mask: Any = True) -> None:
        """Stores at index arrays where the mask is true."""
        inside, clipped = self._clip(index, mask)
        keep = inside & np.asarray(mask) if inside is not True else np.asarray(mask)
        if not self._any():
            return
        parts = np.broadcast_arrays(*clipped, keep, to_storage(value, self.dtype))
        keep = parts[-2]
        at = tuple(p[keep] for p in parts[:-2])
        if self.table is None:
            self.array[at] = parts[-1][keep]
        else:
            self.flat[self.table[at]] = parts[-1][keep]

    def _any(self) -> bool:
        return all(self.shape)

    def _clip(self, index: tuple[Any, ...], mask: Any) -> tuple[Any, tuple[Any, ...]]:
        """(where every index is inside, or True; the indices moved inside)."""
        arrays = tuple(np.asarray(i) for i in index)
        inside: Any = True
        for i, n in zip(arrays, self.shape, strict=True):
            if i.size and (i.min() < 0 or i.max() >= n):
                inside = inside & ((i >= 0) & (i < n))
        if inside is True:
            return True, arrays
        if not self.is_global and np.any(~inside & np.asarray(mask)):
            bad = np.argwhere(
                np.broadcast_to(
                    ~inside & np.asarray(mask),
                    np.broadcast_shapes(*(i.shape for i in arrays), np.shape(mask)),
                )
            )[0]
            full = np.broadcast_arrays(*arrays, mask)[:-1]
            raise self._outside([int(i[tuple(bad)]) for i in full])
        return inside, tuple(
            np.clip(i, 0, max(n - 1, 0)) for i, n in zip(arrays, self.shape, strict=True)
        )

    # ------------------------------------------------------------------------------ pointers

    def offset(self, index: tuple[int, ...]) -> int:
        """Where an element lies in `flat`. Lanes of a warp form addresses that they never use: one
        outside of a table is past the end, and an error when it is used."""
        if self.table is not None:
            inside = all(0 <= i < n for i, n in zip(index, self.shape, strict=True))
            return int(self.table[index]) if inside else len(self.flat)
        if len(index) == 1 and self.array.ndim != 1:
            return index[0]
        size = self.array.itemsize
        return sum(i * (s // size) for i, s in zip(index, self.array.strides, strict=True))


class Pointer:
    """The address of an element."""

    __slots__ = ("memory", "offset")

    def __init__(self, memory: Memory, index: tuple[int, ...]) -> None:
        self.memory = memory
        self.offset = memory.offset(index)

    def load(self, at: int = 0) -> Value:
        return from_storage(self.span(at, 1)[0], self.memory.dtype)

    def store(self, value: Value, at: int = 0) -> None:
        self.span(at, 1)[0] = to_storage(value, self.memory.dtype)

    def span(self, at: int, count: int) -> Any:
        """`count` elements from `at` on, as an array that can be written."""
        lo = self.offset + at
        if lo < 0 or lo + count > len(self.memory.flat):
            name = self.memory.buffer.name
            raise BoundsError(
                f"{count} elements at offset {lo} of {name} leave its "
                f"{len(self.memory.flat)} elements",
                code="TL1222",
                help="keep the access inside",
            )
        return self.memory.flat[lo : lo + count]

    def bytes(self, count: int) -> Any:
        """`count` bytes from here on, as uint8."""
        size = self.memory.flat.itemsize
        return self.span(0, -(-count // size)).view(np.uint8)[:count]


def fresh(buffer: Buffer, shape: tuple[int, ...]) -> Any:
    """Uninitialised memory: every element is poison."""
    return np.full(shape, *_poison(buffer.dtype))


@functools.cache
def _poison(dtype: DType) -> tuple[Any, Any]:
    return numeric.poison(dtype), dtype.as_numpy()


def _storage(array: Any) -> Any:
    """All the memory from the array's first element to its last, one-dimensional."""
    if array.flags.c_contiguous:
        return array.reshape(-1)
    size = array.itemsize
    reach = sum((n - 1) * (s // size) for n, s in zip(array.shape, array.strides, strict=True)) + 1
    return np.lib.stride_tricks.as_strided(array, (reach if all(array.shape) else 0,), (size,))
