# SPDX-License-Identifier: Apache-2.0
"""Errors that Python itself, or another library, raises while a kernel is traced.

In: such an exception and the user's line. Out: a LanguageError that is at the same time an
exception of the class that was raised, so that whoever expects that still gets it. The frequent
mistakes are told by Python's words and get a way out of their own.
"""

from __future__ import annotations

import re
import sys
from typing import Any
from weakref import WeakKeyDictionary

from tilelang.errors import LanguageError, Span

__all__ = ["of_python"]

_ADVICE = (
    (
        r"'LoopSpec' object is not iterable",
        "a run-time loop (T.serial, T.Parallel, ...) is used outside of a `for` statement of the "
        "kernel",
        "write `for i in T.serial(n):` as a statement, not in zip, enumerate or a comprehension; "
        "a function with such loops is a @T.macro",
    ),
    (
        r"'(Buffer|Region|VarRef)' object does not support item assignment",
        "a buffer is stored to outside of the statements of the kernel",
        "a plain Python function is not traced: make it a @T.macro",
    ),
    (
        r"object of type '(Buffer|Region)' has no len\(\)",
        "len() of a buffer",
        "use its shape, e.g. A.shape[0]",
    ),
    (
        r"'(Buffer|Region)' object is not callable",
        "a buffer is called like a function",
        "an element is written in brackets, e.g. A[i]",
    ),
    (
        r"unsupported operand type\(s\) for @",
        None,
        "a product of tiles is T.gemm(A, B, C); of scalars it is `*`",
    ),
    (
        r"loop of ufunc does not support argument",
        "a function of numpy gets a value known only when the kernel runs",
        "use the function of `T.`, e.g. T.sin(x)",
    ),
    (
        r"only integers, slices",
        "an array of numpy is indexed by a value known only when the kernel runs",
        "pass it to the kernel as a tensor",
    ),
    (
        r"cannot access local variable|cannot access free variable",
        None,
        "a name that is assigned anywhere in a function is local to it: assign it first, or rename",
    ),
    (r"name '.*' is not defined", None, "define it before the kernel, or check the spelling"),
)
_HELP = "this was raised by Python while the kernel was traced; see the exception above"


def of_python(error: Exception, span: Span | None) -> LanguageError:
    """The error that the user sees instead of `error`."""
    text = str(error)
    told = next((a for a in _ADVICE if re.search(a[0], text)), None)
    what = f"{type(error).__name__}: {text}" if told is None or told[1] is None else told[1]
    help = _HELP if told is None else told[2]

    def error_of(made: Any) -> LanguageError:
        out: LanguageError = made(f"{what}", code="TL0189", span=span, help=help)
        for name, value in vars(error).items():  # what the user's class holds besides its text
            vars(out).setdefault(name, value)
        return out

    try:
        return error_of(_class_for(type(error)))
    except TypeError:  # a class that cannot be joined with ours
        return error_of(LanguageError)


_CLASSES: WeakKeyDictionary[type, Any] = WeakKeyDictionary()


def _class_for(kind: type) -> Any:
    """LanguageError and `kind`, so that an `except` clause for either catches it. (The initialiser
    of `kind` is not called: the text is made already.)"""
    if kind in (Exception, RuntimeError, StopIteration):
        return LanguageError
    found = _CLASSES.get(kind)
    if found is None:
        members = {
            "__reduce__": lambda self: (_again, (_importable(kind), self.message), vars(self))
        }
        found = _CLASSES[kind] = type(f"Kernel{kind.__name__}", (LanguageError, kind), members)
    return found


def _importable(kind: type) -> type:
    """The nearest class that another process can find by its name."""
    for c in kind.__mro__:
        place: Any = sys.modules.get(c.__module__)
        for name in c.__qualname__.split("."):
            place = getattr(place, name, None)
        if place is c:
            return c
    return Exception


def _again(kind: type, message: str) -> Any:
    """An error on its way back from a compile worker."""
    return _class_for(kind)(message)
