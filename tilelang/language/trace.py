# SPDX-License-Identifier: Apache-2.0
"""The trace: where the statements of the kernel being captured are collected.

In: calls from the rewritten user function (through `protocol.Protocol`) and from the `T.`
functions. Out: a list of IR statements with spans, and what the function declared on the way
(layouts, outputs, attributes). One `Trace` per captured function; `current()` finds it from
anywhere.
"""

from __future__ import annotations

import ast
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilelang.errors import InternalError, LanguageError, Span, TileError
from tilelang.ir import Bind, Expr, Stmt, Var, seq

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import CodeType, FrameType

    from tilelang.ir import Buffer

_current: ContextVar[Trace | None] = ContextVar("tilelang_trace", default=None)


@dataclass
class Region:
    """Something being traced into. kind: if, for, parallel, while (run time); python (a loop
    unrolled while tracing); kernel; macro (names inside are another function's). escaping: see
    `liveness`. role: annotations of the `ir.Role` that this becomes."""

    kind: str
    escaping: frozenset[str] = frozenset()
    span: Span | None = None
    left: bool = False  # a Break belonging to this loop was emitted
    role: dict[str, Any] | None = None

    @property
    def is_runtime(self) -> bool:
        return self.kind in ("if", "for", "parallel", "while")

    @property
    def is_loop(self) -> bool:
        return self.kind in ("for", "parallel", "while", "python")


class Calls:
    """The call expressions of a function by their place in its file."""

    def __init__(self, node: ast.AST) -> None:
        self._node = node
        self._index: dict[tuple[int, ...], ast.Call] | None = None

    def at(self, positions: Sequence[Any], lasti: int) -> ast.Call | None:
        if self._index is None:
            found = [n for n in ast.walk(self._node) if isinstance(n, ast.Call)]
            self._index = {
                (n.lineno, n.end_lineno or 0, n.col_offset, n.end_col_offset or 0): n for n in found
            }
        return self._index.get(tuple(positions[lasti // 2]))


@dataclass
class LaunchInfo:
    """What the innermost `T.Kernel` binds, and the annotations collected for its `Launch`."""

    block_vars: tuple[Var, ...]
    grid: tuple[Expr, ...]
    thread_vars: tuple[Var, ...]
    threads: tuple[int, int, int]
    annotations: dict[str, Any] = field(default_factory=dict)
    outside: list[Stmt] = field(default_factory=list)  # the statements around the launch
    generator: Any = None  # of the random numbers of each thread, see `random`
    reducer: Any = None  # of the reductions over threads, see `script`


class StopTrace(BaseException):
    """Ends the first phase of an eager function: the annotations are known, the body is not
    needed.
    """


class Trace:
    """State of one capture.

    symbolic: the first phase of an eager function, in which `T.const` names have no values yet; the
    first statement of the kernel ends it. consts: their values in the second phase.
    """

    def __init__(
        self, name: str, *, symbolic: bool = False, consts: dict[str, int] | None = None
    ) -> None:
        self.name = name
        self.symbolic = symbolic
        self.consts = consts
        self.const_vars: dict[str, Var] = {}
        self.blocks: list[list[Stmt]] = [[]]
        self.regions: list[Region] = []
        self.launch: LaunchInfo | None = None
        self.deferred: list[Stmt] = []
        self.next_launch: dict[str, Any] = {}
        self.attrs: dict[str, Any] = {}
        self.outputs: list[Buffer] = []
        self.params: dict[str, Any] = {}
        self.metas: dict[str, Any] = {}
        self.reducers: dict[Buffer, str] = {}
        self.made: dict[int, tuple[Any, Region]] = {}  # see `containers`
        self.site: Span | None = None
        self._codes: dict[int, CodeType] = {}
        self._kept: list[CodeType] = []  # alive as long as their ids are keys here
        self._calls: dict[int, Calls] = {}
        self._positions: dict[int, list[Any]] = {}
        self._spans: dict[tuple[int, int], Span] = {}

    # ------------------------------------------------------------------------------ statements

    def emit(self, s: Stmt) -> None:
        if self.symbolic:
            raise StopTrace
        self.blocks[-1].append(s)

    def emit_outside(self, s: Stmt) -> None:
        """Before the kernel that is being traced, if there is one."""
        if self.launch is None or self.symbolic:
            self.emit(s)
        else:
            self.launch.outside.append(s)

    def bind(self, name: str, value: Expr) -> Var:
        """A new immutable name for a value, evaluated here."""
        var = Var(name, value.dtype)
        self.emit(Bind(var, value, self.span()))
        return var

    @contextmanager
    def collected(self) -> Iterator[list[Stmt]]:
        """Statements emitted inside go to the list that this yields."""
        block: list[Stmt] = []
        self.blocks.append(block)
        depth = len(self.blocks)
        yield block
        self._leave(depth)

    def enter(self, region: Region) -> None:
        self.regions.append(region)
        self.blocks.append([])

    def leave(self, region: Region) -> Stmt:
        """Ends the region; its statements."""
        if not self.regions or self.regions[-1] is not region:
            raise self.error(
                "an exception raised inside a loop, a branch or a kernel was caught inside the "
                "kernel",
                "TL0112",
                "catch it outside of the function",
            )
        self.regions.pop()
        return seq(self.blocks.pop())

    def _leave(self, depth: int) -> None:
        if len(self.blocks) != depth:
            raise InternalError("unbalanced blocks while tracing")
        self.blocks.pop()

    def finish(self) -> Stmt:
        if len(self.blocks) != 1:
            raise InternalError("a traced block was not closed")
        return seq(self.blocks[0])

    @property
    def in_kernel(self) -> bool:
        return self.launch is not None

    def own_regions(self) -> Iterator[Region]:
        """Regions of the function (or macro) being traced, innermost first."""
        for r in reversed(self.regions):
            if r.kind == "macro":
                return
            yield r

    def runtime_region(self) -> Region | None:
        """The innermost loop or branch of this function that is decided at run time."""
        return next((r for r in self.own_regions() if r.is_runtime), None)

    def parallel_region(self) -> Region | None:
        return next((r for r in self.regions if r.kind == "parallel"), None)

    # ------------------------------------------------------------------------------------ spans

    def register(self, code: CodeType, calls: Calls) -> None:
        """Frames of `code` (and of lambdas inside it) are the user's. calls: the calls in its
        source.
        """
        if id(code) in self._codes:
            return
        self._codes[id(code)] = code
        self._calls[id(code)] = calls
        for c in code.co_consts:
            if isinstance(c, type(code)):
                self.register(c, calls)

    def argument_spans(self, fields: Sequence[str]) -> dict[str, Span]:
        """Where the arguments of the `T.` call being executed stand; `fields` names the positional
        ones.
        """
        f: FrameType | None = sys._getframe(1)
        while f is not None and id(f.f_code) not in self._codes:
            f = f.f_back
        if f is None:
            return {}
        here = self.place_at(f.f_code, f.f_lasti)
        call = self._calls[id(f.f_code)].at(self._positions[id(f.f_code)], f.f_lasti)
        if call is None:
            return {}
        file, name = here.file, here.function
        out = {n: Span.of(a, file, name) for n, a in zip(fields, call.args, strict=False)}
        out.update({k.arg: Span.of(k.value, file, name) for k in call.keywords if k.arg})
        return out

    def span(self) -> Span | None:
        """The user's line that is being executed. A plain helper function counts as inlined
        there.
        """
        f: FrameType | None = sys._getframe(1)
        outer: Span | None = None
        while f is not None:
            if id(f.f_code) in self._codes:
                here = self._place(f, self.site)
                return here if outer is None else _inlined(outer, here)
            if outer is None and not _is_ours(f):
                outer = self._place(f, None)
            f = f.f_back
        return outer

    def is_traced(self, code: CodeType) -> bool:
        return id(code) in self._codes

    def place_at(self, code: CodeType, lasti: int) -> Span:
        """The span of an instruction of the user's code."""
        key = (id(code), lasti)
        hit = self._spans.get(key)
        if hit is None:
            hit = self._spans[key] = self._span_of(code, lasti)
        return hit

    def _place(self, f: FrameType, site: Span | None) -> Span:
        here = self.place_at(f.f_code, f.f_lasti)
        return here if site is None else _inlined(here, site)

    def _span_of(self, code: CodeType, lasti: int) -> Span:
        # from the table, not from `frame.f_lineno`, which searches it from the start each time
        table = self._positions.get(id(code))
        if table is None:
            self._kept.append(code)
            table = self._positions[id(code)] = list(code.co_positions())
        at = lasti // 2
        start, end, col, end_col = table[at] if 0 <= at < len(table) else (None, None, 0, None)
        name = code.co_name if not code.co_name.startswith("<") else self.name
        return Span.of(
            _Position(start or code.co_firstlineno, col or 0, end, end_col), code.co_filename, name
        )

    # ----------------------------------------------------------------------------------- errors

    def error(
        self, message: str, code: str, help: str, kind: type[TileError] = LanguageError, **more: Any
    ) -> TileError:
        """An error at the user's line."""
        return kind(message, code=code, span=self.span(), help=help, **more)


@dataclass
class _Position:
    lineno: int
    col_offset: int
    end_lineno: int | None
    end_col_offset: int | None


def _inlined(inner: Span, site: Span) -> Span:
    return Span(
        inner.file, inner.line, inner.col, inner.end_line, inner.end_col, inner.function, site
    )


def _is_ours(f: FrameType) -> bool:
    name = f.f_globals.get("__name__", "")
    return name == "tilelang" or name.startswith("tilelang.") or name == "contextlib"


def maybe_current() -> Trace | None:
    return _current.get()


def current(what: str) -> Trace:
    """The trace being made; LanguageError naming `what` where there is none."""
    t = _current.get()
    if t is None:
        raise LanguageError(
            f"{what} was called outside of a kernel",
            code="TL0113",
            help="call it inside a function decorated with @T.prim_func, @T.macro or @tilelang.jit",
        )
    return t


def kernel_trace(what: str) -> tuple[Trace, LaunchInfo]:
    """The trace and its launch; LanguageError where `what` is not inside `with T.Kernel(...)`."""
    t = current(what)
    if t.launch is None:
        if t.symbolic:
            raise StopTrace
        raise t.error(
            f"{what} needs a kernel around it", "TL0114", "put it inside `with T.Kernel(...)`"
        )
    return t, t.launch


@contextmanager
def tracing(t: Trace | None) -> Iterator[None]:
    token = _current.set(t)
    try:
        yield
    finally:
        _current.reset(token)
