# SPDX-License-Identifier: Apache-2.0
"""Sizes on the host: an IR expression over shape symbols and scalars -> host instructions.

All integers are computed in 64 bits, whatever their dtype: a size that does not fit 32 bits is an
error that the checks report, never a wrapped number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilelang.errors import LanguageError
from tilelang.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BitAnd,
    BitOr,
    BitXor,
    Cast,
    Const,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    Max,
    Min,
    Mul,
    Neg,
    Not,
    Or,
    Select,
    Shl,
    Shr,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .host_writer import HostWriter, Value

__all__ = ["HostExprs"]

_DIRECT = {
    Add: "add", Sub: "sub", Mul: "mul", BitAnd: "and", BitOr: "or", BitXor: "xor", Shl: "shl",
}  # fmt: skip
_COMPARE = {EQ: "eq", NE: "ne", LT: "lt", LE: "le", GT: "gt", GE: "ge"}


class HostExprs:
    """Evaluates expressions; each distinct one once.

    values: what each variable is. An expression that is first evaluated inside a branch must not be
    asked for after it, so callers evaluate what they share before they branch.
    """

    def __init__(self, w: HostWriter, kernel: str, values: Mapping[Var, Value]) -> None:
        self.w = w
        self.kernel = kernel
        self.values = values
        self.memo: dict[Expr, Value] = {}

    def __call__(self, e: Expr) -> Value:
        hit = self.memo.get(e)
        if hit is None:
            hit = self.memo[e] = self._value(e)
        return hit

    def _value(self, e: Any) -> Value:
        w, t = self.w, type(e)
        if t is Const:
            return w.number(int(e.value), "i1" if e.dtype.is_bool else "i64")
        if t is Var:
            if e not in self.values:
                raise self._unknown(e)
            return self.values[e]
        if t is Cast and not (e.a.dtype.is_float or e.to.is_float):
            return self._cast(e)
        if e.dtype.is_float or any(c.dtype.is_float for c in e.children):
            raise self._unknown(e)
        if t in (Select, IfThenElse):
            return w.select(self(e.cond), self(e.a), self(e.b))
        if t is Not:
            return w.op("xor", self(e.a), w.number(1, "i1"))
        if t is Neg:
            return w.op("sub", w.number(0), self(e.a))
        return self._binary(e)

    def _cast(self, e: Cast) -> Value:
        a = self(e.a)
        if e.to.is_bool:
            return a if a.type == "i1" else self.w.compare("ne", a, self.w.number(0))
        return self.w.convert(a, "i64")

    def _binary(self, e: Any) -> Value:
        w, t = self.w, type(e)
        if t in (And, Or):
            return w.op("and" if t is And else "or", self(e.a), self(e.b))
        if t not in _DIRECT and t not in _COMPARE and t not in _HARD:
            raise self._unknown(e)
        a, b = self(e.a), self(e.b)
        if t in _DIRECT:
            return w.op(_DIRECT[t], a, b)
        if t in _COMPARE:
            return w.compare(_COMPARE[t], a, b)
        return _HARD[t](self, a, b)

    def _min(self, a: Value, b: Value) -> Value:
        return self.w.select(self.w.compare("lt", a, b), a, b)

    def _max(self, a: Value, b: Value) -> Value:
        return self.w.select(self.w.compare("gt", a, b), a, b)

    def _shift_right(self, a: Value, b: Value) -> Value:
        """Arithmetic: a floor division by a power of two."""
        return self._floordiv(a, self.w.op("shl", self.w.number(1), b))

    def _divisor(self, b: Value) -> Value:
        """1 instead of 0: dividing by zero would end the process."""
        if b.text.lstrip("-").rstrip("L").isdigit():
            return b
        return self.w.select(self.w.compare("eq", b, self.w.number(0)), self.w.number(1), b)

    def _truncdiv(self, a: Value, b: Value) -> Value:
        return self.w.op("sdiv", a, self._divisor(b))

    def _truncmod(self, a: Value, b: Value) -> Value:
        return self.w.op("srem", a, self._divisor(b))

    def _floordiv(self, a: Value, b: Value) -> Value:
        w = self.w
        b = self._divisor(b)
        quotient = w.op("sdiv", a, b)
        return w.select(self._rounds_up(a, b), w.op("sub", quotient, w.number(1)), quotient)

    def _floormod(self, a: Value, b: Value) -> Value:
        w = self.w
        b = self._divisor(b)
        rest = w.op("srem", a, b)
        return w.select(self._rounds_up(a, b), w.op("add", rest, b), rest)

    def _rounds_up(self, a: Value, b: Value) -> Value:
        """Is the truncated quotient above the exact one?"""
        w = self.w
        rest = w.op("srem", a, b)
        signs_differ = w.compare("lt", w.op("xor", rest, b), w.number(0))
        return w.op("and", w.compare("ne", rest, w.number(0)), signs_differ)

    def _unknown(self, e: Expr) -> LanguageError:
        what = "variable" if type(e) is Var else "expression"
        return LanguageError(
            f"kernel {self.kernel}: the host cannot compute the {what} `{e}`",
            code="TL0180",
            help="sizes and grids are made of integer parameters and dimensions of input tensors",
        )


_HARD = {
    Min: HostExprs._min, Max: HostExprs._max, Shr: HostExprs._shift_right,
    TruncDiv: HostExprs._truncdiv, TruncMod: HostExprs._truncmod, FloorDiv: HostExprs._floordiv,
    FloorMod: HostExprs._floormod,
}  # fmt: skip
