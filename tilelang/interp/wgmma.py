# SPDX-License-Identifier: Apache-2.0
"""Warpgroup matrix instructions: 64 x n x (32 bytes) products of shared memory and registers, in
groups.

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

_M, _STEP_BYTES = 64, 32
_ADDRESS, _FIELD = 0x3FFF, 14  # 16-byte units
_WIDTH = {0: 0, 1: 128, 2: 64, 3: 32}  # bytes of a swizzled row, by the descriptor's code
_TYPES = {
    "f16": "float16",
    "bf16": "bfloat16",
    "tf32": "float32",
    "s8": "int8",
    "u8": "uint8",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
}
_TF32_MASK = np.uint32(0xFFFFE000)  # the bits of a float32 that tf32 looks at


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
        found = re.fullmatch(r"wgmma_m64n(\d+)k\d+_(\w+)_(\w+)_(ss|rs)", kind)
        if found is None or len(args) != 128:
            raise InternalError(f"{kind} by {len(args)} threads cannot be interpreted")
        n, form = int(found[1]), found[4]
        dtype = DType(_TYPES[found[2]]).as_numpy()
        wide = np.int32 if found[3] == "s32" else np.float32
        trans_a, trans_b, _, a0, b0, scale = args[0]

        def compute() -> None:
            a = (
                _from_registers(args, dtype)
                if form == "rs"
                else self._matrix(a0, _M, trans_a, dtype)
            )
            b = self._matrix(b0, n, trans_b, dtype)
            product = _seen(a, found[2]).astype(wide) @ _seen(b, found[2]).astype(wide).T
            for t, thread in enumerate(args):
                d = thread[2].span(0, n // 2)
                rows, columns = _c_places(t, n)
                d[:] = product[rows, columns] + (d.astype(wide) if scale else 0)

        return compute

    def _matrix(self, desc: int, rows: int, transposed: int, dtype: Any) -> Any:
        """rows x 32 bytes (of M or N, by K) that a descriptor names."""
        start = (desc & _ADDRESS) << 4
        lbo = (desc >> 16 & _ADDRESS) << 4
        sbo = (desc >> 32 & _ADDRESS) << 4
        width, size = _WIDTH[desc >> 62 & 3], dtype.itemsize
        r, k = np.arange(rows)[:, None], np.arange(_STEP_BYTES // size)[None, :]
        if transposed and width:
            per = width // size
            at = r // per * lbo + r % per * size + k // 8 * sbo + k % 8 * width
        elif transposed:
            raise InternalError("an unswizzled transposed wgmma operand cannot be interpreted")
        elif width:
            at = r // 8 * sbo + r % 8 * width + k * size
        else:
            half = 16 // size
            at = r // 8 * sbo + r % 8 * 16 + k // half * lbo + k % half * size
        address = start + at
        if width:
            address = address ^ ((address >> 7) & (width // 16 - 1)) << 4
        return self.arena().view(dtype)[address // size]


def _from_registers(args: list[Any], dtype: Any) -> Any:
    """The A operand: register r of a thread holds 4 bytes of row g + 8 (r & 1), the second half of
    K from register 2 on."""
    each = 4 // dtype.itemsize
    out = np.zeros((_M, 8 * each), dtype)
    for t, thread in enumerate(args):
        values = thread[3].span(0, 4 * each).reshape(2, 2, each)
        row, first = 16 * (t // 32) + t % 32 // 4, t % 4 * each
        for half in range(2):
            at = first + 4 * each * half
            out[row, at : at + each], out[row + 8, at : at + each] = values[half]
    return out


def _seen(operand: Any, name: str) -> Any:
    """What the tensor core sees of the operand: of a float32 it drops the low bits (tf32)."""
    if name != "tf32":
        return operand
    return (np.ascontiguousarray(operand).view(np.uint32) & _TF32_MASK).view(np.float32)


def _c_places(t: int, columns: int) -> tuple[Any, Any]:
    """(row, column) of each register of thread t, of a 64-row matrix."""
    i = np.arange(columns // 2)
    return 16 * (t // 32) + t % 32 // 4 + 8 * (i // 2 % 2), i // 4 * 8 + 2 * (t % 4) + i % 2
