# SPDX-License-Identifier: Apache-2.0
"""Prints host code as LLVM IR: see `host_writer` for what comes in.

No host compiler is needed to run it: LLVM in this process compiles it in a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from .host_writer import COMPARES, Externs, Names, Value

__all__ = ["LlvmWriter"]

_TYPES = {"f32": "float", "f64": "double"}
_WIDTH = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
_FLOAT = {"f32": 32, "f64": 64}
# Host code is straight-line checks: optimising it would take three times as long to compile, for a
# call that is 3 % faster (measured).
_ATTRIBUTES = "noinline optnone"
# Branch weights that keep what fails out of the hot path.
_METADATA = '!900000 = !{!"branch_weights", i32 1, i32 2000000}'


def _type(name: str) -> str:
    return _TYPES.get(name, name)


class LlvmWriter:
    """A `HostWriter` of textual LLVM IR with opaque pointers."""

    def __init__(self) -> None:
        self._globals: list[str] = []
        self._body: list[str] = []
        self._entry: list[str] = []
        self._lines: list[str] = []
        self._cold: list[str] = []
        self._block, self._open, self._returns = "entry", True, "i32"
        self._symbols = Names()
        self._names = Names()
        self._functions: dict[str, Externs] = {}
        self._strings: dict[str, Value] = {}
        self.declared: set[str] = set()

    # -------------------------------------------------------------------------------- data

    def number(self, value: int, type: str = "i64") -> Value:
        return Value(str(int(value)), type)

    def string(self, text: str) -> Value:
        hit = self._strings.get(text)
        if hit is None:
            hit = self._strings[text] = self._constant("str", text.encode() + b"\0", 1)
        return hit

    def _constant(self, name: str, data: bytes, align: int) -> Value:
        symbol = f"@tl.{self._symbols(name)}"
        text = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in data)
        self._globals.append(
            f'{symbol} = private unnamed_addr constant [{len(data)} x i8] c"{text}", align {align}'
        )
        return Value(symbol, "ptr")

    def string_table(self, name: str, texts: Sequence[str]) -> Value:
        symbol = f"@tl.{self._symbols(name)}"
        items = ", ".join(f"ptr {self.string(t).text}" for t in texts)
        self._globals.append(f"{symbol} = private constant [{len(texts)} x ptr] [{items}]")
        return Value(symbol, "ptr")

    def memory(self, name: str, size: int, align: int = 8) -> Value:
        symbol = f"@tl.{self._symbols(name)}"
        self._globals.append(
            f"{symbol} = internal global [{size} x i8] zeroinitializer, align {align}"
        )
        return Value(symbol, "ptr")

    def extern(self, name: str, signature: Externs) -> None:
        if name in self._functions:
            return
        self._functions[name] = signature
        if name in self.declared:  # defined by the kernels' part of the module
            return
        params = [_type(p) for p in signature.params]
        if signature.variadic is not None:
            params.append("...")
        self._globals.append(f"declare {_type(signature.returns)} @{name}({', '.join(params)})")

    # -------------------------------------------------------------------------------- functions

    @contextmanager
    def function(
        self,
        name: str,
        params: Sequence[tuple[str, str]],
        *,
        returns: str = "i32",
        export: bool = False,
        cold: bool = False,
    ) -> Iterator[list[Value]]:
        self._names = Names()
        values = [Value(f"%{self._names(hint)}", type) for hint, type in params]
        self._functions[name] = Externs(returns, tuple(type for _, type in params))
        self._entry, self._lines, self._cold, self._returns = [], [], [], returns
        self._block, self._open = "entry", True
        yield values
        head = ", ".join(f"{_type(v.type)} {v.text}" for v in values)
        linkage = "" if export else "internal "
        attributes = f"{' cold' if cold else ''} {_ATTRIBUTES}"
        self._body += [
            f"define {linkage}{_type(returns)} @{name}({head}){attributes} {{",
            "entry:",
            *self._entry,
            *self._lines,
            *self._cold,
            "}",
            "",
        ]

    def _line(self, text: str) -> None:
        self._lines.append(f"  {text}")

    def _define(self, type: str, text: str, hint: str) -> Value:
        value = Value(f"%{self._names(hint)}", type)
        self._line(f"{value.text} = {text}")
        return value

    def _label(self, hint: str) -> str:
        return self._names(f"L_{hint}")

    def _start(self, label: str) -> None:
        self._lines.append(f"{label}:")
        self._block, self._open = label, True

    def _jump(self, label: str) -> None:
        """Ends the block, unless a return has."""
        if self._open:
            self._line(f"br label %{label}")

    # -------------------------------------------------------------------------------- memory

    def _at(self, base: Value, offset: int) -> str:
        return self.offset(base, offset).text if offset else base.text

    def load(self, type: str, base: Value, offset: int = 0, hint: str = "v") -> Value:
        place = self._at(base, offset)
        if type == "i1":  # a byte in memory
            return self.convert(self.load("i8", base, offset, hint), "i1", hint)
        return self._define(type, f"load {_type(type)}, ptr {place}, align {_align(type)}", hint)

    def store(self, value: Value, base: Value, offset: int = 0) -> None:
        place = self._at(base, offset)
        stored = self.convert(value, "i8") if value.type == "i1" else value
        self._line(
            f"store {_type(stored.type)} {_text(stored)}, ptr {place}, align {_align(stored.type)}"
        )

    def offset(self, base: Value, by: Value | int, hint: str = "p") -> Value:
        text = by.text if isinstance(by, Value) else str(by)
        return self._define("ptr", f"getelementptr i8, ptr {_text(base)}, i64 {text}", hint)

    def stack(self, size: int, align: int = 8, hint: str = "buf") -> Value:
        value = Value(f"%{self._names(hint)}", "ptr")
        self._entry.append(f"  {value.text} = alloca [{size} x i8], align {align}")
        return value

    # -------------------------------------------------------------------------------- values

    def op(self, name: str, a: Value, b: Value, hint: str = "v") -> Value:
        return self._define(a.type, f"{name} {a.type} {_text(a)}, {_text(b)}", hint)

    def compare(self, name: str, a: Value, b: Value) -> Value:
        predicate = COMPARES[name][1]
        if a.type in _FLOAT:
            predicate = f"o{predicate.lstrip('s')}"
            return self._define(
                "i1", f"fcmp {predicate} {_type(a.type)} {_text(a)}, {_text(b)}", "t"
            )
        return self._define("i1", f"icmp {predicate} {a.type} {_text(a)}, {_text(b)}", "t")

    def select(self, cond: Value, a: Value, b: Value, hint: str = "v") -> Value:
        t = _type(a.type)
        return self._define(a.type, f"select i1 {cond.text}, {t} {_text(a)}, {t} {_text(b)}", hint)

    def convert(self, value: Value, to: str, hint: str = "v") -> Value:
        if value.type == to:
            return value
        if to == "i1":
            return self.compare("ne", value, Value("0", value.type))
        return self._define(
            to,
            f"{_conversion(value.type, to)} {_type(value.type)} {_text(value)} to {_type(to)}",
            hint,
        )

    def bits(self, value: Value, to: str, hint: str = "v") -> Value:
        text = f"bitcast {_type(value.type)} {_text(value)} to {_type(to)}"
        return self._define(to, text, hint)

    def call(self, callee: str | Value, args: Sequence[Value], hint: str = "v") -> Value:
        texts = ", ".join(f"{_type(a.type)} {_text(a)}" for a in args)
        if isinstance(callee, Value):
            return self._define("i32", f"call i32 {callee.text}({texts})", hint)
        signature = self._functions[callee]
        returns = _type(signature.returns)
        if signature.variadic is not None:
            returns += f" ({', '.join([*map(_type, signature.params), '...'])})"
        if signature.returns == "void":
            self._line(f"call {returns} @{callee}({texts})")
            return Value("0", "i32")
        return self._define(signature.returns, f"call {returns} @{callee}({texts})", hint)

    # -------------------------------------------------------------------------------- control

    def choose(
        self, cond: Value, then: Callable[[], Value], otherwise: Callable[[], Value], hint: str
    ) -> Value:
        yes, no, done = self._label("then"), self._label("else"), self._label("end")
        self._line(f"br i1 {cond.text}, label %{yes}, label %{no}")
        self._start(yes)
        a = then()
        a_block = self._block
        self._jump(done)
        self._start(no)
        b = otherwise()
        b_block = self._block
        self._jump(done)
        self._start(done)
        pairs = f"[ {_text(a)}, %{a_block} ], [ {_text(b)}, %{b_block} ]"
        return self._define(a.type, f"phi {_type(a.type)} {pairs}", hint)

    @contextmanager
    def if_(self, cond: Value, unlikely: bool = False) -> Iterator[None]:
        yes, done = self._label("then"), self._label("end")
        weights = ", !prof !900000" if unlikely else ""
        self._line(f"br i1 {cond.text}, label %{yes}, label %{done}{weights}")
        self._start(yes)
        yield
        self._jump(done)
        self._start(done)

    @contextmanager
    def loop(self, count: Value, hint: str = "i") -> Iterator[Value]:
        place = self.stack(8, hint=f"{hint}_var")
        head, body, done = self._label("loop"), self._label("body"), self._label("end")
        self.store(self.number(0), place)
        self._jump(head)
        self._start(head)
        index = self.load("i64", place, hint=hint)
        more = self.compare("lt", index, count)
        self._line(f"br i1 {more.text}, label %{body}, label %{done}")
        self._start(body)
        yield index
        self.store(self.op("add", index, self.number(1)), place)
        self._jump(head)
        self._start(done)

    def fail_if(
        self, cond: Value, handler: str, args: Sequence[Value], recoverable: bool = False
    ) -> None:
        bad, good = self._label("bad"), self._label("ok")
        self._line(f"br i1 {cond.text}, label %{bad}, label %{good}, !prof !900000")
        texts = ", ".join(f"{_type(a.type)} {_text(a)}" for a in args)
        code = f"%{self._names('code')}"
        returns = _type(self._returns)
        self._cold += [f"{bad}:", f"  {code} = call {returns} @{handler}({texts})"]
        if recoverable:
            fatal = self._label("fatal")
            test = f"%{self._names('failed')}"
            self._cold += [
                f"  {test} = icmp ne i32 {code}, 0",
                f"  br i1 {test}, label %{fatal}, label %{good}",
                f"{fatal}:",
            ]
        self._cold.append(f"  ret {returns} {code}")
        self._start(good)

    def lock(self, place: Value) -> None:
        head, done = self._label("lock"), self._label("locked")
        self._jump(head)
        self._start(head)
        old = self._define("i32", f"atomicrmw xchg ptr {place.text}, i32 1 acquire", "old")
        free = self.compare("eq", old, self.number(0, "i32"))
        self._line(f"br i1 {free.text}, label %{done}, label %{head}")
        self._start(done)

    def unlock(self, place: Value) -> None:
        self._line(f"store atomic i32 0, ptr {place.text} release, align 4")

    def ret(self, value: Value) -> None:
        self._line(f"ret {_type(value.type)} {_text(value)}")
        self._open = False

    def comment(self, text: str) -> None:
        self._line(f"; {text}")

    def finish(self) -> str:
        return "\n".join([*self._globals, "", *self._body, _METADATA, ""])


def _align(type: str) -> int:
    return 8 if type == "ptr" else max(1, (_WIDTH.get(type) or _FLOAT[type]) // 8)


def _text(value: Value) -> str:
    """An operand; a null pointer is a literal of its own."""
    return "null" if value.type == "ptr" and value.text == "0" else value.text


def _conversion(source: str, to: str) -> str:
    if source == "ptr":
        return "ptrtoint"
    if to == "ptr":
        return "inttoptr"
    if source in _FLOAT:
        if to in _FLOAT:
            return "fpext" if _FLOAT[to] > _FLOAT[source] else "fptrunc"
        return "fptosi"
    if to in _FLOAT:
        return "uitofp" if source == "i1" else "sitofp"
    if _WIDTH[to] < _WIDTH[source]:
        return "trunc"
    return "zext" if source == "i1" else "sext"
