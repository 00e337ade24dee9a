# SPDX-License-Identifier: Apache-2.0
"""What the rewritten user function calls: one method per kind of statement (see `rewrite`).

Each method decides, from the values it is given, between plain Python (done now) and the kernel (an
IR statement is emitted): a condition that is a Python bool picks a branch, one that is an
expression traces both.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tilelang.errors import LanguageError, TypeMismatchError
from tilelang.ir import (
    Assert,
    Break,
    Buffer,
    Call,
    Const,
    Continue,
    Evaluate,
    Expr,
    If,
    Region,
    Stmt,
    Var,
    While,
    as_bool,
    as_expr,
    const,
    if_then_else,
    logical_and,
    logical_not,
    logical_or,
    seq,
)
from tilelang.ir.intrinsics import TABLE

from .kernel import KernelFrame
from .loops import LoopSpec, spec
from .trace import Region as Place
from .trace import StopTrace, Trace
from .values import MISSING, VarRef, bound, check_escape, element, plain, scalar, store

_MAX_TRACED_ITERATIONS = 1_000_000
_INFIX = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Is": operator.is_,
    "IsNot": operator.is_not,
}
_INPLACE = {
    "Add": operator.iadd,
    "Sub": operator.isub,
    "Mult": operator.imul,
    "Div": operator.itruediv,
    "FloorDiv": operator.ifloordiv,
    "Mod": operator.imod,
    "Pow": operator.ipow,
    "LShift": operator.ilshift,
    "RShift": operator.irshift,
    "BitOr": operator.ior,
    "BitXor": operator.ixor,
    "BitAnd": operator.iand,
    "MatMult": operator.imatmul,
}


class KernelAssertionError(LanguageError, AssertionError):
    """An `assert` of the kernel that is false at compile time."""


class _Key:
    def __getitem__(self, key: Any) -> Any:
        return key


class Protocol:
    """The `_tl_` of one rewritten function. `annotation(name, spec)` handles a bare annotation."""

    key = _Key()

    def __init__(self, trace: Trace, annotation: Callable[[str, Any], Any] | None = None) -> None:
        self.trace = trace
        self._annotation = annotation

    # ------------------------------------------------------------------------------ assignment

    def assign(self, name: str, value: Any, current: Callable[[], Any] | None) -> Any:
        old = MISSING if current is None else _peek(current)
        if isinstance(old, VarRef) and not _is_new(value):
            if value is not old:
                store(self.trace, old.buffer, old.indices, value)
            return old
        new = bound(self.trace, name, value)
        check_escape(self.trace, name, new, old)
        return new

    def value(self, value: Any, name: str) -> Any:
        return bound(self.trace, name, value)

    def augassign(self, name: str, op: str, current: Callable[[], Any], value: Any) -> Any:
        old = _peek(current)
        if old is MISSING:
            raise self.trace.error(
                f"`{name}` is used before it has a value",
                "TL0124",
                f"assign it first, or `{name} = T.alloc_var(...)`",
            )
        if isinstance(old, VarRef):
            store(self.trace, old.buffer, old.indices, _apply(op, old.__tl_expr__(), value))
            return old
        if isinstance(old, (Buffer, Region)):
            raise self.trace.error(
                f"`{name}` is a whole buffer: it cannot be updated by one statement",
                "TL0125",
                f"loop over its elements: for i in T.Parallel(...): {name}[i] += ...",
            )
        return self.assign(name, _apply(op, old, value), lambda: old)

    def setitem(self, target: Any, key: Any, value: Any) -> None:
        t = self.trace
        if isinstance(target, VarRef):
            target = target.buffer
        if isinstance(target, (Buffer, Region)):
            place = element(t, target, key) if isinstance(target, Buffer) else target[key]
            if isinstance(place, Region):
                raise t.error(
                    f"a slice of `{place.buffer.name}` cannot be assigned",
                    "TL0126",
                    "use T.copy(src, dst[...]) for tiles, T.fill(dst[...], value) for one value, "
                    "or T.Parallel",
                )
            store(t, place.buffer, place.indices, value)
            return
        if isinstance(target, Expr):
            raise t.error(f"`{target}` is a scalar: it has no elements", "TL0127", "index a buffer")
        old = _existing(target, key)
        if isinstance(old, VarRef) and not _is_new(value):
            store(t, old.buffer, old.indices, value)
            return
        target[plain(key)] = bound(t, "item", value)

    def augsetitem(self, target: Any, key: Any, op: str, value: Any) -> None:
        if isinstance(target, (Buffer, Region, VarRef)):
            buffer = target.buffer if isinstance(target, VarRef) else target
            old = element(self.trace, buffer, key) if isinstance(buffer, Buffer) else buffer[key]
            self.setitem(
                target,
                key,
                _apply(op, old.__tl_expr__() if isinstance(old, Region) else old, value),
            )
            return None
        old = target[plain(key)]
        value = _apply(op, old.__tl_expr__() if isinstance(old, VarRef) else old, value)
        return self.setitem(target, key, value)

    def setattr(self, target: Any, name: str, value: Any) -> None:
        old = getattr(target, name, None)
        t = self.trace
        if isinstance(old, VarRef) and not _is_new(value):
            store(t, old.buffer, old.indices, value)
            return
        if (
            t.runtime_region() is not None
            and isinstance(value, (Expr, int, float))
            and old is not value
        ):
            raise t.error(
                f"attribute `{name}` is assigned inside a loop or branch that is decided when the "
                "kernel runs",
                "TL0128",
                f"make it mutable: self.{name} = T.alloc_var(dtype)",
            )
        setattr(target, name, bound(t, name, value))

    def augsetattr(self, target: Any, name: str, op: str, value: Any) -> None:
        old = getattr(target, name)
        self.setattr(
            target, name, _apply(op, old.__tl_expr__() if isinstance(old, VarRef) else old, value)
        )

    def unpack(self, value: Any, names: Sequence[str], star: int | None) -> list[Any]:
        """The values of a tuple assignment, all evaluated before the first of them is stored."""
        t = self.trace
        if isinstance(value, (Expr, VarRef)):
            raise t.error(
                f"a scalar cannot be unpacked into {len(names)} names", "TL0129", "assign one name"
            )
        try:
            items = list(value)
        except TypeError as err:
            raise t.error(f"{err}", "TL0130", "unpack a tuple or a list") from None
        want = len(names)
        if (star is None and len(items) != want) or (star is not None and len(items) < want - 1):
            raise t.error(
                f"{len(items)} value(s) cannot be unpacked into {want} name(s)",
                "TL0131",
                "give as many names as values",
            )
        if star is not None:
            end = len(items) - (want - star - 1)
            items = [*items[:star], items[star:end], *items[end:]]
        return [bound(t, n, v) for n, v in zip(names, items, strict=True)]

    def annotate(self, name: str, annotation: Callable[[], Any], current: Callable[[], Any]) -> Any:
        old = _peek(current)
        if self._annotation is None or (old is MISSING and name not in self.trace.params):
            return None if old is MISSING else old
        return self._annotation(name, annotation)

    # ------------------------------------------------------------------------- other statements

    def expr(self, value: Any) -> None:
        if type(value) is Call and TABLE[value.op].effect != "pure":
            self.trace.emit(Evaluate(value, self.trace.span()))

    def ret(self, value: Any) -> Any:
        region = self.trace.runtime_region()
        if region is not None:
            raise self.trace.error(
                "`return` inside a loop or branch that is decided when the kernel runs",
                "TL0132",
                "T.thread_return() ends the thread; a value is returned at the end of the function",
            )
        return value

    def assert_(self, cond: Any, message: Callable[[], Any], text: str) -> None:
        t = self.trace
        test = self._condition(cond)
        if isinstance(test, Expr):
            words = message()
            s = Assert(test, str(words) if words is not None else text, t.span())
            if t.in_kernel:
                t.emit(s)
            elif not t.symbolic:
                t.deferred.append(s)
        elif not test:
            words = message()
            raise t.error(
                str(words) if words is not None else f"assertion failed: {text}",
                "TL0133",
                "this assertion of the kernel is false for these compile-time arguments",
                KernelAssertionError,
            )

    def with_(self, context: Any, names: Sequence[str], structured: bool) -> Any:
        if isinstance(context, KernelFrame):
            context.names, context.structured = names, structured
        return context

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

    # ------------------------------------------------------------------------------------ flow

    def loop(
        self,
        iterable: Any,
        names: Sequence[str],
        structured: bool,
        escaping: Sequence[str],
        has_else: bool,
    ) -> Iterator[Any]:
        t = self.trace
        if isinstance(iterable, LoopSpec):
            if has_else:
                raise t.error(
                    "`for … else` over a run-time loop", "TL0136", "use a T.alloc_var flag"
                )
            self._check_target(iterable, names, structured, frozenset(escaping))
            region = Place(iterable.region, frozenset(escaping), t.span())
            return self._runtime_loop(iterable, names, structured, region)
        if (
            isinstance(iterable, Var)
            and t.launch
            and iterable in t.launch.thread_vars + t.launch.block_vars
        ):
            return iter([iterable])
        if isinstance(iterable, (Expr, VarRef, Buffer, Region)):
            raise t.error(
                f"`for` over `{iterable!r}`, which is no loop",
                "TL0137",
                "e.g. for i in T.serial(n), or T.Parallel(n)",
            )
        try:
            return self._python_loop(iter(iterable))
        except TypeError:
            raise t.error(
                f"`for` over a {type(iterable).__name__}",
                "TL0138",
                "loop over T.serial(n), T.Parallel(n) or a Python sequence",
            ) from None

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

    def _condition(self, value: Any) -> Any:
        """A run-time condition as a bool expression, anything else as a Python bool."""
        if isinstance(value, (Buffer, Region)):
            if isinstance(value, Region) and not value.squeezed():
                return as_bool(value)
            name = value.name if isinstance(value, Buffer) else value.buffer.name
            raise self.trace.error(
                f"buffer `{name}` cannot be used as a condition",
                "TL0205",
                f"test an element: {name}[i] != 0",
                TypeMismatchError,
            )
        value = plain(value)
        if isinstance(value, Expr) and type(value) is not Const:
            if value.dtype.lanes > 1 or value.dtype.is_handle:
                raise self.trace.error(
                    f"a {value.dtype} cannot be used as a condition",
                    "TL0206",
                    "compare it with something",
                    TypeMismatchError,
                )
            return as_bool(value)
        return bool(value.value) if isinstance(value, Const) else bool(value)

    # ------------------------------------------------------------------------------ expressions

    def _lazily(self, f: Callable[[], Any], what: str) -> Any:
        with self.trace.collected() as emitted:
            value = f()
        if emitted:
            raise self.trace.error(
                f"{what} contains a call with an effect, which would always run",
                "TL0148",
                "write an `if` statement, or assign the call's result to a name first",
            )
        return value

    def and_(self, first: Any, *rest: Callable[[], Any]) -> Any:
        acc = first
        for f in rest:
            if not _is_symbolic(acc):
                if not acc:
                    return acc
                acc = f()
            else:
                acc = logical_and(self._condition(acc), self._condition(self._lazily(f, "`and`")))
        return plain(acc)

    def or_(self, first: Any, *rest: Callable[[], Any]) -> Any:
        acc = first
        for f in rest:
            if not _is_symbolic(acc):
                if acc:
                    return acc
                acc = f()
            else:
                acc = logical_or(self._condition(acc), self._condition(self._lazily(f, "`or`")))
        return plain(acc)

    def not_(self, value: Any) -> Any:
        test = self._condition(value)
        return logical_not(test) if isinstance(test, Expr) else not test

    def ifexp(self, cond: Any, then: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
        test = self._condition(cond)
        if not isinstance(test, Expr):
            return then() if test else orelse()
        a, b = (self._lazily(f, "a conditional expression") for f in (then, orelse))
        what = "a side of a conditional expression that is decided at run time"
        return (
            if_then_else(
                test, scalar(self.trace, plain(a), what), scalar(self.trace, plain(b), what)
            )
            if (isinstance(a, (Expr, VarRef)) and isinstance(b, (Expr, VarRef)))
            else if_then_else(test, self._side(a, b, what), self._side(b, a, what))
        )

    def _side(self, value: Any, other: Any, what: str) -> Any:
        """A number stays one beside an expression, which gives it its dtype."""
        other = other.__tl_expr__() if isinstance(other, (VarRef, Region)) else other
        return scalar(self.trace, value, what, other.dtype if isinstance(other, Expr) else None)

    def compare(self, left: Any, *rest: Any) -> Any:
        """A chain `a < b < c`, or a membership test; each operand is evaluated at most once."""
        result: Any = True
        for op, f in zip(rest[::2], rest[1::2], strict=True):
            right = f() if not _is_symbolic(result) else self._lazily(f, "a chained comparison")
            test = _member(left, right, op) if op in ("In", "NotIn") else _INFIX[op](left, right)
            left = right
            if _is_symbolic(test) or _is_symbolic(result):
                result = logical_and(self._condition(result), self._condition(test))
            else:
                result = test
            if not _is_symbolic(result) and not result:
                return result
        return plain(result)


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


def _peek(current: Callable[[], Any]) -> Any:
    try:
        return current()
    except NameError:
        return MISSING


def _is_new(value: Any) -> bool:
    """A mutable scalar that has no name yet: the assignment gives it one instead of storing its
    value.
    """
    return isinstance(value, VarRef) and not value.buffer.name


def _is_symbolic(value: Any) -> bool:
    return isinstance(value, VarRef) or (isinstance(value, Expr) and type(value) is not Const)


def _apply(op: str, old: Any, value: Any) -> Any:
    return _INPLACE[op](old, value.__tl_expr__() if isinstance(value, (VarRef, Region)) else value)


def _existing(target: Any, key: Any) -> Any:
    try:
        return target[plain(key)]
    except (KeyError, IndexError, TypeError):
        return None


def _member(left: Any, right: Any, op: str) -> Any:
    items = list(right) if isinstance(right, (tuple, list, set, frozenset, range)) else None
    if items is None or not any(_is_symbolic(v) for v in (left, *items)):
        return (left in right) if op == "In" else (left not in right)
    found: Expr = const(False)
    for item in items:
        found = logical_or(found, as_expr(left) == item)
    return found if op == "In" else logical_not(found)
