# SPDX-License-Identifier: Apache-2.0
"""What the lanes of a warp do together: shuffles, votes, matches, reductions; votes of a block.

An operation that exchanges values is evaluated where it is called, once (its result is a name).
On a CPU the lanes of a warp are 32 neighbouring turns of the loop over the block's threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.errors import OptionError, TypeMismatchError
from tilelang.ir import (
    Evaluate,
    Expr,
    If,
    Load,
    Select,
    Store,
    Var,
    as_bool,
    binary,
    call,
    cast,
    const,
    const_int,
    logical_not,
    maximum,
    minimum,
)
from tilelang.ir.expr import BitAnd, BitOr

from .alloc import alloc_shared
from .kernel import get_thread_extents
from .math import operand, popcount
from .threads import WARP, get_lane_idx, get_warp_idx
from .trace import Trace, kernel_trace
from .values import plain

_FULL_MASK = 0xFFFFFFFF


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


def _within(width: Any, warp_size: Any) -> Any:
    """The width; a warp has 32 lanes."""
    if const_int(plain(warp_size)) != WARP:
        t, _ = kernel_trace("T.tvm_warp_shuffle")
        raise t.error(
            f"T.tvm_warp_shuffle in warps of {warp_size} lanes",
            "TL0569",
            f"a warp has {WARP} lanes",
            OptionError,
        )
    return width


def tvm_warp_shuffle(
    mask: Any, value: Any, lane: Any, width: int = WARP, warp_size: int = WARP
) -> Var:
    """`shfl_sync` with its arguments in the order of the script language of TVM."""
    return shfl_sync(value, lane, _within(width, warp_size), mask)


def tvm_warp_shuffle_up(
    mask: Any, value: Any, delta: Any, width: int = WARP, warp_size: int = WARP
) -> Var:
    """`shfl_up` likewise."""
    return shfl_up(value, delta, _within(width, warp_size), mask)


def tvm_warp_shuffle_down(
    mask: Any, value: Any, delta: Any, width: int = WARP, warp_size: int = WARP
) -> Var:
    """`shfl_down` likewise."""
    return shfl_down(value, delta, _within(width, warp_size), mask)


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


def _ballot(what: str, predicate: Expr) -> Var:
    t, _ = kernel_trace(what)
    return t.bind("votes", call("ballot", [predicate], "uint32"))


def any_sync(predicate: Any, mask: Any = None) -> Expr:
    """Does the predicate hold in any lane of the warp?"""
    return _ballot("T.any_sync", _vote("T.any_sync", predicate, mask)) != 0


def all_sync(predicate: Any, mask: Any = None) -> Expr:
    """Does the predicate hold in all lanes of the warp?"""
    return _ballot("T.all_sync", logical_not(_vote("T.all_sync", predicate, mask))) == 0


def ballot_sync(predicate: Any, mask: Any = None) -> Expr:
    """One bit per lane of the warp: does the predicate hold there?"""
    return _ballot("T.ballot_sync", _vote("T.ballot_sync", predicate, mask))


def activemask() -> Expr:
    """One bit per lane of the warp that comes here, among those that have not returned."""
    return _ballot("T.activemask", const(True, "bool"))


def match_any_sync(value: Any, mask: Any = None) -> Expr:
    """One bit per lane of the warp: has it the same value, bit by bit?"""
    what = "T.match_any_sync"
    t, _ = kernel_trace(what)
    _check_full(t, what, mask)
    return t.bind("matches", call("match_any", [_bits(t, what, operand(value, what))], "uint32"))


def match_all_sync(value: Any, mask: Any = None) -> Expr:
    """The bits of all lanes of the warp if they have one value, bit by bit; else 0."""
    matches = match_any_sync(value, mask)
    return Select(matches == activemask(), matches, const(0, "uint32"))


def _bits(t: Trace, what: str, e: Expr) -> Expr:
    """A 32- or 64-bit integer that tells values apart."""
    d = e.dtype
    if d.lanes > 1 or d.is_handle:
        raise t.error(f"{what} of {d}", "TL0272", "give a number", TypeMismatchError)
    if d.is_float:
        e = call("reinterpret", [e], f"uint{d.bits}") if d.bits >= 8 else cast(e, "float32")
        return _bits(t, what, e)
    return cast(e, "uint64" if d.bits == 64 else "uint32")


# ------------------------------------------------------------------------------------ the block


def syncthreads_count(predicate: Any) -> Expr:
    """A barrier of the block; in how many of its threads does the predicate hold?"""
    return _count("T.syncthreads_count", as_bool(plain(predicate)))


def syncthreads_and(predicate: Any) -> Expr:
    """A barrier of the block; does the predicate hold in all of its threads?"""
    return cast(_count("T.syncthreads_and", logical_not(as_bool(plain(predicate)))) == 0, "int32")


def syncthreads_or(predicate: Any) -> Expr:
    """A barrier of the block; does the predicate hold in any of its threads?"""
    return cast(_count("T.syncthreads_or", as_bool(plain(predicate))) != 0, "int32")


def _count(what: str, predicate: Expr) -> Expr:
    """Each warp counts its lanes; the counts meet in shared memory."""
    t, _ = kernel_trace(what)
    x, y, z = get_thread_extents()
    warps = -(-x * y * z // WARP)
    votes = popcount(_ballot(what, predicate))
    counts = alloc_shared((warps,), "int32")
    first = If(
        get_lane_idx() == 0, Store(counts, (get_warp_idx(),), votes, t.span()), None, t.span()
    )
    t.emit(first)
    t.emit(Evaluate(call("sync_threads"), t.span()))
    total: Expr = Load(counts, (const(0),))
    for w in range(1, warps):
        total = total + Load(counts, (const(w),))
    out = t.bind("count", total)
    t.emit(Evaluate(call("sync_threads"), t.span()))
    return out


__all__ = [
    "activemask",
    "all_sync",
    "any_sync",
    "ballot_sync",
    "match_all_sync",
    "match_any_sync",
    "shfl_down",
    "shfl_sync",
    "shfl_up",
    "shfl_xor",
    "syncthreads_and",
    "syncthreads_count",
    "syncthreads_or",
    "tvm_warp_shuffle",
    "tvm_warp_shuffle_down",
    "tvm_warp_shuffle_up",
    "warp_reduce_bitand",
    "warp_reduce_bitor",
    "warp_reduce_max",
    "warp_reduce_min",
    "warp_reduce_sum",
]
