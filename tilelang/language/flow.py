# SPDX-License-Identifier: Apache-2.0
"""Loops, branches and jumps of a captured function: unrolled and decided now, or IR statements."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tilelang.ir import (
    Break,
    Buffer,
    Continue,
    Expr,
    If,
    Region,
    Stmt,
    While,
    const,
    logical_not,
    seq,
)

from .logic import Logic
from .loops import LoopSpec, spec
from .trace import Region as Place
from .trace import StopTrace, Trace
from .values import MISSING, VarRef, check_escape

_MAX_TRACED_ITERATIONS = 20_000


class Flow(Logic):
    """The part of `protocol.Protocol` that traces loops and branches."""

    def break_(self) -> bool:
        return self._jump("break", Break)

    def continue_(self) -> bool:
        return self._jump("continue", Continue)

    def _jump(self, word: str, make: Any) -> bool:
        """True: let Python jump. False: it is a statement of the kernel."""
        t = self.trace
        under_if = False
        for r in t.own_regions():
            if r.kind == "if":
                under_if = True
            elif r.kind == "python" and under_if:
                raise t.error(
                    f"`{word}` depends on a value known only at run time, but its loop is "
                    "unrolled while tracing",
                    "TL0134",
                    "make it a run-time loop: for i in T.serial(...)",
                )
            elif r.kind == "python":
                return True
            elif r.kind == "parallel":
                raise t.error(
                    f"`{word}` inside T.Parallel: its elements have no order",
                    "TL0135",
                    "use an `if` around the statements, or T.serial",
                )
            elif r.is_loop:
                r.left = r.left or make is Break
                t.emit(make(t.span()))
                return False
        return True

    def loop(
        self,
        iterable: Any,
        names: Sequence[str],
        structured: bool,
        escaping: Sequence[str],
        has_else: bool,
        rebound: Sequence[str] = (),
    ) -> Iterator[Any]:
        """rebound: names of the target that some loop or branch around must not set."""
        t = self.trace
        if isinstance(iterable, LoopSpec):
            if has_else:
                raise t.error(
                    "`for … else` over a run-time loop", "TL0136", "use a T.alloc_var flag"
                )
            self._check_target(iterable, names, structured, frozenset(escaping))
            region = Place(iterable.region, frozenset(escaping), t.span())
            return self._runtime_loop(iterable, names, structured, region)
        launch_vars = t.launch.thread_vars + t.launch.block_vars if t.launch else ()
        if any(iterable is v for v in launch_vars):
            return iter([iterable])
        if isinstance(iterable, (Expr, VarRef, Buffer, Region)):
            raise t.error(
                f"`for` over `{iterable!r}`, which is no loop",
                "TL0137",
                "e.g. for i in T.serial(n), or T.Parallel(n)",
            )
        self.rebinds(rebound)
        try:
            return self._python_loop(iter(iterable))
        except TypeError:
            raise t.error(
                f"`for` over a {type(iterable).__name__}",
                "TL0138",
                "loop over T.serial(n), T.Parallel(n) or a Python sequence",
            ) from None

    def rebinds(self, names: Sequence[str]) -> None:
        """Refuses what binds names anew, other than an assignment, as `assign` does."""
        for name in names:
            check_escape(self.trace, name, MISSING, None)

    def range_(self, function: Any, *args: Any) -> Any:
        """`range(...)` in a `for` header is T.serial."""
        if function is not builtins.range:
            return function(*args)
        if not 1 <= len(args) <= 3:
            raise self.trace.error(
                f"range takes 1 to 3 arguments, got {len(args)}",
                "TL0139",
                "range(start, stop, step)",
            )
        start, stop, step = (0, args[0], None) if len(args) == 1 else (*args, None)[:3]
        return spec("range", "serial", start, stop, step)

    def _runtime_loop(
        self, loop: LoopSpec, names: Sequence[str], structured: bool, region: Place
    ) -> Iterator[Any]:
        t = self.trace
        t.enter(region)
        value, close = loop.open(t, names)
        if isinstance(value, tuple) and len(value) == 1 and not structured:
            value = value[0]
        elif structured and not isinstance(value, tuple):
            value = (value,)
        yield value
        t.emit(close(t.leave(region), region.span))

    def _check_target(
        self, loop: LoopSpec, names: Sequence[str], structured: bool, escaping: frozenset[str]
    ) -> None:
        t = self.trace
        if t.symbolic:
            raise StopTrace
        count = len(loop.extents)
        if structured and len(names) != count:
            raise t.error(
                f"{loop.word} has {count} extent(s) but {len(names)} loop variable(s) are given",
                "TL0140",
                "give one variable per extent",
            )
        late = [n for n in names if n in escaping]
        if late:
            raise t.error(
                f"loop variable `{late[0]}` is used after its loop",
                "TL0141",
                "keep what you need in a T.alloc_var that is assigned inside the loop",
            )
        if loop.kind == "parallel" and t.parallel_region() is not None:
            raise t.error(
                "T.Parallel inside T.Parallel",
                "TL0142",
                "give all extents to one T.Parallel(m, n), or make the inner loop T.serial",
            )
        if loop.kind == "pipelined" and t.parallel_region() is not None:
            raise t.error(
                "T.Pipelined inside T.Parallel", "TL0143", "put the pipelined loop outside"
            )

    def _python_loop(self, items: Iterator[Any]) -> Iterator[Any]:
        t = self.trace
        region = Place("python")
        for item in items:
            t.regions.append(region)
            try:
                yield item
            finally:
                if t.regions and t.regions[-1] is region:
                    t.regions.pop()

    def while_(
        self,
        cond: Callable[[], Any],
        escaping: Sequence[str],
        has_else: bool,
        leaves: bool,
        literal: bool,
    ) -> Iterator[Any]:
        t = self.trace
        with t.collected() as before:
            test = self._condition(cond())
        if not isinstance(test, Expr):
            if not (literal and test):
                return self._python_while(test, cond)
            if not leaves:
                raise t.error("this loop never ends", "TL0144", "give it a condition or a `break`")
            test = const(True)
        if has_else:
            raise t.error("`while … else` over a run-time loop", "TL0145", "use a T.alloc_var flag")
        if t.symbolic:
            raise StopTrace
        return self._runtime_while(test, before, Place("while", frozenset(escaping), t.span()))

    def _runtime_while(self, test: Expr, before: list[Stmt], region: Place) -> Iterator[Any]:
        t = self.trace
        t.enter(region)
        yield None
        body = t.leave(region)
        if before:  # the condition needs statements of its own: they run before each test
            leave = If(logical_not(test), Break(region.span), None, region.span)
            body = seq(before, leave, body)
            test = const(True)
        t.emit(While(test, body, region.span))

    def _python_while(self, test: Any, cond: Callable[[], Any]) -> Iterator[Any]:
        """A `while` over Python values: unrolled while tracing."""

        def rounds() -> Iterator[None]:
            value = test
            for _ in range(_MAX_TRACED_ITERATIONS):
                if not value:
                    return
                yield None
                value = self._condition(cond())
                if isinstance(value, Expr):
                    raise self.trace.error(
                        "the condition of this loop was a Python value and became a run-time one",
                        "TL0146",
                        "use a T.alloc_var from the start",
                    )
            raise self.trace.error(
                "this loop does not end while tracing", "TL0147", "check its condition"
            )

        yield from self._python_loop(rounds())

    def if_(self, cond: Any, escaping: Sequence[str]) -> Branch:
        test = self._condition(cond)
        if isinstance(test, Expr) and self.trace.symbolic:
            raise StopTrace
        return Branch(self.trace, test, frozenset(escaping))


class Branch:
    """An `if` statement being traced; see `rewrite` for the order of the calls."""

    def __init__(self, trace: Trace, cond: Any, escaping: frozenset[str]) -> None:
        self._trace = trace
        self._cond = cond
        self._runtime = isinstance(cond, Expr)
        self._span = trace.span() if self._runtime else None
        self._place = Place("if", escaping, self._span)
        self._then: Stmt | None = None

    def then(self) -> bool:
        if not self._runtime:
            return bool(self._cond)
        self._trace.enter(self._place)
        return True

    def orelse(self) -> bool:
        if not self._runtime:
            return not self._cond
        self._then = self._trace.leave(self._place)
        self._trace.enter(self._place)
        return True

    def end(self) -> None:
        if not self._runtime:
            return
        last = self._trace.leave(self._place)
        then, orelse = (last, None) if self._then is None else (self._then, last)
        self._trace.emit(If(self._cond, then, orelse, self._span))
