# SPDX-License-Identifier: Apache-2.0
"""Spellings of TVM's script language that kernels still use: `T.comm_reducer` with
`T.tvm_thread_allreduce`, `T.Shuffle`, `T.call_intrin`, `T.linear_index`, …
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilelang import ir
from tilelang.errors import LanguageError, OptionError, ShapeError, TypeMismatchError
from tilelang.ir import DType, Evaluate, Expr, If, Load, Store, call, cast, const, const_int

from .alloc import alloc_shared
from .kernel import get_thread_bindings, get_thread_extents
from .math import fail, operand
from .tensor import as_dtype
from .trace import LaunchInfo, Trace, kernel_trace
from .values import VarRef, plain, store
from .warps import WARP, shfl_xor


@dataclass(frozen=True)
class CommReducer:
    """combine: an associative and commutative function of two values; identity: its neutral
    element."""

    combine: Callable[[Any, Any], Any]
    identity: tuple[Any, ...]


def comm_reducer(combine: Callable[[Any, Any], Any], identity: Any) -> CommReducer:
    """How `T.tvm_thread_allreduce` combines, given to it by `T.attr(…, "reduce_scope", …)`."""
    items = identity if isinstance(identity, (list, tuple)) else (identity,)
    return CommReducer(combine, tuple(items))


class _ReduceScope:
    """Names the reducer from where it is made to the end of its `with`, if it has one."""

    def __init__(self, launch: LaunchInfo, reducer: CommReducer) -> None:
        self.launch, self.outer = launch, launch.reducer
        launch.reducer = reducer

    def __enter__(self) -> None:
        """It holds already."""

    def __exit__(self, *_: object) -> None:
        self.launch.reducer = self.outer


def attr(node: Any, key: str, value: Any) -> _ReduceScope:
    """`with T.attr(reducer, "reduce_scope", …):` names the reducer of the reductions inside. value:
    an expression, evaluated for nothing."""
    operand(value, "T.attr: value")
    t, launch = kernel_trace("T.attr")
    if key != "reduce_scope" or not isinstance(node, CommReducer):
        raise t.error(
            f"T.attr with the key {key!r} is not supported",
            "TL0538",
            "'reduce_scope' on a T.comm_reducer is; annotations have functions of their own, "
            "e.g. T.annotate_layout",
            OptionError,
        )
    return _ReduceScope(launch, node)


def tvm_thread_allreduce(size: Any, *args: Any, dtype: Any = "handle") -> None:
    """Reduces a value over threads: (size, value, condition, destination, thread indices…). Every
    thread gets the result of the threads that differ from it in these indices only."""
    t, launch = kernel_trace("T.tvm_thread_allreduce")
    if not as_dtype(dtype, "T.tvm_thread_allreduce").is_handle:
        raise t.error(
            f"T.tvm_thread_allreduce gives nothing, so its dtype is 'handle', not {dtype}",
            "TL0570",
            "leave dtype out; the result is in the destination",
            OptionError,
        )
    reducer = launch.reducer
    if reducer is None:
        raise t.error(
            "T.tvm_thread_allreduce outside of a reduce_scope",
            "TL0195",
            'put it inside `with T.attr(T.comm_reducer(…), "reduce_scope", …)`',
            LanguageError,
        )
    count = const_int(ir.as_expr(plain(size)))
    if count != 1 or len(reducer.identity) != 1 or len(args) < 4:
        raise t.error(
            f"T.tvm_thread_allreduce of {count} values at a time",
            "TL0539",
            "(1, value, condition, destination, thread indices…)",
            OptionError,
        )
    value, condition, out, *over = args
    e = operand(value, "T.tvm_thread_allreduce")
    neutral = cast(operand(reducer.identity[0], "the identity", e.dtype), e.dtype)
    mine: Expr = ir.if_then_else(ir.as_bool(operand(condition, "condition")), e, neutral)
    total = _all_reduce(t, t.bind("own", mine), _dimensions(t, over), reducer.combine)
    if isinstance(out, VarRef):
        out = out.__tl_expr__()
    if not isinstance(out, Load):
        raise t.error(
            f"T.tvm_thread_allreduce: the destination must be an element, got {out!r}",
            "TL0281",
            "e.g. C[0]",
            TypeMismatchError,
        )
    store(t, out.buffer, out.indices, total)


def _dimensions(t: Trace, over: Sequence[Any]) -> tuple[int, ...]:
    own = get_thread_bindings()
    found = []
    for v in over:
        if not any(plain(v) is x for x in own):
            raise t.error(
                f"T.tvm_thread_allreduce over {v!r}, which is no thread index",
                "TL0282",
                "give what T.get_thread_binding returned",
                TypeMismatchError,
            )
        found.append(next(d for d, x in enumerate(own) if plain(v) is x))
    return tuple(sorted(set(found)))


def _all_reduce(
    t: Trace, value: Expr, over: tuple[int, ...], combine: Callable[[Any, Any], Any]
) -> Expr:
    own, extents = get_thread_bindings(), get_thread_extents()
    count = math.prod(extents[d] for d in over)
    if over == (0,) and count <= WARP and count & (count - 1) == 0:
        offset = count // 2
        while offset:  # neighbouring lanes of one warp
            other = shfl_xor(value, offset, count)
            value = t.bind("reduced", cast(operand(combine(value, other), "combine"), value.dtype))
            offset //= 2
        return value
    place: Expr = const(0)
    group: Expr = const(0)
    for d in reversed(range(3)):
        if d in over:
            place = place * extents[d] + own[d]
        else:
            group = group * extents[d] + own[d]
    first = t.bind("group", group * count)
    return _by_halves(t, value, (first, t.bind("rank", place), count), combine)


def _by_halves(
    t: Trace, value: Expr, where: tuple[Expr, Expr, int], combine: Callable[[Any, Any], Any]
) -> Expr:
    """Through shared memory: the upper half is added to the lower one until one value is left."""
    first, rank, count = where
    span, dtype = t.span(), value.dtype
    buffer = alloc_shared((math.prod(get_thread_extents()),), dtype)

    def at(i: Expr) -> tuple[Expr]:
        return (first + i,)

    def barrier() -> None:
        t.emit(Evaluate(call("sync_threads"), span))

    t.emit(Store(buffer, at(rank), value, span))
    barrier()
    left = count
    while left > 1:
        half = (left + 1) // 2
        other = Load(buffer, at(rank + half))
        both = cast(operand(combine(Load(buffer, at(rank)), other), "combine"), dtype)
        t.emit(If(rank < left - half, Store(buffer, at(rank), both, span), None, span))
        barrier()
        left = half
    out = t.bind("reduced", Load(buffer, at(const(0))))
    barrier()
    return out


# ------------------------------------------------------------------------------ expressions


def Shuffle(vectors: Any, indices: Sequence[int]) -> Expr:
    """Lanes of vectors, which count as one after the other, in the order of `indices`."""
    items = [operand(v, "T.Shuffle") for v in vectors]
    lanes = [(v, i) for v in items for i in range(v.dtype.lanes)]
    picked = []
    for i in indices:
        v, lane = lanes[int(i)]
        scalar = call("extract_lane", [v, const(lane)], v.dtype.element)
        picked.append(v if v.dtype.lanes == 1 else scalar)
    if len(picked) == 1:
        return picked[0]
    return call("make_vector", picked, picked[0].dtype.with_lanes(len(picked)))


def call_intrin(dtype: Any, func_name: str, *args: Any) -> Any:
    """`call_intrin("float32", "tir.exp", x)`: the function of that name."""
    from . import math as functions

    name = str(func_name).rsplit(".", 1)[-1]
    function = getattr(functions, name, None) if name in functions.__all__ else None
    if function is None:
        raise fail(
            f"T.call_intrin: {func_name!r} is no function of this language",
            "TL0547",
            "call the T. function itself",
            OptionError,
        )
    return cast(operand(function(*args), "T.call_intrin"), DType(str(dtype)))


def index_to_coordinates(index: Any, shape: Sequence[Any]) -> list[Any]:
    """The coordinates of a linear index, the last one fastest."""
    out: list[Any] = []
    rest = index
    for n in reversed(list(shape)):
        out.append(rest % n)
        rest = rest // n
    return out[::-1]


def linear_index(*args: Any) -> Any:
    """linear_index(x, y, stride) = x * stride + y; (x, y, z, stride_x, stride_y) likewise."""
    if len(args) % 2 == 0:
        raise fail(
            f"T.linear_index takes n coordinates and n - 1 strides, got {len(args)} arguments",
            "TL0319",
            "e.g. T.linear_index(i, j, row_length)",
            ShapeError,
        )
    n = (len(args) + 1) // 2
    out = args[n - 1]
    for x, stride in zip(args[: n - 1], args[n:], strict=True):
        out = out + x * stride
    return out


__all__ = [
    "CommReducer",
    "Shuffle",
    "attr",
    "call_intrin",
    "comm_reducer",
    "index_to_coordinates",
    "linear_index",
    "tvm_thread_allreduce",
]
