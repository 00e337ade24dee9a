# SPDX-License-Identifier: Apache-2.0
"""From a decorated function to an `ir.PrimFunc`: `@T.prim_func`, and eager functions.

trace_prim_func(fn)        a function whose annotated parameters are the kernel's
EagerFunction(fn)          a function under @tilelang.jit that is the kernel itself:
    .split(args, kwargs)   which arguments are compiled in, which are passed at run time
    .plan(compile_time)    phase 1: which T.const sizes there are and where to read them
    .trace(...)            phase 2: the PrimFunc for given constants
detect_mode(fn)            "lazy" (a factory that returns a PrimFunc) or "eager"
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

from tilelang.errors import LanguageError, TypeMismatchError
from tilelang.ir import PrimFunc, fresh_session

from .capture import note_source
from .eager import ConstMatcher, ConstPlan, EagerFunction, detect_mode
from .execute import execute
from .finish import finished_func
from .hints import no_effect
from .params import Unresolved, annotations_of, parameter, parameter_span, redeclare
from .protocol import Protocol
from .tensor import TensorSpec, runtime_annotation, with_meta
from .trace import Trace

__all__ = [
    "ConstMatcher",
    "ConstPlan",
    "EagerFunction",
    "PrimFuncCreater",
    "detect_mode",
    "prim_func",
    "trace_prim_func",
]


class PrimFuncCreater:
    """A prim_func that cannot be traced before its arguments are known (a bare `tilelang.tensor`).

    `orig_func` gives the source and the signature; calling it with one object that has a shape and
    a dtype per bare parameter makes the PrimFunc.
    """

    def __init__(
        self, orig_func: Callable[..., Any], outer: Mapping[str, Any] | None = None
    ) -> None:
        self.orig_func = orig_func
        note_source(orig_func)
        self.outer = outer
        self.__name__ = orig_func.__name__
        self.__doc__ = orig_func.__doc__
        self.__wrapped__ = orig_func

    def __call__(self, *args: Any, **kwargs: Any) -> PrimFunc:
        signature = inspect.signature(self.orig_func)
        metas = signature.bind_partial(*args, **kwargs).arguments
        return trace_prim_func(self.orig_func, self.outer, metas)


def prim_func(
    func: Callable[..., Any] | None = None,
    *,
    eager_jit: bool = False,
    private: bool = False,
    check_well_formed: bool = True,
) -> Any:
    """`@T.prim_func`: traces the function now, from its annotated parameters. private and
    check_well_formed=False: accepted, without an effect."""
    if eager_jit:
        raise LanguageError(
            "@T.prim_func: eager_jit=True is not supported",
            code="TL0186",
            help="decorate the function with @tilelang.jit alone",
        )
    if private:
        no_effect("T.prim_func: private", "functions are compiled one by one, none sees another")
    if not check_well_formed:
        no_effect("T.prim_func: check_well_formed=False", "what is traced is always checked")
    if func is None:
        outer = sys._getframe(1).f_locals
        return lambda f: _prim_func(f, outer)
    return _prim_func(func, sys._getframe(1).f_locals)


def _prim_func(func: Callable[..., Any], outer: Mapping[str, Any]) -> Any:
    if not isinstance(func, types.FunctionType):
        raise LanguageError(
            f"@T.prim_func needs a function, got {type(func).__name__}",
            code="TL0118",
            help="put it directly above a `def`",
        )
    annotations = annotations_of(func, outer)
    bare = [n for n, a in annotations.items() if _is_bare(a)]
    return PrimFuncCreater(func, dict(outer)) if bare else trace_prim_func(func, outer)


def _is_bare(annotation: Any) -> bool:
    spec = runtime_annotation(annotation)
    return isinstance(spec, TensorSpec) and spec.shape is None


def trace_prim_func(
    fn: Any, outer: Mapping[str, Any] | None = None, metas: Mapping[str, Any] | None = None
) -> PrimFunc:
    """The PrimFunc of `fn`. outer: names of the enclosing function, for annotations given as text.
    metas: objects with a shape and a dtype for parameters annotated by a bare tensor."""
    t = Trace(fn.__name__)
    with fresh_session():
        annotations = annotations_of(fn, outer)
        values: dict[str, Any] = {}
        for name in inspect.signature(fn).parameters:
            span = parameter_span(fn, name)
            annotation = annotations.get(name)
            if isinstance(annotation, Unresolved):
                raise LanguageError(
                    f"the annotation of `{name}` cannot be evaluated: {annotation.reason}",
                    code="TL0119",
                    span=span,
                    help="use names that are defined before the function",
                )
            spec = runtime_annotation(annotation, python_types=True)
            if spec is None:
                raise TypeMismatchError(
                    f"parameter `{name}` of `{fn.__name__}` has no tensor or scalar annotation",
                    code="TL0209",
                    span=span,
                    help=f"write e.g. `{name}: T.Tensor((M, N), T.float16)` or `{name}: T.int32`",
                )
            if isinstance(spec, TensorSpec) and spec.shape is None and metas and name in metas:
                spec = with_meta(spec, metas[name])
            values[name] = parameter(name, spec, span)
        t.params = values
        protocol = Protocol(t, lambda name, annotation: redeclare(t, name, annotation))
        execute(fn, protocol, (), values, outer)
        return finished_func(t, fn, list(t.params.values()))
