# SPDX-License-Identifier: Apache-2.0
"""IR -> text that is tilelang Python: names kept, made unique per function, fully explicit dtypes.

Names are numbered in order of first appearance, so the text of a function is the same in every
process (the cache key depends on it).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .buffer import Buffer, Region
from .dtype import INT32
from .expr import Expr, Var
from .func import PrimFunc
from .node import Node
from .stmt import Seq, Stmt, TileOp

_INFIX = {
    "Add": ("+", 12), "Sub": ("-", 12), "Mul": ("*", 13), "Div": ("/", 13), "FloorDiv": ("//", 13), "FloorMod": ("%", 13),
    "BitAnd": ("&", 10), "BitOr": ("|", 8), "BitXor": ("^", 9), "Shl": ("<<", 11), "Shr": (">>", 11),
    "EQ": ("==", 6), "NE": ("!=", 6), "LT": ("<", 6), "LE": ("<=", 6), "GT": (">", 6), "GE": (">=", 6),
    "And": ("and", 4), "Or": ("or", 3),
}
_NAMED = {"TruncDiv": "T.truncdiv", "TruncMod": "T.truncmod", "Min": "T.min", "Max": "T.max"}


class Printer:
    """Prints one function (or a piece of one); holds the names given so far."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.taken: set[str] = set()
        self.lines: list[str] = []
        self.depth = 0

    def name(self, x: Var | Buffer) -> str:
        hit = self.names.get(x)
        if hit is None:
            base = x.name or "v"
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
            return f"{self.expr(e.a, p)} {op} {self.expr(e.b, p + 1)}", p
        if kind in _NAMED:
            return f"{_NAMED[kind]}({self.expr(e.a)}, {self.expr(e.b)})", 20
        method = getattr(self, f"_{kind}", None)
        if method is not None:
            return method(e)
        return self.value(e), 20

    def _Var(self, e: Any) -> tuple[str, int]:
        return self.name(e), 20

    def _Const(self, e: Any) -> tuple[str, int]:
        if e.dtype is INT32 or e.dtype.is_bool:
            return repr(e.value), 20 if e.dtype.is_bool or e.value >= 0 else 14
        value = repr(e.value)
        if e.dtype.is_float and value in ("inf", "-inf", "nan"):
            value = f'"{value}"'
        return f"T.{e.dtype}({value})", 20

    def _StringImm(self, e: Any) -> tuple[str, int]:
        return repr(e.value), 20

    def _Neg(self, e: Any) -> tuple[str, int]:
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
            parts = [
                f"{self.expr(o)}:{self.expr(o)} + {self.expr(x, 13)}" if not _is_zero(o) else f"0:{self.expr(x)}"
                for o, x in zip(v.offsets, v.extents, strict=True)
            ]
            return f"{self.name(v.buffer)}[{', '.join(parts)}]"
        if isinstance(v, Buffer):
            return self.name(v)
        if isinstance(v, TileOp):
            return self.tile_op(v)
        if isinstance(v, (tuple, list)):
            inner = ", ".join(self.value(x) for x in v)
            return f"({inner},)" if len(v) == 1 else f"({inner})"
        if isinstance(v, Mapping):
            return "{" + ", ".join(f"{self.value(k)}: {self.value(x)}" for k, x in v.items()) + "}"
        return repr(v)

    def tile_op(self, op: TileOp) -> str:
        args = [f"{f}={self.value(getattr(op, f))}" for f in type(op).fields]
        return f"T.{op.name or type(op).__name__}({', '.join(args)})"

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
        extra = f", annotations={self.value(s.annotations)}" if s.annotations else ""
        if b.view_of is not None:
            extra += f", view_of={self.name(b.view_of)}"
        if b.strides is not None:
            extra += f", strides={self.value(b.strides)}"
        self.line(f"{self.name(b)} = T.alloc_buffer({self.value(b.shape)}, {str(b.dtype)!r}, scope={b.scope!r}{extra})")

    def s_Store(self, s: Any) -> None:
        self.line(f"{self.name(s.buffer)}[{self._args(s.indices)}] = {self.expr(s.value)}")

    def s_Evaluate(self, s: Any) -> None:
        self.line(self.expr(s.value))

    def s_For(self, s: Any) -> None:
        extra = f", annotations={self.value(s.annotations)}" if s.annotations else ""
        stop = f"{self.expr(s.start)}, {self.expr(s.start)} + {self.expr(s.extent, 13)}" if not _is_zero(s.start) else self.expr(s.extent)
        head = f"T.{s.kind}({stop}{extra})"
        self.line(f"for {self.name(s.var)} in {head}:")
        self.block(s.body)

    def s_Parallel(self, s: Any) -> None:
        extra = f", annotations={self.value(s.annotations)}" if s.annotations else ""
        names = ", ".join(self.name(v) for v in s.vars)
        self.line(f"for {names} in T.Parallel({self._args(s.extents)}{extra}):")
        self.block(s.body)

    def s_While(self, s: Any) -> None:
        self.line(f"while {self.expr(s.cond)}:")
        self.block(s.body)

    def s_If(self, s: Any) -> None:
        self.line(f"if {self.expr(s.cond)}:")
        self.block(s.then)
        if s.orelse is not None:
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
        note = f"  # {self.value(s.annotations)}" if s.annotations else ""
        self.line(self.tile_op(s.op) + note)

    def s_Launch(self, s: Any) -> None:
        extra = f", annotations={self.value(s.annotations)}" if s.annotations else ""
        names = ", ".join(self.name(v) for v in (*s.block_vars, *s.thread_vars))
        self.line(f"with T.launch({self.value(s.grid)}, threads={s.threads}{extra}) as ({names}):")
        self.block(s.body)

    def s_Role(self, s: Any) -> None:
        extra = f", annotations={self.value(s.annotations)}" if s.annotations else ""
        self.line(f"with T.role({s.first}, {s.threads}{extra}):")
        self.block(s.body)

    def func(self, f: PrimFunc) -> str:
        params = ", ".join(self.param(p) for p in f.params)
        self.line("@T.prim_func")
        self.line(f"def {f.name}({params}):")
        if f.outputs:
            self.depth += 1
            self.line(f"T.func_attr({{'outputs': {f.outputs}}})")
            self.depth -= 1
        self.block(f.body)
        return self.text()

    def param(self, p: Any) -> str:
        if isinstance(p, Var):
            return f"{self.name(p)}: T.{p.dtype}"
        strides = f", strides={self.value(p.strides)}" if p.strides is not None else ""
        return f"{self.name(p)}: T.Tensor({self.value(p.shape)}, {str(p.dtype)!r}{strides})"

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def _is_zero(e: Node) -> bool:
    return getattr(e, "value", None) == 0


def expr_text(e: Expr) -> str:
    return Printer().expr(e)


def stmt_text(s: Stmt) -> str:
    p = Printer()
    p.stmt(s)
    return p.text()


def func_text(f: PrimFunc) -> str:
    return Printer().func(f)
