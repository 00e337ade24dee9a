# SPDX-License-Identifier: Apache-2.0
"""Warpgroup matrix instructions: 64 x n x 16 products of shared memory (and registers), in groups.

A product is computed when the wait that covers it is reached, from what shared memory holds then:
a wait that is too weak gives old accumulators, a buffer refilled too early wrong operands. For
descriptors and fragments see the PTX ISA, "Asynchronous warpgroup level matrix instructions".
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from tilelang.errors import InternalError
from tilelang.ir import DType

__all__ = ["WarpgroupUnit", "encode"]

_M, _K = 64, 16
_ADDRESS, _FIELD = 0x3FFF, 14  # 16-byte units
_WIDTH = {0: 0, 1: 128, 2: 64, 3: 32}  # bytes of a swizzled row, by the descriptor's code
_TYPES = {"f16": "float16", "bf16": "bfloat16"}


def encode(address: int, lbo: int, sbo: int, swizzle: int) -> int:
    """A shared-memory matrix descriptor."""
    return (
        ((address >> 4) & _ADDRESS) | ((lbo >> 4) & _ADDRESS) << 16
        | ((sbo >> 4) & _ADDRESS) << 32 | swizzle << 62
    )  # fmt: skip


class WarpgroupUnit:
    """The pending products of one warpgroup. arena: the block's shared memory in bytes."""

    def __init__(self, arena: Callable[[], Any]) -> None:
        self.arena = arena
        self.open: list[Callable[[], None]] = []
        self.groups: deque[list[Callable[[], None]]] = deque()

    def serve(self, kind: str, group: list[Any]) -> None:
        """One instruction of all 128 threads."""
        args = [w.args for w in group]
        if kind == "wgmma_commit":
            self.groups.append(self.open)
            self.open = []
        elif kind == "wgmma_wait":
            while len(self.groups) > args[0][0]:
                for product in self.groups.popleft():
                    product()
        else:
            self.open.append(self._product(kind, args))

    def _product(self, kind: str, args: list[Any]) -> Callable[[], None]:
        found = re.fullmatch(r"wgmma_m64n(\d+)k16_(\w+)_(\w+)_(ss|rs)", kind)
        if found is None or len(args) != 128:
            raise InternalError(f"{kind} by {len(args)} threads cannot be interpreted")
        n, form = int(found[1]), found[4]
        dtype = DType(_TYPES[found[2]]).as_numpy()
        trans_a, trans_b, _, a0, b0, scale = args[0]

        def compute() -> None:
            a = self._from_registers(args) if form == "rs" else self._matrix(a0, _M, trans_a, dtype)
            b = self._matrix(b0, n, trans_b, dtype)
            product = a.astype(np.float32) @ b.astype(np.float32).T
            for t, thread in enumerate(args):
                d = thread[2].span(0, n // 2)
                rows, columns = _c_places(t, n)
                d[:] = product[rows, columns] + (d.astype(np.float32) if scale else 0)

        return compute

    def _from_registers(self, args: list[Any]) -> Any:
        out = np.zeros((_M, _K), np.float32)
        for t, thread in enumerate(args):
            out[_c_places(t, _K)] = thread[3].span(0, 8)
        return out

    def _matrix(self, desc: int, rows: int, transposed: int, dtype: Any) -> Any:
        """rows x 16 elements (of M or N, by K) that a descriptor names."""
        start = (desc & _ADDRESS) << 4
        lbo = (desc >> 16 & _ADDRESS) << 4
        sbo = (desc >> 32 & _ADDRESS) << 4
        width = _WIDTH[desc >> 62 & 3]
        r, k = np.arange(rows)[:, None], np.arange(_K)[None, :]
        if transposed and width:
            per = width // 2
            at = r // per * lbo + r % per * 2 + k // 8 * sbo + k % 8 * width
        elif transposed:
            raise InternalError("an unswizzled transposed wgmma operand cannot be interpreted")
        elif width:
            at = r // 8 * sbo + r % 8 * width + k * 2
        else:
            at = r // 8 * sbo + r % 8 * 16 + k // 8 * lbo + k % 8 * 2
        address = start + at
        if width:
            address = address ^ ((address >> 7) & (width // 16 - 1)) << 4
        return self.arena().view(dtype)[address // 2]


def _c_places(t: int, columns: int) -> tuple[Any, Any]:
    """(row, column) of each register of thread t, of a 64-row matrix."""
    i = np.arange(columns // 2)
    return 16 * (t // 32) + t % 32 // 4 + 8 * (i // 2 % 2), i // 4 * 8 + 2 * (t % 4) + i % 2
