# SPDX-License-Identifier: Apache-2.0
"""Values as the executors hold them, and the arithmetic on them.

An integer is a Python int (of several elements: an int64 array, uint64 for uint64), a bool a bool,
a float64 a numpy float64, every narrower float a numpy float32 that is exactly a value of its
dtype. Arithmetic wraps or rounds to the dtype after each operation, as generated code does;
conversions are those of `ir.fold`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from tilelang.errors import InternalError
from tilelang.ir import DType, fold
from tilelang.tileop import numeric

__all__ = [
    "MATH", "binary_text", "cast", "from_storage", "literal", "ramp", "reinterpret", "rounded",
    "to_storage", "wrapped",
]  # fmt: skip

Value = Any


# --- storage <-> values ------------------------------------------------------------------------


def from_storage(x: Any, dtype: DType) -> Value:
    """Array elements (of `DType.as_numpy()`) as a value."""
    if isinstance(x, np.ndarray) and x.ndim:
        if dtype.is_int:
            return x if dtype.bits == 64 and dtype.kind == "uint" else x.astype(np.int64)
        return x.astype(np.float32) if dtype.is_narrow else x
    if dtype.is_int or dtype.is_handle:
        return int(x)
    if dtype.is_bool:
        return bool(x)
    return np.float64(x) if dtype.bits == 64 else np.float32(x)


def to_storage(x: Value, dtype: DType) -> Any:
    """A value as array elements."""
    target = dtype.as_numpy()
    if isinstance(x, np.ndarray):
        return x if x.dtype == target else x.astype(target)
    if (dtype.is_int and dtype.bits == 64) or dtype.is_handle:
        return np.array(x & (2**64 - 1), np.uint64).view(target)
    return np.array(x).astype(target)


def literal(x: Any, dtype: DType) -> Value:
    """The value of a constant."""
    if dtype.is_float:
        return np.float64(x) if dtype.bits == 64 else np.float32(x)
    return bool(x) if dtype.is_bool else int(x)


# --- wrapping and rounding ---------------------------------------------------------------------


def _wrapper(dtype: DType) -> Callable[[Value], Value]:
    bits = dtype.bits
    mask, half = (1 << bits) - 1, 1 << (bits - 1) if dtype.kind == "int" else 0

    def wrap64(x: Value) -> Value:
        return x if isinstance(x, np.ndarray) else ((x + half) & mask) - half

    def wrap(x: Value) -> Value:
        return ((x + half) & mask) - half

    return wrap64 if bits == 64 else wrap


_WRAP = {
    n: _wrapper(DType(n))
    for n in ("int2", "int4", "int8", "int16", "int32", "int64", "uint1", "uint2", "uint4", "uint8",
              "uint16", "uint32", "uint64", "handle")
}  # fmt: skip


def wrapped(dtype: DType) -> Callable[[Value], Value]:
    """Wraps an integer to its width."""
    return _WRAP[dtype.row.name]


def rounded(x: Value, dtype: DType) -> Value:
    """A float32 result as the nearest value of a narrow dtype, still held as float32."""
    target = dtype.as_numpy()
    if isinstance(x, np.ndarray):
        return x.astype(np.float32).astype(target).astype(np.float32)
    return np.float32(np.float32(x).astype(target))


def cast(x: Value, src: DType, dst: DType) -> Value:
    """A conversion among any two dtypes."""
    src, dst = src.element, dst.element
    if isinstance(x, np.ndarray):
        return from_storage(numeric.cast_array(to_storage(x, src), src, dst), dst)
    if dst.is_bool:
        return bool(x != 0)
    if not dst.is_float:
        return fold.cast(float(x), src, dst) if src.is_float else wrapped(dst)(int(x))
    x = x if src.is_float else int(x)
    if dst.bits == 64:
        return np.float64(x)
    wide = np.float32(np.int64(x) if not src.is_float and -(2**63) <= x < 2**63 else x)
    return rounded(wide, dst) if dst.is_narrow else wide


def reinterpret(x: Value, src: DType, dst: DType) -> Value:
    """The same bits as another dtype; lanes may be split or joined."""
    bits = np.atleast_1d(to_storage(x, src))
    if src.bits < 8 or dst.bits < 8:
        raise InternalError(f"the interpreter does not reinterpret {src} as {dst}")
    out = bits.view(dst.as_numpy())
    many = dst.lanes > 1 or (
        src.lanes == 1 and np.ndim(x) > 0
    )  # a vector, or many elements at once
    return from_storage(out if many else out[0], dst)


def ramp(base: int, stride: int, lanes: int) -> Value:
    return base + stride * np.arange(lanes, dtype=np.int64)


# --- operators ---------------------------------------------------------------------------------


def floordiv(a: Value, b: Value) -> Value:
    return np.floor(a / b)


def floormod(a: Value, b: Value) -> Value:
    """Exact, which a - b * floor(a / b) is not."""
    rest = np.fmod(a, b)
    return np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)[()]


def int_floordiv(a: Value, b: Value) -> Value:
    """As on every target, 0 where b is 0."""
    if isinstance(b, np.ndarray):
        return np.where(b == 0, 0, a // np.where(b == 0, 1, b))
    return a // b if b else a * 0


def int_floormod(a: Value, b: Value) -> Value:
    if isinstance(b, np.ndarray):
        return np.where(b == 0, 0, a % np.where(b == 0, 1, b))
    return a % b if b else a * 0


def truncdiv(a: Value, b: Value) -> Value:
    q = int_floordiv(abs(a), abs(b))
    if isinstance(q, np.ndarray):
        return np.where((a < 0) == (b < 0), q, -q)
    return q if (a < 0) == (b < 0) else -q


def truncmod(a: Value, b: Value) -> Value:
    rest = int_floormod(abs(a), abs(b))
    return (
        np.where(a < 0, -rest, rest) if isinstance(rest, np.ndarray) else -rest if a < 0 else rest
    )


def shl(a: Value, b: Value) -> Value:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.where(np.asarray(b) < 64, np.asarray(a) << _count(a, b), np.zeros_like(a))
    return a << min(b, 64)


def shr(a: Value, b: Value) -> Value:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.asarray(a) >> _count(a, b)
    return a >> b


def _count(a: Value, b: Value) -> Any:
    """How far to shift, in the dtype of what is shifted: numpy mixes no signed with uint64."""
    return np.minimum(b, 63).astype(np.asarray(a).dtype)


def _pick(name: str) -> Callable[[Value, Value], Value]:
    whole = getattr(np, name)
    larger = name.endswith("max") or name == "maximum"
    quiet = name.startswith("f")

    def pick(a: Value, b: Value) -> Value:
        if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
            return whole(a, b)
        if a != a:
            return b if quiet else a
        if b != b:
            return a if quiet else b
        return (a if a >= b else b) if larger else (a if a <= b else b)

    return pick


fmax, fmin, maximum, minimum = (_pick(n) for n in ("fmax", "fmin", "maximum", "minimum"))

_INFIX = {
    "Add": "+", "Sub": "-", "Mul": "*", "EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">",
    "GE": ">=", "BitAnd": "&", "BitOr": "|", "BitXor": "^",
}  # fmt: skip
_WRAPS = ("Add", "Sub", "Mul", "Shl", "FloorDiv", "TruncDiv")
_FUNCTIONS = {
    "FloorDiv": "floordiv", "FloorMod": "floormod", "TruncDiv": "truncdiv", "TruncMod": "truncmod",
    "Shl": "shl", "Shr": "shr",
}  # fmt: skip


def binary_text(op: str, a: str, b: str, dtype: DType) -> str:
    """Python text of an operation on two operands of `dtype`."""
    if op in ("Min", "Max"):
        return f"{_EXTREME[op, dtype.is_float]}({a}, {b})"
    if op == "Div":
        text = f"({a} / {b})"
    elif op in _INFIX:
        text = f"({a} {_INFIX[op]} {b})"
        if op in ("EQ", "NE", "LT", "LE", "GT", "GE"):
            return text
    elif op in ("FloorDiv", "FloorMod") and dtype.is_int:
        if b.isdigit() and int(b):
            text = f"({a} {'//' if op == 'FloorDiv' else '%'} {b})"
        else:
            text = f"int_{_FUNCTIONS[op]}({a}, {b})"
    elif op == "TruncDiv" and dtype.is_float:
        text = f"np.trunc({a} / {b})"
    elif op == "TruncMod" and dtype.is_float:
        text = f"np.fmod({a}, {b})"
    else:
        text = f"{_FUNCTIONS[op]}({a}, {b})"
    if dtype.is_int and op in _WRAPS:
        return f"wrap_{dtype.row.name}({text})"
    return f"rounded({text}, {dtype.row.name})" if dtype.is_narrow else text


_EXTREME = {
    ("Min", True): "fmin", ("Max", True): "fmax", ("Min", False): "minimum",
    ("Max", False): "maximum",
}  # fmt: skip


# --- math --------------------------------------------------------------------------------------


def _half_away(x: Value) -> Value:
    return np.copysign(np.floor(np.abs(x) + x.dtype.type(0.5)), x)


def _erf(x: Value) -> Value:
    return np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype)[()]


def _exp10(x: Value) -> Value:
    return np.power(x.dtype.type(10), x)


def _one(x: Value) -> Any:
    return x.dtype.type(1)


def _fma(a: Value, b: Value, c: Value) -> Value:
    if getattr(c, "dtype", None) == np.float64:
        return _fma_double(a, b, c) if np.ndim(c) == 0 else _FMA_LANES(a, b, c)
    wide = np.asarray(a, np.float64) * b + np.asarray(c, np.float64)
    return wide.astype(np.float32) if wide.ndim else np.float32(wide)


def _fma_double(a: Value, b: Value, c: Value) -> Value:
    """Rational arithmetic, rounded once."""
    if not all(map(math.isfinite, (a, b, c))):
        return a * b + c
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if not exact:  # the sign of a zero, as the sum has it
        return a * b + c
    try:
        return np.float64(float(exact))
    except OverflowError:
        return np.float64(math.inf if exact > 0 else -math.inf)


_FMA_LANES = np.vectorize(_fma_double, otypes=[np.float64])

_UFUNCS: dict[str, Callable[..., Value]] = {
    "exp": np.exp, "exp2": np.exp2, "exp10": _exp10, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: _one(x) / np.sqrt(x),
    "sigmoid": lambda x: _one(x) / (_one(x) + np.exp(-x)), "tanh": np.tanh, "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "erf": _erf, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "round": _half_away, "nearbyint": np.rint, "abs": abs,
    "rcp": np.reciprocal,
}  # fmt: skip
MATH: dict[str, Callable[..., Value]] = {
    **_UFUNCS,
    **{f"fast_{n}": _UFUNCS[n] for n in
       ("exp", "exp2", "exp10", "log", "log2", "log10", "sin", "cos", "tan", "rcp")},
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "pow": np.power, "fmod": np.fmod,
    "copysign": np.copysign, "atan2": np.arctan2, "max_nan": maximum, "min_nan": minimum,
    "fma": _fma, "reduce_lanes_add": np.sum, "reduce_lanes_max": np.max,
}  # fmt: skip


def clz(x: Value, dtype: DType) -> Value:
    return _of_bits(x, dtype, lambda bits: dtype.bits - bits.bit_length())


def popcount(x: Value, dtype: DType) -> Value:
    return _of_bits(x, dtype, int.bit_count)


def _of_bits(x: Value, dtype: DType, count: Callable[[int], int]) -> Value:
    """What `count` says of the bits of an integer, or of each of an array."""
    mask = (1 << dtype.bits) - 1
    if not isinstance(x, np.ndarray):
        return count(int(x) & mask)
    return np.array([count(int(v) & mask) for v in x.flat], np.int64).reshape(x.shape)


def make_vector(*lanes: Value) -> Value:
    return np.array(lanes)


def namespace() -> dict[str, Any]:
    """The names that generated text uses."""
    names: dict[str, Any] = {f"wrap_{n}": f for n, f in _WRAP.items()}
    names.update({r: DType(r) for r in _DTYPES})
    names.update({f"m_{n}": f for n, f in MATH.items()})
    names.update(
        np=np, floordiv=floordiv, floormod=floormod, int_floordiv=int_floordiv,
        int_floormod=int_floormod, truncdiv=truncdiv, truncmod=truncmod, shl=shl,
        shr=shr, fmax=fmax, fmin=fmin, maximum=maximum, minimum=minimum, rounded=rounded, cast=cast,
        reinterpret=reinterpret, ramp=ramp, clz=clz, popcount=popcount,
        make_vector=make_vector,
    )  # fmt: skip
    return names


def _all_dtypes() -> tuple[str, ...]:
    from tilelang.ir.dtype import TABLE

    return tuple(TABLE)


_DTYPES = _all_dtypes()
