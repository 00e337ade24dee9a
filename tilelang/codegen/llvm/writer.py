# SPDX-License-Identifier: Apache-2.0
"""Textual LLVM IR, instruction by instruction: `Module`, `Function`, `Value`.

A `Value` is an SSA name (or a literal) with its type; operators on values emit instructions into
the current block of their function. Integers may carry a known range, from which `nsw` flags and
unsigned divisions follow; literal operands fold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .streaming import LINE
from .types import FLOAT_ELEMS, bits_of, literal, vector, vector_literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence, Set

_FOLD: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}
_EQUAL: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "slt": lambda a, b: a < b,
    "sle": lambda a, b: a <= b,
    "sgt": lambda a, b: a > b,
    "sge": lambda a, b: a >= b,
}
Range = tuple[int, int]
_NON_TEMPORAL = "!0 = !{i32 1}"
_CURRENT_ROUNDING = 4  # _MM_FROUND_CUR_DIRECTION


class Module:
    """Declarations, constants and internal functions that the kernels of one module share.
    features: of the CPU, as LLVM names them."""

    def __init__(self, features: Set[str] = frozenset()) -> None:
        self.features = features
        self.metadata = ""
        self.declarations: dict[str, str] = {}
        self.constants: dict[str, str] = {}
        self.tables: dict[str, str] = {}
        self.functions: dict[str, str] = {}
        self.pooled = False  # may threads share the blocks of a kernel?

    def declare(self, name: str, ret: str, params: Iterable[str]) -> None:
        if name not in self.declarations and name not in self.functions:
            self.declarations[name] = f"declare {ret} @{name}({', '.join(params)})"

    def string(self, text: str) -> str:
        """The name of a zero-terminated constant."""
        name = self.constants.get(text)
        if name is None:
            name = self.constants[text] = f"@.str{len(self.constants)}"
        return name

    def table(self, name: str, values: Sequence[float]) -> str:
        """The name of a constant array of doubles."""
        if name not in self.tables:
            items = ", ".join(f"double {literal('double', v)}" for v in values)
            kind = f"[{len(values)} x double]"
            self.tables[name] = (
                f"@{name} = private unnamed_addr constant {kind} [{items}], align 64"
            )
        return f"@{name}"

    def new_function(self) -> Function:
        """An empty function of this module."""
        return Function(self)

    def define(self, name: str, build: Callable[[], str]) -> None:
        """An internal function, built at its first use."""
        if name not in self.functions:
            self.functions[name] = ""  # taken, so that it may use itself in a cycle
            self.functions[name] = build()

    def text(self, bodies: Sequence[str]) -> str:
        return "\n".join(
            [
                *(["@tl_pool = global [2 x i64] zeroinitializer, align 8"] if self.pooled else []),
                *(_constant(name, text) for text, name in self.constants.items()),
                *self.tables.values(),
                *self.declarations.values(),
                *self.functions.values(),
                *bodies,
                # 512-bit registers where the CPU has them: LLVM prefers 256 on some that have both.
                'attributes #0 = { nounwind "prefer-vector-width"="512" }',
                'attributes #1 = { nounwind alwaysinline "prefer-vector-width"="512" }',
                self.metadata,
                "",
            ]
        )


def _constant(name: str, text: str) -> str:
    data = text.encode() + b"\0"
    body = "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in data)
    return f'{name} = private unnamed_addr constant [{len(data)} x i8] c"{body}"'


class Value:
    """An operand. `const`: its value if it is a literal; `range`: inclusive bounds of a scalar
    integer."""

    __slots__ = ("const", "elem", "fn", "lanes", "range", "text")

    def __init__(
        self,
        fn: Function,
        text: str,
        elem: str,
        lanes: int = 1,
        const: Any = None,
        range: Range | None = None,
    ) -> None:
        self.fn, self.text, self.elem, self.lanes = fn, text, elem, lanes
        self.const, self.range = const, range

    @property
    def type(self) -> str:
        return self.elem if self.lanes == 1 else f"<{self.lanes} x {self.elem}>"

    @property
    def typed(self) -> str:
        return f"{self.type} {self.text}"

    @property
    def is_float(self) -> bool:
        return self.elem in FLOAT_ELEMS

    def _same(self, other: Any) -> Value:
        return other if isinstance(other, Value) else self.fn.const(other, self.elem, self.lanes)

    def _arith(self, op: str, a: Any, b: Any) -> Value:
        a, b = self._same(a), self._same(b)
        return self.fn.binary(f"f{op}" if self.is_float else op, a, b)

    def __add__(self, o: Any) -> Value:
        return self._arith("add", self, o)

    def __radd__(self, o: Any) -> Value:
        return self._arith("add", o, self)

    def __sub__(self, o: Any) -> Value:
        return self._arith("sub", self, o)

    def __rsub__(self, o: Any) -> Value:
        return self._arith("sub", o, self)

    def __mul__(self, o: Any) -> Value:
        return self._arith("mul", self, o)

    def __rmul__(self, o: Any) -> Value:
        return self._arith("mul", o, self)

    def __truediv__(self, o: Any) -> Value:
        return self.fn.binary("fdiv", self, self._same(o))

    def __rtruediv__(self, o: Any) -> Value:
        return self.fn.binary("fdiv", self._same(o), self)

    def __and__(self, o: Any) -> Value:
        return self.fn.binary("and", self, self._same(o))

    def __or__(self, o: Any) -> Value:
        return self.fn.binary("or", self, self._same(o))

    def __xor__(self, o: Any) -> Value:
        return self.fn.binary("xor", self, self._same(o))

    def __lshift__(self, o: Any) -> Value:
        return self.fn.binary("shl", self, self._same(o))

    def lshr(self, o: Any) -> Value:
        return self.fn.binary("lshr", self, self._same(o))

    def ashr(self, o: Any) -> Value:
        return self.fn.binary("ashr", self, self._same(o))

    def __neg__(self) -> Value:
        if self.is_float:
            return self.fn.negate(self)
        return self.fn.binary("sub", self._same(0), self)

    def cmp(self, predicate: str, o: Any) -> Value:
        """`icmp` or `fcmp` with LLVM's predicate."""
        return self.fn.compare(predicate, self, self._same(o))

    def invert(self) -> Value:
        return self.fn.binary("xor", self, self._same(1 if self.elem == "i1" else -1))

    def select(self, a: Any, b: Any) -> Value:
        """`self ? a : b`; at least one of them is a Value."""
        like = a if isinstance(a, Value) else b
        return self.fn.select(self, like._same(a), like._same(b))

    def convert(self, op: str, elem: str) -> Value:
        """A conversion instruction (`sext`, `bitcast`, …) to another element type."""
        if elem == self.elem:
            return self
        if self.const is not None and op in ("sext", "zext", "trunc") and self.elem != "i1":
            bits = bits_of(self.elem if op == "zext" else elem)
            value = self.const & ((1 << bits) - 1) if op == "zext" else wrap(self.const, bits)
            return self.fn.const(value, elem, self.lanes)
        out = self.fn.conversion(op, self, elem)
        if self.range is not None and (op == "sext" or (op == "zext" and self.range[0] >= 0)):
            out.range = self.range
        return out

    def bitcast(self, elem: str) -> Value:
        return self.convert("bitcast", elem)

    def lane(self, i: int) -> Value:
        if self.lanes == 1:
            return self
        if self.const is not None:
            return self.fn.const(self.const, self.elem)
        return self.fn.extract(self, self.fn.i32(i))

    def splat(self, lanes: int) -> Value:
        """The scalar in every lane."""
        if lanes == 1 or self.lanes == lanes:
            return self
        if self.const is not None:
            return self.fn.const(self.const, self.elem, lanes)
        return self.fn.splat(self, lanes)


def wrap(value: int, bits: int) -> int:
    """Two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


class Function:
    """Emits the blocks of one function. `open`: the current block has no terminator yet."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.lines: list[str] = []
        self.prologue: list[str] = []
        self.block = "entry"
        self.block_start = 0  # line after its label
        self.open = True
        self._count = 0

    # ------------------------------------------------------------------------------ values

    def const(self, value: Any, elem: str, lanes: int = 1) -> Value:
        if elem[0] == "i":
            bits = bits_of(elem)
            value = bool(value) if bits == 1 else wrap(int(value), bits)
        span = (value, value) if elem[0] == "i" and elem != "i1" and lanes == 1 else None
        return Value(self, literal(elem, value, lanes), elem, lanes, value, span)

    def i32(self, value: int) -> Value:
        return self.const(value, "i32")

    def i64(self, value: int) -> Value:
        return self.const(value, "i64")

    def vector_const(self, elem: str, values: Sequence[int]) -> Value:
        return Value(self, vector_literal(elem, values), elem, len(values))

    def name(self, prefix: str = "v") -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def emit(self, text: str, elem: str, lanes: int = 1, range: Range | None = None) -> Value:
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"  {name} = {text}")
        return Value(self, name, elem, lanes, None, range)

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    # ------------------------------------------------------------------------------ instructions

    def binary(self, op: str, a: Value, b: Value) -> Value:
        if a.const is not None and b.const is not None and op in _FOLD and a.elem != "i1":
            return self.const(_FOLD[op](a.const, b.const), a.elem, a.lanes)
        if b.const == 0 and op in ("add", "sub", "shl", "lshr", "ashr", "or", "xor"):
            return a
        if (a.const == 0 and op in ("add", "or")) or (
            a.const == 1 and op == "mul" and a.elem != "i1"
        ):
            return b
        if b.const == 1 and op == "mul" and a.elem != "i1":
            return a
        span = _range(op, a, b)
        flag = " nsw" if span is not None and op in ("add", "sub", "mul") else ""
        return self.emit(f"{op}{flag} {a.typed}, {b.text}", a.elem, a.lanes, span)

    def compare(self, predicate: str, a: Value, b: Value) -> Value:
        if a.const is not None and b.const is not None and a.elem[0] == "i" and predicate in _EQUAL:
            return self.const(_EQUAL[predicate](a.const, b.const), "i1", a.lanes)
        op = "fcmp" if a.is_float else "icmp"
        return self.emit(f"{op} {predicate} {a.typed}, {b.text}", "i1", a.lanes)

    def select(self, cond: Value, a: Value, b: Value) -> Value:
        if cond.const is not None:
            return a if cond.const else b
        if a.text == b.text:
            return a
        return self.emit(f"select {cond.typed}, {a.typed}, {b.typed}", a.elem, a.lanes, _hull(a, b))

    def negate(self, v: Value) -> Value:
        """Of a float: flips the sign of zeros and NaN as well."""
        return self.emit(f"fneg {v.typed}", v.elem, v.lanes)

    def conversion(self, op: str, v: Value, elem: str) -> Value:
        """`sext`, `fptrunc`, `bitcast` … lane by lane."""
        return self.emit(f"{op} {v.typed} to {vector(elem, v.lanes)}", elem, v.lanes)

    def saturate(self, op: str, v: Value, elem: str) -> Value:
        """`fptosi` or `fptoui` that stays in range; NaN gives 0."""
        suffix = f"{_mangled(elem, v.lanes)}.{_mangled(v.elem, v.lanes)}"
        return self.call(f"llvm.{op}.sat.{suffix}", elem, v.lanes, [v])

    def reshape(self, v: Value, elem: str, lanes: int) -> Value:
        """The same bits as other lanes."""
        return self.emit(f"bitcast {v.typed} to {vector(elem, lanes)}", elem, lanes)

    def extract(self, v: Value, at: Value) -> Value:
        return self.emit(f"extractelement {v.typed}, {at.typed}", v.elem)

    def splat(self, v: Value, lanes: int) -> Value:
        into = f"<{lanes} x {v.elem}>"
        one = self.emit(f"insertelement {into} poison, {v.typed}, i32 0", v.elem, lanes)
        return self.shuffle(one, one, [0] * lanes)

    def shuffle(self, a: Value, b: Value, mask: Sequence[int]) -> Value:
        n = len(mask)
        picks = "zeroinitializer" if not any(mask) else vector_literal("i32", mask)
        text = f"shufflevector {a.typed}, {b.typed}, <{n} x i32> {picks}"
        return self.emit(text, a.elem, n)

    def build_vector(self, items: Sequence[Value]) -> Value:
        """Scalars as lanes."""
        elem, n = items[0].elem, len(items)
        if n == 1:
            return items[0]
        if all(i.text == items[0].text for i in items):
            return items[0].splat(n)
        out = Value(self, "poison", elem, n)
        for k, item in enumerate(items):
            out = self.emit(f"insertelement {out.typed}, {item.typed}, i32 {k}", elem, n)
        return out

    def lookup(self, table: str, values: Sequence[float], row: Value) -> Value:
        """values[row], lane by lane, from a constant array of doubles named `table`."""
        base = Value(self, self.module.table(table, values), "ptr")
        at = [
            self.gep(base, row.lane(k).convert("sext", "i64"), "double") for k in range(row.lanes)
        ]
        return self.build_vector([self.emit(f"load double, {a.typed}", "double") for a in at])

    def unless(
        self, usual: Value, values: Sequence[Value], compute: Callable[[], Sequence[Value]]
    ) -> list[Value]:
        """`values` where the scalar `usual` holds, else what `compute` emits behind a branch."""
        start, rare, join = self.block, self.label("rare"), self.label("join")
        self.branch(usual, join, rare)
        self.start(rare)
        other = compute()
        end = self.block
        self.start(join)
        return [
            self.phi(v.elem, v.lanes, [(v.text, start), (o.text, end)])
            for v, o in zip(values, other, strict=True)
        ]

    def argument(self, name: str, elem: str, lanes: int) -> Value:
        """A parameter of a function that `internal` will print."""
        return Value(self, f"%{name}", elem, lanes)

    def math(self, symbol: str, args: Sequence[Value]) -> Value:
        """A call of one of our functions of the module."""
        x = args[0]
        return self.emit(
            f"call {x.type} @{symbol}({', '.join(a.typed for a in args)})", x.elem, x.lanes
        )

    def internal(self, symbol: str, params: Sequence[Value], out: Value) -> str:
        """The text of this function, which returns `out`, to be inlined."""
        self.line(f"ret {out.typed}")
        head = ", ".join(p.typed for p in params)
        body = "\n".join(["entry:", *self.lines])
        return f"define internal {out.type} @{symbol}({head}) #1 {{\n{body}\n}}\n"

    def scaled(self, x: Value, n: Value) -> Value | None:
        """x * 2**n for whole n, rounded once; None where the CPU has no instruction for it."""
        suffix = self.scaling(x)
        if suffix is None:
            return None
        name, mask = f"llvm.x86.avx512.mask.scalef.{suffix}.512", f"i{x.lanes}"
        args = [x, n, x, self.const(-1, mask), self.i32(_CURRENT_ROUNDING)]
        return self.call(name, x.elem, x.lanes, args)

    def scaling(self, x: Value) -> str | None:
        """The type's name in AVX-512's `scalef`, for a whole register."""
        whole = x.lanes * bits_of(x.elem) == 512 and "avx512f" in self.module.features
        return {"float": "ps", "double": "pd"}.get(x.elem) if whole else None

    def any_lane(self, mask: Value) -> Value:
        """Is any lane true?"""
        if mask.lanes == 1:
            return mask
        return self.call(f"llvm.vector.reduce.or.v{mask.lanes}i1", "i1", 1, [mask])

    def slice(self, v: Value, start: int, count: int) -> Value:
        """Lanes [start, start + count) of a vector."""
        if count == v.lanes:
            return v
        if count == 1:
            return v.lane(start)
        return self.shuffle(v, v, range(start, start + count))

    def intrinsic(self, name: str, *args: Value, overload: Sequence[Value] | None = None) -> Value:
        """`@llvm.<name>` overloaded on the first argument's type, which is also the result's."""
        a = args[0]
        suffix = ".".join(_mangled(v.elem, v.lanes) for v in (overload or (a,)))
        return self.call(f"llvm.{name}.{suffix}", a.elem, a.lanes, args)

    def call(self, callee: str, elem: str, lanes: int, args: Sequence[Value]) -> Value:
        """A call of a function by name, declared on first use."""
        ret = vector(elem, lanes)
        self.module.declare(callee, ret, [a.type for a in args])
        return self.emit(f"call {ret} @{callee}({', '.join(a.typed for a in args)})", elem, lanes)

    def call_void(self, callee: str, args: Sequence[Value]) -> None:
        self.module.declare(callee, "void", [a.type for a in args])
        self.line(f"call void @{callee}({', '.join(a.typed for a in args)})")

    def stream(self, value: Value, at: Value) -> None:
        """A store of a whole cache line, past the caches."""
        self.module.metadata = _NON_TEMPORAL
        self.line(f"store {value.typed}, {at.typed}, align {LINE}, !nontemporal !0")

    def gep(self, base: Value, index: Value, elem: str) -> Value:
        """Address of element `index` (i64)."""
        if index.const == 0:
            return base
        return self.emit(f"getelementptr {elem}, {base.typed}, {index.typed}", "ptr")

    # ------------------------------------------------------------------------------ control flow

    def label(self, hint: str) -> str:
        return self.name(hint + ".")

    def start(self, label: str) -> None:
        """Begins a block; falls through from the current one."""
        if self.open:
            self.line(f"br label %{label}")
        self.lines.append(f"{label}:")
        self.block, self.open, self.block_start = label, True, len(self.lines)

    def jump(self, label: str) -> None:
        if self.open:
            self.line(f"br label %{label}")
            self.open = False

    def branch(self, cond: Value, then: str, other: str) -> None:
        if cond.const is not None:
            self.jump(then if cond.const else other)
        elif self.open:
            self.line(f"br i1 {cond.text}, label %{then}, label %{other}")
            self.open = False

    def phi(self, elem: str, lanes: int, incoming: Sequence[tuple[str, str]]) -> Value:
        pairs = ", ".join(f"[ {text}, %{label} ]" for text, label in incoming)
        return self.emit(f"phi {vector(elem, lanes)} {pairs}", elem, lanes)


def _mangled(elem: str, lanes: int) -> str:
    name = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}.get(elem, elem)
    return name if lanes == 1 else f"v{lanes}{name}"


def _hull(a: Value, b: Value) -> Range | None:
    if a.range is None or b.range is None:
        return None
    return min(a.range[0], b.range[0]), max(a.range[1], b.range[1])


def _range(op: str, a: Value, b: Value) -> Range | None:
    """Bounds of the result, or None if unknown or if it may wrap."""
    if op == "and" and a.lanes == 1 and b.const is not None and b.elem != "i1" and b.const >= 0:
        return 0, b.const
    if a.range is None or b.range is None:
        return None
    (al, ah), (bl, bh) = a.range, b.range
    if op == "add":
        low, high = al + bl, ah + bh
    elif op == "sub":
        low, high = al - bh, ah - bl
    elif op == "mul":
        corners = (al * bl, al * bh, ah * bl, ah * bh)
        low, high = min(corners), max(corners)
    elif op in ("udiv", "sdiv") and al >= 0 and bl > 0:
        low, high = al // bh, ah // bl
    elif op in ("urem", "srem") and al >= 0 and bl > 0:
        low, high = 0, min(ah, bh - 1)
    else:
        return None
    half = 1 << (bits_of(a.elem) - 1)
    return (low, high) if -half <= low and high < half else None
