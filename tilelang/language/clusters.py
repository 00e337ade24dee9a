# SPDX-License-Identifier: Apache-2.0
"""Thread-block clusters (sm_90): their barrier, and each other's shared memory.

In: calls inside `T.Kernel(…, cluster_dims=)` or `T.ClusterKernel`. Out: calls of the intrinsics.
Blocks of a cluster run at the same time; a block is named by its rank in the cluster, x fastest.
Facts: PTX ISA, barrier.cluster, mapa, cp.async.bulk; CUDA C++ Programming Guide, clusters.
"""

from __future__ import annotations

from typing import Any

from tilelang.errors import OptionError, ScopeError
from tilelang.ir import (
    Buffer,
    Evaluate,
    Expr,
    If,
    Load,
    Parallel,
    Region,
    Scope,
    Var,
    address_of,
    all_of,
    call,
    cast,
    const,
    const_int,
)
from tilelang.utils import prod

from .alloc import alloc_barrier
from .kernel import Kernel, KernelFrame
from .loops import integer
from .ops import copy_operands
from .threads import effect
from .trace import LaunchInfo, Trace, kernel_trace
from .values import plain

__all__ = [
    "ClusterKernel", "alloc_cluster_barrier", "barrier_pointer", "block_rank_in_cluster",
    "cluster_arrive", "cluster_arrive_relaxed", "cluster_load", "cluster_store", "cluster_sync",
    "cluster_trace", "cluster_wait", "copy_cluster", "in_cluster",
]  # fmt: skip

_ALIGN = 16  # bytes: places and size of a bulk copy


def ClusterKernel(
    *blocks: Any, cluster_dims: Any, threads: Any = None, prelude: str | None = None
) -> KernelFrame:
    """`T.Kernel` whose blocks come in clusters of `cluster_dims` (an int or up to three)."""
    return Kernel(*blocks, threads=threads, prelude=prelude, cluster_dims=cluster_dims)


def in_cluster(launch: LaunchInfo) -> bool:
    """Do blocks of this kernel have peers?"""
    return prod(launch.annotations.get("cluster_dims", (1,))) > 1


def cluster_trace(what: str) -> Trace:
    """The trace, inside a kernel that is launched in clusters."""
    t, launch = kernel_trace(what)
    if not in_cluster(launch):
        raise t.error(
            f"{what} needs a kernel that is launched in clusters of blocks",
            "TL0558",
            "pass cluster_dims= to T.Kernel, e.g. cluster_dims=2",
            OptionError,
        )
    return t


def barrier_pointer(t: Trace, bar: Any, what: str) -> Expr:
    """A pointer to one mbarrier: `bar[i]`, or the only one of `bar`."""
    if isinstance(bar, Load) and bar.buffer.scope == Scope.BARRIER:
        return address_of(bar.buffer, *bar.indices)
    if isinstance(bar, Buffer) and bar.scope == Scope.BARRIER:
        return address_of(bar, 0)
    raise t.error(
        f"{what} needs a barrier, got {bar!r}",
        "TL0451",
        "allocate it by T.alloc_barrier(arrive_count) and pass bar or bar[i]",
        ScopeError,
    )


def alloc_cluster_barrier(arrive_count: Any) -> Buffer:
    """`T.alloc_barrier` for arrivals from other blocks too: `T.mbarrier_arrive(bar, cta_id=rank)`.
    In a kernel of clusters all barriers are initialised before any block goes on."""
    cluster_trace("T.alloc_cluster_barrier")
    return alloc_barrier(arrive_count)


def block_rank_in_cluster() -> Expr:
    """This block's number in its cluster."""
    cluster_trace("T.block_rank_in_cluster")
    return call("block_rank_in_cluster", [], "int32")


def cluster_arrive() -> None:
    """Arrives at the cluster's barrier; what the thread has done so far is known to who waits."""
    effect(cluster_trace("T.cluster_arrive"), "cluster_arrive")


def cluster_arrive_relaxed() -> None:
    """Arrives at the cluster's barrier, and orders nothing."""
    effect(cluster_trace("T.cluster_arrive_relaxed"), "cluster_arrive_relaxed")


def cluster_wait() -> None:
    """Until all threads of the cluster that have not returned have arrived."""
    effect(cluster_trace("T.cluster_wait"), "cluster_wait")


def cluster_sync() -> None:
    """`cluster_arrive` and `cluster_wait`. A block must not end while peers still use its shared
    memory: let this be the last statement then."""
    effect(cluster_trace("T.cluster_sync"), "cluster_sync")


def _shared_element(t: Trace, value: Any, what: str) -> Load:
    if isinstance(value, Load) and value.buffer.is_shared:
        return value
    raise t.error(
        f"{what} needs an element of a shared buffer, got {value!r}",
        "TL0452",
        "index a buffer of T.alloc_shared",
        ScopeError,
    )


def cluster_load(element: Any, rank: Any) -> Expr:
    """The value of a shared element, e.g. `s[i, j]`, in block `rank` of the cluster."""
    t = cluster_trace("T.cluster_load")
    e = _shared_element(t, element, "T.cluster_load")
    where = integer(t, rank, "T.cluster_load: rank")
    return call("cluster_load", [address_of(e.buffer, *e.indices), where], e.dtype)


def cluster_store(element: Any, value: Any, rank: Any) -> None:
    """Sets a shared element in block `rank` of the cluster."""
    t = cluster_trace("T.cluster_store")
    e = _shared_element(t, element, "T.cluster_store")
    where = integer(t, rank, "T.cluster_store: rank")
    effect(t, "cluster_store", address_of(e.buffer, *e.indices), cast(plain(value), e.dtype), where)


def copy_cluster(
    src: Any,
    dst: Any,
    *,
    dst_block: Any = None,
    cluster_mask: Any = None,
    remote_barrier: Any = None,
) -> None:
    """Copies a tile into the shared memory of other blocks.

    dst_block: `src`, a tile of this block, goes to the place of `dst` in that block. With
    remote_barrier it is one bulk copy that completes on that block's barrier of this name, which
    must expect its bytes; else the threads store it, and a barrier of the cluster must follow.
    cluster_mask: `src` is in global memory and goes into every block of the mask; see `T.tma_copy`,
    whose barrier is remote_barrier here.
    """
    t = cluster_trace("T.copy_cluster")
    if (dst_block is None) == (cluster_mask is None):
        raise t.error(
            "T.copy_cluster needs either dst_block or cluster_mask",
            "TL0559",
            "dst_block=rank for a tile of this block, cluster_mask=mask for one in global memory",
            OptionError,
        )
    if cluster_mask is not None:
        from .hopper import tma_copy

        tma_copy(src, dst, barrier=remote_barrier, cluster_mask=cluster_mask)
        return
    a, b = copy_operands(t, src, dst)
    rank = integer(t, dst_block, "T.copy_cluster: dst_block")
    if not b.buffer.is_shared:
        raise t.error(
            f"T.copy_cluster: {b.buffer.name} is not in shared memory",
            "TL0453",
            "other blocks reach shared memory only",
            ScopeError,
        )
    if remote_barrier is None:
        t.emit(_stores(t, a, b, rank))
    else:
        bar = barrier_pointer(t, remote_barrier, "T.copy_cluster: remote_barrier")
        t.emit(_bulk(t, a, b, rank, bar))


def _stores(t: Trace, a: Region, b: Region, rank: Expr) -> Parallel:
    """Element by element, spread over the threads."""
    moving = list(b.squeezed())
    variables = [Var(f"i{n}") for n in range(len(moving))]
    extents = tuple(b.extents[d] for d in moving)

    def at(region: Region) -> list[Expr]:
        places, left = list(region.offsets), list(variables)
        for d in region.squeezed():
            places[d] = places[d] + left.pop(0)
        return places

    value = cast(Load(a.buffer, tuple(at(a))), b.dtype)
    store = call("cluster_store", [address_of(b.buffer, *at(b)), value, rank])
    return Parallel(tuple(variables), extents, Evaluate(store, t.span()), {}, t.span())


def _bulk(t: Trace, a: Region, b: Region, rank: Expr, bar: Expr) -> If:
    """One bulk copy by the first thread. Both tiles are whole buffers that lie alike."""
    sizes = [const_int(e) or 0 for e in b.extents]
    same = (
        a.buffer.is_shared
        and a.buffer.shape == b.buffer.shape
        and a.dtype is b.dtype
        and a.is_whole
        and b.is_whole
    )
    size = prod(sizes) * b.dtype.bits // 8
    if not same or size % _ALIGN:
        raise t.error(
            f"T.copy_cluster with remote_barrier copies one whole shared buffer to another of the "
            f"same shape and dtype, in multiples of {_ALIGN} bytes; got {a.buffer.name} and "
            f"{b.buffer.name}",
            "TL0557",
            "leave remote_barrier out to store element by element",
            OptionError,
        )
    launch = kernel_trace("T.copy_cluster")[1]
    first = all_of(v == 0 for v, n in zip(launch.thread_vars, launch.threads, strict=True) if n > 1)
    zero = [0] * a.buffer.ndim
    source, target = (address_of(x.buffer, *zero) for x in (a, b))
    copy = call("copy_cluster", [target, source, const(size), bar, rank])
    return If(first, Evaluate(copy, t.span()), None, t.span())
