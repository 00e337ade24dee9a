# SPDX-License-Identifier: Apache-2.0
"""THE dtype table: every element type, its width, kind and spellings.

`DType` is a `str` (`T.float32 == "float32"`), interned by name, so `is` and dictionary lookups
work. Adding a dtype is one row of `_ROWS` (and a conversion in the device headers if CUDA lacks
one)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np


class Row(NamedTuple):
    """One element type. `numpy` names a numpy or ml_dtypes type; `dlpack` is (type code, bits)."""

    name: str
    bits: int
    kind: str
    numpy: str
    cuda: str
    c: str
    llvm: str
    dlpack: tuple[int, int]


# kinds: int uint float bool handle. `c` is the storage type in generated C; narrow floats are
# carried as their bit patterns there and converted explicitly. DLPack codes: dlpack.h,
# DLDataTypeCode.
_ROWS = (
    Row("bool", 8, "bool", "bool", "bool", "uint8_t", "i8", (6, 8)),
    Row("int2", 2, "int", "int2", "tl::i2", "uint8_t", "i2", (0, 2)),
    Row("int4", 4, "int", "int4", "tl::i4", "uint8_t", "i4", (0, 4)),
    Row("int8", 8, "int", "int8", "signed char", "int8_t", "i8", (0, 8)),
    Row("int16", 16, "int", "int16", "short", "int16_t", "i16", (0, 16)),
    Row("int32", 32, "int", "int32", "int", "int32_t", "i32", (0, 32)),
    Row("int64", 64, "int", "int64", "long long", "int64_t", "i64", (0, 64)),
    Row("uint1", 1, "uint", "uint1", "tl::u1", "uint8_t", "i1", (1, 1)),
    Row("uint2", 2, "uint", "uint2", "tl::u2", "uint8_t", "i2", (1, 2)),
    Row("uint4", 4, "uint", "uint4", "tl::u4", "uint8_t", "i4", (1, 4)),
    Row("uint8", 8, "uint", "uint8", "unsigned char", "uint8_t", "i8", (1, 8)),
    Row("uint16", 16, "uint", "uint16", "unsigned short", "uint16_t", "i16", (1, 16)),
    Row("uint32", 32, "uint", "uint32", "unsigned int", "uint32_t", "i32", (1, 32)),
    Row("uint64", 64, "uint", "uint64", "unsigned long long", "uint64_t", "i64", (1, 64)),
    Row("float16", 16, "float", "float16", "half_t", "uint16_t", "half", (2, 16)),
    Row("bfloat16", 16, "float", "bfloat16", "bfloat16_t", "uint16_t", "bfloat", (4, 16)),
    Row("float32", 32, "float", "float32", "float", "float", "float", (2, 32)),
    Row("tfloat32", 32, "float", "float32", "float", "float", "float", (2, 32)),
    Row("float64", 64, "float", "float64", "double", "double", "double", (2, 64)),
    Row("float8_e4m3fn", 8, "float", "float8_e4m3fn", "fp8_e4m3_t", "uint8_t", "i8", (10, 8)),
    Row(
        "float8_e4m3fnuz", 8, "float", "float8_e4m3fnuz", "fp8_e4m3fnuz_t", "uint8_t", "i8", (11, 8)
    ),
    Row("float8_e5m2", 8, "float", "float8_e5m2", "fp8_e5m2_t", "uint8_t", "i8", (12, 8)),
    Row(
        "float8_e5m2fnuz", 8, "float", "float8_e5m2fnuz", "fp8_e5m2fnuz_t", "uint8_t", "i8", (13, 8)
    ),
    Row("float8_e8m0fnu", 8, "float", "float8_e8m0fnu", "fp8_e8m0_t", "uint8_t", "i8", (14, 8)),
    Row("float4_e2m1fn", 4, "float", "float4_e2m1fn", "fp4_e2m1_t", "uint8_t", "i4", (17, 4)),
    Row(
        "float4_e2m1_unpacked",
        8,
        "float",
        "float4_e2m1fn",
        "fp4_e2m1_unpacked_t",
        "uint8_t",
        "i8",
        (1, 8),
    ),
    Row("handle", 64, "handle", "uint64", "void*", "void*", "ptr", (3, 64)),
)
TABLE: dict[str, Row] = {r.name: r for r in _ROWS}
_ALIASES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "int": "int32",
    "uint": "uint32",
    "float8_e4m3": "float8_e4m3fn",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
    "void": "handle",
    "custom[tfloat32]32": "tfloat32",
    "float8_e8m0": "float8_e8m0fnu",
    "long": "int64",
    "ptr": "handle",
    "int1": "bool",
    "float4_e2m1fn_x2": "float4_e2m1fn",
}
_PYTHON = {int: "int32", float: "float32", bool: "bool"}
_LANES = re.compile(r"(.*?)x(\d+)")
_cache: dict[str, DType] = {}


class DType(str):
    """An element type, or a short vector of them (`float16x2`).

    Accepts a name, a `DType`, a Python `int`/`float`/`bool` type, a numpy or torch dtype. Calling a
    `DType` casts (`T.float32(x)`).
    """

    row: Row
    bits: int
    lanes: int
    kind: str

    def __new__(cls, value: Any = "float32") -> DType:
        if type(value) is DType:
            return value
        hit = _cache.get(value) if isinstance(value, str) else None
        return hit if hit is not None else _resolve(cls, value)

    def __call__(self, *values: Any) -> Any:
        # an expression is made of dtypes: late, to break the cycle
        from .expr import cast, make_vector

        if len(values) == 1:
            return cast(values[0], self)
        return make_vector(self, values)

    def __repr__(self) -> str:
        return f"T.{self!s}"

    def __reduce__(self) -> Any:
        return (DType, (str(self),))

    @property
    def element(self) -> DType:
        """The scalar type of one lane."""
        return DType(self.row.name)

    @property
    def bytes(self) -> int:
        """Bytes of one value, rounded up (a lone int4 takes one byte)."""
        return (self.bits * self.lanes + 7) // 8

    itemsize = bytes

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_narrow(self) -> bool:
        """A float that executors compute in float32 and round after every operation."""
        return self.kind == "float" and self.bits < 32

    @property
    def is_int(self) -> bool:
        """Signed or unsigned integer (bool is neither)."""
        return self.kind in ("int", "uint")

    @property
    def is_signed(self) -> bool:
        return self.kind in ("int", "float")

    @property
    def is_bool(self) -> bool:
        return self.kind == "bool"

    @property
    def is_handle(self) -> bool:
        return self.kind == "handle"

    def with_lanes(self, lanes: int) -> DType:
        return DType(self.row.name if lanes == 1 else f"{self.row.name}x{lanes}")

    def as_numpy(self) -> np.dtype[Any]:
        """The numpy (or ml_dtypes) dtype of one lane."""
        import ml_dtypes
        import numpy as np

        name = self.row.numpy
        out: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name, None) or getattr(np, name))
        return out

    def as_torch(self) -> Any:
        """The torch dtype, imported on use. Sub-byte types map to torch's packed ones or int8."""
        import torch

        name = "float32" if self.row.name == "tfloat32" else self.row.name
        if name == "float4_e2m1fn":
            return getattr(torch, "float4_e2m1fn_x2", torch.int8)
        return getattr(torch, name, None) or torch.int8


def _resolve(cls: type[DType], value: Any) -> DType:
    if isinstance(value, str):
        name = str(value)
    elif isinstance(value, type) and value in _PYTHON:
        name = _PYTHON[value]
    else:
        name = _foreign_name(value)
    base, lanes = name, 1
    if base not in TABLE and base not in _ALIASES and (m := _LANES.fullmatch(name)):
        base, lanes = m[1], int(m[2])
    row = TABLE.get(_ALIASES.get(base, base))
    if row is None:
        raise TypeError(f"unknown dtype {value!r}; known: {', '.join(TABLE)}")
    canonical = row.name if lanes == 1 else f"{row.name}x{lanes}"
    out = _cache.get(canonical)
    if out is None:
        out = str.__new__(cls, canonical)
        out.row, out.bits, out.lanes, out.kind = row, row.bits, lanes, row.kind
        out = _cache.setdefault(canonical, out)
    return _cache.setdefault(name, out)


def _foreign_name(value: Any) -> str:
    """The name of a numpy or torch dtype without importing either."""
    text = str(value)
    if text.startswith("torch."):
        return text[6:]
    name = getattr(value, "name", None)  # numpy.dtype
    if isinstance(name, str):
        return name
    return str(getattr(value, "__name__", text))


BOOL, INT32, INT64, UINT32, FLOAT32, HANDLE = (
    DType(n) for n in ("bool", "int32", "int64", "uint32", "float32", "handle")
)
