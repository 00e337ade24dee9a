# SPDX-License-Identifier: Apache-2.0
"""Eager functions: the decorated function is the kernel.

A parameter is passed at run time if it is annotated, in the signature or by a bare annotation in
the body, as a tensor, a scalar (`T.float32`) or a pointer. Every other argument is compiled in.
Sizes named by `T.const` are compiled in too, but read from the tensors: phase 1 runs the body up
to the kernel and records where each of them is a bare dimension or stride (`ConstPlan`); phase 2
runs it with the numbers.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from tilelang.errors import ArgumentTypeError, ArgumentValueError, LanguageError, Span, did_you_mean
from tilelang.ir import Buffer, Const, DType, PrimFunc, Var, fresh_session

from .capture import source_of
from .execute import execute
from .finish import finished_func
from .params import annotations_of, parameter, parameter_span, redeclare
from .protocol import Protocol
from .tensor import TensorSpec, runtime_annotation, with_meta
from .trace import StopTrace, Trace


@dataclass(frozen=True)
class ConstMatcher:
    """Where the value of a `T.const` name stands: entry `dim` of the shape or the strides (`kind`)
    of run-time argument `index` (named `param`)."""

    param: str
    index: int
    kind: str
    dim: int

    def read(self, tensor: Any) -> int:
        if self.kind == "shape":
            return int(tensor.shape[self.dim])
        strides = tensor.stride() if callable(getattr(tensor, "stride", None)) else None
        if strides is not None:
            return int(strides[self.dim])
        return int(tensor.strides[self.dim]) // int(tensor.itemsize)


@dataclass(frozen=True)
class ConstPlan:
    """Phase 1 for one compile-time key. names: the `T.const` names in order of first use;
    matchers: for each of them, all places to read it from, the first being the one to use."""

    names: tuple[str, ...] = ()
    matchers: Mapping[str, tuple[ConstMatcher, ...]] = field(default_factory=dict)

    def values(self, runtime: Sequence[Any], given: Mapping[str, Any]) -> dict[str, int]:
        """The value of every name, from keywords (`given`) or the tensors (None: not passed)."""
        out: dict[str, int] = {}
        for name in self.names:
            if name in given:
                out[name] = int(given[name])
                continue
            places = self.matchers[name]
            place = next(
                (m for m in places if m.index < len(runtime) and runtime[m.index] is not None), None
            )
            if place is None:
                raise ArgumentValueError(
                    f"no value for T.const `{name}`",
                    code="TL0990",
                    help=f"pass it as a keyword argument, `{name}=<value>`, or pass the tensor "
                    f"`{places[0].param}`",
                )
            try:
                out[name] = place.read(runtime[place.index])
            except (AttributeError, IndexError, TypeError):
                x = runtime[place.index]
                shape = getattr(x, "shape", None)
                got = type(x).__name__ if shape is None else f"one of shape {tuple(shape)}"
                raise ArgumentTypeError(
                    f"parameter {place.param}: expected a tensor whose {place.kind}[{place.dim}] "
                    f"is `{name}`, got {got}",
                    code="TL0996",
                    help="pass a torch tensor or a numpy array of that many dimensions",
                ) from None
        return out


class EagerFunction:
    """An eager kernel function. See the module's docstring and `language.entry`."""

    def __init__(self, fn: FunctionType, outer: Mapping[str, Any] | None = None) -> None:
        self.fn = fn
        self.outer = outer
        self.signature = inspect.signature(fn)
        self.__name__ = fn.__name__
        self.__doc__ = fn.__doc__
        self.__wrapped__ = fn

    @functools.cached_property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """Those with a name: `*rest` and `**named` take nothing."""
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        return {n: p for n, p in self.signature.parameters.items() if p.kind not in variadic}

    @functools.cached_property
    def annotations(self) -> dict[str, Any]:
        return annotations_of(self.fn, self.outer)

    @functools.cached_property
    def runtime_names(self) -> tuple[str, ...]:
        """Parameters passed at run time, in the order of the signature."""
        redeclared = _annotated_in_body(self.fn)
        return tuple(
            n
            for n in self.parameters
            if n in redeclared or runtime_annotation(self.annotations.get(n)) is not None
        )

    @functools.cached_property
    def bare_names(self) -> tuple[str, ...]:
        """Run-time parameters whose shape and dtype come from the argument (`A: T.Tensor`)."""
        redeclared = _annotated_in_body(self.fn)
        specs = {
            n: runtime_annotation(self.annotations.get(n))
            for n in self.runtime_names
            if n not in redeclared
        }
        return tuple(n for n, s in specs.items() if isinstance(s, TensorSpec) and s.shape is None)

    def split(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[dict[str, Any], list[Any], dict[str, Any]]:
        """(compile-time arguments by name, run-time arguments in order (None: not passed),
        keywords that are not parameters: values of T.const names)."""
        parameters = self.parameters
        given = {k: v for k, v in kwargs.items() if k in parameters}
        extra = {k: v for k, v in kwargs.items() if k not in parameters}
        if len(args) > len(parameters):
            raise ArgumentTypeError(
                f"too many positional arguments for `{self.__name__}`: expected at most "
                f"{len(parameters)}, got {len(args)}",
                code="TL0991",
                help=f"its parameters are: {', '.join(parameters)}",
            )
        values = dict(zip(parameters, args, strict=False))
        twice = [n for n in values if n in given]
        if twice:
            raise ArgumentTypeError(
                f"`{self.__name__}` got argument `{twice[0]}` twice",
                code="TL0992",
                help="pass it once",
            )
        values.update(given)
        runtime = [values.get(n, _default(parameters[n])) for n in self.runtime_names]
        compile_time: dict[str, Any] = {}
        for n, p in parameters.items():
            if n in self.runtime_names:
                continue
            if n not in values and p.default is inspect.Parameter.empty:
                raise ArgumentTypeError(
                    f"`{self.__name__}` needs the compile-time argument `{n}`",
                    code="TL0993",
                    help=f"pass `{n}=...`",
                )
            compile_time[n] = values.get(n, p.default)
        return compile_time, runtime, extra

    def plan(
        self, compile_time: Mapping[str, Any], metas: Mapping[str, Any] | None = None
    ) -> ConstPlan:
        """Phase 1: the T.const names of the function for these compile-time arguments."""
        t = Trace(self.fn.__name__, symbolic=True)
        with fresh_session():
            try:
                self._run(t, compile_time, metas)
            except StopTrace:
                pass
            except (TypeError, ValueError, ArithmeticError, RuntimeError):
                if not self._declared(t):
                    raise
        return self._plan(t)

    def check_keywords(self, plan: ConstPlan, extra: Mapping[str, Any]) -> None:
        """Keywords that name neither a parameter nor a T.const size are refused."""
        known = [*self.parameters, *plan.names]
        for name in extra:
            if name not in known:
                raise ArgumentTypeError(
                    f"`{self.__name__}` has no parameter or T.const size `{name}`",
                    code="TL0994",
                    help=did_you_mean(name, known) or f"it has: {', '.join(known)}",
                )

    def trace(
        self,
        compile_time: Mapping[str, Any],
        const_values: Mapping[str, int] | None = None,
        metas: Mapping[str, Any] | None = None,
    ) -> PrimFunc:
        """Phase 2: the PrimFunc. Outputs (T.empty) follow the parameters; `outputs` lists them in
        the order in which they are returned. metas: shape and dtype of arguments annotated by a
        bare tensor."""
        t = Trace(self.fn.__name__, consts=dict(const_values or {}))
        with fresh_session():
            result = self._run(t, compile_time, metas)
            params = [t.params[n] for n in self.runtime_names]
            untyped = [n for n, p in zip(self.runtime_names, params, strict=True) if p is None]
            if untyped:
                raise LanguageError(
                    f"parameter `{untyped[0]}` was not annotated before the end of "
                    f"`{self.__name__}`",
                    code="TL0154",
                    span=parameter_span(self.fn, untyped[0]),
                    help="annotate it at the top of the body",
                )
            outputs = self._outputs(t, result, len(params))
            for n, b in enumerate(t.outputs):
                b.name = b.name or f"out{n}"
            return finished_func(t, self.fn, [*params, *t.outputs], outputs)

    # ---------------------------------------------------------------------------------- inside

    def _run(
        self, t: Trace, compile_time: Mapping[str, Any], metas: Mapping[str, Any] | None
    ) -> Any:
        values: dict[str, Any] = {}
        for name in self.runtime_names:
            spec = runtime_annotation(self.annotations.get(name))
            if isinstance(spec, TensorSpec) and spec.shape is None and metas and name in metas:
                spec = with_meta(spec, metas[name])
            known = spec is not None and not (isinstance(spec, TensorSpec) and spec.shape is None)
            values[name] = (
                parameter(name, spec, parameter_span(self.fn, name)) if known and spec else None
            )
        t.params = dict(values)
        normalised = {n: _normal(v) for n, v in compile_time.items()}
        protocol = Protocol(t, lambda name, annotation: redeclare(t, name, annotation))
        named = {**values, **normalised}
        first = tuple(
            named.pop(n)
            for n, p in self.parameters.items()
            if p.kind is inspect.Parameter.POSITIONAL_ONLY
        )
        return execute(self.fn, protocol, first, named, self.outer)

    def _declared(self, t: Trace) -> bool:
        """Is all that phase 1 wants to know already known?"""
        if any(p is None for p in t.params.values()):
            return False
        return all(self._matchers(t, v) for v in t.const_vars.values())

    def _matchers(self, t: Trace, var: Var) -> tuple[ConstMatcher, ...]:
        out = []
        for index, name in enumerate(self.runtime_names):
            p = t.params.get(name)
            if isinstance(p, Buffer):
                out += [
                    ConstMatcher(name, index, "shape", d) for d, e in enumerate(p.shape) if e is var
                ]
                out += [
                    ConstMatcher(name, index, "stride", d)
                    for d, e in enumerate(p.strides or ())
                    if e is var
                ]
        return tuple(out)

    def _plan(self, t: Trace) -> ConstPlan:
        matchers = {name: self._matchers(t, var) for name, var in t.const_vars.items()}
        for name, places in matchers.items():
            if not places:
                raise LanguageError(
                    f"T.const `{name}` is not a dimension or stride of any tensor parameter on "
                    "its own",
                    code="TL0155",
                    span=parameter_span(self.fn, ""),
                    help=f"use it bare in an annotation, e.g. T.Tensor(({name},), ...), or make "
                    "it a parameter",
                )
        return ConstPlan(tuple(matchers), matchers)

    def _outputs(self, t: Trace, result: Any, first: int) -> tuple[int, ...]:
        returned = (
            []
            if result is None
            else list(result)
            if isinstance(result, (tuple, list))
            else [result]
        )
        span = _return_span(self.fn)
        for r in returned:
            if not any(r is b for b in t.outputs):
                raise LanguageError(
                    f"only tensors made by T.empty can be returned, got {r!r}",
                    code="TL0156",
                    span=span,
                    help="a tensor that was passed in is updated in place and needs no return",
                )
        missing = [b for b in t.outputs if not any(b is r for r in returned)]
        if missing:
            raise LanguageError(
                f"`{missing[0].name or 'a tensor'}` was made by T.empty but is not returned",
                code="TL0157",
                span=missing[0].span,
                help="return it; scratch memory is T.alloc_global",
            )
        return tuple(first + next(i for i, b in enumerate(t.outputs) if b is r) for r in returned)


def _default(p: inspect.Parameter) -> Any:
    return None if p.default is inspect.Parameter.empty else p.default


def _normal(value: Any) -> Any:
    """Compile-time values as the kernel sees them: foreign dtypes and scalars become ours."""
    kind = type(value).__module__
    if kind.startswith("torch") and type(value).__name__ == "dtype":
        return DType(value)
    if type(value) is Const:
        return value.value
    return value


def _annotated_in_body(fn: FunctionType) -> frozenset[str]:
    """Parameters that a bare annotation statement of the body declares."""
    node = source_of(fn).node
    names = {a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
    found = set()
    for s in _own_statements(node.body):
        if (
            isinstance(s, ast.AnnAssign)
            and s.value is None
            and isinstance(s.target, ast.Name)
            and s.target.id in names
        ):
            found.add(s.target.id)
    return frozenset(found)


def _own_statements(body: Sequence[ast.stmt]) -> list[ast.AST]:
    """All nodes below `body`, nested functions and classes left out."""
    out: list[ast.AST] = []
    stack: list[ast.AST] = list(reversed(body))
    while stack:
        n = stack.pop()
        out.append(n)
        if not isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            stack.extend(ast.iter_child_nodes(n))
    return out


def _return_span(fn: FunctionType) -> Span:
    source = source_of(fn)
    returns = [n for n in _own_statements(source.node.body) if isinstance(n, ast.Return)]
    return Span.of(returns[-1] if returns else source.node, source.file, fn.__name__)


_EAGER_CALLS = frozenset({"Kernel", "ClusterKernel", "CUDASourceCodeKernel", "const", "empty"})


def detect_mode(fn: Callable[..., Any]) -> str:
    """ "lazy": `fn` is a factory that returns a PrimFunc; "eager": `fn` is the kernel.

    Decided without running it: an inner `@T.prim_func` makes it a factory; a kernel launch,
    T.const, T.empty or a run-time parameter makes it a kernel. What is left calls some other
    factory.
    """
    target = inspect.unwrap(fn)
    if not isinstance(target, FunctionType):
        return "lazy"
    node = source_of(target).node
    for n in ast.walk(node):
        if (
            isinstance(n, ast.FunctionDef)
            and n is not node
            and any(_is_prim_func(d) for d in n.decorator_list)
        ):
            return "lazy"
    eager = EagerFunction(target)
    for n in _own_statements(node.body):
        if isinstance(n, ast.Call) and isinstance(n.func, (ast.Attribute, ast.Name)):
            name = n.func.attr if isinstance(n.func, ast.Attribute) else n.func.id
            if name in _EAGER_CALLS and isinstance(n.func, ast.Attribute):
                return "eager"
    return "eager" if eager.runtime_names else "lazy"


def _is_prim_func(decorator: ast.expr) -> bool:
    d = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (
        d.attr if isinstance(d, ast.Attribute) else d.id if isinstance(d, ast.Name) else ""
    ) == "prim_func"
