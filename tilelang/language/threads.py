# SPDX-License-Identifier: Apache-2.0
"""Threads: barriers and indices; assertions and prints."""

from __future__ import annotations

from typing import Any

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
    call,
    cast,
    const,
    seq,
    walk,
)

from .hints import no_effect
from .kernel import get_thread_bindings, get_thread_extents
from .loops import Parallel, integer
from .operands import region
from .protocol import Protocol, each_element
from .trace import Trace, current, kernel_trace
from .values import plain, scalar

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


def sync_grid() -> None:
    """Waits for all threads of all blocks, which then run at the same time (a cooperative launch:
    the grid must fit on the device)."""
    t, launch = kernel_trace("T.sync_grid")
    launch.annotations["cooperative"] = True
    effect(t, "sync_grid")


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


def linear_thread() -> Expr:
    x, y, z = get_thread_bindings()
    nx, ny, nz = get_thread_extents()
    out: Expr = x
    if ny > 1:
        out = out + y * nx
    return out + z * (nx * ny) if nz > 1 else out


def get_lane_idx(warp_size: int = WARP) -> Expr:
    """Index of the thread in its warp."""
    return linear_thread() % warp_size


def get_warp_idx(warp_size: int = WARP) -> Expr:
    """Index of the thread's warp in the block."""
    return linear_thread() // warp_size


def get_warp_idx_sync(warp_size: int = WARP) -> Expr:
    """`get_warp_idx`, called by whole warps."""
    return get_warp_idx(warp_size)


def get_warp_group_idx(warp_size: int = WARP, warps_per_group: int = WARP_GROUP // WARP) -> Expr:
    """Index of the thread's group of four warps."""
    return linear_thread() // (warp_size * warps_per_group)


def shuffle_elect(thread_extent: int = 0) -> Expr:
    """True in one thread of each group of `thread_extent` (of the block, for 0)."""
    tid = linear_thread()
    return (tid if thread_extent == 0 else tid % thread_extent) == 0


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
    if any(type(x) is Load for x in walk(test)):
        no_effect("T.assume of what is read from memory", "what is stored there may change")
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
        each_element(t, r, names, element)
    t.emit(If(linear_thread() == thread, seq(body), None, t.span()) if t.in_kernel else seq(body))


__all__ = [
    n
    for n, v in list(globals().items())
    if not n.startswith("_") and getattr(v, "__module__", "") == __name__ and n != "effect"
]
