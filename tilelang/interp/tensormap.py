# SPDX-License-Identifier: Apache-2.0
"""A TMA descriptor bound to a tensor: which elements a box means, where they lie in shared memory.

Boxes are innermost dimension first, as in the descriptor. Elements outside of the tensor read as
zero and are not written. In shared memory the box is dense, its 16-byte chunks permuted by the
swizzle (PTX ISA, "Tensor swizzling modes": within 8 rows of 128 bytes the chunk index is xor-ed
with the row).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilelang.ir import TensorMap

from .memory import Memory

__all__ = ["BoundMap"]


class BoundMap:
    """`desc` of a program."""

    def __init__(
        self, desc: TensorMap, memory: Memory, dims: tuple[int, ...], strides: tuple[int, ...]
    ) -> None:
        self.box = desc.box
        self.swizzle = desc.swizzle
        self.flat = memory.flat
        self.dims = dims
        self.strides = strides
        self._places: Any = None

    def places(self) -> Any:
        """Element of the box (row-major, outermost first) -> element offset in shared memory."""
        if self._places is None:
            count = int(np.prod(self.box))
            at = np.arange(count)
            if self.swizzle:
                size = self.flat.itemsize
                address = at * size
                chunk_bits = {32: 1, 64: 2, 128: 3}[self.swizzle]
                mask = (1 << chunk_bits) - 1
                address ^= ((address >> 7) & mask) << 4
                at = address // size
            self._places = at
        return self._places

    def _offsets(self, at: tuple[int, ...]) -> tuple[Any, Any]:
        """(offset in the tensor, is it inside) of each element of the box."""
        offset: Any = np.zeros((1,) * len(self.box), np.int64)
        inside: Any = np.ones((1,) * len(self.box), np.bool_)
        rank = len(self.box)
        for d, (start, n, dim, stride) in enumerate(
            zip(at, self.box, self.dims, self.strides, strict=True)
        ):
            shape = [1] * rank
            shape[rank - 1 - d] = n
            i = start + np.arange(n).reshape(shape)
            offset = offset + i * stride
            inside = inside & (i >= 0) & (i < dim)
        return offset.reshape(-1), np.broadcast_to(inside, offset.shape).reshape(-1)

    def read(self, at: tuple[int, ...]) -> Any:
        offset, inside = self._offsets(at)
        out = np.zeros(offset.shape, self.flat.dtype)
        out[inside] = self.flat[offset[inside]]
        return out

    def write(self, at: tuple[int, ...], values: Any) -> None:
        offset, inside = self._offsets(at)
        self.flat[offset[inside]] = values[inside]
