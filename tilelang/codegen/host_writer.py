# SPDX-License-Identifier: Apache-2.0
"""`HostWriter`: the small machine that host code is written for, printed as C or as LLVM IR.

In: calls such as `w.load("i64", shape, 8)`, one per instruction. Out: text. Values are immutable
and typed (i1 i8 i16 i32 i64 f32 f64 ptr); memory is reached by byte offsets, so that the C and the
LLVM form agree on the layout of every structure without declaring any.

What fails goes to a cold block: `w.fail_if(cond, "tl_fail_ndim", args)` calls a cold function that
sets the error and returns -1; a `recoverable` one may look closer, return 0, and the call goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

__all__ = ["COMPARES", "NULL", "Externs", "HostWriter", "Names", "Value"]


class Value(NamedTuple):
    """text: how the printed code names it. type: i1 i8 i16 i32 i64 f32 f64 ptr."""

    text: str
    type: str


NULL = Value("0", "ptr")


class Externs(NamedTuple):
    """A function defined elsewhere. variadic: number of named parameters, if it is variadic."""

    returns: str
    params: tuple[str, ...]
    variadic: int | None = None


# name -> (C operator, LLVM predicate); signed unless named u*.
COMPARES = {
    "eq": ("==", "eq"), "ne": ("!=", "ne"), "lt": ("<", "slt"), "le": ("<=", "sle"),
    "gt": (">", "sgt"), "ge": (">=", "sge"),
}  # fmt: skip


class Names:
    """Unique identifiers that keep the name asked for where they can."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def __call__(self, hint: str) -> str:
        base = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in hint) or "v"
        if base[0].isdigit():
            base = f"v{base}"
        name, n = base, 1
        while name in self.taken:
            n += 1
            name = f"{base}_{n}"
        self.taken.add(name)
        return name


class HostWriter(Protocol):
    """What both printers offer. A `hint` becomes the value's name in the text."""

    def number(self, value: int, type: str = "i64") -> Value:
        """An integer literal."""

    def string(self, text: str) -> Value:
        """A pointer to a constant, NUL-terminated UTF-8 text."""

    def string_table(self, name: str, texts: Sequence[str]) -> Value:
        """A pointer to a constant array of pointers to texts."""

    def memory(self, name: str, size: int, align: int = 8) -> Value:
        """A pointer to zeroed memory of the module."""

    def extern(self, name: str, signature: Externs) -> None:
        """Declares a function of another module."""

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
        """Defines a function; params are (name, type)."""

    def load(self, type: str, base: Value, offset: int = 0, hint: str = "v") -> Value:
        """The value at `base + offset` bytes."""

    def store(self, value: Value, base: Value, offset: int = 0) -> None:
        """Puts a value at `base + offset` bytes."""

    def offset(self, base: Value, by: Value | int, hint: str = "p") -> Value:
        """`base + by` bytes."""

    def stack(self, size: int, align: int = 8, hint: str = "buf") -> Value:
        """Memory that lives until the function returns."""

    def op(self, name: str, a: Value, b: Value, hint: str = "v") -> Value:
        """add sub mul sdiv srem and or xor shl lshr on two values of one integer type."""

    def compare(self, name: str, a: Value, b: Value) -> Value:
        """A row of COMPARES."""

    def select(self, cond: Value, a: Value, b: Value, hint: str = "v") -> Value:
        """`cond ? a : b`, both evaluated."""

    def convert(self, value: Value, to: str, hint: str = "v") -> Value:
        """By value: integers sign-extend (i1 zero-extends) or wrap; int <-> float; ptr <-> i64."""

    def bits(self, value: Value, to: str, hint: str = "v") -> Value:
        """The same bits as another type of the same size."""

    def call(self, callee: str | Value, args: Sequence[Value], hint: str = "v") -> Value:
        """Calls an extern or own function by name. Through a pointer the result is i32."""

    def choose(
        self, cond: Value, then: Callable[[], Value], otherwise: Callable[[], Value], hint: str
    ) -> Value:
        """Evaluates one of two pieces of code."""

    @contextmanager
    def if_(self, cond: Value, unlikely: bool = False) -> Iterator[None]:
        """Code that runs only if `cond`."""

    @contextmanager
    def loop(self, count: Value, hint: str = "i") -> Iterator[Value]:
        """Runs for i = 0 .. count - 1 (i64)."""

    def fail_if(
        self, cond: Value, handler: str, args: Sequence[Value], recoverable: bool = False
    ) -> None:
        """See the module docstring."""

    def lock(self, place: Value) -> None:
        """Waits until the i32 at `place` is 0 and makes it 1."""

    def unlock(self, place: Value) -> None:
        """Makes it 0 again."""

    def ret(self, value: Value) -> None:
        """Returns."""

    def comment(self, text: str) -> None:
        """A line for the reader."""

    def finish(self) -> str:
        """The module's text."""
