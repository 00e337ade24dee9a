# SPDX-License-Identifier: Apache-2.0
"""Conversions, divisions and vector mathematics as C helper functions.

In: an expression node (`FloorDiv` of int32, `Cast` of eight float16, `exp` of sixteen float32 …).
Out: the name of a `static inline` C function that computes it. The code that decides how is the
LLVM generator's: here its instructions are printed as C, so both targets give the same bits.

Vectors are GCC's (Clang has them too): `f32x8`, `i32x8`, `u8x16`. An integer is unsigned inside a
helper, where arithmetic wraps; a bool is 0 or 1, in vectors one byte per lane; between comparison
and selection it is kept as the mask that the comparison gives.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tilelang.errors import InternalError
from tilelang.ir import Broadcast, Call, Cast, Expr, Ramp, StringImm, Var

from .llvm.expr import Expressions
from .llvm.types import bits_of, elem_of
from .llvm.writer import Function, Module, Range, Value, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Set

    from tilelang.ir import DType

_INFIX = {
    "fadd": "+", "fsub": "-", "fmul": "*", "fdiv": "/", "add": "+", "sub": "-", "mul": "*",
    "and": "&", "or": "|", "xor": "^", "shl": "<<", "lshr": ">>", "ashr": ">>", "udiv": "/",
    "urem": "%", "sdiv": "/", "srem": "%",
}  # fmt: skip
_OF_BITS = {"add": "xor", "sub": "xor", "mul": "and"}  # arithmetic modulo 2
_SIGNED_OPS = frozenset({"ashr", "sdiv", "srem"})
_RELATION = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
# fcmp predicates that are the negation of an ordered one.
_UNORDERED = {"ult": ">=", "ule": ">", "ugt": "<=", "uge": "<"}
# LLVM's intrinsics as builtins of one lane; a `{f}` is "f" for float.
_BUILTINS = {
    "fabs": "__builtin_fabs{f}", "sqrt": "__builtin_sqrt{f}", "copysign": "__builtin_copysign{f}",
    "floor": "__builtin_floor{f}", "ceil": "__builtin_ceil{f}", "trunc": "__builtin_trunc{f}",
    "round": "__builtin_round{f}",
}  # fmt: skip


def short_name(dtype: DType) -> str:
    """`f32x8`, `i8`, `bf16`: a dtype in a name."""
    row = dtype.row.name
    base = {"bool": "b", "bfloat16": "bf16", "handle": "p", "tfloat32": "f32"}.get(row)
    if base is None:
        base = row.replace("uint", "u").replace("int", "i")
        base = base.replace("float8_", "").replace("float4_", "").replace("float", "f")
    return base if dtype.lanes == 1 else f"{base}x{dtype.lanes}"


class CModule(Module):
    """Vector types and helper functions of one translation unit."""

    def __init__(self, features: Set[str] = frozenset()) -> None:
        super().__init__(features)
        self.typedefs: dict[str, str] = {}

    def new_function(self) -> CFunction:
        return CFunction(self)

    def define(self, name: str, build: Callable[[], str]) -> None:
        """Stored when it is complete: C wants a function before its callers."""
        if name not in self.functions:
            self.functions[name] = build()

    def declare(self, name: str, ret: str, params: Any) -> None:
        self.declarations.setdefault(name, f"extern {ret} {name}({', '.join(params)});")

    def scalar_type(self, elem: str, signed: bool = False) -> str:
        if elem in ("float", "double"):
            return elem
        if elem == "ptr":
            return "void*"
        return f"{'' if signed else 'u'}int{max(8, bits_of(elem))}_t"

    def type(self, elem: str, lanes: int, signed: bool = False) -> str:
        """The C type of a value; a vector type is declared on first use."""
        scalar = self.scalar_type(elem, signed)
        if lanes == 1:
            return scalar
        bits = max(8, bits_of(elem))
        name = f"{'f' if scalar in ('float', 'double') else 'i' if signed else 'u'}{bits}x{lanes}"
        if name not in self.typedefs:
            room = 1 << (lanes - 1).bit_length()  # a vector's size is a power of two
            size = room * bits // 8
            attributes = f"vector_size({size}), aligned({bits // 8}), may_alias"
            self.typedefs[name] = f"typedef {scalar} {name} __attribute__(({attributes}));"
        return name

    def dtype(self, dtype: DType) -> str:
        """The C type of a kernel's value: signed if the dtype is."""
        elem = elem_of(dtype)
        return self.type(elem, dtype.lanes, dtype.kind == "int")

    def parts(self) -> list[str]:
        """Everything that the kernels need before them."""
        tables = list(self.tables.values())
        return [
            *self.typedefs.values(),
            *self.declarations.values(),
            *tables,
            *self.functions.values(),
        ]

    def table(self, name: str, values: Sequence[float]) -> str:
        symbol = name.replace(".", "_")
        if symbol not in self.tables:
            items = ", ".join(c_float(v, "double") for v in values)
            self.tables[symbol] = f"static const double {symbol}[{len(values)}] = {{{items}}};"
        return symbol

    # ------------------------------------------------------------------------------ helpers

    def helper(self, e: Expr) -> str:
        """The function that computes a node like `e` of its operands."""
        args = [
            a for a in (e.args if isinstance(e, Call) else e.children) if type(a) is not StringImm
        ]
        name = _helper_name(e, args)
        self.define(name, lambda: self._build(name, e, args))
        return name

    def _build(self, name: str, e: Any, args: Sequence[Expr]) -> str:
        variables = [Var(f"x{n}", a.dtype) for n, a in enumerate(args)]
        emitter = Expressions(self, half=False)
        fn: Any = emitter.fn
        head = []
        for v in variables:
            head.append(f"{self.dtype(v.dtype)} {v.name}")
            emitter.env[v] = fn.parameter(v.name, v.dtype)
        if isinstance(e, Call):
            node: Expr = Call(e.op, tuple(variables), e.dtype)
        elif isinstance(e, Cast):
            node = Cast(variables[0], e.to)
        elif isinstance(e, Broadcast):
            node = Broadcast(variables[0], e.lanes)
        elif isinstance(e, Ramp):
            node = Ramp(variables[0], variables[1], e.lanes)
        else:
            node = type(e)(*variables)
        out = emitter.value(node)
        fn.give(out, e.dtype)
        return fn.text(self.dtype(e.dtype), name, head)


def _helper_name(e: Any, args: Sequence[Expr]) -> str:
    op = e.op if isinstance(e, Call) else type(e).__name__.lower()
    if isinstance(e, (Broadcast, Ramp)):
        return f"tl_{op}_{short_name(e.dtype)}"
    name = f"tl_{op}_{'_'.join(dict.fromkeys(short_name(a.dtype) for a in args))}"
    if isinstance(e, (Cast, Call)) and e.dtype is not args[-1].dtype:
        name += f"_{short_name(e.dtype)}"
    return name


class CFunction(Function):
    """Prints instructions as C statements, one variable each. `masks`: a bool vector's variable ->
    bits of a lane, if it is a mask (all ones or zeros) and not bytes of 0 and 1."""

    module: CModule

    def __init__(self, module: CModule) -> None:
        super().__init__(module)
        self.masks: dict[str, int] = {}
        self.depth = 1

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def let(self, text: str, elem: str, lanes: int = 1, range: Range | None = None) -> Value:
        """A variable."""
        name = self.name()
        self.line(f"const {self.module.type(elem, lanes)} {name} = {text};")
        return Value(self, name, elem, lanes, None, range)

    def _mask(self, text: str, bits: int, lanes: int) -> Value:
        name = self.name()
        self.line(f"const {self.module.type(f'i{bits}', lanes, True)} {name} = {text};")
        self.masks[name] = bits
        return Value(self, name, "i1", lanes)

    def emit(self, text: str, elem: str, lanes: int = 1, range: Range | None = None) -> Value:
        raise InternalError(f"a helper function has no C form of: {text}")

    def const(self, value: Any, elem: str, lanes: int = 1) -> Value:
        like = super().const(value, elem)
        scalar = self._literal(like.const, elem)
        if lanes > 1:
            scalar = f"({self.module.type(elem, lanes)}){{{', '.join([scalar] * lanes)}}}"
        return Value(self, scalar, elem, lanes, like.const, like.range if lanes == 1 else None)

    def _literal(self, value: Any, elem: str) -> str:
        if elem in ("float", "double"):
            return c_float(value, elem)
        if elem == "ptr":
            return f"(void*){int(value)}"
        bits = bits_of(elem)
        suffix = "ull" if bits == 64 else "u"
        return f"{int(value) & ((1 << bits) - 1)}{suffix}"

    def vector_const(self, elem: str, values: Sequence[int]) -> Value:
        items = ", ".join(self._literal(wrap(v, bits_of(elem)), elem) for v in values)
        text = f"({self.module.type(elem, len(values))}){{{items}}}"
        return Value(self, text, elem, len(values))

    # ------------------------------------------------------------------------------ the outside

    def parameter(self, name: str, dtype: DType) -> Value:
        """A parameter in the form that instructions want: integers unsigned."""
        elem, lanes = elem_of(dtype), dtype.lanes
        if dtype.kind != "int":
            return Value(self, name, elem, lanes)
        value = self.let(f"({self.module.type(elem, lanes)}){name}", elem, lanes)
        return value & ((1 << dtype.bits) - 1) if dtype.bits < 8 else value

    def argument(self, name: str, elem: str, lanes: int) -> Value:
        return Value(self, name, elem, lanes)

    def give(self, out: Value, dtype: DType) -> None:
        """Returns a value in its dtype's C type."""
        text = self.as_bytes(out) if out.elem == "i1" else out.text
        if dtype.kind == "int":
            if dtype.bits < 8:
                text = self._signed(out)
            text = f"({self.module.dtype(dtype)}){text}"
        self.line(f"return {text};")

    def text(self, ret: str, name: str, params: Sequence[str]) -> str:
        body = "\n".join(self.lines)
        return f"static inline {ret} {name}({', '.join(params)}) {{\n{body}\n}}\n"

    def internal(self, symbol: str, params: Sequence[Value], out: Value) -> str:
        self.line(f"return {out.text};")
        head = [f"{self.module.type(p.elem, p.lanes)} {p.text}" for p in params]
        return self.text(self.module.type(out.elem, out.lanes), symbol.replace(".", "_"), head)

    def math(self, symbol: str, args: Sequence[Value]) -> Value:
        call = f"{symbol.replace('.', '_')}({', '.join(a.text for a in args)})"
        return self.let(call, args[0].elem, args[0].lanes)

    def call(self, callee: str, elem: str, lanes: int, args: Sequence[Value]) -> Value:
        """A function of the C library."""
        types = [self.module.scalar_type(a.elem) for a in args]
        self.module.declare(callee, self.module.scalar_type(elem), types)
        return self.let(f"{callee}({', '.join(a.text for a in args)})", elem, lanes)

    # ------------------------------------------------------------------------------ arithmetic

    def binary(self, op: str, a: Value, b: Value) -> Value:
        if a.elem == "i1":
            return self._logic(_OF_BITS.get(op, op), a, b)
        if a.const is not None and b.const is not None and op in ("add", "sub", "mul", "and"):
            return super().binary(op, a, b)
        if op == "frem":
            return self._by_lane("__builtin_fmod{f}", [a, b])
        return self._arith(op, a, b)

    def _arith(self, op: str, a: Value, b: Value) -> Value:
        elem, lanes, bits = a.elem, a.lanes, bits_of(a.elem)
        if op in _SIGNED_OPS:
            right = b.text if op == "ashr" else self._signed(b)
            text = f"({self._signed(a)} {_INFIX[op]} {right})"
        elif lanes == 1 and bits < 32 and elem not in ("float", "double"):
            text = f"((uint32_t){a.text} {_INFIX[op]} (uint32_t){b.text})"
        else:
            text = f"({a.text} {_INFIX[op]} {b.text})"
        if elem not in ("float", "double"):
            if lanes == 1 or op in _SIGNED_OPS:
                text = f"({self.module.type(elem, lanes)}){text}"
            if bits < 8:
                text = f"({text} & {(1 << bits) - 1})"
        return self.let(text, elem, lanes)

    def _signed(self, v: Value) -> str:
        """The value read as a signed integer."""
        bits = bits_of(v.elem)
        text = f"({self.module.type(v.elem, v.lanes, True)}){v.text}"
        if bits < 8:  # move its sign to the byte's
            shifted = f"({self.module.type(v.elem, v.lanes, True)})({v.text} << {8 - bits})"
            text = f"({shifted} >> {8 - bits})"
        return f"({text})"

    def negate(self, v: Value) -> Value:
        return self.let(f"-{v.text}", v.elem, v.lanes)

    # ------------------------------------------------------------------------------ bools

    def compare(self, predicate: str, a: Value, b: Value) -> Value:
        if a.elem == "i1":
            return self._bit_relation(predicate, a, b)
        if a.is_float:
            text = self._float_relation(predicate, a.text, b.text, a.lanes > 1)
        else:
            sign = predicate[0] if predicate not in ("eq", "ne") else ""
            x, y = (self._signed(v) if sign == "s" else v.text for v in (a, b))
            text = f"{x} {_RELATION[predicate[-2:]]} {y}"
        if a.lanes == 1:
            return self.let(f"({text})", "i1")
        bits = max(8, bits_of(a.elem))
        return self._mask(f"({self.module.type(f'i{bits}', a.lanes, True)})({text})", bits, a.lanes)

    def _bit_relation(self, predicate: str, a: Value, b: Value) -> Value:
        if predicate in ("eq", "ne"):
            differ = self._logic("xor", a, b)
            return differ if predicate == "ne" else differ.invert()
        if predicate[1:] in ("gt", "ge"):
            a, b = b, a
        return self._logic("and" if predicate[2] == "t" else "or", a.invert(), b)

    def _float_relation(self, predicate: str, a: str, b: str, vector: bool) -> str:
        either = "|" if vector else "||"
        if predicate == "une":
            return f"{a} != {b}"
        if predicate == "uno":
            return f"({a} != {a}) {either} ({b} != {b})"
        if predicate == "one":
            return f"({a} < {b}) {either} ({a} > {b})"
        if predicate in _UNORDERED:
            return f"{'~' if vector else '!'}({a} {_UNORDERED[predicate]} {b})"
        return f"{a} {_RELATION[predicate[1:]]} {b}"

    def _logic(self, op: str, a: Value, b: Value) -> Value:
        if a.const is not None and b.const is not None:
            both = {"and": a.const and b.const, "or": a.const or b.const, "xor": a.const != b.const}
            return self.const(both[op], "i1", a.lanes)
        if a.lanes == 1:
            return self.let(f"({a.text} {_INFIX[op]} {b.text})", "i1")
        bits = self.masks.get(a.text) or self.masks.get(b.text) or 8
        return self._mask(
            f"({self.as_mask(a, bits)} {_INFIX[op]} {self.as_mask(b, bits)})", bits, a.lanes
        )

    def as_mask(self, v: Value, bits: int) -> str:
        """A bool vector as all ones or zeros of the given width."""
        to = self.module.type(f"i{bits}", v.lanes, True)
        if v.const is not None:
            return f"({to}){{{', '.join(['-1' if v.const else '0'] * v.lanes)}}}"
        have = self.masks.get(v.text)
        if have == bits:
            return v.text
        if have is not None:
            return f"__builtin_convertvector({v.text}, {to})"
        return f"(-__builtin_convertvector({v.text}, {to}))"

    def as_bytes(self, v: Value) -> str:
        """A bool vector as bytes of 0 and 1; a scalar as it is."""
        if v.lanes == 1 or v.const is not None or v.text not in self.masks:
            return v.text
        to = self.module.type("i8", v.lanes)
        return f"(({to}){self.as_mask(v, 8)} & 1)"

    def select(self, cond: Value, a: Value, b: Value) -> Value:
        if cond.const is not None:
            return a if cond.const else b
        if a.text == b.text:
            return a
        if cond.lanes == 1:
            if a.elem == "i1" and a.lanes > 1:
                x, y = self.as_mask(a, 8), self.as_mask(b, 8)
                return self._mask(f"{cond.text} ? {x} : {y}", 8, a.lanes)
            return self.let(f"{cond.text} ? {a.text} : {b.text}", a.elem, a.lanes)
        bits = self.masks.get(cond.text, 8) if a.elem == "i1" else max(8, bits_of(a.elem))
        mask = self.as_mask(cond, bits)
        if a.elem == "i1":
            x, y = self.as_mask(a, bits), self.as_mask(b, bits)
            return self._mask(f"(({mask} & {x}) | (~{mask} & {y}))", bits, a.lanes)
        as_int, own = self.module.type(f"i{bits}", a.lanes, True), self.module.type(a.elem, a.lanes)
        text = f"({own})(({mask} & ({as_int}){a.text}) | (~{mask} & ({as_int}){b.text}))"
        return self.let(text, a.elem, a.lanes)

    def any_lane(self, mask: Value) -> Value:
        if mask.lanes == 1:
            return mask
        out = self.name()
        text = self.as_bytes(mask)
        self.line(f"uint8_t {out} = 0;")
        held = self.let(text, "i8", mask.lanes)
        self.line(f"for (int k = 0; k < {mask.lanes}; ++k) {out} |= {held.text}[k];")
        return Value(self, out, "i1")

    # ------------------------------------------------------------------------------ conversions

    def conversion(self, op: str, v: Value, elem: str) -> Value:
        if op == "bitcast":
            return self.reshape(v, elem, v.lanes)
        if v.elem == "i1":
            if v.lanes == 1:
                return self.let(f"({self.module.type(elem, 1)}){v.text}", elem)
            bits = max(8, bits_of(elem))
            own = self.module.type(elem, v.lanes)
            return self.let(f"(({own}){self.as_mask(v, bits)} & 1)", elem, v.lanes)
        signed = op in ("sext", "sitofp", "fptosi")
        text = self._signed(v) if op in ("sext", "sitofp") else v.text
        text = self._converted(text, elem, v.lanes, (signed and op == "fptosi") or op == "sext")
        if op == "trunc" and bits_of(elem) < 8:
            text = f"({text} & {(1 << bits_of(elem)) - 1})"
        if op == "trunc" and elem == "i1" and v.lanes > 1:
            return Value(self, self.let(text, "i8", v.lanes).text, "i1", v.lanes)
        return self.let(text, elem, v.lanes)

    def _converted(self, text: str, elem: str, lanes: int, through_signed: bool) -> str:
        own = self.module.type(elem, lanes)
        if elem in ("float", "double", "ptr"):
            through_signed = False
        to = self.module.type(elem, lanes, True) if through_signed else own
        out = f"({to}){text}" if lanes == 1 else f"__builtin_convertvector({text}, {to})"
        return f"({own}){out}" if through_signed else out

    def saturate(self, op: str, v: Value, elem: str) -> Value:
        """Out of range: the limit; NaN: 0. The conversion itself sees only what fits."""
        bits, signed = bits_of(elem), op == "fptosi"
        low = -(1 << (bits - 1)) if signed else 0
        high = (1 << (bits - signed)) - 1
        below, above = v.cmp("olt", float(low)), v.cmp("oge", float(high + 1))
        inside = v.cmp("oge", float(low)) & above.invert()
        wide = elem if bits >= 32 else "i32"
        whole = self.conversion(op if bits >= 32 else "fptosi", inside.select(v, 0.0), wide)
        whole = whole.convert("trunc", elem)
        return above.select(high, below.select(low, whole))

    def reshape(self, v: Value, elem: str, lanes: int) -> Value:
        if v.lanes > 1 and lanes > 1:
            return self.let(f"({self.module.type(elem, lanes)}){v.text}", elem, lanes)
        held = v if v.const is None else self.let(v.text, v.elem, v.lanes)
        name = self.name()
        self.line(f"{self.module.type(elem, lanes)} {name};")
        self.line(f"__builtin_memcpy(&{name}, &{held.text}, sizeof({name}));")
        return Value(self, name, elem, lanes)

    # ------------------------------------------------------------------------------ lanes

    def extract(self, v: Value, at: Value) -> Value:
        index = str(at.const) if at.const is not None else at.text
        if v.elem == "i1":
            return self.let(f"{self.let(self.as_bytes(v), 'i8', v.lanes).text}[{index}]", "i1")
        return self.let(f"{v.text}[{index}]", v.elem)

    def splat(self, v: Value, lanes: int) -> Value:
        return self._initialised([v.text] * lanes, v.elem)

    def _initialised(self, items: Sequence[str], elem: str) -> Value:
        lanes = len(items)
        text = f"({self.module.type(elem, lanes)}){{{', '.join(items)}}}"
        return self.let(text, elem, lanes)

    def shuffle(self, a: Value, b: Value, mask: Sequence[int]) -> Value:
        if a.elem == "i1":
            a, b = (
                Value(self, self.let(self.as_bytes(v), "i8", v.lanes).text, "i1", v.lanes)
                for v in (a, b)
            )
        items = [f"{(a if k < a.lanes else b).text}[{k % a.lanes}]" for k in mask]
        return self._initialised(items, a.elem)

    def build_vector(self, items: Sequence[Value]) -> Value:
        return (
            items[0]
            if len(items) == 1
            else self._initialised([i.text for i in items], items[0].elem)
        )

    def lookup(self, table: str, values: Sequence[float], row: Value) -> Value:
        symbol = self.module.table(table, values)
        return self.build_vector(
            [self.let(f"{symbol}[{row.lane(k).text}]", "double") for k in range(row.lanes)]
        )

    def unless(
        self, usual: Value, values: Sequence[Value], compute: Callable[[], Sequence[Value]]
    ) -> list[Value]:
        out = []
        for v in values:
            name = self.name()
            self.line(f"{self.module.type(v.elem, v.lanes)} {name} = {v.text};")
            out.append(Value(self, name, v.elem, v.lanes))
        self.line(f"if (!{usual.text}) {{")
        self.depth += 1
        for variable, other in zip(out, compute(), strict=True):
            self.line(f"{variable.text} = {other.text};")
        self.depth -= 1
        self.line("}")
        return out

    # ------------------------------------------------------------------------------ intrinsics

    def scaled(self, x: Value, n: Value) -> Value | None:
        suffix = self.scaling(x)
        if suffix is None:
            return None
        call = f"__builtin_ia32_scalef{suffix}512_mask({x.text}, {n.text}, {x.text}, -1, 4)"
        return self.let(f"({self.module.type(x.elem, x.lanes)}){call}", x.elem, x.lanes)

    def intrinsic(self, name: str, *args: Value, overload: Sequence[Value] | None = None) -> Value:
        special = _SPECIAL.get(name)
        if special is not None:
            out: Value = special(self, *args)
            return out
        if name in ("fma", "fmuladd"):
            return self._fma(name == "fma", args)
        return self._by_lane(_BUILTINS[name], args)

    def _by_lane(self, builtin: str, args: Sequence[Value]) -> Value:
        x = args[0]
        call = builtin.format(f="f" if x.elem == "float" else "")
        if x.lanes == 1:
            return self.let(f"{call}({', '.join(a.text for a in args)})", x.elem)
        held = [a if a.const is None else self.let(a.text, a.elem, a.lanes) for a in args]
        out = self.name()
        self.line(f"{self.module.type(x.elem, x.lanes)} {out};")
        each = ", ".join(f"{a.text}[k]" for a in held)
        self.line(f"for (int k = 0; k < {x.lanes}; ++k) {out}[k] = {call}({each});")
        return Value(self, out, x.elem, x.lanes)

    def _fma(self, exact: bool, args: Sequence[Value]) -> Value:
        a = args[0]
        name = fma_function(self.module, a.elem, a.lanes, exact)
        return self.let(f"{name}({', '.join(x.text for x in args)})", a.elem, a.lanes)


# Fused multiply-add of one register by GCC's builtins; Clang has a builtin for every width.
_FMA_GCC = {
    (128, "float"): ("__FMA__", "__builtin_ia32_vfmaddps(x, y, z)"),
    (256, "float"): ("__FMA__", "__builtin_ia32_vfmaddps256(x, y, z)"),
    (512, "float"): ("__AVX512F__", "__builtin_ia32_vfmaddps512_mask(x, y, z, -1, 4)"),
    (128, "double"): ("__FMA__", "__builtin_ia32_vfmaddpd(x, y, z)"),
    (256, "double"): ("__FMA__", "__builtin_ia32_vfmaddpd256(x, y, z)"),
    (512, "double"): ("__AVX512F__", "__builtin_ia32_vfmaddpd512_mask(x, y, z, -1, 4)"),
}
_HAS_FMA = "defined(__FMA__) || defined(__aarch64__)"


def fma_function(module: CModule, elem: str, lanes: int, exact: bool) -> str:
    """A C function for a * b + c, rounded once if the CPU can; `exact`: in any case."""
    own = module.type(elem, lanes)
    name = f"tl_{'fused' if exact else 'muladd'}_{own}"
    module.define(name, lambda: _fma_text(module, name, own, elem, lanes, exact))
    return name


def _fma_text(module: CModule, name: str, own: str, elem: str, lanes: int, exact: bool) -> str:
    builtin = f"__builtin_fma{'f' if elem == 'float' else ''}"
    branches: list[tuple[str, str]] = []
    if lanes > 1:
        has = "defined(__clang__) && __has_builtin(__builtin_elementwise_fma)"
        branches.append((has, "return __builtin_elementwise_fma(x, y, z);"))
        register = _FMA_GCC.get((bits_of(elem) * lanes, elem))
        if register is not None:
            has = f"!defined(__clang__) && defined({register[0]})"
            branches.append((has, f"return ({own}){register[1]};"))
        if lanes > 4:
            part = fma_function(module, elem, lanes // 2, exact)
            half = module.type(elem, lanes // 2)
            union = f"union {{{own} w; {half} h[2];}} a = {{x}}, b = {{y}}, c = {{z}};"
            each = f"for (int k = 0; k < 2; ++k) a.h[k] = {part}(a.h[k], b.h[k], c.h[k]);"
            branches.append((_HAS_FMA, f"{union} {each} return a.w;"))
    else:
        branches.append((_HAS_FMA, f"return {builtin}(x, y, z);"))
    lane = (
        f"{own} r; for (int k = 0; k < {lanes}; ++k) r[k] = {builtin}(x[k], y[k], z[k]); return r;"
    )
    last = (
        "return x * y + z;" if not exact else lane if lanes > 1 else f"return {builtin}(x, y, z);"
    )
    lines = []
    for n, (condition, text) in enumerate(branches):
        lines += [f"#{'elif' if n else 'if'} {condition}", f"  {text}"]
    body = "\n".join([*lines, "#else", f"  {last}", "#endif"])
    return f"static inline {own} {name}({own} x, {own} y, {own} z) {{\n{body}\n}}\n"


def _num(pick: str) -> Callable[[CFunction, Value, Value], Value]:
    """minNum and maxNum: a NaN operand is ignored."""

    def choose(fn: CFunction, a: Value, b: Value) -> Value:
        return (b.cmp(pick, a) | a.cmp("uno", a)).select(b, a)

    return choose


def _propagating(pick: str) -> Callable[[CFunction, Value, Value], Value]:
    """minimum and maximum: a NaN operand gives NaN."""

    def choose(fn: CFunction, a: Value, b: Value) -> Value:
        return (b.cmp(pick, a) | b.cmp("uno", b)).select(b, a)

    return choose


def _whole(predicate: str) -> Callable[[CFunction, Value, Value], Value]:
    return lambda fn, a, b: a.cmp(predicate, b).select(a, b)


def _round_even(fn: CFunction, x: Value) -> Value:
    """Adding and subtracting 2**52 (2**23) rounds; larger values are whole already."""
    magic = x.fn.const(2.0**52 if x.elem == "double" else 2.0**23, x.elem, x.lanes)
    size = fn.intrinsic("fabs", x)
    rounded = fn.intrinsic("copysign", (size + magic) - magic, x)
    return size.cmp("olt", magic).select(rounded, x)


def _fabs(fn: CFunction, x: Value) -> Value:
    bits = bits_of(x.elem)
    return (x.bitcast(f"i{bits}") & ((1 << (bits - 1)) - 1)).bitcast(x.elem)


def _copysign(fn: CFunction, x: Value, sign: Value) -> Value:
    bits = bits_of(x.elem)
    word, top = f"i{bits}", 1 << (bits - 1)
    return ((x.bitcast(word) & (top - 1)) | (sign.bitcast(word) & top)).bitcast(x.elem)


def _count(builtin: str, padding: Callable[[int], int]) -> Callable[..., Value]:
    def count(fn: CFunction, v: Value, *_: Value) -> Value:
        lanes = []
        for k in range(v.lanes):
            x = v.lane(k)
            bits = bits_of(v.elem)
            text = f"{builtin}((uint64_t){x.text})"
            if padding(bits):
                text = f"({x.text} ? {text} - {padding(bits)} : {bits})"
            lanes.append(fn.let(f"({fn.module.type(v.elem, 1)})({text})", v.elem))
        return fn.build_vector(lanes)

    return count


_SPECIAL: dict[str, Callable[..., Value]] = {
    "minnum": _num("olt"), "maxnum": _num("ogt"), "minimum": _propagating("olt"),
    "maximum": _propagating("ogt"), "smin": _whole("slt"), "smax": _whole("sgt"),
    "umin": _whole("ult"), "umax": _whole("ugt"), "roundeven": _round_even, "fabs": _fabs,
    "copysign": _copysign, "abs": lambda fn, v, *_: v.cmp("slt", 0).select(-v, v),
    "ctpop": _count("__builtin_popcountll", lambda bits: 0), "ctlz": _count("__builtin_clzll",
    lambda bits: 64 - bits),
}  # fmt: skip


def c_float(value: float, elem: str) -> str:
    """A literal, exact."""
    f = "f" if elem == "float" else ""
    if math.isnan(value):
        return f'__builtin_nan{f}("")'
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}__builtin_inf{f}()"
    text = repr(value)
    plain = abs(value) < 1e16 and (value == int(value) or len(text) <= 10)
    return (text if plain else value.hex()) + f
