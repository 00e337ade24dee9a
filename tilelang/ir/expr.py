# SPDX-License-Identifier: Apache-2.0
"""Expressions: the grammar, Python's operators on them, and folding constructors.

    Expr  = Var(name) | Const(value) | StringImm(text)
          | Add Sub Mul Div | FloorDiv FloorMod TruncDiv TruncMod | Min Max      (a, b)
          | BitAnd BitOr BitXor Shl Shr                                          (a, b)
          | EQ NE LT LE GT GE | And Or                                           (a, b) -> bool
          | Neg(a) | Not(a) | BitNot(a) | Cast(a, to)
          | Select(cond, a, b)        both sides evaluated
          | IfThenElse(cond, a, b)    lazy: guards what is evaluated, e.g. a load
          | Load(buffer, indices) | Ramp(base, stride, lanes) | Broadcast(a, lanes)
          | Call(op, args, dtype)     op names a row of `ir.intrinsics`

Two ways to build. A class (`Add(a, b)`) builds exactly that node, operands already of one dtype. An
operator or a lower-case function (`a + b`, `add(a, b)`, `cast`, `select`) also promotes dtypes by
the language's rules, folds constants with the dtype's own run-time semantics, and drops identities
(`x + 0`). Passes use the second unless they must keep the shape.

Expressions carry no span. `a is b` compares (inside a session); `a == b` builds an `EQ`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from . import fold
from .dtype import BOOL, FLOAT32, HANDLE, INT32, DType
from .node import Node, node

if TYPE_CHECKING:
    from .buffer import Buffer


class Expr(Node):
    """Base of all expressions: `dtype`, and Python's operators (which promote and fold)."""

    __slots__ = ()
    _interned: ClassVar[bool] = True
    dtype: DType

    __hash__ = object.__hash__

    def __add__(self, o: Any) -> Expr:
        return binary(Add, self, o)

    def __radd__(self, o: Any) -> Expr:
        return binary(Add, o, self)

    def __sub__(self, o: Any) -> Expr:
        return binary(Sub, self, o)

    def __rsub__(self, o: Any) -> Expr:
        return binary(Sub, o, self)

    def __mul__(self, o: Any) -> Expr:
        return binary(Mul, self, o)

    def __rmul__(self, o: Any) -> Expr:
        return binary(Mul, o, self)

    def __truediv__(self, o: Any) -> Expr:
        return div(self, o)

    def __rtruediv__(self, o: Any) -> Expr:
        return div(o, self)

    def __floordiv__(self, o: Any) -> Expr:
        return binary(FloorDiv, self, o)

    def __rfloordiv__(self, o: Any) -> Expr:
        return binary(FloorDiv, o, self)

    def __mod__(self, o: Any) -> Expr:
        return binary(FloorMod, self, o)

    def __rmod__(self, o: Any) -> Expr:
        return binary(FloorMod, o, self)

    def __pow__(self, o: Any) -> NoReturn:
        raise TypeError(f"`**` on `{self}`: use T.pow(x, y), or multiply")

    def __rpow__(self, o: Any) -> NoReturn:
        raise TypeError(
            f"`**` with the exponent `{self}`: use T.pow(x, y), or T.exp2(y) for 2 ** y"
        )

    def __abs__(self) -> NoReturn:
        raise TypeError(f"abs() of `{self}`: use T.abs(x)")

    def __float__(self) -> float:
        if type(self) is Const:
            return float(self.value)
        raise TypeError(
            f"float() of `{self}`, known only when the kernel runs: use T.cast(x, 'float32')"
        )

    def __neg__(self) -> Expr:
        return neg(self)

    def __pos__(self) -> Expr:
        return self

    def __and__(self, o: Any) -> Expr:
        return bitwise(BitAnd, And, self, o)

    def __rand__(self, o: Any) -> Expr:
        return bitwise(BitAnd, And, o, self)

    def __or__(self, o: Any) -> Expr:
        return bitwise(BitOr, Or, self, o)

    def __ror__(self, o: Any) -> Expr:
        return bitwise(BitOr, Or, o, self)

    def __xor__(self, o: Any) -> Expr:
        return bitwise(BitXor, NE, self, o)

    def __rxor__(self, o: Any) -> Expr:
        return bitwise(BitXor, NE, o, self)

    def __lshift__(self, o: Any) -> Expr:
        return bitwise(Shl, None, self, o)

    def __rlshift__(self, o: Any) -> Expr:
        return bitwise(Shl, None, o, self)

    def __rshift__(self, o: Any) -> Expr:
        return bitwise(Shr, None, self, o)

    def __rrshift__(self, o: Any) -> Expr:
        return bitwise(Shr, None, o, self)

    def __invert__(self) -> Expr:
        if self.dtype.is_bool:
            return logical_not(self)
        if not self.dtype.is_int:
            raise TypeError(f"`~` needs an integer, got `{self}` ({self.dtype})")
        return BitNot(self)

    def __eq__(self, o: Any) -> Expr:  # type: ignore[override]
        return binary(EQ, self, o)

    def __ne__(self, o: Any) -> Expr:  # type: ignore[override]
        return binary(NE, self, o)

    def __lt__(self, o: Any) -> Expr:
        return binary(LT, self, o)

    def __le__(self, o: Any) -> Expr:
        return binary(LE, self, o)

    def __gt__(self, o: Any) -> Expr:
        return binary(GT, self, o)

    def __ge__(self, o: Any) -> Expr:
        return binary(GE, self, o)

    def __bool__(self) -> bool:
        if type(self) is Const:
            return bool(self.value)
        raise TypeError(
            f"the value of `{self}` is known only when the kernel runs: it cannot decide a Python "
            "condition at compile time (use `if` inside the kernel, T.if_then_else, or `is` to "
            "compare nodes)"
        )

    def __index__(self) -> int:
        if type(self) is Const and self.dtype.is_int:
            return int(self.value)
        raise TypeError(f"`{self}` is not a compile-time integer")

    def __int__(self) -> int:
        return self.__index__()

    def __iter__(self) -> NoReturn:
        raise TypeError(f"`{self}` is a scalar expression and cannot be iterated over")

    def astype(self, dtype: Any) -> Expr:
        return cast(self, dtype)

    def __repr__(self) -> str:
        from .printer import expr_text  # the printer knows every node: late, to break the cycle

        return expr_text(self)


@node
class Var(Expr):
    """A scalar variable. Its identity is the object: two `Var("i")` differ."""

    _interned: ClassVar[bool] = False
    name: str
    dtype: DType = INT32


@node
class Const(Expr):
    """A literal of a given dtype, already rounded to it. Keyed by dtype and bit pattern."""

    value: Any
    dtype: DType

    @staticmethod
    def _key(value: Any, dtype: DType) -> Any:
        return (dtype, struct.pack("<d", value) if dtype.kind == "float" else value)


@node
class StringImm(Expr):
    """Text in an argument list (an extern function's name, a print message)."""

    value: str

    def _infer(self) -> DType:
        return HANDLE


class Binary(Expr):
    """Both operands have one dtype, which is the result's."""

    __slots__ = ()

    def _infer(self) -> DType:
        a: DType = self.a.dtype  # type: ignore[attr-defined]
        return a


class Compare(Expr):
    """Both operands have one dtype; the result is bool with as many lanes."""

    __slots__ = ()

    def _infer(self) -> DType:
        return BOOL.with_lanes(self.a.dtype.lanes)  # type: ignore[attr-defined]


def _binary(name: str, base: type[Expr], doc: str) -> Any:
    return node(
        type(
            name,
            (base,),
            {"__annotations__": {"a": "Expr", "b": "Expr"}, "__module__": __name__, "__doc__": doc},
        )
    )


Add = _binary("Add", Binary, "a + b; integers wrap.")
Sub = _binary("Sub", Binary, "a - b; integers wrap.")
Mul = _binary("Mul", Binary, "a * b; integers wrap.")
Div = _binary("Div", Binary, "Floating-point division.")
FloorDiv = _binary(
    "FloorDiv", Binary, "Integer (or float) division rounded towards minus infinity."
)
FloorMod = _binary(
    "FloorMod", Binary, "Remainder that takes the sign of b; exact, of floats too (as in Python)."
)
TruncDiv = _binary("TruncDiv", Binary, "Integer division rounded towards zero, as in C.")
TruncMod = _binary("TruncMod", Binary, "Remainder of TruncDiv: takes the sign of a.")
Min = _binary("Min", Binary, "minNum: a NaN operand is ignored.")
Max = _binary("Max", Binary, "maxNum: a NaN operand is ignored.")
BitAnd = _binary("BitAnd", Binary, "Integers only.")
BitOr = _binary("BitOr", Binary, "Integers only.")
BitXor = _binary("BitXor", Binary, "Integers only.")
Shl = _binary("Shl", Binary, "a << b.")
Shr = _binary("Shr", Binary, "a >> b: arithmetic for signed, logical for unsigned.")
EQ = _binary("EQ", Compare, "a == b.")
NE = _binary("NE", Compare, "a != b (true for NaN).")
LT = _binary("LT", Compare, "a < b.")
LE = _binary("LE", Compare, "a <= b.")
GT = _binary("GT", Compare, "a > b.")
GE = _binary("GE", Compare, "a >= b.")
And = _binary("And", Compare, "Logical, short-circuiting.")
Or = _binary("Or", Compare, "Logical, short-circuiting.")


@node
class Neg(Expr):
    """-a (of 0.0 it is -0.0, so this is not 0 - a)."""

    a: Expr

    def _infer(self) -> DType:
        return self.a.dtype


@node
class Not(Expr):
    a: Expr

    def _infer(self) -> DType:
        return self.a.dtype


@node
class BitNot(Expr):
    a: Expr

    def _infer(self) -> DType:
        return self.a.dtype


@node
class Cast(Expr):
    """Value conversion: round to nearest even; float to int truncates; sign kept."""

    a: Expr
    to: DType

    def _infer(self) -> DType:
        return self.to


@node
class Select(Expr):
    """Both sides are evaluated."""

    cond: Expr
    a: Expr
    b: Expr

    def _infer(self) -> DType:
        return self.a.dtype


@node
class IfThenElse(Expr):
    """Only the chosen side is evaluated."""

    cond: Expr
    a: Expr
    b: Expr

    def _infer(self) -> DType:
        return self.a.dtype


@node
class Load(Expr):
    """`buffer[indices]`; a `Ramp` as last index makes it a vector load."""

    buffer: Buffer
    indices: tuple[Expr, ...]

    def _infer(self) -> DType:
        lanes = self.indices[-1].dtype.lanes if self.indices else 1
        return (
            self.buffer.dtype
            if lanes == 1
            else self.buffer.dtype.with_lanes(lanes * self.buffer.dtype.lanes)
        )


@node
class Ramp(Expr):
    """Vector (base, base + stride, …) of `lanes` elements."""

    base: Expr
    stride: Expr
    lanes: int

    def _infer(self) -> DType:
        return self.base.dtype.with_lanes(self.lanes)


@node
class Broadcast(Expr):
    """Vector of `lanes` equal elements."""

    a: Expr
    lanes: int

    def _infer(self) -> DType:
        return self.a.dtype.with_lanes(self.lanes)


@node
class Call(Expr):
    """A call of the intrinsic `op` (a row of `ir.intrinsics.TABLE`)."""

    op: str
    args: tuple[Expr, ...]
    dtype: DType


# ---------------------------------------------------------------------------------- constructors


def const(value: Any, dtype: DType | str | None = None) -> Const:
    """A literal; without a dtype: bool, int32 (int64 if it does not fit) or float32."""
    if dtype is None:
        if isinstance(value, bool):
            return Const(value, BOOL)
        if isinstance(value, int):
            return Const(value, INT32 if -(2**31) <= value < 2**31 else DType("int64"))
        return Const(fold.round_to(float(value), FLOAT32), FLOAT32)
    dtype = DType(dtype)
    return Const(fold.round_to(value, dtype), dtype)


def as_expr(value: Any, like: DType | None = None) -> Expr:
    """`value` as an expression; a Python number takes the dtype that the language gives it beside
    `like`."""
    if isinstance(value, Expr):
        return value
    if hasattr(value, "__tl_expr__"):  # a region of one element, an alloc_var: read its value
        inner: Expr = value.__tl_expr__()
        return inner
    if hasattr(value, "item") and not isinstance(value, (int, float, bool)):
        value = value.item()  # a numpy or torch scalar
    if isinstance(value, bool):
        return Const(value, BOOL)
    if isinstance(value, int):
        if like is None or like.is_bool or (like.is_int and like.bits <= 8) or like.is_handle:
            return const(value)
        return const(value, like.element)
    if isinstance(value, float):
        return const(
            value,
            like.element if like is not None and like.is_float and like.bits >= 32 else FLOAT32,
        )
    if isinstance(value, str):
        return StringImm(str(value))
    raise TypeError(f"cannot use {value!r} ({type(value).__name__}) as a kernel expression")


def promote(a: DType, b: DType) -> DType:
    """The common dtype of two operands (language rules; bool counts as int32 in arithmetic)."""
    if a is b and not a.is_bool:
        return a
    lanes = max(a.lanes, b.lanes)
    x, y = (INT32 if t.is_bool else t.element for t in (a, b))
    if x.is_handle or y.is_handle:
        return HANDLE
    if x.is_float or y.is_float:
        out = _promote_float(x, y)
    elif x.bits != y.bits:
        out = x if x.bits > y.bits else y
    else:
        out = x if x.kind == "uint" else y
    return out.with_lanes(lanes)


def _promote_float(x: DType, y: DType) -> DType:
    if not (x.is_float and y.is_float):
        return x if x.is_float else y
    if x.bits != y.bits:
        return x if x.bits > y.bits else y
    return DType("float16") if "float16" in (str(x), str(y)) else x


def _operands(a: Any, b: Any) -> tuple[Expr, Expr]:
    """Both operands as expressions of one dtype and lane count."""
    ea = a if isinstance(a, Expr) else None
    eb = b if isinstance(b, Expr) else None
    x = ea if ea is not None else as_expr(a, eb.dtype if eb is not None else None)
    y = eb if eb is not None else as_expr(b, x.dtype)
    if type(x) is StringImm or type(y) is StringImm:
        raise TypeError(f"text in arithmetic: {x} and {y}")
    if x.dtype is y.dtype and not x.dtype.is_bool:
        return x, y
    to = promote(x.dtype, y.dtype)
    return _to_lanes(cast(x, to.with_lanes(x.dtype.lanes)), to.lanes), _to_lanes(
        cast(y, to.with_lanes(y.dtype.lanes)), to.lanes
    )


def _to_lanes(x: Expr, lanes: int) -> Expr:
    return x if x.dtype.lanes == lanes else Broadcast(x, lanes)


def binary(cls: Any, a: Any, b: Any) -> Expr:
    """`cls(a, b)` with promotion, constant folding and the identities that hold for every value."""
    if isinstance(a, Expr) and isinstance(b, Expr) and a.dtype is b.dtype and not a.dtype.is_bool:
        x, y = a, b
    elif (
        cls in (EQ, NE) and getattr(a, "dtype", None) is BOOL and getattr(b, "dtype", None) is BOOL
    ):
        x, y = as_expr(a), as_expr(b)
    else:
        x, y = _operands(a, b)
    if type(x) is Const and type(y) is Const:
        folded = fold.binary(cls.__name__, x.value, y.value, x.dtype)
        if folded is not None:
            return Const(folded, BOOL if issubclass(cls, Compare) else x.dtype)
    if x.dtype.is_int and x.dtype.lanes == 1:
        short = _identity(cls, x, y)
        if short is not None:
            return short
    out: Expr = cls(x, y)
    return out


def _identity(cls: Any, x: Expr, y: Expr) -> Expr | None:
    """Integer identities. Floats have almost none: x + 0.0 is not x for -0.0, x * 0 is not 0 for
    NaN."""
    if type(x) is Const and cls in (Add, Mul):
        x, y = y, x
    if type(y) is Const:
        found = _with_constant(cls, x, y)
        if found is not None:
            return found
    return _of_equals(cls, x) if x is y else None


def _with_constant(cls: Any, x: Any, y: Const) -> Expr | None:
    v = y.value
    out: Expr
    if (v == 0 and cls in (Add, Sub, Shl, Shr, BitOr, BitXor)) or (
        v == 1 and cls in (Mul, FloorDiv, TruncDiv)
    ):
        out = x
    elif v == 0 and cls in (Mul, BitAnd):
        out = y
    elif v == 1 and cls in (FloorMod, TruncMod):
        out = Const(0, x.dtype)
    elif cls is Add and type(x) is Add and type(x.b) is Const:  # (e + c1) + c2
        out = binary(Add, x.a, binary(Add, x.b, y))
    elif cls in (Add, Mul):
        out = cls(x, y)  # constant on the right
    else:
        return None
    return out


def _of_equals(cls: Any, x: Expr) -> Expr | None:
    if cls is Sub:
        return Const(0, x.dtype)
    if cls in (Min, Max):
        return x
    if cls in (EQ, LE, GE):
        return Const(True, BOOL)
    if cls in (NE, LT, GT):
        return Const(False, BOOL)
    return None


def div(a: Any, b: Any) -> Expr:
    """True division. Two integers are refused: `//` or a cast says what is meant."""
    x, y = _operands(a, b)
    if not x.dtype.is_float:
        raise TypeError(
            f"`/` on two integers ({x} / {y}) is ambiguous: use // for floor division or cast one "
            "side to a float"
        )
    return binary(Div, x, y)


def bitwise(cls: Any, logical: Any, a: Any, b: Any) -> Expr:
    """A bit operation; on two bools `&`, `|`, `^` are the logical ones."""
    x = as_expr(a, getattr(b, "dtype", None))
    y = as_expr(b, x.dtype)
    if logical is not None and x.dtype.is_bool and y.dtype.is_bool:
        if logical is And:
            return logical_and(x, y)
        return logical_or(x, y) if logical is Or else binary(NE, x, y)
    if x.dtype.is_float or y.dtype.is_float:
        raise TypeError(f"bit operations need integers, got {x.dtype} and {y.dtype}")
    return binary(cls, x, y)


def as_bool(x: Any) -> Expr:
    """A condition: ints and floats mean `!= 0`."""
    e = as_expr(x)
    return e if e.dtype.is_bool else binary(NE, e, const(0, e.dtype.element))


def logical_and(a: Any, b: Any) -> Expr:
    x, y = as_bool(a), as_bool(b)
    if type(x) is Const:
        return y if x.value else x
    if type(y) is Const:
        return x if y.value else y
    return x if x is y else And(x, y)


def logical_or(a: Any, b: Any) -> Expr:
    x, y = as_bool(a), as_bool(b)
    if type(x) is Const:
        return x if x.value else y
    if type(y) is Const:
        return y if y.value else x
    return x if x is y else Or(x, y)


def logical_not(a: Any) -> Expr:
    x = as_bool(a)
    if type(x) is Const:
        return Const(not x.value, BOOL)
    return x.a if type(x) is Not else Not(x)


def all_of(conds: Any) -> Expr:
    """Conjunction of any number of conditions; true of none."""
    out: Expr = Const(True, BOOL)
    for c in conds:
        out = logical_and(out, c)
    return out


def neg(a: Any) -> Expr:
    x = as_expr(a)
    if x.dtype.is_bool:
        x = cast(x, INT32)
    if type(x) is Const:
        return Const(fold.round_to(-x.value, x.dtype), x.dtype)
    return x.a if type(x) is Neg else Neg(x)


def cast(value: Any, dtype: Any) -> Expr:
    """`value` converted to `dtype`; constants are converted now, with that dtype's rounding."""
    to = DType(dtype)
    x = as_expr(value, to)
    if x.dtype.lanes != to.lanes:
        if to.lanes == 1:
            to = to.with_lanes(x.dtype.lanes)
        elif x.dtype.lanes == 1:
            return Broadcast(cast(x, to.element), to.lanes)
        else:
            raise TypeError(f"cannot cast {x.dtype} to {to}: lane counts differ")
    if x.dtype is to:
        return x
    if type(x) is Const:
        return Const(fold.cast(x.value, x.dtype, to), to)
    if type(x) is Broadcast:
        return Broadcast(cast(x.a, to.element), x.lanes)
    return Cast(x, to)


def select(cond: Any, a: Any, b: Any) -> Expr:
    c = as_bool(cond)
    x, y = _operands(a, b) if not _both_bool(a, b) else (as_expr(a), as_expr(b))
    if type(c) is Const:
        return x if c.value else y
    return x if x is y else Select(c, x, y)


def if_then_else(cond: Any, a: Any, b: Any) -> Expr:
    c = as_bool(cond)
    x, y = _operands(a, b) if not _both_bool(a, b) else (as_expr(a), as_expr(b))
    if type(c) is Const:
        return x if c.value else y
    return x if x is y else IfThenElse(c, x, y)


def _both_bool(a: Any, b: Any) -> bool:
    """Truth values of as many lanes: a choice between them is one, not an int32."""
    x, y = (BOOL if isinstance(v, bool) else getattr(v, "dtype", None) for v in (a, b))
    return x is y and getattr(x, "is_bool", False)


def minimum(a: Any, b: Any) -> Expr:
    return binary(Min, a, b)


def maximum(a: Any, b: Any) -> Expr:
    return binary(Max, a, b)


def ceildiv(a: Any, b: Any) -> Any:
    """ceil(a / b); Python ints stay Python ints."""
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    less_one = b - 1 if isinstance(b, int) else binary(Sub, b, 1)
    return binary(FloorDiv, binary(Add, a, less_one), b)


def truncdiv(a: Any, b: Any) -> Expr:
    return binary(TruncDiv, a, b)


def truncmod(a: Any, b: Any) -> Expr:
    return binary(TruncMod, a, b)


def call(op: str, args: Any = (), dtype: Any = None) -> Call:
    """A call of an intrinsic; `dtype` None means it returns nothing ("handle")."""
    return Call(op, tuple(as_expr(a) for a in args), HANDLE if dtype is None else DType(dtype))


def make_vector(dtype: DType, values: tuple[Any, ...]) -> Expr:
    """`T.float32x2(a, b)`."""
    if len(values) != dtype.lanes:
        raise TypeError(f"{dtype} takes 1 or {dtype.lanes} values, got {len(values)}")
    return call("make_vector", [cast(v, dtype.element) for v in values], dtype)


def is_const(e: Any, value: Any = None) -> bool:
    """Is `e` a literal (of this value)?"""
    return type(e) is Const and (value is None or e.value == value)


def const_int(e: Any) -> int | None:
    """The value of an integer literal (or a Python int), else None."""
    if isinstance(e, int):
        return int(e)
    return e.value if type(e) is Const and (e.dtype.is_int or e.dtype.is_bool) else None
