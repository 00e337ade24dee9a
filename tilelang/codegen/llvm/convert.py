# SPDX-License-Identifier: Apache-2.0
"""Conversions among all dtypes, scalar or vector.

In: a `Value` of one dtype. Out: its value in another: rounded to nearest even, infinities and NaN
kept where the format has them (a format without infinity gives NaN, one without either saturates),
float to integer truncated and saturated, NaN giving 0. That is what constant folding does
(`ir.fold`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .types import elem_of
from .writer import Value

if TYPE_CHECKING:
    from tilelang.ir import DType

_INF = 0x7F800000
_QUIET = 0x7FC00000


class Format(NamedTuple):
    """A narrow float. largest: code of the largest finite magnitude; overflow, nan: codes;
    unsigned_zero: minus zero does not exist (its code is the NaN)."""

    bits: int
    mantissa: int
    bias: int
    largest: int
    overflow: int
    nan: int
    unsigned_zero: bool = False


# OCP 8-bit and microscaling formats; fnuz: the variants without infinity and minus zero.
FORMATS = {
    "float16": Format(16, 10, 15, 0x7BFF, 0x7C00, 0x7E00),
    "float8_e4m3fn": Format(8, 3, 7, 0x7E, 0x7F, 0x7F),
    "float8_e5m2": Format(8, 2, 15, 0x7B, 0x7C, 0x7E),
    "float8_e4m3fnuz": Format(8, 3, 8, 0x7F, 0x80, 0x80, True),
    "float8_e5m2fnuz": Format(8, 2, 16, 0x7F, 0x80, 0x80, True),
    "float4_e2m1fn": Format(4, 1, 1, 0x7, 0x7, 0x8),
}
FORMATS["float4_e2m1_unpacked"] = FORMATS["float4_e2m1fn"]


def cast(v: Value, src: DType, dst: DType, half: bool = True) -> Value:
    """`v` of dtype `src` as `dst` (lane counts are the value's). half: the CPU converts f16
    itself."""
    if src.element is dst.element or (
        src.is_float and dst.is_float and elem_of(src) == elem_of(dst) == "float"
    ):
        return v
    if src.is_narrow:
        return _from_f32_to(widen(v, src, half), dst, half)
    if src.is_float:
        return _float_to(v, dst, half)
    if dst.is_bool:
        return v.cmp("ne", 0)
    if dst.is_handle or src.is_handle:
        return _pointer(v, src, dst)
    if dst.is_float:
        return _int_to_float(v, src, dst, half)
    return resize(v, dst.bits, src.kind == "int")


def _from_f32_to(v: Value, dst: DType, half: bool) -> Value:
    return v if elem_of(dst) == "float" else _float_to(v, dst, half)


def _float_to(v: Value, dst: DType, half: bool) -> Value:
    if dst.is_bool:
        return v.cmp("une", 0.0)
    if dst.is_narrow:
        return narrow(v.convert("fptrunc", "float") if v.elem == "double" else v, dst, half)
    if dst.is_float:
        return v.convert("fpext" if dst.bits == 64 else "fptrunc", elem_of(dst))
    op = "fptosi" if dst.kind == "int" else "fptoui"
    return v.fn.saturate(op, v, elem_of(dst))


def _pointer(v: Value, src: DType, dst: DType) -> Value:
    if src.is_handle:
        return resize(v.convert("ptrtoint", "i64"), dst.bits, False)
    return resize(v, 64, src.kind == "int").convert("inttoptr", "ptr")


def _int_to_float(v: Value, src: DType, dst: DType, half: bool) -> Value:
    signed = src.kind == "int"
    if src.bits < 32:
        v, signed = resize(v, 32, signed), True
    number = v.convert("sitofp" if signed else "uitofp", "double" if dst.bits == 64 else "float")
    return number if dst.bits == 64 else _from_f32_to(number, dst, half)


def resize(v: Value, bits: int, signed: bool) -> Value:
    """An integer in another width."""
    have = 1 if v.elem == "i1" else int(v.elem[1:])
    if have == bits:
        return v
    if have > bits:
        return v.convert("trunc", f"i{bits}")
    return v.convert("sext" if signed and have > 1 else "zext", f"i{bits}")


# ---------------------------------------------------------------------------------- to float32


def widen(v: Value, dtype: DType, half: bool = True) -> Value:
    """A narrow float as float32 (exact)."""
    name = dtype.row.name
    if name == "bfloat16":
        return (v.convert("zext", "i32") << 16).bitcast("float")
    if name == "float16" and half:
        return v.bitcast("half").convert("fpext", "float")
    if name == "float8_e8m0fnu":
        code = v.convert("zext", "i32")
        normal = code.cmp("eq", 0).select(0x00400000, code << 23)
        return code.cmp("eq", 255).select(_QUIET, normal).bitcast("float")
    f = FORMATS[name]
    code = v.convert("zext", "i32")
    magnitude = code & ((1 << (f.bits - 1)) - 1)
    bits = magnitude << (23 - f.mantissa)
    # Read with float32's exponent bias and scaled by the difference: right for subnormals as well.
    number = (bits.bitcast("float") * 2.0 ** (127 - f.bias)).bitcast("i32")
    if f.unsigned_zero:
        number = code.cmp("eq", f.nan).select(_QUIET, number)
    elif f.overflow == f.nan:
        number = magnitude.cmp("eq", f.nan).select(_QUIET, number)
    elif f.overflow != f.largest:
        number = magnitude.cmp("ugt", f.largest).select(bits | _INF, number)
    sign = (code & (1 << (f.bits - 1))) << (32 - f.bits)
    return (number | sign).bitcast("float")


# ---------------------------------------------------------------------------------- from float32


def narrow(v: Value, dtype: DType, half: bool = True) -> Value:
    """A float32 rounded to a narrow float."""
    name = dtype.row.name
    if name == "float16" and half:
        return v.convert("fptrunc", "half").bitcast("i16")
    if name == "bfloat16":
        return _to_bf16(v)
    if name == "float8_e8m0fnu":
        return _to_e8m0(v)
    f = FORMATS[name]
    word = v.bitcast("i32")
    a = word & 0x7FFFFFFF
    code = _magnitude(a, f)
    if f.overflow == f.largest:  # saturates
        code = code.cmp("ugt", f.largest).select(f.largest, code)
    else:
        code = code.cmp("ugt", f.largest).select(f.overflow, code)
    sign = word.lshr(31) << (f.bits - 1)
    signed = code | sign
    if f.unsigned_zero:
        signed = code.cmp("eq", 0).select(0, code.cmp("eq", f.nan).select(f.nan, signed))
    nan: Value | int = sign | f.nan
    if f.unsigned_zero:
        nan = f.nan
    elif f.overflow == f.largest:  # no code is free for NaN: a zero, as ml_dtypes has it
        nan = sign ^ f.nan
    return a.cmp("ugt", _INF).select(nan, signed).convert("trunc", elem_of(dtype))


def _magnitude(a: Value, f: Format) -> Value:
    """Code of |x| by its float32 bits, rounded to nearest even, not yet limited."""
    shift = 23 - f.mantissa
    rounded = a + ((a.lshr(shift) & 1) + ((1 << (shift - 1)) - 1))
    normal = rounded.lshr(shift) - ((127 - f.bias) << f.mantissa)
    # Below the least normal number: adding a constant whose last place is the format's least
    # subnormal lets the adder round.
    step = 2.0 ** (24 - f.bias - f.mantissa)
    magic = a.fn.const(step, "float", a.lanes)
    small = (a.bitcast("float") + magic).bitcast("i32") - magic.bitcast("i32")
    return a.cmp("ult", (128 - f.bias) << 23).select(small, normal)


def _to_bf16(v: Value) -> Value:
    word = v.bitcast("i32")
    rounded = (word + ((word.lshr(16) & 1) + 0x7FFF)).lshr(16)
    nan = (word & 0x7FFFFFFF).cmp("ugt", _INF)
    return nan.select(word.lshr(16) | 0x40, rounded).convert("trunc", "i16")


def _to_e8m0(v: Value) -> Value:
    """The nearest power of two, ties up; what is not positive and finite is NaN."""
    word = v.bitcast("i32")
    exponent = word.lshr(23)
    # 2**-127 is subnormal in float32, where its leading bit is in the mantissa: it is no tie.
    tie = exponent.cmp("ne", 0).convert("zext", "i32")
    up = ((word & 0x7FFFFF) + tie).cmp("ugt", 0x400000)
    bad = word.cmp("sle", 0) | word.cmp("sge", _INF)
    return bad.select(255, exponent + up.convert("zext", "i32")).convert("trunc", "i8")


__all__ = ["FORMATS", "cast", "narrow", "resize", "widen"]
