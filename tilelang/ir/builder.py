# SPDX-License-Identifier: Apache-2.0
"""`Builder`: how lowerings write statements in order, without nesting constructors.

b = Builder()
with b.for_("i", 4, kind="unroll") as i:
    b.store(C, (i,), A[i] + 1)
body = b.finish()
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .buffer import Buffer
from .expr import Const, Expr, Load, Var, as_bool, as_expr, call, cast, const
from .stmt import Alloc, Bind, Evaluate, For, If, Stmt, Store, seq

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Builder:
    """Collects statements; every statement gets the builder's span."""

    def __init__(self, span: Any = None) -> None:
        self.span = span
        self._stack: list[list[Stmt]] = [[]]

    def emit(self, *stmts: Any) -> None:
        """Appends statements (None is skipped, a Seq is flattened)."""
        s = seq(*stmts)
        self._stack[-1].append(s)

    def finish(self) -> Stmt:
        (top,) = self._stack
        return seq(top, span=self.span)

    @contextmanager
    def nested(self) -> Iterator[list[Stmt]]:
        """Statements emitted inside are collected apart (the caller wraps them)."""
        inner: list[Stmt] = []
        self._stack.append(inner)
        try:
            yield inner
        finally:
            self._stack.pop()

    @contextmanager
    def for_(
        self, name: str, extent: Any, start: Any = 0, kind: str = "serial", **annotations: Any
    ) -> Iterator[Expr]:
        """A loop; an extent of constant 1 makes no loop and yields the start."""
        n = as_expr(extent)
        if type(n) is Const and n.value == 1:
            yield as_expr(start, n.dtype)
            return
        var = Var(name, n.dtype)
        with self.nested() as body:
            yield var
        if type(n) is Const and n.value <= 0:
            return
        self.emit(For(var, as_expr(start, n.dtype), n, seq(body), kind, annotations, self.span))

    @contextmanager
    def if_(self, cond: Any) -> Iterator[None]:
        """A conditional; a constant condition makes no If."""
        c = as_bool(cond)
        with self.nested() as body:
            yield
        if type(c) is Const:
            if c.value:
                self.emit(body)
        elif body:
            self.emit(If(c, seq(body), None, self.span))

    @contextmanager
    def else_(self) -> Iterator[None]:
        """The other branch of the If emitted just before."""
        last = self._stack[-1].pop()
        if type(last) is not If or last.orelse is not None:
            raise AssertionError("else_ must follow if_")
        with self.nested() as body:
            yield
        self.emit(If(last.cond, last.then, seq(body) if body else None, self.span))

    def bind(self, name: str, value: Any) -> Expr:
        """Names a value; a literal or a variable needs no name."""
        e = as_expr(value)
        if type(e) in (Const, Var):
            return e
        var = Var(name, e.dtype)
        self.emit(Bind(var, e, self.span))
        return var

    def alloc(
        self, name: str, shape: Sequence[Any], dtype: Any, scope: str = "local", **annotations: Any
    ) -> Buffer:
        buffer = Buffer(name, shape, dtype, scope, span=self.span)
        self.emit(Alloc(buffer, annotations, self.span))
        return buffer

    def store(self, buffer: Buffer, indices: Sequence[Any], value: Any) -> None:
        """`buffer[indices] = value`, cast to the buffer's dtype."""
        idx = tuple(as_expr(i) for i in indices)
        lanes = idx[-1].dtype.lanes if idx else 1
        self.emit(Store(buffer, idx, cast(value, buffer.dtype.with_lanes(lanes)), self.span))

    def call(self, op: str, *args: Any) -> None:
        """An intrinsic for its effect."""
        self.emit(Evaluate(call(op, args), self.span))


def address_of(buffer: Buffer, *indices: Any) -> Expr:
    """A pointer to `buffer[indices]` as an intrinsic's argument."""
    return call("address_of", [Load(buffer, tuple(as_expr(i) for i in indices))])


__all__ = ["Builder", "address_of", "const"]
