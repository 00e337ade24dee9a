# SPDX-License-Identifier: Apache-2.0
"""Values with a name: mutable scalars (`T.alloc_var`, `T.Ref`), and what an assignment does.

A Python name in a kernel holds either a Python object (numbers, tuples, buffers, layouts: as in
Python), or an immutable expression (evaluated where it was assigned), or a `VarRef`, to which an
assignment stores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilelang.errors import BoundsError, LanguageError, ScopeError, Span, TypeMismatchError
from tilelang.ir import (
    Buffer,
    Call,
    Const,
    Expr,
    Load,
    Region,
    Store,
    StringImm,
    Var,
    as_expr,
    cast,
    walk,
)
from tilelang.ir.intrinsics import TABLE

if TYPE_CHECKING:
    from .trace import Trace


class VarRef:
    """A mutable scalar: an element of a buffer. Reading it anywhere gives its value at that
    moment.
    """

    __slots__ = ("buffer", "indices")

    def __init__(self, buffer: Buffer, indices: tuple[Expr, ...]) -> None:
        self.buffer = buffer
        self.indices = indices

    def __tl_expr__(self) -> Expr:
        return Load(self.buffer, self.indices)

    @property
    def dtype(self) -> Any:
        return self.buffer.dtype

    @property
    def shape(self) -> tuple[Expr, ...]:
        return self.buffer.shape

    @property
    def scope(self) -> str:
        return self.buffer.scope

    @property
    def name(self) -> str:
        return self.buffer.name

    def region(self) -> Region:
        one = as_expr(1)
        return Region(self.buffer, self.indices, tuple(one for _ in self.indices))

    def astype(self, dtype: Any) -> Expr:
        return cast(self.__tl_expr__(), dtype)

    def __getitem__(self, key: Any) -> Any:
        return self.buffer[key]

    def __iter__(self) -> Any:
        raise TypeError(f"`{self.name}` is a scalar and cannot be iterated over")

    def __repr__(self) -> str:
        return repr(self.__tl_expr__())

    def __bool__(self) -> bool:
        return bool(self.__tl_expr__())

    __hash__ = object.__hash__


def _forward(name: str) -> Any:
    method = getattr(Expr, name)

    def forward(self: VarRef, *args: Any) -> Any:
        return method(self.__tl_expr__(), *args)

    forward.__name__ = name
    return forward


for _name in [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
]:
    setattr(VarRef, f"__{_name}__", _forward(f"__{_name}__"))
    setattr(VarRef, f"__r{_name}__", _forward(f"__r{_name}__"))
for _name in [
    "neg",
    "pos",
    "invert",
    "abs",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "float",
    "int",
    "index",
]:
    setattr(VarRef, f"__{_name}__", _forward(f"__{_name}__"))


def plain(value: Any) -> Any:
    """A `VarRef` as the expression that reads it, a constant integer as a Python number."""
    if isinstance(value, VarRef):
        value = value.__tl_expr__()
    if type(value) is Const and (str(value.dtype) == "int32" or value.dtype.is_bool):
        return value.value
    return value


def is_pure(e: Expr) -> bool:
    """Does `e` give the same value whenever it is evaluated, without effects?"""
    return not any(
        type(n) is Load or (type(n) is Call and TABLE[n.op].effect != "pure") for n in walk(e)
    )


def bound(t: Trace, name: str, value: Any) -> Any:
    """What a name refers to after `name = value`: an expression is evaluated now and given the
    name.
    """
    if isinstance(value, VarRef):
        if not value.buffer.name:
            value.buffer.name = name
            return value
        value = value.__tl_expr__()
    if isinstance(value, Expr):
        value = plain(value)
        if not isinstance(value, Expr) or type(value) in (Const, Var, StringImm):
            return value
        return value if not t.in_kernel and is_pure(value) else t.bind(name, value)
    if isinstance(value, Buffer):
        value.name = value.name or name
        return value
    if isinstance(value, (tuple, list)):
        return _bound_sequence(t, name, value)
    return value


def _bound_sequence(t: Trace, name: str, value: Any) -> Any:
    for n, v in enumerate(value):
        if isinstance(v, (Buffer, VarRef)):
            buffer = v if isinstance(v, Buffer) else v.buffer
            buffer.name = buffer.name or f"{name}_{n}"
    if type(value) is tuple and any(isinstance(v, Expr) and not is_pure(v) for v in value):
        return tuple(
            bound(t, f"{name}_{n}", v) if isinstance(v, Expr) else v for n, v in enumerate(value)
        )
    return value


def check_escape(t: Trace, name: str, value: Any, old: Any) -> None:
    """Refuses an assignment whose effect cannot be what the program says (see `liveness`)."""
    region = next((r for r in t.own_regions() if r.is_runtime and name in r.escaping), None)
    if region is None or _same(value, old):
        return
    where = {"if": "branch", "while": "loop", "parallel": "parallel loop"}.get(region.kind, "loop")
    dtype = (
        str(value.dtype)
        if isinstance(value, Expr)
        else {bool: "bool", int: "int32", float: "float32"}.get(type(value))
    )
    first = isinstance(old, _Missing)
    fix = (
        f"declare `{name} = T.alloc_var({dtype!r})` before the {where}: assigning to it stores"
        if dtype
        else (f"give each {where} a name of its own")
    )
    what = "assigned only" if first else "assigned"
    when = "after it" if region.kind == "if" else "after it or in its next iteration"
    raise t.error(
        f"`{name}` is {what} inside a {where} that is decided when the kernel runs, but its value "
        f"is read {when}",
        "TL0176",
        fix,
    )


class _Missing:
    """The name has no value yet."""


MISSING = _Missing()


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    return type(a) is type(b) and isinstance(a, (int, float, str, bool)) and a == b


# ------------------------------------------------------------------------------------------ stores


def element(t: Trace, buffer: Buffer, key: Any) -> Load | Region:
    """`buffer[key]`, its errors at the user's line."""
    try:
        return buffer[_plain_key(key)]
    except IndexError as e:
        raise _index_error(t, buffer, key, str(e)) from None
    except ValueError as e:
        raise t.error(f"{e}", "TL0177", "use a loop, or a T.StridedTensor view") from None


def _plain_key(key: Any) -> Any:
    return tuple(plain(k) for k in key) if isinstance(key, tuple) else plain(key)


def _index_error(t: Trace, buffer: Buffer, key: Any, text: str) -> Exception:
    missing = buffer.ndim - (len(key) if isinstance(key, tuple) else 1)
    help = (
        f"use {buffer.name}[{', '.join(['...'] * max(buffer.ndim - missing, 0) + [':'] * missing)}]"
        if missing > 0
        else (f"give {buffer.ndim} indices")
    )
    return t.error(f"{text}", "TL1201", help, BoundsError, notes=[repr(buffer)])


def store(t: Trace, buffer: Buffer, indices: tuple[Expr, ...], value: Any) -> None:
    """`buffer[indices] = value`, converted to the buffer's dtype."""
    _check_inside(t, buffer, indices)
    e = scalar(t, value, f"the value stored to `{buffer.name}`", buffer.dtype)
    lanes = indices[-1].dtype.lanes if indices else 1
    dtype = buffer.dtype.with_lanes(lanes * buffer.dtype.lanes)
    if e.dtype.is_handle and not dtype.is_handle:
        raise t.error(
            f"a pointer cannot be stored to `{buffer.name}` ({buffer.dtype})",
            "TL0201",
            "store a number",
            TypeMismatchError,
        )
    if e.dtype.lanes not in (1, dtype.lanes):
        raise t.error(
            f"{e.dtype.lanes} lanes of {e.dtype.element} cannot be stored to `{buffer.name}`, "
            f"whose element is {buffer.dtype}",
            "TL0202",
            "store one lane at a time (T.extract_lane), or index it with T.Ramp",
            TypeMismatchError,
        )
    converted = cast(e, dtype)
    if buffer.scope == "shared.barrier":
        raise t.error(
            f"`{buffer.name}` is a barrier: its phase changes by arrivals, not by stores",
            "TL0401",
            "use T.barrier_arrive and T.barrier_wait",
            ScopeError,
        )
    t.emit(Store(buffer, indices, converted, t.span()))


def scalar(t: Trace, value: Any, what: str, like: Any = None) -> Expr:
    """`value` as a scalar expression; a whole buffer or a region of many elements is refused."""
    if isinstance(value, Buffer):
        raise t.error(
            f"{what} is the whole buffer `{value.name}`; one element is needed",
            "TL0203",
            f"index it, e.g. {value.name}[{', '.join(['0'] * value.ndim)}], or use T.copy for "
            "tiles",
            TypeMismatchError,
        )
    try:
        e = as_expr(value, like)
    except (TypeError, OverflowError) as err:
        raise t.error(
            f"{what}: {err}", "TL0204", "use a number or a kernel expression", TypeMismatchError
        ) from None
    if like is not None and type(e) is StringImm:
        raise t.error(f"{what} is the text {value!r}", "TL0246", "give a number", TypeMismatchError)
    _check_range(t, value, what, like)
    return e


def _check_range(t: Trace, value: Any, what: str, to: Any) -> None:
    """Refuses an integer constant that no pattern of the dtype's bits means. (-1 is all ones of an
    unsigned integer, 0x80 the sign bit of an int8.)"""
    number = value.value if type(value) is Const else value
    if type(number) is not int or to is None or not to.is_int:
        return
    if not -(1 << (to.bits - 1)) <= number < 1 << to.bits:
        raise t.error(
            f"{what}: {number} does not fit {to.element}",
            "TL0245",
            "use a number of its range, or a wider dtype",
            TypeMismatchError,
        )


def _check_inside(t: Trace, buffer: Buffer, indices: tuple[Expr, ...]) -> None:
    """Refuses a store that is always outside of its buffer. (Under a condition it may never
    run.)"""
    if any(r.kind in ("if", "while") for r in t.regions):
        return
    for dim, (i, n) in enumerate(zip(indices, buffer.shape, strict=True)):
        if type(i) is Const and type(n) is Const and not 0 <= i.value < n.value:
            raise t.error(
                f"the store to `{buffer.name}` is outside of it: index {i.value} in dimension "
                f"{dim} of extent {n.value}",
                "TL1203",
                f"indices go from 0 to {n.value - 1}; a constant from -{n.value} to -1 counts "
                "from the end",
                BoundsError,
                notes=[repr(buffer)],
            )


__all__ = [
    "MISSING",
    "LanguageError",
    "Span",
    "VarRef",
    "bound",
    "check_escape",
    "element",
    "is_pure",
    "plain",
    "scalar",
    "store",
]
