# SPDX-License-Identifier: Apache-2.0
"""`@T.macro`: a function whose body is traced anew into the kernel at every call, with names of
its own.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from tilelang.errors import LanguageError, LanguageValueError, TypeMismatchError
from tilelang.ir import Buffer, Expr, Load, Region, as_expr

from .capture import note_source
from .execute import execute
from .params import reference_annotation
from .protocol import Protocol
from .trace import Region as Place
from .trace import Trace, current
from .values import VarRef, bound

_MAX_DEPTH = 100


class Ref:
    """Annotation of a macro's parameter: passed by reference; assigning it stores to the
    argument.
    """


class Var(Ref):
    """The older spelling of `T.Ref`."""


class Macro:
    """A traced function. Calling it inside a kernel inlines its body there."""

    def __init__(self, fn: FunctionType, outer: Mapping[str, Any] | None = None) -> None:
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.outer = outer
        note_source(fn)
        self.signature = inspect.signature(fn)
        self.by_reference = frozenset(
            n
            for n, a in fn.__annotations__.items()
            if _is_reference(reference_annotation(fn, outer, a))
        )

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else functools.partial(self, owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        t = current(f"macro {self.fn.__name__}")
        try:
            call = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise t.error(
                f"macro {self.fn.__name__}: {error}",
                "TL0160",
                f"its signature is {self.fn.__name__}{self.signature}",
                TypeMismatchError,
            ) from None
        for name, value in call.arguments.items():
            call.arguments[name] = self._argument(t, name, value)
        return self._inline(t, call)

    def _argument(self, t: Trace, name: str, value: Any) -> Any:
        if name in self.by_reference:
            return _reference(t, name, value)
        if isinstance(value, VarRef):
            value = as_expr(value)
        return bound(t, name, value) if isinstance(value, Expr) else value

    def _inline(self, t: Trace, call: inspect.BoundArguments) -> Any:
        site, place = t.site, Place("macro")
        span = t.span()
        if sum(r.kind == "macro" for r in t.regions) >= _MAX_DEPTH:
            raise t.error(
                f"macro {self.fn.__name__} calls itself without an end",
                "TL0161",
                "recursion is unrolled while tracing: let it depend on a Python value that ends it",
            )
        t.regions.append(place)
        t.site = span
        try:
            result = execute(self.fn, Protocol(t), call.args, call.kwargs, self.outer)
            result = bound(t, self.fn.__name__, result) if isinstance(result, Expr) else result
        finally:
            t.site = site
            if t.regions and t.regions[-1] is place:
                t.regions.pop()
        return result


def _is_reference(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Ref)


def _reference(t: Trace, name: str, value: Any) -> Any:
    """The argument of a `T.Ref` parameter; its indices are evaluated once, at the call."""
    if isinstance(value, VarRef):
        return value
    if isinstance(value, (Load, Region)):
        if isinstance(value, Region) and value.squeezed():
            return value
        at = value.indices if isinstance(value, Load) else value.offsets
        return VarRef(
            value.buffer, tuple(as_expr(bound(t, f"{name}_{i}", e)) for i, e in enumerate(at))
        )
    if isinstance(value, Buffer):
        return value
    raise t.error(
        f"to pass as reference, argument `{name}` must be a T.alloc_var, a buffer element or a "
        f"region, got {value!r}",
        "TL0162",
        "pass e.g. A[i], or drop the T.Ref annotation",
        LanguageValueError,
    )


def macro(func: Callable[..., Any] | None = None, *, hygienic: bool = True) -> Any:
    """Decorator: the function becomes a `Macro`. Its names are always its own."""
    if not hygienic:
        raise LanguageError(
            "@T.macro: hygienic=False is not supported: a macro cannot assign its caller's names",
            code="TL0185",
            help="take what it assigns as a T.Ref parameter",
        )
    if func is None:
        outer = sys._getframe(1).f_locals
        return lambda f: _macro(f, outer)
    return _macro(func, sys._getframe(1).f_locals)


def _macro(func: Any, outer: Mapping[str, Any]) -> Macro:
    if isinstance(func, Macro):
        return func
    if not isinstance(func, FunctionType):
        raise LanguageError(
            f"@T.macro needs a function, got {type(func).__name__}",
            code="TL0163",
            help="put it directly above a `def`",
        )
    return Macro(func, outer)


def inline(func: Callable[..., Any]) -> Macro:
    """Another spelling of `T.macro`."""
    return _macro(func, sys._getframe(1).f_locals)


def meta_class(cls: type) -> type:
    """A helper class for kernels: its methods that store to buffers or use `T.` loops are macros.

    Methods run while tracing in any case; which of them need their statements captured is read from
    their source: an assignment to an element, or a loop, makes one a macro.
    """
    from .capture import source_of
    from .meta import needs_tracing

    for name, method in list(vars(cls).items()):
        if isinstance(method, FunctionType) and needs_tracing(source_of(method).node):
            setattr(cls, name, Macro(method))
    return cls
