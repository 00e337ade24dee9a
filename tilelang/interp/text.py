# SPDX-License-Identifier: Apache-2.0
"""Expressions as Python text.

In: an expression and the names of its variables and buffers. Out: text that computes its value by
the rules of `values`, one operation each. With `grid` set the variables of a `Parallel` are index
arrays: then every value may be an array, conditions do not branch, and a load is told (by a mask)
for which elements it counts.
"""

from __future__ import annotations

from typing import Any

from tilelang.errors import InternalError
from tilelang.ir import (
    INTRINSICS,
    And,
    BitNot,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    IfThenElse,
    Load,
    Neg,
    Not,
    Or,
    Ramp,
    Select,
    StringImm,
    Var,
    is_const,
)  # fmt: skip

from . import values
from .values import MATH, binary_text

__all__ = ["ExprText"]


class ExprText:
    """Writes expressions. Subclasses name variables and buffers, and write calls with effects."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.constants: dict[str, Any] = {}
        self.grid = False
        self.mask = "True"
        self._count = 0

    # ------------------------------------------------------------------------------ names

    def fresh(self, hint: str) -> str:
        self._count += 1
        letters = "".join(c if c.isalnum() else "_" for c in hint)
        return f"{letters}_{self._count}"

    def name(self, item: Var | Buffer) -> str:
        hit = self.names.get(item)
        if hit is None:
            raise InternalError(f"the interpreter met {item.name}, which is not defined here")
        return hit

    def define(self, item: Var | Buffer) -> str:
        self.names[item] = out = self.fresh(item.name)
        return out

    def constant(self, value: Any, hint: str = "k") -> str:
        """A name for an object that text cannot spell."""
        name = self.fresh(hint)
        self.constants[name] = value
        return name

    # ------------------------------------------------------------------------------ expressions

    def expr(self, e: Expr) -> str:
        t = type(e)
        handler = _HANDLERS.get(t)
        if handler is not None:
            return handler(self, e)
        return binary_text(t.__name__, self.expr(e.a), self.expr(e.b), e.a.dtype)  # type: ignore[attr-defined]

    def tuple(self, items: Any) -> str:
        return "(" + "".join(f"{self.expr(i)}, " for i in items) + ")"

    def _const(self, e: Any) -> str:
        if e.dtype.is_float:
            key = f"{e.dtype}:{e.value!r}"
            name = self.names.get(key)
            if name is None:
                name = self.names[key] = self.constant(values.literal(e.value, e.dtype), "c")
            return name
        return repr(e.value) if e.value >= 0 else f"({e.value!r})"

    def _many(self, e: Expr) -> bool:
        return self.grid or e.dtype.lanes > 1

    def _logical(self, e: Any) -> str:
        """Short-circuiting, so that a load on the right is made only where the left lets it."""
        a = self.expr(e.a)
        if not self._many(e):
            return f"({a} {'and' if type(e) is And else 'or'} {self.expr(e.b)})"
        left = self.fresh("left")
        with_left = left if type(e) is And else f"({left} ^ True)"
        b = self._under(with_left, e.b)
        return f"(({left} := {a}) {'&' if type(e) is And else '|'} {b})"

    def _under(self, cond: str, e: Expr) -> str:
        """`e` where `cond` holds."""
        outer, self.mask = self.mask, cond if self.mask == "True" else f"({self.mask} & {cond})"
        out = self.expr(e)
        self.mask = outer
        return out

    def _not(self, e: Any) -> str:
        return f"({self.expr(e.a)} ^ True)" if self._many(e) else f"(not {self.expr(e.a)})"

    def _neg(self, e: Any) -> str:
        text = f"(-{self.expr(e.a)})"
        return f"wrap_{e.dtype.row.name}({text})" if e.dtype.is_int else text

    def _bit_not(self, e: Any) -> str:
        return f"wrap_{e.dtype.row.name}(~{self.expr(e.a)})"

    def _cast(self, e: Any) -> str:
        src, dst = e.a.dtype.element, e.to.element
        return f"cast({self.expr(e.a)}, {src.row.name}, {dst.row.name})"

    def _choice(self, e: Any) -> str:
        if not self.grid and e.cond.dtype.lanes == 1:
            return f"({self.expr(e.a)} if {self.expr(e.cond)} else {self.expr(e.b)})"
        cond = self.fresh("cond")
        lazy = type(e) is IfThenElse
        first = self.expr(e.cond)
        a = self._under(cond, e.a) if lazy else self.expr(e.a)
        b = self._under(f"({cond} ^ True)", e.b) if lazy else self.expr(e.b)
        return f"np.where({cond} := {first}, {a}, {b})"

    def _load(self, e: Any) -> str:
        buffer = self.name(e.buffer)
        if not self.grid and all(i.dtype.lanes == 1 for i in e.indices):
            return f"{buffer}.get({self.tuple(e.indices)})"
        run = self.run(e.indices)
        if run is not None:
            return f"{buffer}.get_run({run})"
        mask = f", {self.mask}" if self.mask != "True" else ""
        return f"{buffer}.gather({self.tuple(e.indices)}{mask})"

    def run(self, indices: Any) -> str | None:
        """`first index, lanes` of a contiguous vector access."""
        last = indices[-1]
        if self.grid or type(last) is not Ramp or not is_const(last.stride, 1):
            return None
        return f"{self.tuple((*indices[:-1], last.base))}, {last.lanes}"

    def _ramp(self, e: Any) -> str:
        return f"ramp({self.expr(e.base)}, {self.expr(e.stride)}, {e.lanes})"

    def _broadcast(self, e: Any) -> str:
        return f"np.full({e.lanes}, {self.expr(e.a)})"

    # ------------------------------------------------------------------------------ calls

    def _call(self, e: Any) -> str:
        if e.op in MATH:
            return self._math(e)
        if e.op in _SPECIAL:
            return _SPECIAL[e.op](self, e)
        return self.effect_call(e, INTRINSICS[e.op])

    def _math(self, e: Any) -> str:
        args = ", ".join(self.expr(a) for a in e.args)
        text = f"m_{e.op}({args})"
        if e.dtype.is_int and e.op == "abs":
            return f"wrap_{e.dtype.row.name}({text})"
        if e.dtype.is_bool:
            return text if self._many(e) else f"{text}.item()"
        return f"rounded({text}, {e.dtype.row.name})" if e.dtype.is_narrow else text

    def effect_call(self, e: Call, row: Any) -> str:
        raise InternalError(f"the interpreter cannot run {e.op} here")

    def pointer(self, e: Expr) -> str:
        """`address_of(Load)`."""
        if type(e) is not Call or e.op != "address_of":
            return self.expr(e)
        load: Any = e.args[0]
        return f"Pointer({self.name(load.buffer)}, {self.tuple(load.indices)})"


def _reinterpret(w: ExprText, e: Any) -> str:
    src = w.constant(e.args[0].dtype, "dtype")
    return f"reinterpret({w.expr(e.args[0])}, {src}, {w.constant(e.dtype, 'dtype')})"


def _make_vector(w: ExprText, e: Any) -> str:
    return f"make_vector({', '.join(w.expr(a) for a in e.args)})"


def _extract_lane(w: ExprText, e: Any) -> str:
    return f"{w.expr(e.args[0])}[{w.expr(e.args[1])}]"


def _of_bits(w: ExprText, e: Any) -> str:
    return f"{e.op}({w.expr(e.args[0])}, {e.args[0].dtype.row.name})"


_SPECIAL = {
    "reinterpret": _reinterpret, "make_vector": _make_vector, "extract_lane": _extract_lane,
    "clz": _of_bits, "popcount": _of_bits, "address_of": lambda w, e: w.pointer(e),
}  # fmt: skip

_HANDLERS: dict[type, Any] = {
    Var: lambda w, e: w.name(e),
    Const: ExprText._const,
    StringImm: lambda w, e: repr(e.value),
    And: ExprText._logical,
    Or: ExprText._logical,
    Not: ExprText._not,
    Neg: ExprText._neg,
    BitNot: ExprText._bit_not,
    Cast: ExprText._cast,
    Select: ExprText._choice,
    IfThenElse: ExprText._choice,
    Load: ExprText._load,
    Ramp: ExprText._ramp,
    Broadcast: ExprText._broadcast,
    Call: ExprText._call,
}
