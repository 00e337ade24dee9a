# SPDX-License-Identifier: Apache-2.0
"""Other looks at memory: `T.view`, `T.reshape`, `T.make_tensor`; pointers and extern calls."""

from __future__ import annotations

from typing import Any, cast

from tilelang.errors import OptionError, ScopeError, ShapeError, TypeMismatchError
from tilelang.ir import (
    Alloc,
    Buffer,
    Call,
    Const,
    DType,
    Evaluate,
    Expr,
    Load,
    Region,
    Scope,
    StringImm,
    Var,
    call,
    const,
    const_int,
)

from .hints import count
from .math import operand
from .tensor import as_dtype, as_shape
from .trace import Trace, current
from .values import VarRef, plain

_ACCESS = ("r", "w", "rw", 1, 2, 3)


def view(src: Any, shape: Any = None, dtype: Any = None, strides: Any = None) -> Buffer:
    """The memory of `src` with another shape or dtype of the same size."""
    t = current("T.view")
    if not isinstance(src, Buffer):
        raise t.error(
            f"T.view needs a whole buffer, got {src!r}",
            "TL0229",
            "view the buffer, then slice",
            TypeMismatchError,
        )
    to = as_dtype(dtype, "T.view") if dtype is not None else src.dtype
    dims = as_shape(shape, "T.view") if shape is not None else _rescaled(t, src, to)
    old, new = _bits(src.shape, src.dtype), _bits(dims, to)
    if old is not None and new is not None and old != new:
        raise t.error(
            f"T.view: `{src.name}` has {old} bits but {to}[{', '.join(map(str, dims))}] has {new}",
            "TL0312",
            "a view has exactly as many bits",
            ShapeError,
            notes=[repr(src)],
        )
    steps = None if strides is None else as_shape(strides, "T.view")
    buffer = Buffer("", dims, to, src.scope, steps, src, t.span())
    t.emit(Alloc(buffer, {}, buffer.span))
    return buffer


def reshape(src: Any, shape: Any) -> Buffer:
    """The memory of `src` with another shape."""
    return view(src, shape)


def _rescaled(t: Trace, src: Buffer, to: DType) -> tuple[Any, ...]:
    """The shape of `src` seen as another dtype: the last dimension absorbs the width."""
    if src.dtype.bits == to.bits:
        return src.shape
    last = plain(src.shape[-1])
    if not isinstance(last, int) or last * src.dtype.bits % to.bits:
        raise t.error(
            f"T.view: a row of {last} {src.dtype} is no whole number of {to}",
            "TL0313",
            "give the shape of the view",
            ShapeError,
        )
    return (*src.shape[:-1], last * src.dtype.bits // to.bits)


def _bits(shape: Any, dtype: DType) -> int | None:
    total = dtype.bits * dtype.lanes
    for s in shape:
        n = s.value if type(s) is Const else s
        if not isinstance(n, int):
            return None
        total *= n
    return total


def make_tensor(ptr: Any, shape: Any, dtype: Any = "float32", strides: Any = None) -> Buffer:
    """A global buffer at a raw address: a `T.ptr` parameter, or an int64 read from a tensor."""
    t = current("T.make_tensor")
    address = operand(ptr, "T.make_tensor")
    if not (address.dtype.is_handle or (address.dtype.is_int and address.dtype.bits == 64)):
        raise t.error(
            f"T.make_tensor: the address must be a T.ptr or a 64-bit integer, got {address.dtype}",
            "TL0230",
            "annotate the parameter as T.ptr",
            TypeMismatchError,
        )
    if not isinstance(address, Var):
        address = t.bind("address", address)
    steps = None if strides is None else as_shape(strides, "T.make_tensor")
    buffer = Buffer(
        "",
        as_shape(shape, "T.make_tensor"),
        as_dtype(dtype, "T.make_tensor"),
        Scope.GLOBAL,
        steps,
        None,
        t.span(),
        address,
    )
    t.emit(Alloc(buffer, {}, buffer.span))
    return buffer


def make_tensor_from_addr(
    addr: Any,
    shape: Any,
    dtype: Any = "float32",
    strides: Any = None,
    storage_scope: str = Scope.GLOBAL,
) -> Buffer:
    """`T.make_tensor` by another name. storage_scope: an address is one of global memory."""
    if storage_scope != Scope.GLOBAL:
        raise current("T.make_tensor_from_addr").error(
            f"T.make_tensor_from_addr: storage_scope is {storage_scope!r}",
            "TL0406",
            "an address is one of global memory; use T.view for shared memory and registers",
            ScopeError,
        )
    return make_tensor(addr, shape, dtype, strides)


def address_of(element: Any) -> Expr:
    """A pointer to a buffer element, as an argument of an extern call."""
    t = current("T.address_of")
    if isinstance(element, Buffer):
        element = Load(element, tuple(const(0) for _ in element.shape))
    elif isinstance(element, Region):
        element = Load(element.buffer, element.offsets)
    elif isinstance(element, VarRef):
        element = element.__tl_expr__()
    if not isinstance(element, Load):
        raise t.error(
            f"T.address_of needs a buffer element, got {element!r}",
            "TL0231",
            "e.g. T.address_of(A[i])",
            TypeMismatchError,
        )
    return call("address_of", [element])


def access_ptr(
    base: Any,
    access_type: str | int = "rw",
    *extents: Any,
    offset: Any = 0,
    extent: Any = None,
    ignore_last_ndim: int = 0,
) -> Expr:
    """A pointer to a buffer (or an element of it), for an extern call.

    offset: so many elements further, row-major. ignore_last_ndim: so many of the last indices count
    as 0. Of the callee it is assumed that it reads and writes the whole buffer, whatever
    access_type and the extents promise.
    """
    t = current("T.access_ptr")
    if access_type not in _ACCESS:
        raise t.error(
            f"T.access_ptr: unknown access_type {access_type!r}",
            "TL0568",
            f"one of {', '.join(map(repr, _ACCESS))}",
            OptionError,
        )
    pointer = address_of(
        _without_last(base, count(t, "T.access_ptr: ignore_last_ndim", ignore_last_ndim, 0))
    )
    further = operand(plain(offset), "T.access_ptr: offset")
    if const_int(further) == 0:
        return pointer
    first: Any = cast(Call, pointer).args[0]
    if first.buffer.strides is not None or not further.dtype.is_int:
        raise t.error(
            f"T.access_ptr: `{first.buffer.name}` with strides has no element at offset {further}"
            if first.buffer.strides is not None
            else f"T.access_ptr: the offset {further} is no integer",
            "TL0562",
            "index the buffer instead",
            OptionError,
        )
    return address_of(first.buffer.element(further, first.indices))


def _without_last(base: Any, ignored: int) -> Any:
    """The element whose last `ignored` indices are 0."""
    if not ignored or not isinstance(base, (Load, Region)):
        return base
    at = base.indices if isinstance(base, Load) else base.offsets
    kept = max(len(at) - ignored, 0)
    return Load(base.buffer, (*at[:kept], *(const(0, e.dtype) for e in at[kept:])))


def call_extern(dtype: Any, name: Any, *args: Any) -> Any:
    """Calls a function of the imported source. dtype: of its result ("handle": nothing)."""
    t = current("T.call_extern")
    if not isinstance(name, str):
        dtype, name, args = name, str(dtype), args
    to = as_dtype(dtype, "T.call_extern")
    values = [
        StringImm(name),
        *(
            StringImm(a) if isinstance(a, str) else operand(_pointer(a), "T.call_extern")
            for a in args
        ),
    ]
    result = call("call_extern", values, to)
    if to.is_handle:
        t.emit(Evaluate(result, t.span()))
        return None
    return t.bind(f"{name}_result", result)


def _pointer(a: Any) -> Any:
    return address_of(a) if isinstance(a, (Buffer, Region)) else a


def evaluate(value: Any) -> None:
    """A call for its effect."""
    t = current("T.evaluate")
    if isinstance(value, Expr):
        t.emit(Evaluate(value, t.span()))


__all__ = ["access_ptr", "address_of", "call_extern", "evaluate", "make_tensor", "reshape", "view"]
