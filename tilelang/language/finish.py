# SPDX-License-Identifier: Apache-2.0
"""The last step of a trace: the PrimFunc, and the check that every variable is bound where it is
used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilelang.errors import LanguageError, Note, Span
from tilelang.ir import (
    Alloc,
    Bind,
    Buffer,
    Expr,
    For,
    Launch,
    Load,
    Node,
    Parallel,
    PrimFunc,
    Region,
    Seq,
    Stmt,
    Store,
    Var,
)

from .capture import source_of

if TYPE_CHECKING:
    from types import FunctionType

    from .trace import Trace


def finished_func(
    t: Trace, fn: FunctionType, params: list[Buffer | Var], outputs: tuple[int, ...] = ()
) -> PrimFunc:
    source = source_of(fn)
    span = Span.of(source.node, source.file, fn.__name__)
    span = Span(span.file, span.line, span.col, span.line, None, span.function)
    attrs = {"global_symbol": fn.__name__, **t.attrs}
    func = PrimFunc(fn.__name__, tuple(params), t.finish(), outputs, attrs, span)
    _Scopes(func).check()
    return func


class _Scopes:
    """Walks a function once with the set of variables and buffers that exist at each point."""

    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.known: set[Any] = set(func.params)
        self.known.update(func.symbols)
        self.checked: dict[Expr, Span | None] = {}
        self.span: Span | None = func.span

    def check(self) -> None:
        self.stmt(self.func.body)

    def stmt(self, s: Stmt | None) -> None:
        if s is None:
            return
        self.span = getattr(s, "span", None) or self.span
        if type(s) is Seq:
            self.scoped(s.stmts)
        elif type(s) in (For, Parallel, Launch):
            self.binder(s)
        elif type(s) is Bind:
            self.expr(s.value)
            self.known.add(s.var)
        elif type(s) is Alloc:
            self.buffer_exprs(s.buffer)
            self.known.add(s.buffer)
        else:
            for c in s.children:
                self.child(c)
            if type(s) is Store:
                self.buffer(s.buffer)

    def scoped(self, stmts: tuple[Stmt, ...]) -> None:
        added: list[Any] = []
        for s in stmts:
            self.stmt(s)
            if type(s) is Bind:
                added.append(s.var)
            elif type(s) is Alloc:
                added.append(s.buffer)
        self.known.difference_update(added)
        self._forget()

    def binder(self, s: Any) -> None:
        for e in (
            (s.start, s.extent) if type(s) is For else s.extents if type(s) is Parallel else s.grid
        ):
            self.expr(e)
        new = (
            (s.var,)
            if type(s) is For
            else s.vars
            if type(s) is Parallel
            else (*s.block_vars, *s.thread_vars)
        )
        self.known.update(new)
        self.scoped((s.body,))
        self.known.difference_update(new)
        self._forget()

    def _forget(self) -> None:
        """What was in scope inside a block is not known to be so outside."""
        self.checked.clear()

    def child(self, c: Node) -> None:
        if isinstance(c, Stmt):
            self.stmt(c)
            return
        self.expr(c)

    def buffer_exprs(self, b: Buffer) -> None:
        for e in (*b.shape, *(b.strides or ()), *(() if b.data is None else (b.data,))):
            self.expr(e)
        if b.view_of is not None:
            self.buffer(b.view_of)

    def buffer(self, b: Buffer) -> None:
        if b not in self.known:
            self.out_of_scope(f"buffer `{b.name}`", b.span)

    def expr(self, n: Node) -> None:
        stack: list[Node] = [n]
        while stack:
            x = stack.pop()
            if isinstance(x, Expr):
                if x in self.checked:
                    continue
                self.checked[x] = None
            if type(x) is Var and x not in self.known:
                self.out_of_scope(f"`{x.name}`", None)
            elif type(x) in (Load, Region):
                self.buffer(x.buffer)  # type: ignore[attr-defined]
            stack.extend(x.children)

    def out_of_scope(self, what: str, defined: Span | None) -> None:
        notes = [Note(what, defined, "allocated")] if defined is not None else []
        raise LanguageError(
            f"{what} is used where it does not exist",
            code="TL0153",
            span=self.span,
            notes=notes,
            help="a size must occur as a dimension of a tensor parameter or be a scalar "
            "parameter; a value made "
            "inside a loop, a branch or a kernel ends with it (T.alloc_var before it keeps one)",
        )
