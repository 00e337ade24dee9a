# SPDX-License-Identifier: Apache-2.0
"""One row per CUDA architecture: what it can do and how much it has.

In: an architecture as a user spells it (`sm_90`, `90a`, 80). Out: its `CudaArch` row, or a
`TargetError` that lists them. `sm_90` means `sm_90a`: a cubin runs on one compute capability only,
so the variant with all instructions of that chip is never worse (CUDA C++ Programming Guide,
"Architecture- and family-specific features").
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tilelang.errors import TargetError

__all__ = ["ARCHES", "CudaArch", "find_arch"]

_KIB = 1024


class CudaArch(NamedTuple):
    """name: as compilers spell it. number: 10 * major + minor. max_smem: bytes of shared memory a
    block may opt in to. num_sms: of the usual data-centre part, for when no device is at hand.
    """

    name: str
    number: int
    max_smem: int
    num_sms: int
    accelerated: bool = False
    max_threads: int = 1024
    max_registers: int = 255


# Shared memory per block: CUDA C++ Programming Guide, table "Technical Specifications".
ARCHES = {
    row.name: row
    for row in (
        CudaArch("sm_70", 70, 96 * _KIB, 80),
        CudaArch("sm_75", 75, 64 * _KIB, 40),
        CudaArch("sm_80", 80, 163 * _KIB, 108),
        CudaArch("sm_86", 86, 99 * _KIB, 84),
        CudaArch("sm_87", 87, 163 * _KIB, 16),
        CudaArch("sm_89", 89, 99 * _KIB, 142),
        CudaArch("sm_90a", 90, 227 * _KIB, 132, accelerated=True),
        CudaArch("sm_100a", 100, 227 * _KIB, 148, accelerated=True),
        CudaArch("sm_103a", 103, 227 * _KIB, 160, accelerated=True),
        CudaArch("sm_120a", 120, 99 * _KIB, 170, accelerated=True),
    )
}

_SPELLING = re.compile(r"(?:sm_|compute_)?(\d{2,3})([af]?)")


def find_arch(spelling: str | int) -> CudaArch:
    """The row of `sm_90`, `90`, `compute_90a`, ..."""
    match = _SPELLING.fullmatch(str(spelling).strip().lower())
    if match:
        name = f"sm_{match[1]}"
        for candidate in (name, f"{name}a"):
            if candidate in ARCHES:
                return ARCHES[candidate]
    raise TargetError(
        f"unknown CUDA architecture {str(spelling)!r}",
        code="TL0601",
        help=f"known are {', '.join(ARCHES)}",
    )
