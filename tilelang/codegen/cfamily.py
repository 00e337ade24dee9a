# SPDX-License-Identifier: Apache-2.0
"""Statements and expressions of the C family: what CUDA C++ and C have in common.

In: the body of an `ir.Kernel` at DEVICE stage (one-dimensional buffers, no tile operations).
Out: lines of text. A subclass says how its language spells types, literals, casts, short vectors
and intrinsics; precedence, names and control flow are here.

Every distinct expression is printed once and remembered: names are unique in a function, so the
text of an expression is the same wherever it stands.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from tilelang.errors import InternalError, TileError
from tilelang.ir import (
    Add,
    Alloc,
    Assert,
    Bind,
    Broadcast,
    Call,
    Cast,
    Const,
    DType,
    Evaluate,
    Expr,
    For,
    If,
    Load,
    Ramp,
    Scope,
    Seq,
    Stmt,
    Store,
    StringImm,
    Var,
    While,
    binary,
    flatten,
)

from .names import C_RESERVED, Names
from .wrapping import WRAPPING, Wrapping

__all__ = ["ASSIGN", "ATOM", "TERNARY", "UNARY", "CFamily", "string_literal"]

# Precedence of C's operators (ISO C++17 [expr]); a larger number binds tighter.
ASSIGN, TERNARY, UNARY, POSTFIX, ATOM = 1, 2, 13, 14, 15
_INFIX: dict[str, tuple[str, int]] = {
    "Or": ("||", 3), "And": ("&&", 4), "BitOr": ("|", 5), "BitXor": ("^", 6), "BitAnd": ("&", 7),
    "EQ": ("==", 8), "NE": ("!=", 8), "LT": ("<", 9), "LE": ("<=", 9), "GT": (">", 9),
    "GE": (">=", 9), "Shl": ("<<", 10), "Shr": (">>", 10), "Add": ("+", 11), "Sub": ("-", 11),
    "Mul": ("*", 12),
    "Div": ("/", 12), "TruncDiv": ("/", 12), "TruncMod": ("%", 12),
}  # fmt: skip
# Levels of bit operators and shifts, whose rank beside others few readers know.
_BIT_LEVELS = frozenset({5, 6, 7, 10})
# C promotes narrower operands to int, so that the result has another type and may leave the range.
_C_INT_BITS = 32


def string_literal(text: str) -> str:
    """A C string literal; bytes outside printable ASCII become octal escapes."""
    out = []
    for byte in text.encode():
        char = chr(byte)
        if char in '"\\':
            out.append("\\" + char)
        elif char == "\n":
            out.append("\\n")
        elif 32 <= byte < 127:
            out.append(char)
        else:
            out.append(f"\\{byte:03o}")
    return '"' + "".join(out) + '"'


class CFamily(ABC):
    """Prints one function body; a subclass fills in the language."""

    reserved: frozenset[str] = C_RESERVED

    def __init__(self, *, line_directives: bool = False) -> None:
        self.names = Names(self.reserved)
        self.lines: list[str] = []
        self.depth = 0
        self.nonnegative: set[Expr] = set()
        self._line_directives = line_directives
        self._position: tuple[str, int] | None = None
        self._wrapping = Wrapping()
        # Text of an expression as a value, and as (part of) an index.
        self._memos: tuple[dict[Expr, tuple[str, int]], dict[Expr, tuple[str, int]]] = ({}, {})
        self._indexing = False
        self._handlers: dict[type, Callable[[Any], Any]] = {}

    # ------------------------------------------------------------------ what a language decides

    @abstractmethod
    def ctype(self, dtype: DType) -> str:
        """The spelling of a type."""

    @abstractmethod
    def literal(self, e: Const) -> tuple[str, int]:
        """A constant and its precedence."""

    @abstractmethod
    def cast(self, e: Cast) -> tuple[str, int]:
        """A value conversion."""

    @abstractmethod
    def function(self, name: str, args: Sequence[str], dtype: DType) -> str:
        """A call of one of the helper functions that every language has: floordiv floormod
        truncdiv truncmod min max select not."""

    @abstractmethod
    def intrinsic(self, e: Call) -> tuple[str, int]:
        """A call of a row of the intrinsic table."""

    @abstractmethod
    def vector(self, e: Ramp | Broadcast) -> tuple[str, int]:
        """A short vector made of scalars."""

    @abstractmethod
    def load_vector(self, e: Load) -> tuple[str, int]:
        """A load whose index is a vector."""

    @abstractmethod
    def store_vector(self, s: Store) -> None:
        """A store whose index is a vector."""

    @abstractmethod
    def declare(self, s: Alloc) -> None:
        """The declaration of a buffer."""

    @abstractmethod
    def fail(self, s: Assert) -> list[str]:
        """What to do when an assertion does not hold."""

    # ----------------------------------------------------------------------------- expressions

    def expr(self, e: Expr, prec: int = 0) -> str:
        """The text of `e`, in parentheses if it binds less tightly than `prec`."""
        text, own = self._expr(e)
        return f"({text})" if own < prec else text

    def index(self, e: Expr, prec: int = 0) -> str:
        """The same where `e` is an index or a bound, whose arithmetic does not overflow."""
        outer, self._indexing = self._indexing, True
        text = self.expr(e, prec)
        self._indexing = outer
        return text

    def _expr(self, e: Expr) -> tuple[str, int]:
        memo = self._memos[self._indexing]
        hit = memo.get(e)
        if hit is None:
            hit = memo[e] = self._handler(type(e), "e")(e)
        return hit

    def _handler(self, kind: type, prefix: str) -> Callable[[Any], Any]:
        handler = self._handlers.get(kind)
        if handler is None:
            handler = getattr(self, f"{prefix}_{kind.__name__}", None)
            if handler is None and kind.__name__ in _INFIX:
                handler = self._infix
            if handler is None:
                raise InternalError(f"{type(self).__name__} cannot print {kind.__name__}")
            self._handlers[kind] = handler
        return handler

    def _infix(self, e: Any) -> tuple[str, int]:
        if not self._indexing and self._wrapping.may_wrap(e):
            return f"({self.ctype(e.dtype)})({self._modular(e, 0)})", UNARY
        kind = type(e).__name__
        op, prec = _INFIX[kind]
        text = f"{self._operand(e, e.a, prec)} {op} {self._operand(e, e.b, prec + 1)}"
        return self._wrapped(e, text, prec)

    def _modular(self, e: Any, prec: int) -> str:
        """A signed expression in the unsigned type of its width, where overflow wraps."""
        unsigned = DType(f"u{e.dtype}")
        if type(e) in WRAPPING and self._wrapping.may_wrap(e):
            op, own = _INFIX[type(e).__name__]
            text = f"{self._modular(e.a, own)} {op} {self._modular(e.b, own + 1)}"
            return f"({text})" if own < prec else text
        if type(e) is Const:
            return self.expr(Const(int(e.value) % (1 << unsigned.bits), unsigned), prec)
        return f"({self.ctype(unsigned)}){self.expr(e, UNARY)}"

    def _operand(self, parent: Expr, e: Expr, prec: int) -> str:
        """An operand of an infix operator, with the parentheses that C needs and those that a
        reader does: around bit operators, and around `&&` in `||`."""
        text, own = self._expr(e)
        kind = type(parent).__name__
        bits = own in _BIT_LEVELS or _INFIX[kind][1] in _BIT_LEVELS
        unlike = own < UNARY and type(e) is not type(parent) and kind not in ("And", "Or")
        nested = kind == "Or" and own == _INFIX["And"][1]
        return f"({text})" if own < prec or (bits and unlike) or nested else text

    def _wrapped(self, e: Expr, text: str, prec: int) -> tuple[str, int]:
        """C computes narrow integers as int: cast the result back."""
        t = e.dtype
        if t.lanes == 1 and t.is_int and t.bits < _C_INT_BITS:
            return f"({self.ctype(t)})({text})", UNARY
        return text, prec

    def e_Mul(self, e: Any) -> tuple[str, int]:
        if str(e.dtype) == "uint16":  # int * int would overflow: 65535 * 65535 > INT_MAX
            text = (
                f"({self.ctype(DType('uint32'))}){self.expr(e.a, UNARY)} * {self.expr(e.b, UNARY)}"
            )
            return f"({self.ctype(e.dtype)})({text})", UNARY
        return self._infix(e)

    def e_FloorDiv(self, e: Any) -> tuple[str, int]:
        shift = _power_of_2(e.b)
        if shift is None and self._truncates_alike(e):
            if not safe_divisor(e.b):
                return self._defined_division(e, "truncdiv")
            return self._wrapped(e, f"{self.expr(e.a, 12)} / {self.expr(e.b, 13)}", 12)
        if shift is not None and e.dtype.lanes == 1:  # rounds down for negative values too
            return f"{self.expr(e.a, UNARY)} >> {shift}", 10
        return self.function("floordiv", [self.expr(e.a), self.expr(e.b)], e.dtype), ATOM

    def e_FloorMod(self, e: Any) -> tuple[str, int]:
        shift = _power_of_2(e.b)
        if shift is None and self._truncates_alike(e):
            if not safe_divisor(e.b):
                return self._defined_division(e, "truncmod")
            return f"{self.expr(e.a, 12)} % {self.expr(e.b, 13)}", 12
        if shift is not None and e.dtype.lanes == 1:  # two's complement: right for negative values
            return (
                f"{self.expr(e.a, UNARY)} & {self.expr(Const(e.b.value - 1, e.b.dtype))}",
                7,
            )
        return self.function("floormod", [self.expr(e.a), self.expr(e.b)], e.dtype), ATOM

    def e_TruncDiv(self, e: Any) -> tuple[str, int]:
        return self._infix(e) if safe_divisor(e.b) else self._defined_division(e, "truncdiv")

    def e_TruncMod(self, e: Any) -> tuple[str, int]:
        return self._infix(e) if safe_divisor(e.b) else self._defined_division(e, "truncmod")

    def _defined_division(self, e: Any, name: str) -> tuple[str, int]:
        """C leaves a division by 0, and of the least number by -1, undefined."""
        return self.function(name, [self.expr(e.a), self.expr(e.b)], e.dtype), ATOM

    def _truncates_alike(self, e: Any) -> bool:
        """Is C's division, which rounds towards zero, the same as the floor here?"""
        both = self.is_nonnegative(e.a) and self.is_nonnegative(e.b)
        return bool(e.dtype.is_int and (e.dtype.kind == "uint" or both))

    def e_Min(self, e: Any) -> tuple[str, int]:
        return self.function("min", [self.expr(e.a), self.expr(e.b)], e.dtype), ATOM

    def e_Max(self, e: Any) -> tuple[str, int]:
        return self.function("max", [self.expr(e.a), self.expr(e.b)], e.dtype), ATOM

    def e_Neg(self, e: Any) -> tuple[str, int]:
        return self._unary(e, "-")

    def e_BitNot(self, e: Any) -> tuple[str, int]:
        return self._unary(e, "~")

    def _unary(self, e: Any, op: str) -> tuple[str, int]:
        inner = self.expr(e.a, UNARY)
        text = f"{op}({inner})" if inner[0] == op else op + inner  # `- -x` must not become `--x`
        t = e.dtype
        narrow = t.lanes == 1 and t.is_int and t.bits < _C_INT_BITS
        return (f"({self.ctype(t)})({text})" if narrow else text), UNARY

    def e_Not(self, e: Any) -> tuple[str, int]:
        return f"!{self.expr(e.a, UNARY)}", UNARY

    def e_Var(self, e: Var) -> tuple[str, int]:
        if e not in self.names:
            raise InternalError(f"the variable {e.name} is used where nothing binds it")
        return self.names.of(e), ATOM

    def e_Const(self, e: Const) -> tuple[str, int]:
        return self.literal(e)

    def e_StringImm(self, e: StringImm) -> tuple[str, int]:
        return string_literal(e.value), ATOM

    def e_Cast(self, e: Cast) -> tuple[str, int]:
        return self.cast(e)

    def e_Select(self, e: Any) -> tuple[str, int]:
        if e.cond.dtype.lanes > 1:
            args = [self.expr(x) for x in (e.cond, e.a, e.b)]
            return self.function("select", args, e.dtype), ATOM
        return f"{self.expr(e.cond, 3)} ? {self.expr(e.a, 3)} : {self.expr(e.b, TERNARY)}", TERNARY

    e_IfThenElse = e_Select  # C's conditional evaluates one side only, which suits both

    def e_Load(self, e: Load) -> tuple[str, int]:
        (index,) = e.indices or (Const(0, DType("int32")),)
        if index.dtype.lanes > 1:
            return self.load_vector(e)
        if e.buffer.scope == Scope.VAR:
            return self.names.of(e.buffer), ATOM
        return f"{self.pointer(e.buffer)}[{self.index(index)}]", POSTFIX

    def e_Ramp(self, e: Ramp) -> tuple[str, int]:
        return self.vector(e)

    def e_Broadcast(self, e: Broadcast) -> tuple[str, int]:
        return self.vector(e)

    def e_Call(self, e: Call) -> tuple[str, int]:
        return self.intrinsic(e)

    def pointer(self, buffer: Any) -> str:
        """An expression that points to the first element of a buffer, fit for `[…]`."""
        if buffer in self.names:
            return self.names.of(buffer)
        if buffer.data is not None:
            return f"(({self.ctype(buffer.dtype)}*){self.expr(buffer.data, UNARY)})"
        if buffer.view_of is not None:
            return f"(({self.ctype(buffer.dtype)}*){self.pointer(buffer.view_of)})"
        raise InternalError(f"the buffer {buffer.name} is used where nothing allocates it")

    def is_nonnegative(self, e: Expr) -> bool:
        """Is `e` evidently not negative? Only what thread indices and loops make of themselves."""
        if e in self.nonnegative or e.dtype.kind == "uint":
            return True
        found = self._is_nonnegative(e)
        if found:
            self.nonnegative.add(e)
        return found

    def _is_nonnegative(self, e: Any) -> bool:
        kind = type(e).__name__
        if kind == "Const":
            return bool(e.value >= 0)
        if kind in ("Add", "Mul", "FloorDiv", "TruncDiv", "Min", "BitOr"):
            return self.is_nonnegative(e.a) and self.is_nonnegative(e.b)
        if kind == "FloorMod":
            return self.is_nonnegative(e.b)
        if kind in ("TruncMod", "Shr"):
            return self.is_nonnegative(e.a)
        if kind in ("Max", "BitAnd"):
            return self.is_nonnegative(e.a) or self.is_nonnegative(e.b)
        if kind in ("Select", "IfThenElse"):
            return self.is_nonnegative(e.a) and self.is_nonnegative(e.b)
        return kind == "Cast" and e.dtype.is_int and e.a.dtype.is_int and self._widens(e)

    def _widens(self, e: Any) -> bool:
        return bool(e.dtype.bits >= e.a.dtype.bits and self.is_nonnegative(e.a))

    # ------------------------------------------------------------------------------ statements

    def line(self, text: str) -> None:
        """One line of output, indented."""
        self.lines.append("  " * self.depth + text)

    def stmt(self, s: Stmt | None) -> None:
        """Prints a statement with everything below it."""
        if s is None:
            return
        if self._line_directives:
            self._directive(s)
        try:
            self._handler(type(s), "s")(s)
        except TileError as error:
            error.at(getattr(s, "span", None))
            raise

    def _directive(self, s: Stmt) -> None:
        span = getattr(s, "span", None)
        if span is None or type(s) is Seq or (span.file, span.line) == self._position:
            return
        self._position = (span.file, span.line)
        self.lines.append(f"#line {span.line} {string_literal(span.file)}")

    def block(self, s: Stmt | None) -> None:
        """The body of a control statement, one level deeper."""
        self.depth += 1
        self.stmt(s)
        self.depth -= 1

    def s_Seq(self, s: Seq) -> None:
        for x in s.stmts:
            self.stmt(x)

    def s_Bind(self, s: Bind) -> None:
        value = self.expr(s.value)
        self._wrapping.bind(s.var, s.value)
        if self.is_nonnegative(s.value):
            self.nonnegative.add(s.var)
        self.line(f"const {self.ctype(s.var.dtype)} {self.names.of(s.var)} = {value};")

    def s_Alloc(self, s: Alloc) -> None:
        self.declare(s)

    def s_Store(self, s: Store) -> None:
        (index,) = s.indices or (Const(0, DType("int32")),)
        if index.dtype.lanes > 1:
            self.store_vector(s)
            return
        place = self.expr(Load(s.buffer, (index,)))
        self.line(f"{place} = {self.expr(s.value, ASSIGN)};")

    def s_Evaluate(self, s: Evaluate) -> None:
        if type(s.value) is not Const:  # what folding left of a call without effect
            self.line(f"{self.expr(s.value)};")

    def s_For(self, s: For) -> None:
        start, extent = self.index(s.start), s.extent
        stop = self.index(extent if start == "0" else binary(Add, s.start, extent), 10)
        if self.is_nonnegative(s.start):
            self.nonnegative.add(s.var)
        name = self.names.of(s.var)
        pragma = self.unroll_pragma(s)
        if pragma:
            self.line(pragma)
        self.line(f"for ({self.ctype(s.var.dtype)} {name} = {start}; {name} < {stop}; ++{name}) {{")
        self.block(s.body)
        self.line("}")

    def unroll_pragma(self, s: For) -> str | None:
        """The pragma in front of a loop: unrolled loops, and vectorized ones that stayed loops."""
        factor = s.annotations.get("unroll_factor")
        if factor is not None:
            return f"#pragma unroll {int(factor)}"
        return "#pragma unroll" if s.kind in ("unroll", "vectorized") else None

    def s_While(self, s: While) -> None:
        self.line(f"while ({self.expr(s.cond)}) {{")
        self.block(s.body)
        self.line("}")

    def s_If(self, s: If) -> None:
        self.line(f"if ({self.expr(s.cond)}) {{")
        self.block(s.then)
        rest = s.orelse
        while rest is not None:
            stmts = flatten(rest)
            if len(stmts) == 1 and type(stmts[0]) is If and not self._line_directives:
                inner: Any = stmts[0]
                self.line(f"}} else if ({self.expr(inner.cond)}) {{")
                self.block(inner.then)
                rest = inner.orelse
            else:
                self.line("} else {")
                self.block(rest)
                rest = None
        self.line("}")

    def s_Break(self, _: Any) -> None:
        self.line("break;")

    def s_Continue(self, _: Any) -> None:
        self.line("continue;")

    def s_Return(self, _: Any) -> None:
        self.line("return;")

    def s_Assert(self, s: Assert) -> None:
        cond = self.expr(s.cond)
        negated = cond[1:] if re.fullmatch(r"!\w+", cond) else f"!({cond})"
        self.line(f"if ({negated}) {{")
        self.depth += 1
        for text in self.fail(s):
            self.line(text)
        self.depth -= 1
        self.line("}")

    def s_Assume(self, _: Any) -> None:
        """A fact for passes; it has no run-time effect, so nothing is printed."""
        return


def safe_divisor(e: Expr) -> bool:
    """Does C's own division of integers do, whatever is divided by `e`?"""
    if type(e) is Broadcast:
        e = e.a
    return type(e) is Const and e.dtype.is_int and e.value not in (0, -1)


def _power_of_2(e: Expr) -> int | None:
    """The exponent if `e` is an integer literal that is a power of two."""
    if type(e) is Const and e.dtype.is_int and e.value > 0 and e.value & (e.value - 1) == 0:
        return int(e.value).bit_length() - 1
    return None
