# SPDX-License-Identifier: Apache-2.0
"""Annotations of parameters, and symbolic dimensions.

`T.Tensor(shape, dtype)` and `T.Tensor[shape, dtype]` make a `TensorSpec`, from which the trace
makes the parameter's `Buffer`; a dtype annotates a scalar, `T.ptr` a pointer. `T.dynamic` names
sizes that are known at run time, `T.const` sizes that are compiled in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilelang.errors import LanguageError, ShapeError, TypeMismatchError
from tilelang.ir import Buffer, DType, Expr, Load, Scope, Var, as_expr, call
from tilelang.ir.visit import reintern

from .trace import Trace, current, maybe_current
from .values import VarRef, plain


@dataclass(frozen=True)
class TensorSpec:
    """What a parameter is: shape None means that rank, dtype and shape come from the argument."""

    shape: tuple[Any, ...] | None
    dtype: DType
    strides: tuple[Any, ...] | None = None
    scope: str = Scope.GLOBAL

    def buffer(self, name: str, span: Any = None) -> Buffer:
        shape = tuple(_dimension(s) for s in self.shape or ())
        strides = None if self.strides is None else tuple(_dimension(s) for s in self.strides)
        return Buffer(name, shape, self.dtype, self.scope, strides, None, span)


@dataclass(frozen=True)
class DataOf:
    """`X.data` in a kernel: the memory of X, for `T.Tensor(shape, dtype, X.data)`."""

    buffer: Buffer

    def __tl_expr__(self) -> Expr:
        first = Load(self.buffer, tuple(as_expr(0) for _ in self.buffer.shape))
        return call("address_of", [first])


def _dimension(value: Any) -> Expr:
    return reintern(as_expr(plain(value)))


def as_shape(shape: Any, what: str) -> tuple[Any, ...]:
    """A shape as a tuple: an int is one dimension; every entry is an int or an integer
    expression.
    """
    items = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    out = tuple(
        plain(s.item() if hasattr(s, "item") and not isinstance(s, Expr) else s) for s in items
    )
    for s in out:
        if isinstance(s, bool) or not (
            isinstance(s, int) or (isinstance(s, Expr) and s.dtype.is_int)
        ):
            raise ShapeError(
                f"{what}: {s!r} is not a dimension",
                code="TL0301",
                span=_here(),
                help="a dimension is an integer, T.dynamic(...), T.const(...) or an integer "
                "expression of those",
            )
        if isinstance(s, int) and s < 0:
            raise ShapeError(
                f"{what}: dimension {s} is negative",
                code="TL0302",
                span=_here(),
                help="use a size >= 0",
            )
    return out


def as_dtype(value: Any, what: str) -> DType:
    try:
        return DType(value)
    except (TypeError, AttributeError):
        raise TypeMismatchError(
            f"{what}: {value!r} is not a dtype",
            code="TL0208",
            span=_here(),
            help="e.g. T.float16 or 'float16'",
        ) from None


def _in_kernel() -> bool:
    t = maybe_current()
    return t is not None and t.in_kernel


def _here() -> Any:
    t = maybe_current()
    return None if t is None else t.span()


class _TensorAnnotation:
    """`T.Tensor`: `T.Tensor(shape, dtype)`, `T.Tensor[shape, dtype]`, or bare."""

    def __init__(self, name: str, scope: str, strided: bool = False) -> None:
        self._name = name
        self._scope = scope
        self._strided = strided

    def __call__(self, shape: Any = None, *args: Any, **kwargs: Any) -> Any:
        names = (
            ["strides", "dtype", "scope"]
            if self._strided
            else ["dtype", "data", "scope", "strides"]
        )
        if len(args) > len(names):
            raise TypeError(
                f"{self._name} takes at most {len(names) + 1} arguments, got {len(args) + 1}"
            )
        values = dict(zip(names, args, strict=False))
        for key, value in kwargs.items():
            if key not in names or key in values:
                raise LanguageError(
                    f"{self._name} has no parameter {key!r}",
                    code="TL0116",
                    span=_here(),
                    help=f"its parameters are: shape, {', '.join(names)}",
                )
            values[key] = value
        if "data" in values and (values["data"] is not None or _in_kernel()):
            return self._view(shape, values)
        return self._spec(
            shape, values.get("dtype", "float32"), values.get("strides"), values.get("scope")
        )

    def _view(self, shape: Any, values: dict[str, Any]) -> Buffer:
        """Inside a kernel, `T.Tensor(shape, dtype, X.data)` is `T.view(X, shape, dtype)`."""
        from .views import view  # it is made of what is here

        data, scope = values["data"], values.get("scope")
        if not isinstance(data, DataOf) or scope not in (None, data.buffer.scope):
            raise LanguageError(
                f"{self._name}: data must be `X.data` of a buffer X"
                + ("" if scope is None else " of this scope"),
                code="TL0199",
                span=_here(),
                help="T.view(X, shape, dtype) and T.reshape(X, shape) give X another shape, "
                "T.make_tensor(address, shape, dtype) is a tensor at an address",
            )
        return view(data.buffer, shape, values.get("dtype", "float32"), values.get("strides"))

    def __getitem__(self, key: Any) -> TensorSpec:
        items = key if isinstance(key, tuple) else (key,)
        if self._strided:
            shape, strides, *rest = items
            return self._spec(shape, rest[0] if rest else "float32", strides, None)
        if len(items) == 2 and not isinstance(items[1], (int, Expr)):
            return self._spec(items[0], items[1], None, None)
        if isinstance(items[-1], (int, Expr, VarRef)):
            return self._spec(items, "float32", None, None)
        return self._spec(items[:-1], items[-1], None, None)

    def _spec(self, shape: Any, dtype: Any, strides: Any, scope: str | None) -> TensorSpec:
        dims = as_shape(shape, self._name)
        steps = None if strides is None else as_shape(strides, self._name)
        if steps is not None and len(steps) != len(dims):
            raise ShapeError(
                f"{self._name}: {len(dims)} dimension(s) but {len(steps)} stride(s)",
                code="TL0303",
                span=_here(),
                help="give one stride per dimension",
            )
        kind = as_dtype(dtype, self._name)
        element = DType("int64") if kind.is_handle else kind  # a table of addresses
        return TensorSpec(dims, element, steps, scope or self._scope)

    def __repr__(self) -> str:
        return self._name


Tensor = _TensorAnnotation("T.Tensor", Scope.GLOBAL)
tensor = _TensorAnnotation("tilelang.tensor", Scope.GLOBAL)
StridedTensor = _TensorAnnotation("T.StridedTensor", Scope.GLOBAL, strided=True)
BufferAnnotation = _TensorAnnotation("T.Buffer", Scope.GLOBAL)
SharedBuffer = _TensorAnnotation("T.SharedBuffer", Scope.SHARED)
FragmentBuffer = _TensorAnnotation("T.FragmentBuffer", Scope.FRAGMENT)
LocalBuffer = _TensorAnnotation("T.LocalBuffer", Scope.LOCAL)

_BARE = (Tensor, tensor, StridedTensor, BufferAnnotation)


def runtime_annotation(annotation: Any, *, python_types: bool = False) -> TensorSpec | DType | None:
    """What an annotation says a run-time parameter is; None: it says nothing (a compile-time
    argument).

    python_types: `int`, `float` and `bool` mean int32, float32 and bool (in a prim_func, whose
    parameters are all run-time ones).
    """
    if isinstance(annotation, (TensorSpec, DType)):
        return annotation
    if any(annotation is b for b in _BARE):
        return TensorSpec(None, DType("float32"))
    if isinstance(annotation, Buffer):
        return TensorSpec(annotation.shape, annotation.dtype, annotation.strides, annotation.scope)
    if python_types and annotation in (int, float, bool):
        return DType(annotation)
    return None


def with_meta(spec: TensorSpec, meta: Any) -> TensorSpec:
    """A bare annotation completed from the call's argument (its shape, dtype and, if not
    row-major, strides).
    """
    if spec.shape is not None:
        return spec
    shape = tuple(int(s) for s in meta.shape)
    return replace(spec, shape=shape, dtype=DType(meta.dtype))


# ---------------------------------------------------------------------------------- dimensions


def split_names(names: Any) -> list[str]:
    if not isinstance(names, str):
        raise TypeMismatchError(
            f"names are given as text, got {names!r}",
            code="TL0235",
            span=_here(),
            help='e.g. T.dynamic("m, n")',
        )
    return [n for n in re.split(r"[\s,]+", names.strip()) if n]


def dynamic(name: str, dtype: Any = "int32") -> Any:
    """Sizes known at run time: `m = T.dynamic("m")`, `m, n = T.dynamic("m, n")`."""
    out = tuple(
        Var(n, as_dtype(dtype, "T.dynamic")) for n in _valid(split_names(name), "T.dynamic")
    )
    return out[0] if len(out) == 1 else out


def symbolic(name: str, dtype: Any = "int32") -> Any:
    """The older spelling of `T.dynamic`."""
    return dynamic(name, dtype)


class _Dyn:
    """`T.dyn["K"]`: an older spelling of `T.dynamic("K")`; the same name is the same size."""

    def __init__(self) -> None:
        self._made: dict[str, Var] = {}

    def __getitem__(self, names: str | tuple[str, ...]) -> Any:
        items = names if isinstance(names, tuple) else tuple(split_names(names))
        out = tuple(self._made.setdefault(n, Var(n)) for n in items)
        return out[0] if len(out) == 1 else out

    def __call__(self, name: str, dtype: Any = "int32") -> Any:
        return dynamic(name, dtype)


dyn = _Dyn()


def _valid(names: Sequence[str], what: str) -> Sequence[str]:
    bad = [n for n in names if not n.isidentifier()]
    if bad or not names:
        raise LanguageError(
            f"{what}: {', '.join(bad) or 'nothing'} is not a name",
            code="TL0117",
            span=_here(),
            help=f'e.g. {what}("m, n")',
        )
    return names


def const(names: str) -> Any:
    """Sizes that are compiled in, read from the tensors of the call: `M, N = T.const("M, N")`."""
    t = current("T.const")
    wanted = _valid(split_names(names), "T.const")
    if t.consts is None and not t.symbolic:
        raise t.error(
            "T.const belongs to an eager kernel (a function under @tilelang.jit that is the "
            "kernel itself)",
            "TL0149",
            "pass the size to the factory, or use T.dynamic for a run-time size",
        )
    out = tuple(_const_value(t, n) for n in wanted)
    return out[0] if len(out) == 1 else out


def _const_value(t: Trace, name: str) -> Any:
    if t.symbolic:
        return t.const_vars.setdefault(name, Var(name))
    values = t.consts or {}
    if name not in values:
        raise t.error(
            f"no value for T.const {name!r}",
            "TL0150",
            f"pass `{name}=<value>`, or the tensor whose shape holds it",
        )
    return values[name]


def empty(*shape: Any, dtype: Any = "float32") -> Buffer:
    """An output tensor, allocated for each call; it must be returned."""
    t = current("T.empty")
    items: Any = shape
    if shape and isinstance(shape[0], (tuple, list)):
        items, rest = shape[0], shape[1:]
        dtype = rest[0] if rest else dtype
    elif len(shape) > 1 and isinstance(shape[-1], (str, DType)):
        items, dtype = shape[:-1], shape[-1]
    buffer = TensorSpec(as_shape(items, "T.empty"), as_dtype(dtype, "T.empty")).buffer("", t.span())
    if t.consts is None and not t.symbolic:
        raise t.error(
            "T.empty belongs to an eager kernel (a function under @tilelang.jit that is the "
            "kernel itself)",
            "TL0151",
            "in a factory, make it a parameter of the prim_func and name it by out_idx; "
            "T.alloc_global is scratch memory",
        )
    if t.in_kernel:
        raise t.error(
            "T.empty inside T.Kernel", "TL0152", "declare outputs before `with T.Kernel(...)`"
        )
    t.outputs.append(buffer)
    return buffer
