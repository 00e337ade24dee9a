# SPDX-License-Identifier: Apache-2.0
"""Registers that a kernel's text declares: local arrays and variables of a thread.

In: CUDA text. Out: how many 32-bit registers its arrays fill at most, and how many the hardware can
give a thread. A compiler needs more (addresses, temporaries) and shares those whose lives differ.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tilelang.ir.dtype import TABLE as DTYPES

__all__ = ["NO_REGISTERS", "Registers", "declared_registers"]

_ARRAY = re.compile(
    r"^ +(?:__align__\(\d+\) )?(?:tl::vec<(?P<element>[\w: ]+), (?P<lanes>\d+)>|(?P<type>[\w: ]+?))"
    r" \w+\[(?P<count>\d+)\];$",
    re.M,
)
_BYTES = {row.cuda: row.bits // 8 for row in DTYPES.values()}
_BOUNDS = re.compile(r"__launch_bounds__\((\d+)(?:, (\d+))?\)")
_SETMAXNREG = re.compile(r"tl::setmaxnreg_(?:inc|dec)<(\d+)>")
_FILE, _MOST, _STEP = 65536, 255, 8  # CUDA C++ Programming Guide, technical specifications


class Registers(NamedTuple):
    """arrays: 32-bit registers of a thread's arrays. limit: what a thread may have at entry.
    reallocated: what setmaxnreg gives the warps of each role."""

    arrays: int = 0
    limit: int = 0
    reallocated: tuple[int, ...] = ()

    def __str__(self) -> str:
        roles = "".join(f", {n} after setmaxnreg" for n in self.reallocated)
        return f"{self.arrays} in arrays of a thread, at most {self.limit} at entry{roles}"


NO_REGISTERS = Registers()


def declared_registers(source: str, kernel: str, threads: int) -> Registers:
    """Of one kernel of a text; `threads` of a block."""
    begin = re.search(rf"__global__[^;{{]*\b{re.escape(kernel)}\s*\(", source)
    text = source[begin.start() if begin else 0 :]
    end = re.search(r"^}", text, re.M)
    text = text[: end.end() if end else None]
    arrays = sum(_registers(m) for m in _ARRAY.finditer(text))
    bounds = _BOUNDS.search(text)
    blocks = int(bounds[2] or 1) if bounds else 1
    warps = -(-threads // 32)
    limit = min(_MOST, _FILE // (32 * warps * max(1, blocks)) // _STEP * _STEP)
    roles = tuple(dict.fromkeys(int(n) for n in _SETMAXNREG.findall(text)))
    return Registers(arrays, limit, roles)


def _registers(match: re.Match[str]) -> int:
    element, lanes = match["element"] or match["type"], int(match["lanes"] or 1)
    return -(-_BYTES.get(element, 4) * lanes * int(match["count"]) // 4)
