# SPDX-License-Identifier: Apache-2.0
"""Threads, warps, barriers, atomics, checks and prints: operations with an effect.

An operation that returns a value is evaluated where it is called, once (its result is a name).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.errors import OptionError, TypeMismatchError
from tilelang.ir import (
    Assert,
    Assume,
    Buffer,
    DType,
    Evaluate,
    Expr,
    If,
    Load,
    Region,
    Return,
    StringImm,
    Var,
    address_of,
    as_bool,
    binary,
    call,
    cast,
    const,
    const_int,
    maximum,
    minimum,
    seq,
)
from tilelang.ir.expr import BitAnd, BitOr

from .hints import known_notes
from .kernel import get_thread_bindings, get_thread_extents
from .loops import Parallel, integer, serial
from .math import operand
from .operands import is_place, region
from .protocol import Protocol
from .trace import Trace, current, kernel_trace
from .values import VarRef, plain, scalar

WARP = 32
WARP_GROUP = 128
_FULL_MASK = 0xFFFFFFFF


def effect(t: Trace, op: str, *args: Any) -> None:
    t.emit(Evaluate(call(op, [plain(a) for a in args]), t.span()))


# ---------------------------------------------------------------------------------------- sync


def sync_threads(barrier_id: int | None = None, arrive_count: int | None = None) -> None:
    """Waits for all threads of the block (or for `arrive_count` of them at a named barrier)."""
    t, launch = kernel_trace("T.sync_threads")
    if barrier_id is None:
        effect(t, "sync_threads")
        return
    x, y, z = launch.threads
    name = integer(t, barrier_id, "T.sync_threads: barrier_id")
    count = x * y * z if arrive_count is None else arrive_count
    effect(t, "named_barrier_sync", name, integer(t, count, "T.sync_threads: arrive_count"))


def named_barrier_arrive(barrier_id: int, arrive_count: int) -> None:
    """Arrives at a named barrier without waiting."""
    t, _ = kernel_trace("T.named_barrier_arrive")
    name = integer(t, barrier_id, "T.named_barrier_arrive: barrier_id")
    count = integer(t, arrive_count, "T.named_barrier_arrive: arrive_count")
    effect(t, "named_barrier_arrive", name, count)


def sync_warp(mask: Any = None) -> None:
    """Waits for the threads of the warp."""
    t, _ = kernel_trace("T.sync_warp")
    effect(t, "sync_warp", const(_FULL_MASK, "uint32") if mask is None else mask)


def thread_return() -> None:
    """The calling thread is done."""
    t, _ = kernel_trace("T.thread_return")
    t.emit(Return(t.span()))


# --------------------------------------------------------------------------------------- indices


def _linear_thread() -> Expr:
    x, y, z = get_thread_bindings()
    nx, ny, nz = get_thread_extents()
    out: Expr = x
    if ny > 1:
        out = out + y * nx
    return out + z * (nx * ny) if nz > 1 else out


def get_lane_idx(warp_size: int = WARP) -> Expr:
    """Index of the thread in its warp."""
    return _linear_thread() % warp_size


def get_warp_idx(warp_size: int = WARP) -> Expr:
    """Index of the thread's warp in the block."""
    return _linear_thread() // warp_size


def get_warp_idx_sync(warp_size: int = WARP) -> Expr:
    """`get_warp_idx`, called by whole warps."""
    return get_warp_idx(warp_size)


def get_warp_group_idx(warp_size: int = WARP, warps_per_group: int = WARP_GROUP // WARP) -> Expr:
    """Index of the thread's group of four warps."""
    return _linear_thread() // (warp_size * warps_per_group)


def shuffle_elect(thread_extent: int = 0) -> Expr:
    """True in one thread of each group of `thread_extent` (of the block, for 0)."""
    tid = _linear_thread()
    return (tid if thread_extent == 0 else tid % thread_extent) == 0


# ----------------------------------------------------------------------------------------- warps


def _check_full(t: Trace, what: str, mask: Any) -> None:
    if mask is not None and const_int(plain(mask)) not in (_FULL_MASK, -1):
        raise t.error(
            f"{what}: only the full mask is supported", "TL0550", "leave out mask=", OptionError
        )


def _vote(what: str, predicate: Any, mask: Any) -> Expr:
    _check_full(kernel_trace(what)[0], what, mask)
    return as_bool(plain(predicate))


def _shuffle(op: str, what: str, value: Any, lane: Any, width: Any, mask: Any) -> Var:
    t, _ = kernel_trace(what)
    _check_full(t, what, mask)
    e = operand(value, what)
    return t.bind("shuffled", call(op, [e, plain(lane), plain(width)], e.dtype))


def shfl_sync(value: Any, lane: Any, width: int = WARP, mask: Any = None) -> Var:
    """`value` of another lane."""
    return _shuffle("shfl_idx", "T.shfl_sync", value, lane, width, mask)


def shfl_xor(value: Any, lane_mask: Any, width: int = WARP, mask: Any = None) -> Var:
    """`value` of the lane whose index differs in the bits of `lane_mask`."""
    return _shuffle("shfl_xor", "T.shfl_xor", value, lane_mask, width, mask)


def shfl_up(value: Any, delta: Any, width: int = WARP, mask: Any = None) -> Var:
    """`value` of the lane `delta` below."""
    return _shuffle("shfl_up", "T.shfl_up", value, delta, width, mask)


def shfl_down(value: Any, delta: Any, width: int = WARP, mask: Any = None) -> Var:
    """`value` of the lane `delta` above."""
    return _shuffle("shfl_down", "T.shfl_down", value, delta, width, mask)


def _all_reduce(what: str, value: Any, combine: Callable[[Any, Any], Expr]) -> Expr:
    t, _ = kernel_trace(what)
    out = operand(value, what)
    offset = WARP // 2
    while offset:
        out = t.bind("reduced", combine(out, _shuffle("shfl_xor", what, out, offset, WARP, None)))
        offset //= 2
    return out


def warp_reduce_sum(value: Any) -> Expr:
    """Sum over the lanes of the warp, in every lane."""
    return _all_reduce("T.warp_reduce_sum", value, lambda a, b: a + b)


def warp_reduce_max(value: Any) -> Expr:
    """Maximum over the lanes of the warp, in every lane."""
    return _all_reduce("T.warp_reduce_max", value, maximum)


def warp_reduce_min(value: Any) -> Expr:
    """Minimum over the lanes of the warp, in every lane."""
    return _all_reduce("T.warp_reduce_min", value, minimum)


def warp_reduce_bitand(value: Any) -> Expr:
    """Bitwise and over the lanes of the warp, in every lane."""
    return _all_reduce("T.warp_reduce_bitand", value, lambda a, b: binary(BitAnd, a, b))


def warp_reduce_bitor(value: Any) -> Expr:
    """Bitwise or over the lanes of the warp, in every lane."""
    return _all_reduce("T.warp_reduce_bitor", value, lambda a, b: binary(BitOr, a, b))


def any_sync(predicate: Any, mask: Any = None) -> Expr:
    """Does the predicate hold in any lane of the warp?"""
    return warp_reduce_max(cast(_vote("T.any_sync", predicate, mask), "int32")) != 0


def all_sync(predicate: Any, mask: Any = None) -> Expr:
    """Does the predicate hold in all lanes of the warp?"""
    return warp_reduce_min(cast(_vote("T.all_sync", predicate, mask), "int32")) != 0


def ballot_sync(predicate: Any, mask: Any = None) -> Expr:
    """One bit per lane of the warp: does the predicate hold there?"""
    vote = _vote("T.ballot_sync", predicate, mask)
    bit = cast(vote, "uint32") << cast(get_lane_idx(), "uint32")
    return warp_reduce_bitor(bit)


# --------------------------------------------------------------------------------------- atomics


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
    if memory_order not in (None, "relaxed"):
        raise t.error(
            f"{what}: memory order {memory_order!r} is not supported yet",
            "TL0583",
            "use 'relaxed' and a T.sync_threads()",
            OptionError,
        )
    if use_tma:
        raise t.error(
            f"{what}: use_tma=True is not supported yet", "TL0595", "leave it out", OptionError
        )
    if not is_place(dst):
        raise t.error(
            f"{what}: the destination must be a buffer element, got {dst!r}",
            "TL0226",
            "e.g. C[i, j]",
            TypeMismatchError,
        )
    if isinstance(dst, (Load, VarRef)) and not isinstance(value, (Buffer, Region)):
        return _atomic_element(t, op, dst, value, return_prev)
    if return_prev:
        raise t.error(
            f"{what}: return_prev is for single elements",
            "TL0553",
            "loop over the elements",
            OptionError,
        )
    _atomic_tile(t, op, dst, value)
    return None


def _atomic_element(
    t: Trace, op: str, dst: Load | VarRef, value: Any, return_prev: bool
) -> Var | None:
    v = cast(scalar(t, plain(value), f"T.{op}: value", dst.buffer.dtype), dst.buffer.dtype)
    update = call(op, [address_of(dst.buffer, *dst.indices), v], dst.buffer.dtype)
    if return_prev:
        return t.bind("previous", update)
    t.emit(Evaluate(update, t.span()))
    return None


def _atomic_tile(t: Trace, op: str, dst: Any, value: Any) -> None:
    src: Region | None
    if isinstance(dst, Load):
        src = region(t, value, f"T.{op}: value")
        to = region(t, dst, f"T.{op}: dst", src.extents)
    else:
        to = region(t, dst, f"T.{op}: dst")
        src = region(t, value, f"T.{op}: value", to.extents) if is_place(value) else None
    moving = to.squeezed() or (0,)
    names = [f"i{n}" for n in range(len(moving))]
    for loops in Protocol(t).loop(
        Parallel(*(to.extents[d] for d in moving)), names, True, (), False
    ):
        at = _points(to, moving, loops)
        v = value if src is None else Load(src.buffer, _points(src, src.squeezed(), loops))
        _atomic_element(t, op, Load(to.buffer, at), v, False)


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


def _atomic_many(n: int, dst: Any, value: Any, return_prev: bool) -> None:
    what = f"T.atomic_addx{n}"
    t = current(what)
    if return_prev:
        raise t.error(
            f"{what}: return_prev is not supported yet", "TL0554", "use T.atomic_add", OptionError
        )
    to, src = (region(t, x, what) for x in (dst, value))
    for k in range(n):
        at, place = ((*r.offsets[:-1], r.offsets[-1] + k) for r in (src, to))
        _atomic_element(t, "atomic_add", Load(to.buffer, place), Load(src.buffer, at), False)


def atomic_addx2(dst: Any, value: Any, return_prev: bool = False) -> None:
    """Adds two neighbouring elements, each indivisibly."""
    _atomic_many(2, dst, value, return_prev)


def atomic_addx4(dst: Any, value: Any, return_prev: bool = False) -> None:
    """Adds four neighbouring elements, each indivisibly."""
    _atomic_many(4, dst, value, return_prev)


# ------------------------------------------------------------------------- assertions and prints


def assume(cond: Any) -> None:
    """A fact that the optimiser may use; it is not checked."""
    t = current("T.assume")
    test = Protocol(t)._condition(cond)
    if not isinstance(test, Expr):
        if not test:
            raise t.error(
                "T.assume of something false",
                "TL0165",
                "a false assumption makes the kernel meaningless",
            )
        return
    fact = Assume(test, t.span())
    if t.in_kernel:
        t.emit(fact)
    elif not t.symbolic:
        t.deferred.append(fact)


def device_assert(cond: Any, msg: str = "") -> None:
    """Stops the kernel with a message where the condition does not hold."""
    t, _ = kernel_trace("T.device_assert")
    test = Protocol(t)._condition(cond)
    t.emit(
        Assert(
            test if isinstance(test, Expr) else const(test), msg or "device_assert failed", t.span()
        )
    )


_FORMATS = {"int64": "%lld", "uint64": "%llu", "bool": "%d"}


def _printable(e: Expr) -> tuple[str, Expr]:
    if e.dtype.is_float:
        return "%f", cast(e, "float32") if e.dtype.bits < 32 else e
    if str(e.dtype) in _FORMATS:
        return _FORMATS[str(e.dtype)], cast(e, "int32") if e.dtype.is_bool else e
    wide = DType("int32" if e.dtype.kind == "int" else "uint32")
    return ("%d" if e.dtype.kind == "int" else "%u"), cast(e, wide)


def print(obj: Any = None, msg: str = "", warp_group_id: int = 0, warp_id: int = 0) -> None:
    """Prints a value (by every thread that executes it) or the elements of a buffer (by one
    thread).
    """
    t = current("T.print")
    obj = plain(obj)
    if isinstance(obj, (Buffer, Region)):
        _print_buffer(
            t, region(t, obj, "T.print"), msg, warp_group_id * WARP_GROUP + warp_id * WARP
        )
        return
    if obj is None or isinstance(obj, str):
        effect(t, "print", StringImm(f"{msg or obj or ''}\n".replace("%", "%%")))
        return
    spec, value = _printable(scalar(t, obj, "T.print"))
    effect(
        t, "print", StringImm(f"{(msg + ': ' if msg else '').replace('%', '%%')}{spec}\n"), value
    )


def _print_buffer(t: Trace, r: Region, msg: str, thread: int) -> None:
    name = msg or r.buffer.name
    names = [f"p{n}" for n in range(len(r.extents))]
    places = ", ".join(["%d"] * len(names))

    def element(indices: tuple[Expr, ...]) -> None:
        spec, value = _printable(Load(r.buffer, indices))
        effect(
            t,
            "print",
            StringImm(f"{name}[{places}] = {spec}\n".replace("%%", "%")),
            *indices,
            value,
        )

    if r.buffer.is_fragment:  # its elements live in many threads: each owner prints its own
        for loops in Protocol(t).loop(Parallel(*r.extents), names, True, (), False):
            element(tuple(o + i for o, i in zip(r.offsets, loops, strict=True)))
        return
    with t.collected() as body:
        _nested(t, r, names, (), element)
    t.emit(If(_linear_thread() == thread, seq(body), None, t.span()) if t.in_kernel else seq(body))


def _nested(
    t: Trace,
    r: Region,
    names: list[str],
    done: tuple[Expr, ...],
    body: Callable[[tuple[Expr, ...]], None],
) -> None:
    d = len(done)
    if d == len(names):
        body(done)
        return
    for i in Protocol(t).loop(serial(r.extents[d]), [names[d]], False, (), False):
        _nested(t, r, names, (*done, r.offsets[d] + i), body)


__all__ = [
    n
    for n, v in list(globals().items())
    if not n.startswith("_") and getattr(v, "__module__", "") == __name__ and n != "effect"
]
