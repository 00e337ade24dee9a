# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of kernels: elementary functions, integer division, casts, constants of a dtype.

Everything is an expression of scalars (or short vectors); Python numbers alone stay Python numbers
where that is exact (`T.ceildiv(7, 2)`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang import ir
from tilelang.errors import OptionError, TypeMismatchError
from tilelang.ir import Buffer, Const, DType, Expr, as_expr, binary, call, const

from .tensor import as_dtype
from .trace import maybe_current
from .values import plain

_FLOAT32 = "float32"


def fail(message: str, code: str, help: str, kind: Any = TypeMismatchError) -> Exception:
    """An error at the user's line if there is a trace."""
    t = maybe_current()
    error: Exception = kind(message, code=code, span=None if t is None else t.span(), help=help)
    return error


def operand(x: Any, what: str, like: DType | None = None) -> Expr:
    """An argument of a scalar function."""
    if isinstance(x, Buffer):
        raise fail(
            f"{what}: `{x.name}` is a whole buffer",
            "TL0213",
            f"give an element, in a loop: {what}({x.name}[i])",
        )
    try:
        return as_expr(plain(x), like)
    except TypeError as error:
        raise fail(f"{what}: {error}", "TL0214", "give a number or a kernel expression") from None


def _floating(x: Any, what: str) -> Expr:
    e = operand(x, what)
    if e.dtype.is_handle:
        raise fail(f"{what} of a pointer", "TL0215", "give a number")
    return e if e.dtype.is_float else ir.cast(e, DType(_FLOAT32).with_lanes(e.dtype.lanes))


def _unary(name: str, doc: str) -> Callable[[Any], Expr]:
    what = f"T.{name}"

    def function(x: Any) -> Expr:
        e = _floating(x, what)
        return call(name, [e], e.dtype)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


exp = _unary("exp", "e to the power x.")
exp2 = _unary("exp2", "2 to the power x.")
exp10 = _unary("exp10", "10 to the power x.")
log = _unary("log", "Natural logarithm.")
log2 = _unary("log2", "Logarithm to base 2.")
log10 = _unary("log10", "Logarithm to base 10.")
log1p = _unary("log1p", "log(1 + x), exact near 0.")
sqrt = _unary("sqrt", "Square root.")
rsqrt = _unary("rsqrt", "1 / sqrt(x).")
sigmoid = _unary("sigmoid", "1 / (1 + exp(-x)).")
tanh = _unary("tanh", "Hyperbolic tangent.")
sin = _unary("sin", "Sine.")
cos = _unary("cos", "Cosine.")
tan = _unary("tan", "Tangent.")
sinh = _unary("sinh", "Hyperbolic sine.")
cosh = _unary("cosh", "Hyperbolic cosine.")
asin = _unary("asin", "Inverse sine.")
acos = _unary("acos", "Inverse cosine.")
atan = _unary("atan", "Inverse tangent.")
erf = _unary("erf", "Error function.")


def _rounding(name: str, doc: str) -> Callable[[Any], Any]:
    """Rounding functions: an integer is rounded already."""
    what = f"T.{name}"

    def function(x: Any) -> Any:
        e = operand(x, what)
        return call(name, [e], e.dtype) if e.dtype.is_float else e

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


floor = _rounding("floor", "Largest integer not above x.")
ceil = _rounding("ceil", "Smallest integer not below x.")
trunc = _rounding("trunc", "x without its fraction.")
round = _rounding("round", "Nearest integer, halves away from zero.")
nearbyint = _rounding("nearbyint", "Nearest integer, halves to even.")


def _predicate(name: str, doc: str, of_integer: bool) -> Callable[[Any], Expr]:
    what = f"T.{name}"

    def function(x: Any) -> Expr:
        e = operand(x, what)
        if not e.dtype.is_float:
            return const(of_integer, "bool")
        return call(name, [e], DType("bool").with_lanes(e.dtype.lanes))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


isnan = _predicate("isnan", "Is x not a number?", False)
isinf = _predicate("isinf", "Is x infinite?", False)
isfinite = _predicate("isfinite", "Is x neither infinite nor NaN?", True)


def abs(x: Any) -> Expr:
    """Magnitude."""
    e = operand(x, "T.abs")
    return e if e.dtype.kind in ("uint", "bool") else call("abs", [e], e.dtype)


def _pair(x: Any, y: Any, what: str, floating: bool = True) -> tuple[Expr, Expr]:
    a = operand(x, what)
    b = operand(y, what, a.dtype) if not isinstance(plain(y), Expr) else operand(y, what)
    if not isinstance(plain(x), Expr) and isinstance(plain(y), Expr):
        a = operand(x, what, b.dtype)
    to = ir.promote(a.dtype, b.dtype)
    if floating and not to.is_float:
        to = DType(_FLOAT32).with_lanes(to.lanes)
    return ir.cast(a, to), ir.cast(b, to)


def _two(name: str, doc: str) -> Callable[[Any, Any], Expr]:
    what = f"T.{name}"

    def function(x: Any, y: Any) -> Expr:
        a, b = _pair(x, y, what)
        return call(name, [a, b], a.dtype)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


pow = _two("pow", "x to the power y.")
power = pow
fmod = _two("fmod", "Remainder of x / y with the sign of x.")
copysign = _two("copysign", "The magnitude of x with the sign of y.")
atan2 = _two("atan2", "Angle of the point (y, x): T.atan2(y, x).")


def fma(a: Any, b: Any, c: Any) -> Expr:
    """a * b + c, rounded once."""
    x, y = _pair(a, b, "T.fma")
    x, z = _pair(x, c, "T.fma")
    return call("fma", [x, ir.cast(y, x.dtype), z], x.dtype)


def _extreme(cls: Any, python: Callable[..., Any], name: str) -> Callable[..., Any]:
    what = f"T.{name}"

    def function(*values: Any) -> Any:
        items = [plain(v) for v in values]
        if len(items) == 1 and isinstance(items[0], (list, tuple)):
            items = [plain(v) for v in items[0]]
        if not items:
            raise fail(f"{what} needs at least one value", "TL0542", f"{what}(a, b)", OptionError)
        if all(isinstance(v, (int, float)) for v in items):
            return python(items)
        out = items[0] if isinstance(items[0], (int, float)) else operand(items[0], what)
        for v in items[1:]:
            out = binary(cls, out, v if isinstance(v, (int, float)) else operand(v, what))
        return out

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"The {'larger' if name == 'max' else 'smaller'} of the values; NaN is ignored."
    )
    return function


max = _extreme(ir.Max, max, "max")
min = _extreme(ir.Min, min, "min")


def clamp(x: Any, min_val: Any, max_val: Any) -> Any:
    """x, but not below min_val and not above max_val."""
    return min(max(x, min_val), max_val)


# ------------------------------------------------------------------------------------ integers


def ceildiv(a: Any, b: Any) -> Any:
    """a / b rounded up."""
    x, y = plain(a), plain(b)
    if isinstance(y, int) and y == 0:
        raise fail("T.ceildiv by zero", "TL0546", "check the block size", OptionError)
    return plain(ir.ceildiv(x, y))


cdiv = ceildiv


def align_up(value: Any, alignment: Any) -> Any:
    """The smallest multiple of `alignment` not below `value`."""
    return ceildiv(value, alignment) * plain(alignment)


def _division(
    cls: Any, name: str, doc: str, python: Callable[[int, int], int]
) -> Callable[[Any, Any], Any]:
    def function(a: Any, b: Any) -> Any:
        x, y = plain(a), plain(b)
        if isinstance(x, int) and isinstance(y, int) and y != 0:
            return python(x, y)
        return binary(cls, x, y)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _trunc_quotient(a: int, b: int) -> int:
    q = a // b
    return q + 1 if q < 0 and q * b != a else q


floordiv = _division(ir.FloorDiv, "floordiv", "a / b rounded down.", lambda a, b: a // b)
floormod = _division(
    ir.FloorMod, "floormod", "Remainder of floordiv: takes the sign of b.", lambda a, b: a % b
)
truncdiv = _division(ir.TruncDiv, "truncdiv", "a / b rounded towards zero.", _trunc_quotient)
truncmod = _division(
    ir.TruncMod,
    "truncmod",
    "Remainder of truncdiv: takes the sign of a.",
    lambda a, b: a - b * _trunc_quotient(a, b),
)


def shift_left(a: Any, b: Any) -> Any:
    return operand(a, "T.shift_left") << plain(b)


def shift_right(a: Any, b: Any) -> Any:
    return operand(a, "T.shift_right") >> plain(b)


def bitwise_and(a: Any, b: Any) -> Any:
    return operand(a, "T.bitwise_and") & plain(b)


def bitwise_or(a: Any, b: Any) -> Any:
    return operand(a, "T.bitwise_or") | plain(b)


def bitwise_xor(a: Any, b: Any) -> Any:
    return operand(a, "T.bitwise_xor") ^ plain(b)


def bitwise_not(a: Any) -> Any:
    e = operand(a, "T.bitwise_not")
    if not (e.dtype.is_int or e.dtype.is_bool):
        raise fail(f"T.bitwise_not of a {e.dtype}", "TL0244", "give an integer or a bool")
    return ~e


def popcount(x: Any) -> Expr:
    """Number of bits that are set."""
    e = operand(x, "T.popcount")
    if not e.dtype.is_int:
        raise fail(f"T.popcount of a {e.dtype}", "TL0216", "give an integer")
    return call("popcount", [e], "int32")


def clz(x: Any) -> Expr:
    """Number of leading zero bits."""
    e = operand(x, "T.clz")
    if not e.dtype.is_int:
        raise fail(f"T.clz of a {e.dtype}", "TL0217", "give an integer")
    return call("clz", [e], "int32")


# --------------------------------------------------------------------------- choice, conversion


def if_then_else(cond: Any, true_value: Any, false_value: Any) -> Any:
    """true_value where cond holds, else false_value; only the chosen one is evaluated."""
    c = plain(cond)
    if not isinstance(c, Expr):
        return true_value if c else false_value
    return ir.if_then_else(_test(c, "T.if_then_else"), _value(true_value), _value(false_value))


def Select(cond: Any, true_value: Any, false_value: Any) -> Any:
    """As if_then_else, but both values are evaluated; their dtypes must be equal."""
    a, b = _value(true_value), _value(false_value)
    if isinstance(a, Expr) and isinstance(b, Expr) and a.dtype is not b.dtype:
        raise fail(
            f"T.Select: the values have different dtypes, {a.dtype} and {b.dtype}",
            "TL0218",
            "cast one of them, or use T.if_then_else, which promotes",
        )
    return ir.select(_test(operand(cond, "T.Select"), "T.Select"), a, b)


def _test(c: Expr, what: str) -> Expr:
    if c.dtype.is_handle:
        raise fail(f"{what}: a pointer is no condition", "TL0219", "compare it with something")
    return ir.as_bool(c)


def _value(v: Any) -> Any:
    v = plain(v)
    return v if isinstance(v, (int, float)) else operand(v, "a chosen value")


def cast(
    value: Any, dtype: Any, round: str | None = None, sat: Any = None, rbits: Any = None
) -> Expr:
    """`value` converted to `dtype`: to the nearest value, halves to even; a float loses its
    fraction when it becomes an integer."""
    if round not in (None, "rn") or sat is not None or rbits is not None:
        raise fail(
            "T.cast: round, sat and rbits are not supported",
            "TL0543",
            "leave them out: conversions round to nearest even",
            OptionError,
        )
    number = plain(value)  # one that is to be float64 is never float32
    given = number if isinstance(number, float) else operand(value, "T.cast")
    return ir.cast(given, as_dtype(dtype, "T.cast"))


def Cast(dtype: Any, value: Any) -> Expr:
    """`cast` with its arguments in the other order."""
    return cast(value, dtype)


def reinterpret(value: Any, dtype: Any) -> Expr:
    """The bits of `value` as another dtype of the same width."""
    if isinstance(value, (str, DType)) and not isinstance(dtype, (str, DType)):
        value, dtype = dtype, value
    e, to = operand(value, "T.reinterpret"), as_dtype(dtype, "T.reinterpret")
    if e.dtype.bits * e.dtype.lanes != to.bits * to.lanes:
        raise fail(
            f"T.reinterpret: {e.dtype} has {e.dtype.bits * e.dtype.lanes} bits but {to} has "
            f"{to.bits * to.lanes}",
            "TL0232",
            "choose a dtype of the same width",
        )
    return e if e.dtype is to else call("reinterpret", [e], to)


def Broadcast(value: Any, lanes: int) -> Expr:
    """A short vector of equal lanes."""
    return ir.Broadcast(operand(value, "T.Broadcast"), int(lanes))


def Ramp(base: Any, stride: Any, lanes: int) -> Expr:
    """The vector base, base + stride, …"""
    b = operand(base, "T.Ramp")
    return ir.Ramp(b, ir.cast(operand(stride, "T.Ramp"), b.dtype), int(lanes))


def extract_lane(vector: Any, lane: Any) -> Expr:
    """One lane of a short vector."""
    v = operand(vector, "T.extract_lane")
    return call("extract_lane", [v, plain(lane)], v.dtype.element)


def infinity(dtype: Any) -> Const:
    """Positive infinity."""
    d = as_dtype(dtype, "T.infinity")
    if not d.is_float:
        raise fail(f"T.infinity of {d}", "TL0233", "use T.max_value for integers")
    return const(float("inf"), d)


def max_value(dtype: Any) -> Const:
    """The largest finite value of a dtype."""
    return const(_limit(as_dtype(dtype, "T.max_value"), True), as_dtype(dtype, "T.max_value"))


def min_value(dtype: Any) -> Const:
    """The smallest finite value of a dtype."""
    return const(_limit(as_dtype(dtype, "T.min_value"), False), as_dtype(dtype, "T.min_value"))


def _limit(d: DType, upper: bool) -> Any:
    if d.is_bool:
        return upper
    if d.is_int:
        signed = d.kind == "int"
        return (1 << (d.bits - signed)) - 1 if upper else -(1 << (d.bits - 1)) if signed else 0
    if not d.is_float:
        raise fail(f"{d} has no largest or smallest value", "TL0240", "give a number's dtype")
    import ml_dtypes

    info = ml_dtypes.finfo(d.as_numpy())
    return float(info.max if upper else info.min)


__all__ = [
    n
    for n, v in list(globals().items())
    if not n.startswith("_") and getattr(v, "__module__", "") == __name__
]
