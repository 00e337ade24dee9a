# SPDX-License-Identifier: Apache-2.0
"""What the 32 lanes of a warp do together: shuffles, ldmatrix, stmatrix, mma.sync.

In: the requests of all lanes, in lane order. Out: what each lane gets back. Register fragments of
matrices are as in the PTX ISA, "Matrix multiply-accumulate operation using mma instruction".
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tilelang.errors import InternalError

__all__ = ["run"]


def run(group: list[Any]) -> list[Any]:
    """Serves one request that every lane made."""
    kind = group[0].kind
    args = [w.args for w in group]
    lanes = [w.me.tid % 32 for w in group]
    if kind in _SHUFFLES:
        return _shuffle(kind, args, lanes)
    if kind in ("sync_warp",):
        return [None] * len(group)
    if kind == "warp_uniform":
        return [args[0][0]] * len(group)
    if kind == "ballot":
        return [sum(bool(a[0]) << lane for a, lane in zip(args, lanes, strict=True))] * len(group)
    if kind == "match_any":
        return [
            sum((a[0] == own[0]) << lane for a, lane in zip(args, lanes, strict=True))
            for own in args
        ]
    if kind == "elect_one":
        return [lane == lanes[0] for lane in lanes]
    if len(group) != 32:
        raise InternalError(f"{kind} needs all 32 lanes of a warp, {len(group)} came")
    if kind == "ldmatrix":
        _ldmatrix(args)
    elif kind == "stmatrix":
        _stmatrix(args)
    elif kind.startswith("mma_"):
        _mma(kind, args)
    else:
        raise InternalError(f"the interpreter does not know the warp operation {kind}")
    return [None] * 32


_SHUFFLES = ("shfl_idx", "shfl_xor", "shfl_up", "shfl_down")


def _shuffle(kind: str, args: list[Any], lanes: list[int]) -> list[Any]:
    value = dict(zip(lanes, args, strict=True))
    out = []
    for lane, (own, by, width) in zip(lanes, args, strict=True):
        base, inner = lane // width * width, lane % width
        source = {
            "shfl_idx": by % width, "shfl_xor": inner ^ by, "shfl_up": inner - by,
            "shfl_down": inner + by,
        }[kind]  # fmt: skip
        if not 0 <= source < width or base + source not in value:
            out.append(own)  # out of the segment: the lane keeps its own value
        else:
            out.append(value[base + source][0])
    return out


def _ldmatrix(args: list[Any]) -> None:
    """Lane 8m + r points at row r of matrix m: 16 bytes. Lane t gets the 32 bits at place t % 4 of
    row t / 4, or of the transposed matrix of 16-bit elements."""
    num, trans = int(args[0][0]), int(args[0][1])
    per = max(4 // args[0][3].memory.flat.dtype.itemsize, 1)  # elements of 32 bits
    for m in range(num):
        rows = np.stack([args[8 * m + r][3].span(0, 4 * per) for r in range(8)])
        matrix = (rows.T if trans else rows).copy()
        for t in range(32):
            at = per * (t % 4)
            args[t][2].span(per * m, per)[:] = matrix[t // 4, at : at + per]


def _stmatrix(args: list[Any]) -> None:
    num, trans = int(args[0][0]), int(args[0][1])
    for m in range(num):
        matrix = np.empty((8, 8), args[0][3].memory.flat.dtype)
        for t in range(32):
            matrix[t // 4, 2 * (t % 4) : 2 * (t % 4) + 2] = args[t][3].span(2 * m, 2)
        matrix = matrix.T if trans else matrix
        for r in range(8):
            args[8 * m + r][2].span(0, 8)[:] = matrix[r]


# mma: for each shape the (row, column) of register i of lane t in A [m, k], B [k, n] and C [m, n].


def _a_place(k: int, per: int, t: int, i: int) -> tuple[int, int]:
    """per: elements in one 32-bit register. Registers go down 8 rows, then right by k / 2."""
    reg, low = divmod(i, per)
    return t // 4 + 8 * (reg % 2), (t % 4) * per + low + (reg // 2) * 4 * per


def _b_place(k: int, per: int, t: int, i: int) -> tuple[int, int]:
    reg, low = divmod(i, per)
    return (t % 4) * per + low + reg * 4 * per, t // 4


def _c_place(t: int, i: int) -> tuple[int, int]:
    return t // 4 + 8 * (i // 2), 2 * (t % 4) + i % 2


_PER = {"f16": 2, "bf16": 2, "tf32": 1, "s8": 4, "u8": 4, "e4m3": 4, "e5m2": 4, "f64": 1}


def _mma(kind: str, args: list[Any]) -> None:
    _, shape, ab, c_type = kind.split("_")
    m, n, k = (int(x) for x in re.findall(r"\d+", shape))
    wide: Any = {"s32": np.int64, "f64": np.float64}.get(c_type, np.float32)
    a, b, c = np.zeros((m, k), wide), np.zeros((k, n), wide), np.zeros((m, n), wide)
    sizes = m * k // 32, k * n // 32, m * n // 32
    places = _places(ab, k, sizes)
    for t in range(32):
        for matrix, pointer, size, place in zip(
            (c, a, b), args[t], (sizes[2], *sizes[:2]), places, strict=True
        ):
            values = pointer.span(0, size)
            for i in range(size):
                matrix[place(t, i)] = values[i]
    with np.errstate(all="ignore"):
        out = c + a @ b
    for t in range(32):
        target = args[t][0].span(0, sizes[2])
        target[:] = [out[places[0](t, i)] for i in range(sizes[2])]


def _places(ab: str, k: int, sizes: tuple[int, int, int]) -> tuple[Any, Any, Any]:
    if ab == "f64":  # m8n8k4: one element of A and of B per lane, two of C
        return (
            lambda t, i: (t // 4, 2 * (t % 4) + i), lambda t, i: (t // 4, t % 4),
            lambda t, i: (t % 4, t // 4),
        )  # fmt: skip
    per = _PER[ab]
    return _c_place, lambda t, i: _a_place(k, per, t, i), lambda t, i: _b_place(k, per, t, i)
