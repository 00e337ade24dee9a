# SPDX-License-Identifier: Apache-2.0
"""Constant folding with a dtype's own run-time semantics.

A folded constant must equal what the kernel would have computed: integers wrap at their width,
floats are rounded by numpy / ml_dtypes scalars of that very dtype (NaN and overflow included),
never by Python's doubles. A division by zero is not folded: it is left for run time.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from .dtype import DType


def wrap(value: int, dtype: DType) -> int:
    """Two's-complement wrap to the dtype's width."""
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.kind == "int" and value >> (dtype.bits - 1) else value


def round_to(value: Any, dtype: DType) -> Any:
    """`value` (a Python number) as the nearest value of `dtype`, as a Python number."""
    kind = dtype.kind
    if kind == "bool":
        return bool(value)
    if kind in ("int", "uint", "handle"):
        return wrap(int(value), dtype)
    if dtype.bits == 64:
        return float(value)
    return float(_scalar(value, dtype))


def _scalar(value: Any, dtype: DType) -> Any:
    import numpy as np

    with np.errstate(all="ignore"):
        if str(dtype) == "float32":
            return np.float32(value)
        # float32 first, as hardware does: a double rounded straight to 8 bits could differ
        return np.asarray(value, np.float32 if dtype.bits < 32 else np.float64).astype(
            dtype.as_numpy()
        )[()]


def cast(value: Any, src: DType, dst: DType) -> Any:
    """Conversion of a constant. Float to int truncates and saturates, as `cvt.rzi` does; NaN gives
    0."""
    if src.is_float and not dst.is_float and not dst.is_bool:
        return _float_to_int(value, dst)
    return round_to(value, dst)


def _float_to_int(value: float, dst: DType) -> int:
    if value != value:
        return 0
    signed = dst.kind == "int"
    lo = -(1 << (dst.bits - 1)) if signed else 0
    hi = (1 << (dst.bits - signed)) - 1
    if value in (float("inf"), float("-inf")):
        return hi if value > 0 else lo
    return min(max(int(value), lo), hi)


def _trunc_div(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


INT: dict[str, Callable[[int, int], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "FloorDiv": operator.floordiv,
    "FloorMod": operator.mod,
    "TruncDiv": _trunc_div,
    "TruncMod": lambda a, b: a - b * _trunc_div(a, b),
    "Min": min,
    "Max": max,
    "BitAnd": operator.and_,
    "BitOr": operator.or_,
    "BitXor": operator.xor,
    "Shl": lambda a, b: a << b,
    "Shr": lambda a, b: a >> b,
}
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}
_FLOAT: dict[str, str] = {
    "Add": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "Div": "divide",
    "Min": "fmin",
    "Max": "fmax",
}


def binary(op: str, a: Any, b: Any, dtype: DType) -> Any:
    """The folded value, or None where folding could differ from run time."""
    compare = COMPARE.get(op)
    if compare is not None:
        return compare(a, b)
    if dtype.is_int:
        if op in ("FloorDiv", "FloorMod", "TruncDiv", "TruncMod") and b == 0:
            return None
        if op in ("Shl", "Shr") and not 0 <= b < dtype.bits:
            return None
        f = INT.get(op)
        return None if f is None else wrap(f(a, b), dtype)
    if dtype.is_float and op in _FLOAT:
        import numpy as np

        with np.errstate(all="ignore"):
            x, y = _scalar(a, dtype), _scalar(b, dtype)
            if dtype.bits < 32:  # computed in float32 and rounded, as the generated code does
                x, y = np.float32(x), np.float32(y)
            return float(
                _scalar(getattr(np, _FLOAT[op])(x, y), dtype)
                if dtype.bits < 64
                else getattr(np, _FLOAT[op])(x, y)
            )
    return None
