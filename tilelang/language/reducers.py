# SPDX-License-Identifier: Apache-2.0
"""Reducers, scans and questions about whole buffers, made of loops.

A reducer is a fragment whose elements are updated by many iterations of a `T.Parallel`; whoever
owns an element runs all of its updates, so nothing is left to combine at the end. A scan runs along
one dimension of shared memory, the other dimensions in parallel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.errors import OptionError, ScopeError, ShapeError, TypeMismatchError
from tilelang.ir import (
    Buffer,
    Expr,
    Load,
    Region,
    Scope,
    as_bool,
    binary,
    const,
    const_int,
    logical_and,
    logical_or,
    maximum,
    minimum,
)
from tilelang.ir.expr import BitAnd, BitOr, BitXor

from .alloc import alloc_fragment, alloc_shared, alloc_var
from .hints import ONE_EXCHANGE, count, no_effect
from .loops import Parallel, serial
from .math import max_value, min_value
from .operands import region
from .ops import copy, fill
from .protocol import Protocol, each_element
from .trace import Trace, current
from .values import plain, scalar, store

_OPS: dict[str, Callable[[Any, Any], Expr]] = {
    "sum": lambda a, b: a + b,
    "max": maximum,
    "min": minimum,
    "bitand": lambda a, b: binary(BitAnd, a, b),
    "bitor": lambda a, b: binary(BitOr, a, b),
    "bitxor": lambda a, b: binary(BitXor, a, b),
}


def _neutral(op: str, dtype: Any) -> Any:
    if op == "max":
        return float("-inf") if dtype.is_float else min_value(dtype)
    if op == "min":
        return float("inf") if dtype.is_float else max_value(dtype)
    return const(-1, dtype) if op == "bitand" else const(0, dtype)


def alloc_reducer(
    shape: Any, dtype: Any, op: str = "sum", replication: str | None = None
) -> Buffer:
    """An accumulator for updates from many iterations of a T.Parallel."""
    t = current("T.alloc_reducer")
    if op not in _OPS:
        raise t.error(
            f"T.alloc_reducer: unknown op {op!r}",
            "TL0593",
            f"one of {', '.join(_OPS)}",
            OptionError,
        )
    if replication not in (None, "all", "none"):
        raise t.error(
            f"T.alloc_reducer: unknown replication {replication!r}",
            "TL0594",
            "'all', 'none', or leave it out",
            OptionError,
        )
    buffer = alloc_fragment(shape, dtype)
    t.reducers[buffer] = op
    return buffer


def _reducer(t: Trace, what: str, r: Any) -> str:
    buffer = r if isinstance(r, Buffer) else getattr(r, "buffer", None)
    if not isinstance(buffer, Buffer) or buffer not in t.reducers:
        raise t.error(
            f"{what}: {r!r} is not a reducer",
            "TL0241",
            "make it by T.alloc_reducer",
            TypeMismatchError,
        )
    return t.reducers[buffer]


def reducer_init(reducer: Any, init: Any = None) -> None:
    """Sets a reducer to a value, or to the neutral element of its operation."""
    t = current("T.reducer_init")
    op = _reducer(t, "T.reducer_init", reducer)
    fill(reducer, _neutral(op, reducer.dtype) if init is None else init)


def reducer_update(element: Any, value: Any) -> None:
    """Combines a value into an element of a reducer."""
    t = current("T.reducer_update")
    op = _reducer(t, "T.reducer_update", element)
    if not isinstance(element, Load):
        raise t.error(
            "T.reducer_update needs one element", "TL0242", "e.g. r[i]", TypeMismatchError
        )
    if t.parallel_region() is None:
        raise t.error(
            "T.reducer_update outside of T.Parallel", "TL0172", "update it in a T.Parallel loop"
        )
    new = scalar(t, plain(value), "T.reducer_update: value", element.dtype)
    store(t, element.buffer, element.indices, _OPS[op](element, new))


def finalize_reducer(reducer: Any, dst: Any = None, batch: int = 1) -> None:
    """Ends the updates: the result is in the reducer, and in `dst` if given. batch: accepted,
    without an effect."""
    t = current("T.finalize_reducer")
    if count(t, "T.finalize_reducer: batch", batch) > 1:
        no_effect("T.finalize_reducer: batch", ONE_EXCHANGE)
    _reducer(t, "T.finalize_reducer", reducer)
    if dst is not None:
        copy(reducer, dst)


# --------------------------------------------------------------------------------------- scans


def cumsum(src: Any, dst: Any = None, dim: int = 0, reverse: bool = False) -> None:
    """dst[i] = src[0] + … + src[i] along `dim` (from its end if `reverse`); in place
    without dst.
    """
    _scan("T.cumsum", src, dst, dim, reverse, lambda a, b: a + b)


def cummax(src: Any, dst: Any = None, dim: int = 0, reverse: bool = False) -> None:
    """dst[i] = max(src[0], …, src[i]) along `dim`."""
    _scan("T.cummax", src, dst, dim, reverse, maximum)


def _scan(
    what: str, src: Any, dst: Any, dim: int, reverse: bool, op: Callable[[Any, Any], Expr]
) -> None:
    t = current(what)
    a = region(t, src, f"{what}: src")
    b = a if dst is None else region(t, dst, f"{what}: dst")
    n = len(a.extents)
    axis = const_int(plain(dim))
    if axis is None or not -n <= axis < n:
        raise t.error(
            f"{what}: dim {dim} of a {n}-dimensional buffer",
            "TL0592",
            f"0 <= dim < {n}",
            OptionError,
        )
    if len(b.extents) != n:
        raise t.error(
            f"{what}: src has {n} dimension(s), dst has {len(b.extents)}",
            "TL0318",
            "both have one shape",
            ShapeError,
        )
    if a.buffer.is_fragment or b.buffer.is_fragment:
        stage = alloc_shared(a.extents, a.dtype)
        stage.name = f"{a.buffer.name}_scan"
        copy(src, stage)
        _scan_in_memory(t, stage.whole(), stage.whole(), axis % n, reverse, op)
        copy(stage, src if dst is None else dst)
        return
    _scan_in_memory(t, a, b, axis % n, reverse, op)


def _scan_in_memory(
    t: Trace, a: Region, b: Region, axis: int, reverse: bool, op: Callable[[Any, Any], Expr]
) -> None:
    """Rows in parallel, along `axis` one element after the other."""
    p = Protocol(t)
    others = [e for d, e in enumerate(a.extents) if d != axis] or [const(1)]
    names = [f"o{n}" for n in range(len(others))]
    for rows in p.loop(Parallel(*others), names, True, (), False):
        total = alloc_var(b.dtype)
        total.buffer.name = "total"
        for k in p.loop(serial(a.extents[axis]), ["k"], False, (), False):
            step = a.extents[axis] - 1 - k if reverse else k
            place: list[Any] = list(rows) if len(a.extents) > 1 else []
            place.insert(axis, step)
            x = Load(a.buffer, tuple(o + i for o, i in zip(a.offsets, place, strict=True)))
            first = p.if_(k == 0, ())
            if first.then():
                store(t, total.buffer, total.indices, x)
            if first.orelse():
                store(t, total.buffer, total.indices, op(total.__tl_expr__(), x))
            first.end()
            at = tuple(o + i for o, i in zip(b.offsets, place, strict=True))
            store(t, b.buffer, at, total)


# ----------------------------------------------------------------------------- whole buffers


def any_of(buffer: Any) -> Expr:
    """Is any element of a shared, local or global buffer not 0? Each thread looks for itself."""
    return _over_all("T.any_of", buffer, False, logical_or)


def all_of(buffer: Any) -> Expr:
    """Are all elements of a shared, local or global buffer not 0?"""
    return _over_all("T.all_of", buffer, True, logical_and)


def _over_all(what: str, buffer: Any, start: bool, op: Callable[[Any, Any], Expr]) -> Expr:
    t = current(what)
    r = region(t, buffer, f"{what}: buffer")
    if r.buffer.scope == Scope.FRAGMENT:
        raise t.error(
            f"{what}: `{r.buffer.name}` is a fragment, no thread has all of it",
            "TL0404",
            "copy it to shared memory first, or reduce it",
            ScopeError,
        )
    found = alloc_var("bool", init=start)
    found.buffer.name = "found"

    def look(at: tuple[Expr, ...]) -> None:
        value = op(found.__tl_expr__(), as_bool(Load(r.buffer, at)))
        store(t, found.buffer, found.indices, value)

    each_element(t, r, [f"e{d}" for d in range(len(r.extents))], look)
    return t.bind("result", found.__tl_expr__())


__all__ = [
    "all_of", "alloc_reducer", "any_of", "cummax", "cumsum", "finalize_reducer",
    "reducer_init", "reducer_update",
]  # fmt: skip
