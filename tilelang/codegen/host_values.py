# SPDX-License-Identifier: Apache-2.0
"""What a kernel is given: the value of each of its arguments in the type that its code declares.

Narrow floats travel as bit patterns. A scalar of such a dtype is rounded here: to nearest, ties to
even; NaN stays NaN; overflow gives infinity where the dtype has one, else its NaN (as ml_dtypes
converts).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tilelang.errors import LanguageError
from tilelang.ir import Buffer, Var

if TYPE_CHECKING:
    from tilelang.ir import DType

    from .host_args import Arguments
    from .host_writer import HostWriter, Value

__all__ = ["argument_type", "kernel_argument", "narrow_bits", "value_type"]


def argument_type(arg: object) -> str:
    """Type of a kernel's parameter, as every code generator declares it."""
    return value_type(arg.dtype) if isinstance(arg, Var) else "ptr"


def value_type(dtype: DType) -> str:
    """Type of a scalar of this dtype."""
    if dtype.is_handle:
        return "ptr"
    if dtype.is_bool:
        return "i1"
    if dtype.is_float and dtype.bits >= 32:
        return "f64" if dtype.bits == 64 else "f32"
    return f"i{max(dtype.bits, 8)}"


def kernel_argument(a: Arguments, arg: Any) -> Value:
    """The value of a kernel's argument, in the type of its parameter."""
    if isinstance(arg, Buffer):
        return a.data[arg]
    value = a.values[arg]
    if arg.dtype.is_float and arg.dtype.bits < 32:
        return narrow_bits(a.w, value, arg.dtype)
    to = argument_type(arg)
    return value if value.type == to else a.w.convert(value, to, arg.name)


class _Format(NamedTuple):
    """Bits of exponent and mantissa; top: the pattern that follows the largest finite one (which is
    infinity or, without infinities, NaN); nan: a quiet NaN."""

    exponent: int
    mantissa: int
    top: int
    nan: int


_FORMATS = {
    "float16": _Format(5, 10, 0x7C00, 0x7E00),
    "bfloat16": _Format(8, 7, 0x7F80, 0x7FC0),
    "float8_e5m2": _Format(5, 2, 0x7C, 0x7E),
    "float8_e4m3fn": _Format(4, 3, 0x7F, 0x7F),
}
_DOUBLE_MANTISSA, _DOUBLE_BIAS = 52, 1023


def narrow_bits(w: HostWriter, value: Value, dtype: DType) -> Value:
    """The pattern of `value` (f64) in `dtype`, as an integer of its width."""
    row = _FORMATS.get(dtype.row.name)
    if row is None:
        raise LanguageError(
            f"a scalar parameter cannot be {dtype}",
            code="TL0182",
            help="declare it T.float32 and cast it in the kernel",
        )
    bits = w.bits(value, "i64")
    sign = w.op("and", w.op("lshr", bits, w.number(63)), w.number(1))
    magnitude = w.op("and", bits, w.number(2**63 - 1))
    exponent = w.op("lshr", magnitude, w.number(_DOUBLE_MANTISSA))
    fraction = w.op("and", magnitude, w.number(2**_DOUBLE_MANTISSA - 1))
    significand = w.op("or", fraction, w.number(2**_DOUBLE_MANTISSA))
    bias = 2 ** (row.exponent - 1) - 1
    # A subnormal result keeps fewer bits: it is shifted further.
    normal = w.op("sub", exponent, w.number(_DOUBLE_BIAS - bias))
    below = w.op("sub", w.number(1), normal)
    is_subnormal = w.compare("gt", below, w.number(0))
    extra = w.select(is_subnormal, below, w.number(0))
    most = w.number(row.mantissa + 2)  # shifts everything out, the rounding bit included
    extra = w.select(w.compare("gt", extra, most), most, extra)
    shift = w.op("add", extra, w.number(_DOUBLE_MANTISSA - row.mantissa))
    kept = w.op("lshr", significand, shift)
    rest = w.op("and", significand, w.op("sub", w.op("shl", w.number(1), shift), w.number(1)))
    half = w.op("shl", w.number(1), w.op("sub", shift, w.number(1)))
    odd = w.op("and", kept, w.number(1))
    tie = w.op("and", w.compare("eq", rest, half), w.compare("eq", odd, w.number(1)))
    up = w.convert(w.op("or", w.compare("gt", rest, half), tie), "i64")
    # The hidden bit adds one to the exponent; a carry out of the mantissa does so again.
    base = w.op("shl", w.op("sub", normal, w.number(1)), w.number(row.mantissa))
    base = w.select(is_subnormal, w.number(0), base)
    out = w.op("add", w.op("add", base, kept), up)
    out = w.select(w.compare("gt", out, w.number(row.top)), w.number(row.top), out)
    is_nan = w.compare("gt", magnitude, w.number(0x7FF << _DOUBLE_MANTISSA))
    out = w.select(is_nan, w.number(row.nan), out)
    out = w.op("or", out, w.op("shl", sign, w.number(dtype.bits - 1)))
    return w.convert(out, f"i{dtype.bits}")
