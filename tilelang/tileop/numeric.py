# SPDX-License-Identifier: Apache-2.0
"""The language's conversions on numpy arrays, and reading and writing boxes of arrays.

In and out: numpy arrays of `DType.as_numpy()`. A conversion gives, element by element, what
`ir.fold.cast` gives for a constant. Imported where `reference()` runs only: it loads numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilelang.errors import BoundsError, InternalError
from tilelang.ir import Const, DType, Expr, Region

from . import expand

if TYPE_CHECKING:
    from collections.abc import Sequence

    Array = np.ndarray[Any, Any]

__all__ = [
    "as_float", "box_of", "broadcast", "cast_array",
    "combine", "constant", "fold_axis", "ints", "matmul", "matrix", "narrow_ints", "poison",
    "read_box",
    "value", "write_box",
]  # fmt: skip

_POISON_INT = 0x5A5A5A5A5A5A5A5A


def poison(dtype: DType) -> Any:
    """What uninitialised memory holds: NaN, or a number that nobody means."""
    if dtype.is_bool:
        return True
    if dtype.is_float:
        return np.array(np.nan, np.float32).astype(dtype.as_numpy())[()]
    return narrow_ints(np.array(_POISON_INT, np.int64), dtype)[()]


def constant(value: Any, dtype: DType) -> Array:
    """A Python number, already rounded to `dtype`, as a 0-dimensional array of it."""
    if dtype.is_int or dtype.is_handle:
        bits = np.array(int(value) & 0xFFFF_FFFF_FFFF_FFFF, np.uint64)
        return narrow_ints(bits.view(np.int64), dtype)
    return np.array(value, np.float64 if dtype.is_float else np.bool_).astype(dtype.as_numpy())


def narrow_ints(x: Array, dtype: DType) -> Array:
    """int64 values wrapped to the width of `dtype` (two's complement)."""
    bits = dtype.bits
    if bits >= 8:
        return x.astype(dtype.as_numpy())
    x = x & ((1 << bits) - 1)
    if dtype.kind == "int":
        x = (x ^ (1 << (bits - 1))) - (1 << (bits - 1))
    return x.astype(dtype.as_numpy())


def cast_array(x: Array, src: DType, dst: DType) -> Array:
    """`x` converted: nearest even; float to int truncates and saturates, NaN gives 0; ints wrap."""
    src, dst = src.element, dst.element
    if src is dst:
        return x
    if dst.is_bool:
        return np.asarray(x.astype(np.float32) != 0 if _small_float(src) else x != 0)
    if src.is_float and not dst.is_float:
        return _float_to_int(x, dst)
    if not dst.is_float:
        return narrow_ints(
            x.astype(np.int64) if src.bits < 64 or src.is_bool else x.view(np.int64), dst
        )
    with np.errstate(all="ignore"):
        if dst.bits < 32:  # through float32, as the hardware and `fold` do
            x = x.astype(np.int64) if src.is_int and src.bits < 8 else x
            return x.astype(np.float32).astype(dst.as_numpy())
        x = x.astype(np.int64) if src.is_int and src.bits < 8 else x
        return x.astype(dst.as_numpy())


def _small_float(dtype: DType) -> bool:
    return dtype.is_float and dtype.bits < 32


def _float_to_int(x: Array, dst: DType) -> Array:
    wide = x.astype(np.float64)
    signed = dst.kind == "int"
    lo, hi = -(1 << (dst.bits - 1)) if signed else 0, (1 << (dst.bits - signed)) - 1
    with np.errstate(all="ignore"):
        whole = np.trunc(np.where(np.isnan(wide), 0.0, wide))
        high, low = whole >= float(hi), whole <= float(lo)
        safe = np.where(high | low, 0.0, whole)
        ints = safe.astype(np.uint64 if dst.bits == 64 and not signed else np.int64)
    if dst.bits == 64:
        out = ints.astype(dst.as_numpy())
        out = np.where(high, np.array(hi, dst.as_numpy()), out)
        return np.asarray(np.where(low, np.array(lo, dst.as_numpy()), out))
    return narrow_ints(np.where(high, hi, np.where(low, lo, ints)), dst)


# --- boxes -------------------------------------------------------------------------------------


def value(e: Expr) -> Any:
    """The value of a constant; the executor has evaluated everything before it asks."""
    if type(e) is not Const:
        raise InternalError(f"reference() was given `{e}`, which is not evaluated")
    return e.value


def ints(exprs: Sequence[Expr]) -> tuple[int, ...]:
    return tuple(int(value(e)) for e in exprs)


def box_of(region: Region) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return ints(region.offsets), ints(region.extents)


def _overlap(
    region: Region, shape: tuple[int, ...]
) -> tuple[tuple[slice, ...], tuple[slice, ...], bool]:
    """Where the box and the array meet, in the array's and in the box's coordinates; all of it?"""
    offsets, extents = box_of(region)
    outer, inner = [], []
    for o, e, n in zip(offsets, extents, shape, strict=True):
        lo, hi = max(o, 0), max(min(o + e, n), 0)
        hi = max(hi, lo)
        outer.append(slice(lo, hi))
        inner.append(slice(lo - o, hi - o))
    whole = all(s.stop - s.start == e for s, e in zip(outer, extents, strict=True))
    if not whole and not region.buffer.is_global:
        raise BoundsError(
            f"{region!r} leaves {region.buffer!r}",
            code="TL1220",
            help="keep the tile inside; only global memory may be left",
        )
    return tuple(outer), tuple(inner), whole


def read_box(array: Array, region: Region, safe: Any = 0) -> Array:
    """The elements of a region; outside of a global tensor they read as `safe`."""
    outer, inner, whole = _overlap(region, array.shape)
    if whole:
        return array[outer]
    out: Array = np.full(ints(region.extents), constant(safe, region.dtype), array.dtype)
    if all(s.stop > s.start for s in outer):
        out[inner] = array[outer]
    return out


def write_box(array: Array, region: Region, values: Array) -> None:
    """Stores a box; what lies outside of a global tensor is dropped."""
    outer, inner, whole = _overlap(region, array.shape)
    if whole:
        array[outer] = values
    elif all(s.stop > s.start for s in outer):
        array[outer] = values[inner]


def as_float(x: Array, dtype: DType) -> Array:
    """Values in the arithmetic type of `dtype`: narrow floats as float32."""
    return x.astype(np.float32) if _small_float(dtype) else x


def broadcast(x: Array, shape: Sequence[int]) -> Array:
    """`x` with its extents of 1 repeated (and an extent of 0 kept)."""
    return np.broadcast_to(x, tuple(shape))


# --- folds -------------------------------------------------------------------------------------


def combine(a: Array, b: Array, kind: str, nan_propagate: bool) -> Array:
    """Two partial results of a reduction, elementwise; both of one dtype, as the result."""
    if kind in ("absmax", "abssum"):
        kind = kind[3:]
    with np.errstate(all="ignore"):
        return np.asarray(_ufunc(kind, nan_propagate)(a, b)).astype(a.dtype)


def fold_axis(x: Array, dtype: DType, kind: str, axis: int, nan_propagate: bool) -> Array:
    """`x` (of `dtype`) folded along one axis in `dtype`; the neutral element over no elements."""
    start = constant(expand.identity(kind, dtype).value, dtype)
    if kind.startswith("abs"):
        x = np.abs(x) if dtype.is_signed else x
        kind = kind[3:]
    with np.errstate(all="ignore"):
        if kind != "sum":
            return np.asarray(_ufunc(kind, nan_propagate).reduce(x, axis=axis, initial=start[()]))
        if dtype.is_float:
            return np.asarray(x.sum(axis=axis, dtype=np.float64)).astype(x.dtype)
        return narrow_ints(np.asarray(x.astype(np.int64).sum(axis=axis)), dtype)


def _ufunc(kind: str, nan_propagate: bool) -> np.ufunc:
    names = {"sum": "add", "bitand": "bitwise_and", "bitor": "bitwise_or", "bitxor": "bitwise_xor"}
    if kind in ("max", "min"):
        names[kind] = kind + "imum" if nan_propagate else "f" + kind
    ufunc: np.ufunc = getattr(np, names[kind])
    return ufunc


# --- products ----------------------------------------------------------------------------------

_EXACT_IN_DOUBLE = 2**53


def matrix(array: Array, region: Region) -> Array:
    """The last two dimensions of a region; the others are 1."""
    x = read_box(array, region)
    return x.reshape(x.shape[-2:])


def matmul(
    a: Array, a_dtype: DType, b: Array, b_dtype: DType, old: Array | None, c: DType
) -> Array:
    """old + a · b in the dtype of `c`, summed in float32 or float64 or exactly."""
    if not c.is_float:
        total = _int_matmul(a, a_dtype, b, b_dtype)
        return narrow_ints(total if old is None else total + old.astype(np.int64), c)
    wide = np.float64 if c.bits == 64 else np.float32
    with np.errstate(all="ignore"):
        out = a.astype(wide) @ b.astype(wide)
        if old is not None:
            out += old.astype(wide)
        return np.asarray(out.astype(c.as_numpy()))


def _int_matmul(a: Array, a_dtype: DType, b: Array, b_dtype: DType) -> Array:
    """Exactly, modulo 2^64; through doubles, which numpy multiplies fast, where they are exact."""
    if a.shape[1] << (a_dtype.bits + b_dtype.bits) < _EXACT_IN_DOUBLE:
        return np.asarray(a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64)
    return a.astype(np.int64) @ b.astype(np.int64)
