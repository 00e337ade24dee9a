# SPDX-License-Identifier: Apache-2.0
"""Reads the printer's text back: text of a function of stage TILE, LOOP or FLAT -> `ir.PrimFunc`.

Strict: every node is built exactly as written, nothing folds or promotes, dtypes are explicit (a
bare integer is int32). Names are unique in a printed function, so one dictionary holds them all.
Annotations may name buffers that are allocated below them: they are read last.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from dataclasses import fields as data_fields
from typing import Any

from tilelang import ir
from tilelang.errors import LanguageError, Span
from tilelang.ir import Buffer, Const, DType, Expr, PrimFunc, Region, Stmt, Var, seq
from tilelang.ir.node import NODES

_BINARY = {
    ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.Div: "Div", ast.FloorDiv: "FloorDiv",
    ast.Mod: "FloorMod", ast.BitAnd: "BitAnd", ast.BitOr: "BitOr", ast.BitXor: "BitXor",
    ast.LShift: "Shl", ast.RShift: "Shr",
}  # fmt: skip
_COMPARE = {ast.Eq: "EQ", ast.NotEq: "NE", ast.Lt: "LT", ast.LtE: "LE", ast.Gt: "GT", ast.GtE: "GE"}
_CALLS = {"truncdiv": "TruncDiv", "truncmod": "TruncMod", "min": "Min", "max": "Max", "neg": "Neg"}
_LOOPS = {
    "serial": "serial",
    "unroll": "unroll",
    "vectorized": "vectorized",
    "Pipelined": "pipelined",
}
_DATA_MODULES = (
    "tilelang.layout",
    "tilelang.tileop.distribute",
    "tilelang.ir.func",
    "tilelang.layout.digits",
)


class Opaque:
    """Stands for an annotation that cannot be written as text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.__qualname__ = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def read_func(text: str, file: str = "<text>") -> PrimFunc:
    """The function that `text` (of `PrimFunc.script()`) shows."""
    reader = _Reader(file)
    function: ast.FunctionDef | None = None
    for s in ast.parse(text, file).body:
        if isinstance(s, ast.Assign):
            reader.symbol(s)
        elif isinstance(s, ast.FunctionDef) and function is None:
            function = s
        else:
            raise reader.refuse(s, "a function and its symbols are expected")
    if function is None:
        raise LanguageError(
            "the text holds no function", code="TL0170", help="give the text of PrimFunc.script()"
        )
    return reader.func(function)


class _Reader:
    def __init__(self, file: str) -> None:
        self.file = file
        self.names: dict[str, Any] = {}
        self.late: list[tuple[dict[str, Any], ast.expr]] = []
        self.ops = {n: c for n, c in NODES.items() if issubclass(c, ir.TileOp)}
        self.ops.update({getattr(c, "name", "") or n: c for n, c in list(self.ops.items())})

    def refuse(self, node: Any, why: str) -> LanguageError:
        return LanguageError(
            f"this is not the text of a function: {why} (`{ast.unparse(node)[:60]}`)",
            code="TL0171",
            span=Span.of(node, self.file),
            help="give the text of PrimFunc.script()",
        )

    def var(self, name: str, dtype: DType) -> Var:
        """The variable that is bound under a name; one that is bound again is the same one."""
        old = self.names.get(name)
        if not isinstance(old, Var) or old.dtype is not dtype:
            old = self.names[name] = Var(name, dtype)
        return old

    def lookup(self, node: ast.Name) -> Any:
        if node.id not in self.names:
            raise self.refuse(node, f"`{node.id}` is not defined")
        return self.names[node.id]

    # ---------------------------------------------------------------------------- the function

    def symbol(self, s: ast.Assign) -> None:
        target, call = s.targets[0], s.value
        if not (
            isinstance(target, ast.Name)
            and isinstance(call, ast.Call)
            and _member(call.func) == "dynamic"
        ):
            raise self.refuse(s, "a symbol is expected")
        name, dtype = (ast.literal_eval(a) for a in call.args)
        self.names[target.id] = Var(name, DType(dtype))

    def func(self, f: ast.FunctionDef) -> PrimFunc:
        params = tuple(self.param(a) for a in f.args.args)
        body = list(f.body)
        attrs: dict[str, Any] = {}
        first = body[0] if body else None
        if (
            isinstance(first, ast.Expr)
            and isinstance(first.value, ast.Call)
            and _member(first.value.func) == "func_attr"
        ):
            self.late.append((attrs, first.value.args[0]))
            del body[0]
        stmt = self.block(body)
        for target, node in self.late:
            target.update(self.value(node))
        outputs = tuple(attrs.pop("outputs", ()))
        return PrimFunc(f.name, params, stmt, outputs, attrs)

    def param(self, a: ast.arg) -> Buffer | Var:
        note = a.annotation
        if isinstance(note, ast.Attribute):
            out: Buffer | Var = Var(a.arg, DType(note.attr))
        elif isinstance(note, ast.Call):
            shape, dtype = self.value(note.args[0]), ast.literal_eval(note.args[1])
            more = {k.arg: self.value(k.value) for k in note.keywords}
            out = Buffer(a.arg, shape, dtype, more.get("scope", "global"), more.get("strides"))
        else:
            raise self.refuse(a, "a parameter needs a type")
        self.names[a.arg] = out
        return out

    def annotations(self, call: ast.Call) -> dict[str, Any]:
        """The `annotations=` of a call: a dictionary that is filled when the whole text was
        read.
        """
        out: dict[str, Any] = {}
        for k in call.keywords:
            if k.arg == "annotations":
                self.late.append((out, k.value))
                self.declare(k.value)
        return out

    def declare(self, node: ast.expr) -> None:
        """Variables that an annotation binds (`T.Var('desc', 'handle')`) exist in the body below
        it.
        """
        for n in ast.walk(node):
            if isinstance(n, ast.Call) and _member(n.func) == "Var":
                name, dtype = (ast.literal_eval(a) for a in n.args)
                self.names[name] = Var(name, DType(dtype))

    # ------------------------------------------------------------------------------ statements

    def block(self, stmts: list[ast.stmt]) -> Stmt:
        return seq([self.stmt(s) for s in stmts])

    def stmt(self, s: ast.stmt) -> Stmt | None:
        method: Callable[[Any], Stmt | None] | None = getattr(self, f"s_{type(s).__name__}", None)
        if method is None:
            raise self.refuse(s, "no such statement")
        return method(s)

    def s_Pass(self, _: ast.Pass) -> None:
        return None

    def s_Break(self, _: ast.Break) -> Stmt:
        return ir.Break()

    def s_Continue(self, _: ast.Continue) -> Stmt:
        return ir.Continue()

    def s_AnnAssign(self, s: ast.AnnAssign) -> Stmt:
        if (
            not isinstance(s.target, ast.Name)
            or not isinstance(s.annotation, ast.Attribute)
            or s.value is None
        ):
            raise self.refuse(s, "a binding needs a name, a dtype and a value")
        value = self.expr(s.value)
        var = self.var(s.target.id, DType(s.annotation.attr))
        return ir.Bind(var, value)

    def s_Assign(self, s: ast.Assign) -> Stmt:
        target = s.targets[0]
        if isinstance(target, ast.Subscript):
            place = self.expr(target)
            if not isinstance(place, ir.Load):
                raise self.refuse(s, "a store needs one element")
            return ir.Store(place.buffer, place.indices, self.expr(s.value))
        if (
            not isinstance(target, ast.Name)
            or not isinstance(s.value, ast.Call)
            or _member(s.value.func) != "alloc_buffer"
        ):
            raise self.refuse(s, "an allocation is expected")
        call = s.value
        more = {k.arg: self.value(k.value) for k in call.keywords if k.arg != "annotations"}
        buffer = Buffer(
            target.id,
            self.value(call.args[0]),
            ast.literal_eval(call.args[1]),
            more["scope"],
            more.get("strides"),
            more.get("view_of"),
            None,
            more.get("data"),
        )
        self.names[target.id] = buffer
        return ir.Alloc(buffer, self.annotations(call))

    def s_Expr(self, s: ast.Expr) -> Stmt:
        call = s.value
        name = _member(call.func) if isinstance(call, ast.Call) else None
        if name == "thread_return":
            return ir.Return()
        if name == "assume" and isinstance(call, ast.Call):
            return ir.Assume(self.expr(call.args[0]))
        if name in self.ops and isinstance(call, ast.Call):
            cls: Any = self.ops[name]
            values = {
                str(k.arg): self.field(cls, k.arg, k.value)
                for k in call.keywords
                if k.arg != "annotations"
            }
            return ir.TileStmt(cls(**values), self.annotations(call))
        return ir.Evaluate(self.expr(call))

    def field(self, cls: Any, name: str | None, node: ast.expr) -> Any:
        """A field of a tile op: an expression where its class says so, else a Python value."""
        kind = str(getattr(cls, "_kinds", {}).get(name, ""))
        return (
            self.expr(node)
            if kind in ("Expr", "Expr | None") and not _is_none(node)
            else self.value(node)
        )

    def s_Assert(self, s: ast.Assert) -> Stmt:
        return ir.Assert(self.expr(s.test), ast.literal_eval(s.msg) if s.msg is not None else "")

    def s_If(self, s: ast.If) -> Stmt:
        return ir.If(
            self.expr(s.test), self.block(s.body), self.block(s.orelse) if s.orelse else None
        )

    def s_While(self, s: ast.While) -> Stmt:
        return ir.While(self.expr(s.test), self.block(s.body))

    def s_For(self, s: ast.For) -> Stmt:
        call = s.iter
        if not isinstance(call, ast.Call):
            raise self.refuse(s, "a loop is expected")
        word = _member(call.func)
        names = [
            n.id
            for n in (s.target.elts if isinstance(s.target, ast.Tuple) else [s.target])
            if isinstance(n, ast.Name)
        ]
        if word == "Parallel":
            extents = tuple(self.expr(a) for a in call.args)
            notes = self.annotations(call)
            loop = tuple(self.var(n, e.dtype) for n, e in zip(names, extents, strict=True))
            return ir.Parallel(loop, extents, self.block(s.body), notes)
        if word not in _LOOPS:
            raise self.refuse(s, "no such loop")
        start, extent = self.span(call.args)
        notes = self.annotations(call)
        options = {k.arg: k.value for k in call.keywords if k.arg not in ("annotations", "dtype")}
        dtype = next(
            (DType(ast.literal_eval(k.value)) for k in call.keywords if k.arg == "dtype"),
            extent.dtype,
        )
        for name, node in options.items():
            notes[str(name)] = self.value(node)
        var = self.var(names[0], dtype)
        return ir.For(var, start, extent, self.block(s.body), _LOOPS[word], notes)

    def span(self, args: list[ast.expr]) -> tuple[Expr, Expr]:
        """(start, extent) of `stop`, or of `start, stop` with the stop written as start +
        extent.
        """
        if len(args) == 1:
            extent = self.expr(args[0])
            return Const(0, DType("int32")), extent
        return self.bounds(args[0], args[1])

    def bounds(self, lower: ast.expr, upper: ast.expr) -> tuple[Expr, Expr]:
        lo = _literal(lower)
        hi = _literal(upper)
        int32 = DType("int32")
        if lo is not None and hi is not None:
            return Const(lo, int32), Const(hi - lo, int32)
        if lo == 0:
            return Const(0, int32), self.expr(upper)
        if (
            isinstance(upper, ast.BinOp)
            and isinstance(upper.op, ast.Add)
            and ast.dump(upper.left) == ast.dump(lower)
        ):
            return self.expr(lower), self.expr(upper.right)
        raise self.refuse(upper, "the end of a range is written as its start plus its extent")

    def s_With(self, s: ast.With) -> Stmt:
        item = s.items[0]
        call = item.context_expr
        if not isinstance(call, ast.Call):
            raise self.refuse(s, "a launch is expected")
        notes = self.annotations(call)
        if _member(call.func) == "role":
            first, threads = (ast.literal_eval(a) for a in call.args)
            return ir.Role(first, threads, self.block(s.body), notes)
        if _member(call.func) != "launch" or not isinstance(item.optional_vars, ast.Tuple):
            raise self.refuse(s, "a launch is expected")
        grid = tuple(as_expr(v) for v in self.value(call.args[0]))
        threads = next(ast.literal_eval(k.value) for k in call.keywords if k.arg == "threads")
        names = [n.id for n in item.optional_vars.elts if isinstance(n, ast.Name)]
        loop = [self.var(n, DType("int32")) for n in names]
        blocks, inner = tuple(loop[: len(grid)]), tuple(loop[len(grid) :])
        return ir.Launch(grid, threads, blocks, inner, self.block(s.body), notes)

    # ----------------------------------------------------------------------------- expressions

    def expr(self, e: ast.expr) -> Expr:
        value = self.value(e)
        if isinstance(value, Expr):
            return value
        if isinstance(value, (bool, int, str)):
            return as_expr(value)
        raise self.refuse(e, "an expression is expected")

    def value(self, e: ast.expr) -> Any:
        method: Callable[[Any], Any] | None = getattr(self, f"e_{type(e).__name__}", None)
        if method is None:
            raise self.refuse(e, "no such expression")
        return method(e)

    def e_Constant(self, e: ast.Constant) -> Any:
        return e.value

    def e_Name(self, e: ast.Name) -> Any:
        return self.lookup(e)

    def e_Attribute(self, e: ast.Attribute) -> Any:
        if _member(e) is None:
            raise self.refuse(e, "no such name")
        return DType(e.attr)

    def e_Tuple(self, e: ast.Tuple) -> Any:
        return tuple(self.value(x) for x in e.elts)

    def e_List(self, e: ast.List) -> Any:
        return [self.value(x) for x in e.elts]

    def e_Dict(self, e: ast.Dict) -> Any:
        return {
            self.value(k): self.value(v)
            for k, v in zip(e.keys, e.values, strict=True)
            if k is not None
        }

    def e_UnaryOp(self, e: ast.UnaryOp) -> Any:
        if isinstance(e.op, ast.Not):
            return ir.Not(self.expr(e.operand))
        if isinstance(e.op, ast.Invert):
            return ir.BitNot(self.expr(e.operand))
        if isinstance(e.operand, ast.Constant):
            return -e.operand.value  # type: ignore[operator]
        return ir.Neg(self.expr(e.operand))

    def e_BinOp(self, e: ast.BinOp) -> Expr:
        cls: Any = NODES[_BINARY[type(e.op)]]
        return cls(self.expr(e.left), self.expr(e.right))

    def e_BoolOp(self, e: ast.BoolOp) -> Expr:
        cls: Any = ir.And if isinstance(e.op, ast.And) else ir.Or
        out, *rest = [self.expr(v) for v in e.values]
        for v in rest:
            out = cls(out, v)
        return out

    def e_Compare(self, e: ast.Compare) -> Expr:
        if len(e.ops) != 1:
            raise self.refuse(e, "a comparison has two operands")
        cls: Any = NODES[_COMPARE[type(e.ops[0])]]
        return cls(self.expr(e.left), self.expr(e.comparators[0]))

    def e_Subscript(self, e: ast.Subscript) -> Any:
        buffer = self.value(e.value)
        items = list(e.slice.elts) if isinstance(e.slice, ast.Tuple) else [e.slice]
        if not isinstance(buffer, Buffer):
            raise self.refuse(e, "only buffers are indexed")
        if not any(isinstance(i, ast.Slice) for i in items):
            return ir.Load(buffer, tuple(self.expr(i) for i in items))
        ranges = [
            self.bounds(i.lower, i.upper)
            for i in items
            if isinstance(i, ast.Slice) and i.lower and i.upper
        ]
        if len(ranges) != len(items):
            raise self.refuse(e, "a region has a range for each dimension")
        return Region(buffer, tuple(o for o, _ in ranges), tuple(x for _, x in ranges))

    def e_Call(self, e: ast.Call) -> Any:
        name = _member(e.func)
        if name is None:
            return self.data(e)
        method: Callable[[ast.Call], Any] | None = getattr(self, f"c_{name}", None)
        if method is not None:
            return method(e)
        if name in _CALLS:
            cls: Any = NODES[_CALLS[name]]
            return cls(*(self.expr(a) for a in e.args))
        if name in self.ops:
            op: Any = self.ops[name]
            return op(**{str(k.arg): self.field(op, k.arg, k.value) for k in e.keywords})
        return self.typed(DType(name), e)

    def typed(self, dtype: DType, e: ast.Call) -> Const:
        """`T.float16(1.5)`."""
        value = self.value(e.args[0])
        return Const(float(value) if dtype.is_float else value, dtype)

    def c_cast(self, e: ast.Call) -> Expr:
        return ir.Cast(self.expr(e.args[0]), DType(ast.literal_eval(e.args[1])))

    def c_Select(self, e: ast.Call) -> Expr:
        return ir.Select(*(self.expr(a) for a in e.args))

    def c_if_then_else(self, e: ast.Call) -> Expr:
        return ir.IfThenElse(*(self.expr(a) for a in e.args))

    def c_Ramp(self, e: ast.Call) -> Expr:
        return ir.Ramp(self.expr(e.args[0]), self.expr(e.args[1]), ast.literal_eval(e.args[2]))

    def c_Broadcast(self, e: ast.Call) -> Expr:
        return ir.Broadcast(self.expr(e.args[0]), ast.literal_eval(e.args[1]))

    def c_call(self, e: ast.Call) -> Expr:
        dtype = next((ast.literal_eval(k.value) for k in e.keywords if k.arg == "dtype"), "handle")
        return ir.Call(
            ast.literal_eval(e.args[0]), tuple(self.expr(a) for a in e.args[1:]), DType(dtype)
        )

    def c_opaque(self, e: ast.Call) -> Opaque:
        return Opaque(ast.literal_eval(e.args[0]))

    def c_Var(self, e: ast.Call) -> Var:
        found: Var = self.names[ast.literal_eval(e.args[0])]
        return found

    def data(self, e: ast.Call) -> Any:
        """`LoopPlan(layout=…, …)`, `Fragment([…], …)`: an object of one of our data classes."""
        name = e.func.id if isinstance(e.func, ast.Name) else ""
        cls = next(
            (
                c
                for m in _DATA_MODULES
                if (c := getattr(importlib.import_module(m), name, None)) is not None
            ),
            None,
        )
        if not isinstance(cls, type):
            raise self.refuse(e, "no such object")
        args = [self.value(a) for a in e.args]
        more = {str(k.arg): self.value(k.value) for k in e.keywords}
        if name == "Fragment":  # its text also says how many registers there are
            more.pop("regs", None)
            more = {
                {"thread": "thread_digits", "reg": "reg_digits"}.get(k, k): v
                for k, v in more.items()
            }
        if name == "Layout" and more.get("swizzle") is not None:
            from tilelang.layout import Swizzle

            more["swizzle"] = Swizzle(*more["swizzle"])
        if hasattr(cls, "__dataclass_fields__"):
            kinds = {f.name: str(f.type) for f in data_fields(cls)}
            more = {k: _typed_field(kinds[k], v) for k, v in more.items()}
        return cls(*args, **more)


def _typed_field(kind: str, v: Any) -> Any:
    """A printed integer where the field holds expressions."""
    if kind == "tuple[Expr, ...]":
        return tuple(as_expr(x) for x in v)
    return as_expr(v) if kind == "Expr" else v


def as_expr(v: Any) -> Expr:
    return v if isinstance(v, Expr) else ir.as_expr(v)


def _member(e: ast.expr) -> str | None:
    """`x` of `T.x`."""
    if isinstance(e, ast.Attribute) and isinstance(e.value, ast.Name) and e.value.id == "T":
        return e.attr
    return None


def _literal(e: ast.expr) -> int | None:
    if isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.USub):
        inner = _literal(e.operand)
        return None if inner is None else -inner
    return e.value if isinstance(e, ast.Constant) and type(e.value) is int else None


def _is_none(e: ast.expr) -> bool:
    return isinstance(e, ast.Constant) and e.value is None
