# SPDX-License-Identifier: Apache-2.0
"""Parameters: annotations evaluated, and the IR object (`Buffer` or `Var`) of each run-time one."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from tilelang.errors import Span, TypeMismatchError
from tilelang.ir import Buffer, DType, Var

from .capture import source_of
from .tensor import TensorSpec, runtime_annotation
from .trace import Trace


def annotations_of(
    fn: types.FunctionType, outer: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Annotations of the parameters, texts evaluated with the function's globals, closure and
    `outer`.
    """
    scope = _enclosing(fn, outer)
    out = {}
    for name, a in fn.__annotations__.items():
        if name == "return":
            continue
        a = _evaluated(a, fn.__globals__, scope)
        if callable(a) and not isinstance(a, (type, DType)) and runtime_annotation(a) is None:
            a = a()
        out[name] = a
    return out


def reference_annotation(
    fn: types.FunctionType, outer: Mapping[str, Any] | None, annotation: Any
) -> Any:
    """The annotation of a macro's parameter, where it may be a mark: a name given as text is looked
    up, any other text is documentation."""
    if isinstance(annotation, str) and all(n.isidentifier() for n in annotation.split(".")):
        return _evaluated(annotation, fn.__globals__, _enclosing(fn, outer))
    return annotation


def _enclosing(fn: types.FunctionType, outer: Mapping[str, Any] | None) -> dict[str, Any]:
    """The names that the functions around `fn` know."""
    closure = {
        n: c.cell_contents
        for n, c in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)
        if _filled(c)
    }
    return {**(outer or {}), **closure}


@dataclass(frozen=True)
class Unresolved:
    """An annotation given as text that means nothing here (a name imported for type checkers)."""

    reason: str


def _evaluated(a: Any, names: dict[str, Any], scope: dict[str, Any]) -> Any:
    """The value of an annotation given as text; text that gives text is evaluated again."""
    while isinstance(a, str) and not isinstance(a, DType):
        try:
            a = eval(a, names, scope)
        except (NameError, SyntaxError, AttributeError, TypeError) as error:
            try:
                return DType(a)
            except TypeError:
                return Unresolved(str(error))
    return a


def _filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None or True
    except ValueError:
        return False


def parameter_span(fn: types.FunctionType, name: str) -> Span:
    source = source_of(fn)
    a = source.node.args
    for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs):
        if arg.arg == name:
            return Span.of(cast(Any, arg), source.file, fn.__name__)
    return Span.of(source.node, source.file, fn.__name__)


def parameter(name: str, spec: TensorSpec | DType, span: Any) -> Buffer | Var:
    """The IR object of one run-time parameter."""
    if isinstance(spec, TensorSpec):
        if spec.shape is None:
            raise TypeMismatchError(
                f"parameter `{name}`: the shape is not known",
                code="TL0211",
                span=span,
                help="annotate it as T.Tensor(shape, dtype), or call the kernel with its tensors",
            )
        return spec.buffer(name, span)
    return Var(name, spec)


def redeclare(t: Trace, name: str, annotation: Callable[[], Any]) -> Any:
    """`A: T.Tensor(...)` inside a body gives a parameter its type anew."""
    spec = runtime_annotation(annotation())
    if spec is not None and name in t.params:
        t.params[name] = parameter(name, spec, t.span())
    return t.params.get(name)
