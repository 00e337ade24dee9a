# SPDX-License-Identifier: Apache-2.0
"""IR -> text that is tilelang Python: names kept, made unique per function, fully explicit dtypes.

Names are numbered in order of first appearance, so the text of a function is the same in every
process (the cache key depends on it). `language.reader` reads the text of every stage back to an
alpha-equivalent function; what it cannot read (a layout given as a Python function, a table) is
printed as `T.opaque("...")`, and kept in `Printer.opaque`. Spans are not printed.
"""

from __future__ import annotations

import dataclasses
import keyword
from collections.abc import Callable, Mapping
from typing import Any

from .buffer import Buffer, Region
from .dtype import INT32
from .expr import Const, Expr, Var
from .func import PrimFunc
from .node import Node
from .stmt import Seq, Stmt, TileOp

_INFIX = {
    "Add": ("+", 12),
    "Sub": ("-", 12),
    "Mul": ("*", 13),
    "Div": ("/", 13),
    "FloorDiv": ("//", 13),
    "FloorMod": ("%", 13),
    "BitAnd": ("&", 10),
    "BitOr": ("|", 8),
    "BitXor": ("^", 9),
    "Shl": ("<<", 11),
    "Shr": (">>", 11),
    "EQ": ("==", 6),
    "NE": ("!=", 6),
    "LT": ("<", 6),
    "LE": ("<=", 6),
    "GT": (">", 6),
    "GE": (">=", 6),
    "And": ("and", 4),
    "Or": ("or", 3),
}
_COMPARES = ("EQ", "NE", "LT", "LE", "GT", "GE")
_LOOP_OPTIONS = ("num_stages", "order", "stage", "group")
_WITH_REPR = ("Layout", "Fragment", "Swizzle")
_HIDDEN = ("spans",)  # annotations that are no part of the program
_NAMED = {"TruncDiv": "T.truncdiv", "TruncMod": "T.truncmod", "Min": "T.min", "Max": "T.max"}


class Printer:
    """Prints one function (or a piece of one); holds the names given so far."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.taken: set[str] = {"T", *keyword.kwlist}
        self.lines: list[str] = []
        self.depth = 0
        self.opaque: list[Any] = []

    def name(self, x: Var | Buffer) -> str:
        hit = self.names.get(x)
        if hit is None:
            base = x.name if x.name.isidentifier() else "v"
            hit, n = base, 0
            while hit in self.taken:
                n += 1
                hit = f"{base}_{n}"
            self.taken.add(hit)
            self.names[x] = hit
        return hit

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    # ------------------------------------------------------------------------------ expressions

    def expr(self, e: Any, prec: int = 0) -> str:
        text, p = self._expr(e)
        return f"({text})" if p < prec else text

    def _expr(self, e: Any) -> tuple[str, int]:
        kind = type(e).__name__
        infix = _INFIX.get(kind)
        if infix:
            op, p = infix
            left = p + 1 if kind in _COMPARES else p  # a < b < c would be a chain
            return f"{self.expr(e.a, left)} {op} {self.expr(e.b, p + 1)}", p
        if kind in _NAMED:
            return f"{_NAMED[kind]}({self.expr(e.a)}, {self.expr(e.b)})", 20
        method: Callable[[Any], tuple[str, int]] | None = getattr(self, f"_{kind}", None)
        if method is not None:
            return method(e)
        return self.value(e), 20

    def _Var(self, e: Any) -> tuple[str, int]:
        return self.name(e), 20

    def _Const(self, e: Any) -> tuple[str, int]:
        if e.dtype is INT32 or str(e.dtype) == "bool":
            return repr(e.value), 20 if e.dtype.is_bool or e.value >= 0 else 14
        value = repr(e.value)
        if e.dtype.is_float and value in ("inf", "-inf", "nan"):
            value = f'"{value}"'
        return f"T.{e.dtype}({value})", 20

    def _StringImm(self, e: Any) -> tuple[str, int]:
        return repr(e.value), 20

    def _Neg(self, e: Any) -> tuple[str, int]:
        if type(e.a) is Const:  # -3 is the literal
            return f"T.neg({self.expr(e.a)})", 20
        return f"-{self.expr(e.a, 14)}", 14

    def _Not(self, e: Any) -> tuple[str, int]:
        return f"not {self.expr(e.a, 5)}", 5

    def _BitNot(self, e: Any) -> tuple[str, int]:
        return f"~{self.expr(e.a, 14)}", 14

    def _Cast(self, e: Any) -> tuple[str, int]:
        return f"T.cast({self.expr(e.a)}, {str(e.to)!r})", 20

    def _Select(self, e: Any) -> tuple[str, int]:
        return f"T.Select({self.expr(e.cond)}, {self.expr(e.a)}, {self.expr(e.b)})", 20

    def _IfThenElse(self, e: Any) -> tuple[str, int]:
        return f"T.if_then_else({self.expr(e.cond)}, {self.expr(e.a)}, {self.expr(e.b)})", 20

    def _Load(self, e: Any) -> tuple[str, int]:
        return f"{self.name(e.buffer)}[{self._args(e.indices)}]", 20

    def _Ramp(self, e: Any) -> tuple[str, int]:
        return f"T.Ramp({self.expr(e.base)}, {self.expr(e.stride)}, {e.lanes})", 20

    def _Broadcast(self, e: Any) -> tuple[str, int]:
        return f"T.Broadcast({self.expr(e.a)}, {e.lanes})", 20

    def _Call(self, e: Any) -> tuple[str, int]:
        tail = "" if e.dtype.is_handle else f", dtype={str(e.dtype)!r}"
        return f"T.call({e.op!r}{''.join(', ' + self.expr(a) for a in e.args)}{tail})", 20

    def _args(self, items: Any) -> str:
        return ", ".join(self.expr(i) for i in items)

    # ------------------------------------------------------------------------------ values

    def value(self, v: Any) -> str:
        """Anything that may stand in a field: regions, buffers, layouts, plain Python data."""
        if isinstance(v, Expr):
            return self.expr(v)
        if isinstance(v, Region):
            parts = ", ".join(self.slice(o, x) for o, x in zip(v.offsets, v.extents, strict=True))
            return f"{self.name(v.buffer)}[{parts}]"
        if isinstance(v, Buffer):
            return self.name(v)
        if isinstance(v, TileOp):
            return self.tile_op(v)
        if isinstance(v, (tuple, list)):
            inner = ", ".join(self.value(x) for x in v)
            return f"({inner},)" if len(v) == 1 else f"({inner})"
        if isinstance(v, Mapping):
            return "{" + ", ".join(f"{self.value(k)}: {self.value(x)}" for k, x in v.items()) + "}"
        if v is None or isinstance(v, (bool, int, float, str)) or type(v).__name__ in _WITH_REPR:
            return repr(v)
        if dataclasses.is_dataclass(v) and not isinstance(v, type):
            return self.data(v)
        self.opaque.append(v)
        return f"T.opaque({getattr(v, '__qualname__', None) or repr(v)!r})"

    def data(self, v: Any) -> str:
        """A dataclass (a loop plan, a tensor map) by its fields."""
        fields = ((f.name, getattr(v, f.name)) for f in dataclasses.fields(v))
        return f"{type(v).__name__}({', '.join(f'{n}={self.declared(n, x)}' for n, x in fields)})"

    def declared(self, field: str, v: Any) -> str:
        # a variable that this binds
        if isinstance(v, Var) and v not in self.names and field == "var":
            return f"T.Var({self.name(v)!r}, {str(v.dtype)!r})"
        return self.value(v)

    def slice(self, start: Expr, extent: Expr) -> str:
        """`start:stop`; where it is no constant the stop is written as the start plus the
        extent."""
        if (
            type(start) is Const
            and type(extent) is Const
            and start.dtype is INT32
            and extent.dtype is INT32
        ):
            return f"{start.value}:{start.value + extent.value}"
        if _is_zero(start):
            return f"0:{self.expr(extent)}"
        return f"{self.expr(start)}:{self.expr(start, 12)} + {self.expr(extent, 13)}"

    def annotations(self, items: Mapping[str, Any]) -> str:
        """`, annotations={…}`, or nothing."""
        shown = {k: v for k, v in items.items() if k not in _HIDDEN}
        return f", annotations={self.value(shown)}" if shown else ""

    def tile_op(self, op: TileOp, annotations: Mapping[str, Any] | None = None) -> str:
        defaults: Mapping[str, Any] = getattr(type(op), "_defaults", {})
        values = ((f, getattr(op, f)) for f in type(op).fields)
        args = [
            f"{f}={self.value(v)}"
            for f, v in values
            if f not in defaults or not _same_value(v, defaults[f])
        ]
        name = op.name if op.name.isidentifier() else type(op).__name__
        return f"T.{name}({', '.join(args)}{self.annotations(annotations or {})})"

    # ------------------------------------------------------------------------------ statements

    def stmt(self, s: Stmt | None) -> None:
        if s is None:
            return
        getattr(self, f"s_{type(s).__name__}")(s)

    def block(self, s: Stmt | None) -> None:
        self.depth += 1
        before = len(self.lines)
        self.stmt(s)
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    def s_Seq(self, s: Seq) -> None:
        for x in s.stmts:
            self.stmt(x)

    def s_Bind(self, s: Any) -> None:
        value = self.expr(s.value)
        self.line(f"{self.name(s.var)}: T.{s.var.dtype} = {value}")

    def s_Alloc(self, s: Any) -> None:
        b = s.buffer
        extra = self.annotations(s.annotations)
        if b.view_of is not None:
            extra += f", view_of={self.name(b.view_of)}"
        if b.strides is not None:
            extra += f", strides={self.value(b.strides)}"
        if b.data is not None:
            extra += f", data={self.expr(b.data)}"
        facts = f"{self.value(b.shape)}, {str(b.dtype)!r}, scope={b.scope!r}{extra}"
        self.line(f"{self.name(b)} = T.alloc_buffer({facts})")

    def s_Store(self, s: Any) -> None:
        self.line(f"{self.name(s.buffer)}[{self._args(s.indices)}] = {self.expr(s.value)}")

    def s_Evaluate(self, s: Any) -> None:
        self.line(self.expr(s.value))

    def s_For(self, s: Any) -> None:
        options = {
            k: v for k, v in s.annotations.items() if s.kind == "pipelined" and k in _LOOP_OPTIONS
        }
        extra = "".join(f", {k}={self.value(v)}" for k, v in options.items())
        extra += self.annotations({k: v for k, v in s.annotations.items() if k not in options})
        if s.var.dtype is not s.extent.dtype:
            extra += f", dtype={str(s.var.dtype)!r}"
        start = "" if _is_zero(s.start) else f"{self.expr(s.start)}, "
        if start and not (
            type(s.start) is Const and type(s.extent) is Const and s.start.dtype is INT32
        ):
            stop = f"{start}{self.expr(s.start, 12)} + {self.expr(s.extent, 13)}"
        else:
            stop = f"{start}{s.start.value + s.extent.value}" if start else self.expr(s.extent)
        word = "Pipelined" if s.kind == "pipelined" else s.kind
        self.line(f"for {self.name(s.var)} in T.{word}({stop}{extra}):")
        self.block(s.body)

    def s_Parallel(self, s: Any) -> None:
        names = ", ".join(self.name(v) for v in s.vars)
        self.line(
            f"for {names} in T.Parallel({self._args(s.extents)}{self.annotations(s.annotations)}):"
        )
        self.block(s.body)

    def s_While(self, s: Any) -> None:
        self.line(f"while {self.expr(s.cond)}:")
        self.block(s.body)

    def s_If(self, s: Any, word: str = "if") -> None:
        self.line(f"{word} {self.expr(s.cond)}:")
        self.block(s.then)
        if type(s.orelse).__name__ == "If":
            self.s_If(s.orelse, "elif")
        elif s.orelse is not None:
            self.line("else:")
            self.block(s.orelse)

    def s_Break(self, _: Any) -> None:
        self.line("break")

    def s_Continue(self, _: Any) -> None:
        self.line("continue")

    def s_Return(self, _: Any) -> None:
        self.line("T.thread_return()")

    def s_Assert(self, s: Any) -> None:
        self.line(f"assert {self.expr(s.cond)}, {s.message!r}")

    def s_Assume(self, s: Any) -> None:
        self.line(f"T.assume({self.expr(s.cond)})")

    def s_TileStmt(self, s: Any) -> None:
        self.line(self.tile_op(s.op, s.annotations))

    def s_Launch(self, s: Any) -> None:
        extra = self.annotations(s.annotations)
        names = ", ".join(self.name(v) for v in (*s.block_vars, *s.thread_vars))
        self.line(f"with T.launch({self.value(s.grid)}, threads={s.threads}{extra}) as ({names}):")
        self.block(s.body)

    def s_Role(self, s: Any) -> None:
        self.line(f"with T.role({s.first}, {s.threads}{self.annotations(s.annotations)}):")
        self.block(s.body)

    def func(self, f: PrimFunc) -> str:
        for v in f.symbols:
            self.line(f"{self.name(v)} = T.dynamic({v.name!r}, {str(v.dtype)!r})")
        params = ", ".join(self.param(p) for p in f.params)
        self.line("@T.prim_func")
        self.line(f"def {f.name}({params}):")
        named = {k: v for k, v in f.attrs.items() if (k, v) != ("global_symbol", f.name)}
        attrs = {**named, **({"outputs": f.outputs} if f.outputs else {})}
        if attrs:
            self.depth += 1
            self.line(f"T.func_attr({self.value(attrs)})")
            self.depth -= 1
        self.block(f.body)
        return self.text()

    def param(self, p: Any) -> str:
        if isinstance(p, Var):
            return f"{self.name(p)}: T.{p.dtype}"
        extra = f", strides={self.value(p.strides)}" if p.strides is not None else ""
        extra += f", scope={p.scope!r}" if not p.is_global else ""
        return f"{self.name(p)}: T.Tensor({self.value(p.shape)}, {str(p.dtype)!r}{extra})"

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def _is_zero(e: Node) -> bool:
    return type(e) is Const and e.dtype is INT32 and e.value == 0


def _same_value(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, (bool, int, str, float)) and a == b)


def expr_text(e: Expr) -> str:
    return Printer().expr(e)


def stmt_text(s: Stmt) -> str:
    p = Printer()
    p.stmt(s)
    return p.text()


def func_text(f: PrimFunc) -> str:
    return Printer().func(f)
