# SPDX-License-Identifier: Apache-2.0
"""How a dtype is carried: in LLVM registers, and in memory.

In: a `DType`. Out: the LLVM element type of a value in a register, and literals of it.

Narrow floats (f16, bf16, fp8, fp4) are carried as their bit patterns: no LLVM back end then
decides for us how they are rounded (x86's bf16 instructions flush subnormals) or calls a library
to do it. A bool is an `i1` in a register and a byte in memory. Sub-byte integers are `i4`, `i2`,
`i1` in registers and packed in memory, the lowest bits first.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from tilelang.ir import DType

if TYPE_CHECKING:
    from collections.abc import Sequence

FLOAT_ELEMS = ("float", "double", "half")
ELEM_BITS = {"half": 16, "float": 32, "double": 64, "ptr": 64}


def elem_of(dtype: DType) -> str:
    """LLVM element type of a register value."""
    if dtype.is_bool:
        return "i1"
    if dtype.is_handle:
        return "ptr"
    if dtype.is_float and dtype.bits >= 32:
        return "double" if dtype.bits == 64 else "float"
    return f"i{dtype.bits}"


def memory_elem(dtype: DType) -> str:
    """LLVM element type in memory (whole bytes; packed types are accessed by bytes)."""
    return "i8" if dtype.is_bool or dtype.bits < 8 else elem_of(dtype)


def bits_of(elem: str) -> int:
    return ELEM_BITS.get(elem) or int(elem[1:])


def vector(elem: str, lanes: int) -> str:
    """Spelling of the type of `lanes` elements."""
    return elem if lanes == 1 else f"<{lanes} x {elem}>"


def literal(elem: str, value: Any, lanes: int = 1) -> str:
    """A constant of a register type; LLVM spells floats by the bits of the double of equal
    value."""
    if elem in FLOAT_ELEMS:
        text = (
            "0x" + struct.pack(">d", _f32(value) if elem == "float" else float(value)).hex().upper()
        )
    elif elem == "i1":
        text = "true" if value else "false"
    elif elem == "ptr":
        text = "null" if not value else f"inttoptr (i64 {int(value)} to ptr)"
    else:
        text = str(int(value))
    return text if lanes == 1 else f"splat ({elem} {text})"


def _f32(value: Any) -> float:
    """Rounded to float32, infinities included."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def vector_literal(elem: str, values: Sequence[int]) -> str:
    """`<i32 0, i32 1, …>` without its type."""
    return "<" + ", ".join(f"{elem} {v}" for v in values) + ">"


def pattern(value: float, dtype: DType) -> int:
    """The bit pattern of a narrow float's value."""
    import numpy as np

    raw = np.asarray(value, np.float32).astype(dtype.as_numpy())
    return int(raw.view(np.uint16 if dtype.bits == 16 else np.uint8)) & ((1 << dtype.bits) - 1)
