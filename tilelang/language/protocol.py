# SPDX-License-Identifier: Apache-2.0
"""What the rewritten user function calls: one method per kind of statement (see `rewrite`).

Each method decides, from the values it is given, between plain Python (done now) and the kernel (an
IR statement is emitted): a condition that is a Python bool picks a branch, one that is an
expression traces both. Conditions are in `logic`, loops and branches in `flow`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, MutableMapping, MutableSequence, MutableSet, Sequence
from typing import Any

from tilelang.errors import LanguageError
from tilelang.ir import Assert, Buffer, Call, Evaluate, Expr, Region
from tilelang.ir.intrinsics import TABLE

from .containers import check_change, is_container, note_made
from .flow import Flow
from .kernel import KernelFrame
from .loops import serial
from .tensor import DataOf
from .trace import Trace
from .values import MISSING, VarRef, bound, check_escape, element, plain, store

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


class Protocol(Flow):
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
        if isinstance(old, (MutableSequence, MutableSet, MutableMapping)):
            check_change(self.trace, old, f"`{name}` is changed in place")
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
        if old is not value:
            check_change(t, target, f"an item of a Python {type(target).__name__} is assigned")
        target[plain(key)] = bound(t, "item", value)

    def delitem(self, target: Any, key: Any) -> None:
        t = self.trace
        if isinstance(target, (Buffer, Region, Expr, VarRef)):
            raise t.error(
                f"`del` of an element of `{getattr(target, 'name', target)}`",
                "TL0188",
                "memory of a kernel is not deleted: store a value instead",
            )
        check_change(t, target, f"an item of a Python {type(target).__name__} is deleted")
        del target[plain(key)]

    def method(self, target: Any, name: str) -> Any:
        """A method that changes its object, if that is a container."""
        if is_container(target):
            check_change(
                self.trace, target, f"a Python {type(target).__name__} is changed by `.{name}(...)`"
            )
        return getattr(target, name)

    def made(self, value: Any) -> Any:
        note_made(self.trace, value)
        return value

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
        if isinstance(target, (Buffer, Region, Expr, VarRef)):
            raise t.error(
                f"attribute `{name}` of `{target!r}` is assigned",
                "TL0187",
                "store to an element, e.g. A[i] = value; keep other things in names of your own",
            )
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

    def data(self, target: Any) -> Any:
        """`target.data`: of a buffer, its memory."""
        return DataOf(target) if isinstance(target, Buffer) else target.data

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


def _peek(current: Callable[[], Any]) -> Any:
    try:
        return current()
    except NameError:
        return MISSING


def each_element(
    t: Trace,
    r: Region,
    names: Sequence[str],
    body: Callable[[tuple[Expr, ...]], None],
    at: tuple[Expr, ...] = (),
) -> None:
    """Loops over the elements of a region, in order; names: of the loop variables."""
    d = len(at)
    if d == len(r.extents):
        body(at)
        return
    for i in Protocol(t).loop(serial(r.extents[d]), [names[d]], False, (), False):
        each_element(t, r, names, body, (*at, r.offsets[d] + i))


def _is_new(value: Any) -> bool:
    """A mutable scalar that has no name yet: the assignment gives it one instead of storing its
    value.
    """
    return isinstance(value, VarRef) and not value.buffer.name


def _apply(op: str, old: Any, value: Any) -> Any:
    return _INPLACE[op](old, value.__tl_expr__() if isinstance(value, (VarRef, Region)) else value)


def _existing(target: Any, key: Any) -> Any:
    try:
        return target[plain(key)]
    except (KeyError, IndexError, TypeError):
        return None
