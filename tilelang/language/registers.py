# SPDX-License-Identifier: Apache-2.0
"""Loads and stores of one register's width by the calling thread: `T.ldg128`, `T.sts64`, …; and
`T.ptx_cp_async`.

In: an element, where the access begins; its last index must be a multiple of the width. Out: a
vector access, seen as 32-bit words. With a predicate nothing is touched where it does not hold, and
a load gives 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang import ir
from tilelang.errors import OptionError, ScopeError, ShapeError, TypeMismatchError
from tilelang.ir import Buffer, Call, DType, Evaluate, Expr, If, Load, Ramp, Region, Store, const
from tilelang.ir import call as ir_call

from .math import operand
from .trace import Trace, kernel_trace
from .values import VarRef, plain
from .views import address_of

_BYTES = (4, 8, 16)


def _first(t: Trace, what: str, place: Any) -> Load:
    """The element where the access begins."""
    if isinstance(place, VarRef):
        place = place.__tl_expr__()
    if isinstance(place, Call) and place.op == "address_of":
        place = place.args[0]
    if isinstance(place, Buffer):
        place = Load(place, tuple(const(0) for _ in place.shape))
    elif isinstance(place, Region):
        place = Load(place.buffer, place.offsets)
    if not isinstance(place, Load):
        raise t.error(
            f"{what} needs a buffer element, got {place!r}",
            "TL0279",
            "e.g. A[i]",
            TypeMismatchError,
        )
    return place


def _vector(t: Trace, what: str, place: Any, bits: int, shared: bool) -> Load:
    first = _first(t, what, place)
    b = first.buffer
    if b.is_shared != shared or not (b.is_shared or b.is_global):
        raise t.error(
            f"{what}: {b.name} is in {b.scope} memory",
            "TL0429",
            "ld/stg work on global memory, ld/sts on shared memory",
            ScopeError,
        )
    if b.dtype.bits < 8 or b.dtype.lanes > 1 or b.dtype.is_bool or bits % b.dtype.bits:
        raise t.error(
            f"{what}: {bits} bits are no whole number of {b.dtype}",
            "TL0331",
            "use a narrower element, or T.view",
            ShapeError,
        )
    lanes = bits // b.dtype.bits
    if lanes == 1:
        return first
    *outer, last = first.indices
    return Load(b, (*outer, Ramp(last, const(1, last.dtype), lanes)))


def _load(name: str, bits: int, shared: bool) -> Callable[..., Expr]:
    what, words = f"T.{name}", bits // 32
    to = DType("uint32").with_lanes(words)

    def function(src: Any, pred: Any = None) -> Expr:
        t, _ = kernel_trace(what)
        value: Expr = _vector(t, what, src, bits, shared)
        if value.dtype is not to:
            value = ir_call("reinterpret", [value], to)
        if pred is not None:
            zero: Expr = const(0, "uint32")
            zero = zero if words == 1 else ir.Broadcast(zero, words)
            value = ir.if_then_else(ir.as_bool(operand(pred, what)), value, zero)
        return t.bind("loaded", value)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{bits} bits from there on, as {to}; 0 where `pred` does not hold."
    return function


def _store(name: str, bits: int, shared: bool) -> Callable[..., None]:
    what = f"T.{name}"

    def function(dst: Any, value: Any, pred: Any = None) -> None:
        t, _ = kernel_trace(what)
        place = _vector(t, what, dst, bits, shared)
        e = operand(value, what, DType("uint32") if bits == 32 else None)
        if e.dtype.bits * e.dtype.lanes != bits:
            raise t.error(
                f"{what} of a value of {e.dtype.bits * e.dtype.lanes} bits",
                "TL0332",
                f"give {bits // 32} words, e.g. T.uint32x2(a, b)",
                ShapeError,
            )
        if e.dtype is not place.dtype:
            e = ir_call("reinterpret", [e], place.dtype)
        s: Any = Store(place.buffer, place.indices, e, t.span())
        t.emit(s if pred is None else If(ir.as_bool(operand(pred, what)), s, None, t.span()))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Writes {bits} bits from there on; nothing where `pred` does not hold."
    return function


ldg32, ldg64, ldg128, ldg256 = (_load(f"ldg{b}", b, False) for b in (32, 64, 128, 256))
stg32, stg64, stg128, stg256 = (_store(f"stg{b}", b, False) for b in (32, 64, 128, 256))
lds32, lds64, lds128 = (_load(f"lds{b}", b, True) for b in (32, 64, 128))
sts32, sts64, sts128 = (_store(f"sts{b}", b, True) for b in (32, 64, 128))


def ldg(x: Any) -> Expr:
    """An element of global memory: `T.__ldg` (the compiler sees itself what is only read)."""
    t, _ = kernel_trace("T.__ldg")
    return t.bind("loaded", _first(t, "T.__ldg", x))


def ptx_cp_async(dst: Any, src: Any, bytes: Any, predicate: Any = None) -> None:
    """Starts a copy of 4, 8 or 16 bytes from global to shared memory; zeros where the predicate
    does not hold. `T.ptx_commit_group` and `T.ptx_wait_group` wait for it."""
    t, _ = kernel_trace("T.ptx_cp_async")
    size = plain(bytes)
    if size not in _BYTES:
        raise t.error(
            f"T.ptx_cp_async of {bytes!r} bytes", "TL0537", "4, 8 or 16 bytes", OptionError
        )
    to, origin = (_first(t, "T.ptx_cp_async", x) for x in (dst, src))
    if not (to.buffer.is_shared and origin.buffer.is_global):
        raise t.error(
            f"T.ptx_cp_async from {origin.buffer.scope} to {to.buffer.scope} memory",
            "TL0428",
            "it copies from global to shared memory",
            ScopeError,
        )
    hold = const(True, "bool") if predicate is None else ir.as_bool(operand(predicate, "pred"))
    args = [const(size), address_of(to), address_of(origin), hold]
    t.emit(Evaluate(ir_call("cp_async", args), t.span()))


__all__ = [
    "ldg",
    "ldg32",
    "ldg64",
    "ldg128",
    "ldg256",
    "lds32",
    "lds64",
    "lds128",
    "ptx_cp_async",
    "stg32",
    "stg64",
    "stg128",
    "stg256",
    "sts32",
    "sts64",
    "sts128",
]
