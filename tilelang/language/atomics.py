# SPDX-License-Identifier: Apache-2.0
"""Atomic updates, loads and stores of elements, and updates of whole tiles.

In: what the user wrote. Out: calls of `atomic_*` intrinsics, which are relaxed; a stronger memory
order is the same with fences around it. An operation that returns a value is evaluated where it is
called, once (its result is a name).
"""

from __future__ import annotations

from typing import Any

from tilelang.errors import OptionError, ShapeError, TypeMismatchError
from tilelang.ir import (
    Buffer,
    DType,
    Evaluate,
    Expr,
    Load,
    Region,
    Var,
    address_of,
    call,
    cast,
    const,
)
from tilelang.tileop.checks import describe, differ, shape_text

from .hints import known_notes
from .loops import Parallel
from .operands import is_place, region, with_known_extents
from .protocol import Protocol
from .trace import Trace, current
from .values import VarRef, plain, scalar

# Memory order -> the fences before and after the relaxed operation (C++ memory model: a fence on
# that side is at least as strong as the order of the operation itself; consume is acquire).
ACQUIRE, RELEASE, ACQ_REL, SEQ_CST = range(4)
_FENCES: dict[str, tuple[int | None, int | None]] = {
    "relaxed": (None, None),
    "consume": (None, ACQUIRE),
    "acquire": (None, ACQUIRE),
    "release": (RELEASE, None),
    "acq_rel": (RELEASE, ACQUIRE),
    "seq_cst": (SEQ_CST, SEQ_CST),
}
_BOTH = tuple(_FENCES)
_READS = ("relaxed", "consume", "acquire", "seq_cst")
_WRITES = ("relaxed", "release", "seq_cst")


def _order(t: Trace, what: str, order: str | None, allowed: tuple[str, ...]) -> str:
    name = "relaxed" if order is None else order
    if name not in allowed:
        raise t.error(
            f"{what}: {order!r} is no memory order of this operation",
            "TL0583",
            f"one of {', '.join(allowed)}",
            OptionError,
        )
    return name


def _fenced(t: Trace, order: str, update: Expr, result: str | None) -> Var | None:
    """Emits the operation between its fences."""
    before, after = _FENCES[order]
    _fence(t, before)
    out = None
    if result is None:
        t.emit(Evaluate(update, t.span()))
    else:
        out = t.bind(result, update)
    _fence(t, after)
    return out


def _fence(t: Trace, kind: int | None) -> None:
    if kind is not None:
        t.emit(Evaluate(call("memory_fence", [const(kind)], DType("handle")), t.span()))


def _atomic(
    op: str,
    dst: Any,
    value: Any,
    memory_order: str | None,
    return_prev: bool,
    use_tma: bool = False,
) -> Var | None:
    what = f"T.{op}"
    t = current(what)
    order = _order(t, what, memory_order, _BOTH)
    if use_tma:
        raise t.error(
            f"{what}: use_tma=True is not supported yet", "TL0595", "leave it out", OptionError
        )
    _check_place(t, what, dst)
    if op == "atomic_or" and not dst.dtype.is_int:
        raise t.error(
            f"{what} of {dst.dtype}",
            "TL0270",
            "the destination must be of an integer dtype",
            TypeMismatchError,
        )
    if isinstance(dst, (Load, VarRef)) and not isinstance(value, (Buffer, Region)):
        return _atomic_element(t, op, dst, value, order, return_prev)
    if return_prev:
        raise t.error(
            f"{what}: return_prev is for single elements",
            "TL0553",
            "loop over the elements",
            OptionError,
        )
    _atomic_tile(t, op, dst, value, order)
    return None


def _check_place(t: Trace, what: str, place: Any) -> None:
    if not is_place(place):
        raise t.error(
            f"{what}: the destination must be a buffer element, got {place!r}",
            "TL0226",
            "e.g. C[i, j]",
            TypeMismatchError,
        )
    dtype = place.dtype
    if dtype.lanes > 1 or dtype.bits < 8 or dtype.is_bool or dtype.is_handle:
        raise t.error(
            f"{what} of {dtype}: no machine updates one at once",
            "TL0249",
            "use elements of a number dtype of 8 bits or more",
            TypeMismatchError,
        )


def _atomic_element(
    t: Trace, op: str, dst: Load | VarRef, value: Any, order: str, return_prev: bool
) -> Var | None:
    v = cast(scalar(t, plain(value), f"T.{op}: value", dst.buffer.dtype), dst.buffer.dtype)
    update = call(op, [address_of(dst.buffer, *dst.indices), v], dst.buffer.dtype)
    return _fenced(t, order, update, "previous" if return_prev else None)


def _atomic_tile(t: Trace, op: str, dst: Any, value: Any, order: str) -> None:
    src: Region | None
    if isinstance(dst, Load):
        src = region(t, value, f"T.{op}: value")
        to = region(t, dst, f"T.{op}: dst", src.extents)
    else:
        to = region(t, dst, f"T.{op}: dst")
        src = region(t, value, f"T.{op}: value", to.extents) if is_place(value) else None
    to, src = with_known_extents(to), src and with_known_extents(src)
    moving = to.squeezed() or (0,)
    if src is not None and src.squeezed() and _differ(to, src):
        raise t.error(
            f"T.{op}: the destination is [{shape_text(to.extents)}], the value "
            f"[{shape_text(src.extents)}]",
            "TL0333",
            "take slices of one shape",
            ShapeError,
            notes=[describe(to), describe(src)],
        )
    names = [f"i{n}" for n in range(len(moving))]
    for loops in Protocol(t).loop(
        Parallel(*(to.extents[d] for d in moving)), names, True, (), False
    ):
        at = _points(to, moving, loops)
        v = value if src is None else Load(src.buffer, _points(src, src.squeezed(), loops))
        _atomic_element(t, op, Load(to.buffer, at), v, order, False)


def _differ(to: Region, src: Region) -> bool:
    """Are the shapes certainly different, extents of 1 left out?"""
    a, b = ([r.extents[d] for d in r.squeezed()] for r in (to, src))
    return len(a) != len(b) or any(map(differ, a, b))


def _points(r: Region, moving: tuple[int, ...], loops: tuple[Expr, ...]) -> tuple[Expr, ...]:
    order = dict(zip(moving, loops, strict=False))
    return tuple(o + order[d] if d in order else o for d, o in enumerate(r.offsets))


def atomic_add(
    dst: Any,
    value: Any,
    memory_order: str | None = None,
    return_prev: bool = False,
    use_tma: bool = False,
    annotations: Any = None,
) -> Var | None:
    """dst += value, indivisibly; element by element for tiles. return_prev: the old value."""
    known_notes("T.atomic_add", annotations)
    return _atomic("atomic_add", dst, value, memory_order, return_prev, use_tma)


def atomic_max(
    dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False
) -> Var | None:
    """dst = max(dst, value), indivisibly."""
    return _atomic("atomic_max", dst, value, memory_order, return_prev)


def atomic_min(
    dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False
) -> Var | None:
    """dst = min(dst, value), indivisibly."""
    return _atomic("atomic_min", dst, value, memory_order, return_prev)


def atomic_or(
    dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False
) -> Var | None:
    """dst |= value, indivisibly."""
    return _atomic("atomic_or", dst, value, memory_order, return_prev)


def _atomic_many(n: int, dst: Any, value: Any, return_prev: bool) -> Expr | None:
    what = f"T.atomic_addx{n}"
    t = current(what)
    to, src = (region(t, x, what) for x in (dst, value))
    old = []
    for k in range(n):
        at, place = ((*r.offsets[:-1], r.offsets[-1] + k) for r in (src, to))
        value = Load(src.buffer, at)
        old.append(
            _atomic_element(t, "atomic_add", Load(to.buffer, place), value, "relaxed", return_prev)
        )
    return call("make_vector", old, to.buffer.dtype.with_lanes(n)) if return_prev else None


def atomic_addx2(dst: Any, value: Any, return_prev: bool = False) -> Expr | None:
    """Adds two neighbouring elements, each indivisibly. return_prev: the old pair."""
    return _atomic_many(2, dst, value, return_prev)


def atomic_addx4(dst: Any, value: Any, return_prev: bool = False) -> Expr | None:
    """Adds four neighbouring elements, each indivisibly. return_prev: the old four."""
    return _atomic_many(4, dst, value, return_prev)


def _element(t: Trace, what: str, place: Any) -> Load:
    _check_place(t, what, place)
    if isinstance(place, VarRef):
        place = place.__tl_expr__()
    if isinstance(place, Buffer) and place.static_shape is not None and place.ndim == 1:
        (n,) = place.static_shape
        place = Load(place, (const(0),)) if n == 1 else place
    if not isinstance(place, Load):
        raise t.error(f"{what} is of a single element", "TL0271", "e.g. C[i, j]", TypeMismatchError)
    return place


def atomic_load(src: Any, memory_order: str = "seq_cst") -> Var:
    """The element, read indivisibly."""
    t = current("T.atomic_load")
    order = _order(t, "T.atomic_load", memory_order, _READS)
    place = _element(t, "T.atomic_load", src)
    value = call("atomic_load", [address_of(place.buffer, *place.indices)], place.dtype)
    out = _fenced(t, order, value, "loaded")
    assert out is not None
    return out


def atomic_store(dst: Any, src: Any, memory_order: str = "seq_cst") -> None:
    """dst = src, written indivisibly."""
    t = current("T.atomic_store")
    order = _order(t, "T.atomic_store", memory_order, _WRITES)
    place = _element(t, "T.atomic_store", dst)
    v = cast(scalar(t, plain(src), "T.atomic_store: src", place.dtype), place.dtype)
    update = call("atomic_store", [address_of(place.buffer, *place.indices), v])
    _fenced(t, order, update, None)


__all__ = [
    "atomic_add",
    "atomic_addx2",
    "atomic_addx4",
    "atomic_load",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_store",
]
