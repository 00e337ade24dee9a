# SPDX-License-Identifier: Apache-2.0
"""Hand-written roles and asynchronous operations: `T.ws`, mbarriers, bulk copies, wgmma.

Thin: operands become regions or pointers, and the statement is pinned to the unit that the user
named. What the compiler places itself elsewhere (waits, arrivals) the user places here. Facts: PTX
ISA, mbarrier, cp.async.bulk, wgmma."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilelang.errors import OptionError
from tilelang.ir import Role, as_bool, seq
from tilelang.tileop import Copy, Gemm
from tilelang.tileop.wait import WaitWgmma

from .clusters import barrier_pointer, cluster_trace, in_cluster
from .hints import access_width, known_notes
from .loops import integer
from .operands import emit_op, region, with_known_extents
from .ops import GemmWarpPolicy, copy_operands, eviction
from .threads import effect
from .trace import Region, Trace, current, kernel_trace
from .values import plain, scalar

WARPGROUP = 128


# ------------------------------------------------------------------------------------- mbarriers


def mbarrier_wait_parity(bar: Any, parity: Any) -> None:
    """Until the phase of this parity has completed. A fresh barrier counts as having completed
    phase 1."""
    t, launch = kernel_trace("T.mbarrier_wait_parity")
    wait = "mbar_wait_cluster" if in_cluster(launch) else "mbar_wait"
    effect(t, wait, barrier_pointer(t, bar, "T.mbarrier_wait_parity"), plain(parity))


def mbarrier_arrive(bar: Any, cta_id: Any = None) -> None:
    """One arrival by each calling thread; cta_id: at this barrier of that block of the cluster."""
    t, _ = kernel_trace("T.mbarrier_arrive")
    place = barrier_pointer(t, bar, "T.mbarrier_arrive")
    if cta_id is None:
        effect(t, "mbar_arrive", place)
        return
    t = cluster_trace("T.mbarrier_arrive: cta_id")
    effect(t, "mbar_arrive_remote", place, integer(t, cta_id, "T.mbarrier_arrive: cta_id"))


def cp_async_barrier_noinc(bar: Any) -> None:
    """An arrival once this thread's cp.async so far have written; the barrier counts it."""
    t, _ = kernel_trace("T.cp_async_barrier_noinc")
    effect(t, "cp_async_mbar_arrive", barrier_pointer(t, bar, "T.cp_async_barrier_noinc"))


def mbarrier_expect_tx(bar: Any, bytes: Any) -> None:
    """The current phase also waits for `bytes` of asynchronous copies; no arrival."""
    t, _ = kernel_trace("T.mbarrier_expect_tx")
    effect(t, "mbar_announce", barrier_pointer(t, bar, "T.mbarrier_expect_tx"), plain(bytes))


def mbarrier_arrive_expect_tx(bar: Any, bytes: Any) -> None:
    """`mbarrier_expect_tx` and one arrival."""
    t, _ = kernel_trace("T.mbarrier_arrive_expect_tx")
    effect(
        t, "mbar_expect_tx", barrier_pointer(t, bar, "T.mbarrier_arrive_expect_tx"), plain(bytes)
    )


barrier_wait = mbarrier_wait_parity
barrier_arrive = mbarrier_arrive


# ----------------------------------------------------------------------------- asynchronous copies


def tma_copy(
    src: Any,
    dst: Any,
    *,
    barrier: Any = None,
    cluster_mask: Any = None,
    eviction_policy: Any = None,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """A bulk tensor copy, issued by one thread of those that execute it. A load announces its bytes
    on `barrier` (arrivals are the user's); a store is committed and waited for by the user.

    cluster_mask: all blocks of the cluster execute a load and announce its bytes; of those in the
    mask the one of lowest rank loads its tile into all of them, the others load their own."""
    t = current("T.tma_copy")
    a, b = copy_operands(t, src, dst)
    pins: dict[str, Any] = {"lowering": "tma", "leader": True, "asked": "T.tma_copy"}
    if b.buffer.is_shared:
        if barrier is None:
            raise t.error(
                "T.tma_copy: a load needs a barrier to complete on",
                "TL0585",
                "pass barrier=bar[i] of a T.alloc_barrier",
                OptionError,
            )
        if cluster_mask is not None:
            mask = integer(cluster_trace("T.tma_copy: cluster_mask"), cluster_mask, "cluster_mask")
            pins["cluster_mask"] = mask
        pins["barrier"] = barrier_pointer(t, barrier, "T.tma_copy: barrier")
    notes = known_notes("T.tma_copy", annotations, ("eviction_policy",))
    policy = eviction(t, "T.tma_copy", notes.get("eviction_policy", eviction_policy))
    emit_op(t, Copy(a, b, None, False, policy, "tma", None), ("src", "dst"), pins)


def tma_store_arrive() -> None:
    """The stores issued so far become a group."""
    effect(kernel_trace("T.tma_store_arrive")[0], "tma_store_commit")


def tma_store_wait(count: int = 0, read: bool = True) -> None:
    """At most `count` groups of stores still read shared memory."""
    t, _ = kernel_trace("T.tma_store_wait")
    if not read:
        raise t.error(
            "T.tma_store_wait: read=False (waiting until the writes are visible) is not supported",
            "TL0586",
            "leave it out: at the end of a kernel all writes are visible",
            OptionError,
        )
    effect(t, "tma_store_wait", count)


def fence_proxy_async() -> None:
    """This thread's ordinary writes to shared memory come before later reads of TMA and wgmma."""
    effect(kernel_trace("T.fence_proxy_async")[0], "fence_proxy_async")


def async_copy(
    src: Any,
    dst: Any,
    *,
    coalesced_width: int | None = None,
    annotations: Mapping[str, Any] | None = None,
    loop_layout: Any = None,
) -> None:
    """Global to shared by cp.async, committed as a group of its own; `T.ptx_wait_group` waits."""
    t = current("T.async_copy")
    a, b = copy_operands(t, src, dst)
    notes = known_notes("T.async_copy", annotations, ("coalesced_width",))
    width = access_width(t, "T.async_copy", notes.get("coalesced_width", coalesced_width))
    op = Copy(a, b, width, False, None, "cp_async", loop_layout)
    pins = {"lowering": "cp_async", "asked": "T.async_copy", "fallback": True}
    emit_op(t, op, ("src", "dst"), pins)
    effect(t, "cp_async_commit")


def ptx_commit_group() -> None:
    """The cp.async issued so far become a group."""
    effect(kernel_trace("T.ptx_commit_group")[0], "cp_async_commit")


def ptx_wait_group(count: int) -> None:
    """At most `count` groups of cp.async are unfinished."""
    effect(kernel_trace("T.ptx_wait_group")[0], "cp_async_wait", count)


# ------------------------------------------------------------------------------------------ wgmma


def wgmma_gemm(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy | int = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """`T.gemm` as one asynchronous group: C is not readable before `T.wait_wgmma`."""
    t = current("T.wgmma_gemm")
    a, b, c = (
        with_known_extents(region(t, x, f"T.wgmma_gemm: {n}"))
        for n, x in (("A", A), ("B", B), ("C", C))
    )
    clears = as_bool(scalar(t, plain(clear_accum), "T.wgmma_gemm: clear_accum"))
    op = Gemm(a, b, c, bool(transpose_A), bool(transpose_B), int(policy), clears)
    known_notes("T.wgmma_gemm", annotations)
    pins = {"lowering": "wgmma", "in_flight": 1, "asked": "T.wgmma_gemm"}
    emit_op(t, op, ("a", "b", "c"), pins)


wgmma_mma = wgmma_gemm


def wait_wgmma(count: int = 0) -> None:
    """At most `count` groups of asynchronous gemms are unfinished; at 0 their results are
    readable."""
    emit_op(current("T.wait_wgmma"), WaitWgmma(int(count)), ())


# ------------------------------------------------------------------------------------------ roles


class RoleFrame:
    """The context manager behind `with T.ws(…)`."""

    def __init__(self, groups: tuple[int, ...]) -> None:
        self.groups = tuple(sorted({int(g) for g in groups}))
        self._region = Region("if", role={})
        self._trace: Trace | None = None

    def __enter__(self) -> None:
        t, launch = kernel_trace("T.ws")
        self._trace = t
        x, y, z = launch.threads
        available = x * y * z // WARPGROUP
        g = self.groups
        if not g or g[0] < 0 or g[-1] >= available or g != tuple(range(g[0], g[-1] + 1)):
            raise t.error(
                f"T.ws{g}: the block has warpgroups 0 to {available - 1}, and a role is a run of "
                f"neighbours",
                "TL0587",
                f"give T.Kernel threads={WARPGROUP * (max(g, default=0) + 1)} or more",
                OptionError,
            )
        self._region.span = t.span()
        t.enter(self._region)

    def __exit__(self, kind: Any, *_: object) -> None:
        t = self._trace
        if kind is not None or t is None:
            return
        body = t.leave(self._region)
        first, count = self.groups[0] * WARPGROUP, len(self.groups) * WARPGROUP
        t.emit(Role(first, count, seq(body), self._region.role or {}, self._region.span))


def ws(*groups: int) -> RoleFrame:
    """Only the 128-thread warpgroups `groups` execute the body, as a group of their own."""
    return RoleFrame(groups)
