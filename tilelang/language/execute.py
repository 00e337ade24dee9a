# SPDX-License-Identifier: Apache-2.0
"""Runs the rewritten form of a user function once, with its own globals and closure.

In: a function object, a `Protocol`, arguments. Out: what the function returns; the statements are
in the trace. Errors of ours that have no place get the user's line; Python's errors that come from
our expression classes become typed ones; errors of the user's own code pass unchanged.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import re
import types
from typing import TYPE_CHECKING, Any

from tilelang.errors import (
    BoundsError,
    InternalError,
    LanguageError,
    Span,
    TileError,
    TypeMismatchError,
    did_you_mean,
)
from tilelang.ir import Buffer, Expr, Region

from .capture import future_flags, source_of
from .python_errors import of_python
from .rewrite import TRACE_NAME, locate, rewrite_function
from .trace import Calls, tracing
from .values import VarRef

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import CodeType, FunctionType, TracebackType

    from .protocol import Protocol
    from .trace import Trace

_MAX_CODES = 1024
_CALL = re.compile(
    r"(\w+)\(\) (?:got an unexpected keyword argument '(\w+)'|missing |takes |got multiple )"
)
_codes: dict[tuple[CodeType, str, tuple[str, ...]], CodeType] = {}


def rewritten_code(fn: FunctionType, outer: tuple[str, ...] = ()) -> CodeType:
    """The code of `fn` in traced form. outer: further names that live in the enclosing function."""
    # Equal code may be of two files, and spans name the file.
    key = (fn.__code__, fn.__code__.co_filename, outer)
    hit = _codes.get(key)
    if hit is None:
        if len(_codes) >= _MAX_CODES:
            _codes.pop(next(iter(_codes)), None)
        hit = _codes[key] = _compile(fn, outer)
    return hit


def _compile(fn: FunctionType, outer: tuple[str, ...]) -> CodeType:
    source = source_of(fn)
    inner = rewrite_function(source.node, source.file)
    inner.name = "_tl_body_"  # its own name must stay the global (or closure) that the user sees
    names = [TRACE_NAME, *fn.__code__.co_freevars, *outer]
    args = ast.arguments([], [ast.arg(n) for n in names], None, [], [], None, [])
    factory = ast.FunctionDef("_tl_factory_", args, [inner], [])
    module = ast.Module([ast.copy_location(factory, inner)], [])
    locate(module)
    flags = future_flags(fn.__code__)
    code = compile(module, source.file, "exec", flags=flags, dont_inherit=True)
    (made,) = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    body = next(
        c for c in made.co_consts if isinstance(c, types.CodeType) and c.co_name == inner.name
    )
    return body.replace(co_name=fn.__name__, co_qualname=fn.__qualname__)


def execute(
    fn: FunctionType,
    protocol: Protocol,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    outer: Mapping[str, Any] | None = None,
) -> Any:
    """Calls the traced form of `fn`. outer: values of names that only its enclosing function
    knows.
    """
    extra = _needed(fn, outer)
    code = rewritten_code(fn, tuple(extra))
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    cells[TRACE_NAME] = types.CellType(protocol)
    cells.update({n: types.CellType(v) for n, v in extra.items()})
    closure = tuple(cells[n] for n in code.co_freevars)
    traced = types.FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, closure)
    traced.__kwdefaults__ = fn.__kwdefaults__
    t = protocol.trace
    t.register(code, Calls(source_of(fn).node))
    with tracing(t):
        try:
            return traced(*args, **kwargs)
        except Exception as error:
            better = located(error, t)
            if better is error:
                raise
            keep = isinstance(better, InternalError) or better.code == "TL0189"
            raise better from (error if keep else None)


def _needed(fn: FunctionType, outer: Mapping[str, Any] | None) -> dict[str, Any]:
    """Names that the body reads and that live only in the enclosing function's frame.

    Python leaves a name out of the closure that occurs in nothing but an annotation of a local name
    under `from __future__ import annotations`.
    """
    if not outer or not fn.__code__.co_flags & __future__.annotations.compiler_flag:
        return {}
    known = {*fn.__code__.co_freevars, *fn.__code__.co_varnames, *fn.__code__.co_cellvars}
    names = {
        n.id
        for s in ast.walk(source_of(fn).node)
        if isinstance(s, ast.AnnAssign) and s.value is None
        for n in ast.walk(s.annotation)
        if isinstance(n, ast.Name)
    }
    return {
        n: outer[n]
        for n in sorted(names)
        if n not in known and n not in fn.__globals__ and n in outer
    }


def located(error: Exception, t: Trace) -> Any:
    """`error` with the user's line, as one of our classes. (While the sizes of an eager function
    are looked for, an error of the user's code stays as it is: it may only be due to that.)"""
    span = _span_of_traceback(error.__traceback__, t)
    if isinstance(error, TileError):
        return error if isinstance(error, InternalError) else error.at(span)
    if isinstance(error, AttributeError) and isinstance(error.obj, (Buffer, Region, Expr, VarRef)):
        near = did_you_mean(error.name or "", [n for n in dir(error.obj) if n[0] != "_"])
        return LanguageError(
            f"`{error.obj!r}` has no attribute `{error.name}`",
            code="TL0169",
            span=span,
            help=near or "it has: shape, dtype, scope, strides",
        )
    if isinstance(error, TypeError) and (call := _CALL.match(str(error))) is not None:
        better = _wrong_call(error, call, span)
        if better is not error:
            return better
    if not _raised_by_us(error.__traceback__):
        return error if t.symbolic else of_python(error, span)
    if isinstance(error, IndexError):
        return BoundsError(
            f"{error}",
            code="TL1202",
            span=span,
            help="give one index per dimension; `:` is all of one",
        )
    if isinstance(error, TypeError):
        return TypeMismatchError(f"{error}", code="TL0207", span=span, help=_help_for(str(error)))
    if isinstance(error, (AttributeError, KeyError)):
        return InternalError(f"{type(error).__name__}: {error}", code="TL9920", span=span)
    return LanguageError(
        f"{error}", code="TL0115", span=span, help="check the arguments of this call"
    )


def _wrong_call(error: TypeError, call: re.Match[str], span: Span | None) -> Exception:
    """A call of a `T.` function that does not fit its signature."""
    from tilelang import language

    function = getattr(language, call[1], None) if call[1] in language.__all__ else None
    if function is None:
        return error
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return error
    near = did_you_mean(call[2], signature.parameters) if call[2] else None
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    signature = inspect.Signature(plain)
    return TypeMismatchError(
        f"T.{error}", code="TL0243", span=span, help=near or f"it is T.{call[1]}{signature}"
    )


def _help_for(message: str) -> str:
    """What to do about a Python operation that a run-time value does not have."""
    if "known only when the kernel runs" in message:
        return (
            "Python's own max, min, any, `if` in a comprehension, … need values: "
            "use T.max, T.min, T.if_then_else or an `if` statement"
        )
    if "is not a compile-time integer" in message:
        return (
            "a Python list needs an index known while compiling: loop over the list, enumerate(…) "
            "or a tuple, which Python does; range(…) becomes a loop of the kernel"
        )
    return "cast the operands with T.cast, or use the `T.` function for this operation"


def _raised_by_us(tb: TracebackType | None) -> bool:
    """Is the innermost frame ours, or Python's refusal of an operation on one of our objects?"""
    last = None
    while tb is not None:
        last = tb.tb_frame
        tb = tb.tb_next
    return last is not None and last.f_globals.get("__name__", "").startswith(
        ("tilelang.ir", "tilelang.language", "tilelang.tileop", "tilelang.layout")
    )


def _span_of_traceback(tb: TracebackType | None, t: Trace) -> Span | None:
    """The innermost line of traced code in a traceback."""
    found: Span | None = None
    while tb is not None:
        if t.is_traced(tb.tb_frame.f_code):
            found = t.place_at(tb.tb_frame.f_code, tb.tb_lasti)
        tb = tb.tb_next
    return found
