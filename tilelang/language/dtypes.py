# SPDX-License-Identifier: Apache-2.0
"""Dtypes as attributes (`T.float16`); the table itself is `ir/dtype.py`."""

from __future__ import annotations

from tilelang.ir import DType
from tilelang.ir.dtype import TABLE

_ALIASES = ("half", "double", "float", "int", "uint", "long", "float8_e4m3", "float8_e8m0")
_VECTORS = (
    "float16",
    "bfloat16",
    "float32",
    "int32",
    "uint32",
    "int8",
    "uint8",
    "float8_e4m3fn",
    "float8_e5m2",
    "float4_e2m1fn",
)
_LANES = (2, 4, 8, 16)

NAMES: tuple[str, ...] = (*TABLE, *_ALIASES, *(f"{n}x{k}" for n in _VECTORS for k in _LANES))

globals().update({name: DType(name) for name in NAMES})
dtype = DType


def __getattr__(name: str) -> DType:
    try:
        return DType(name)
    except TypeError:
        raise AttributeError(f"there is no dtype {name!r}") from None
