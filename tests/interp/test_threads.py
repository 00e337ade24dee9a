# SPDX-License-Identifier: Apache-2.0
"""Threads of a block: barriers, warp operations, asynchronous copies, deadlocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.interp.programs import kernel
from tilelang.errors import InternalError
from tilelang.interp import thread
from tilelang.ir import (
    Alloc,
    Bind,
    Buffer,
    Builder,
    DType,
    If,
    Load,
    Scope,
    Stmt,
    Store,
    Var,
    address_of,
    call,
    cast,
    const,
    seq,
)  # fmt: skip

TX = Var("tx")


def _run(body: Stmt, out: Buffer, *more: tuple[Buffer, Any], threads: int = 32) -> Any:
    result = np.zeros(tuple(int(e) for e in out.shape), out.dtype.as_numpy())
    f = kernel(body, out, *(b for b, _ in more), threads=threads, tid=TX, stage="LOOP")
    thread.run(f, result, *(a for _, a in more))
    return result


def test_a_barrier_orders_shared_memory() -> None:
    n = 96
    s, out = Buffer("S", (n,), "int32", Scope.SHARED), Buffer("Out", (n,), "int32")
    b = Builder()
    b.emit(Alloc(s))
    b.store(s, (TX,), TX * 2)
    b.call("sync_threads")
    b.store(out, (TX,), s[n - 1 - TX])
    assert _run(b.finish(), out, threads=n).tolist() == [2 * (n - 1 - i) for i in range(n)]


@pytest.mark.parametrize(
    ("op", "by", "want"),
    [
        ("shfl_xor", 1, lambda i: i ^ 1), ("shfl_idx", 3, lambda i: i // 8 * 8 + 3),
        ("shfl_down", 2, lambda i: i + 2 if i % 8 < 6 else i),
        ("shfl_up", 1, lambda i: i - 1 if i % 8 else i),
    ],
)  # fmt: skip
def test_shuffles(op: str, by: int, want: Any) -> None:
    out = Buffer("Out", (64,), "int32")
    body = Store(out, (TX,), call(op, [TX, by, 8], "int32"))
    assert _run(body, out, threads=64).tolist() == [want(i) for i in range(64)]


def test_one_lane_of_a_warp() -> None:
    out = Buffer("Out", (64,), "int32")
    body = seq(If(call("elect_one", [], "bool"), Store(out, (TX,), const(1))))
    assert np.flatnonzero(_run(body, out, threads=64)).tolist() == [0, 32]


def _matrix(shape: tuple[int, int], dtype: str, seed: int) -> Any:
    values = np.random.default_rng(seed).integers(0 if dtype[0] == "u" else -8, 9, shape)
    return values.astype(DType(dtype).as_numpy())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("trans_b", [False, True])
def test_ldmatrix_feeds_mma(dtype: str, trans_b: bool) -> None:
    """c = a · b, a 16 x 16 and b 16 x 8 in shared memory: what compilers write for a warp."""
    ab = "f16" if dtype == "float16" else "bf16"
    out = Buffer("Out", (16, 8), "float32")
    a, b = Buffer("A", (16, 16), dtype), Buffer("B", (16, 8) if trans_b else (8, 16), dtype)
    a_s = Buffer("As", a.shape, dtype, Scope.SHARED)
    b_s = Buffer("Bs", b.shape, dtype, Scope.SHARED)
    w = Builder()
    w.emit(Alloc(a_s), Alloc(b_s))
    with w.for_("i", 8) as i:
        at = i * 32 + TX
        w.store(a_s, (at // 16, at % 16), a[at // 16, at % 16])
    with w.for_("i", 4) as i:
        at, width = i * 32 + TX, int(b.shape[1])
        w.store(b_s, (at // width, at % width), b[at // width, at % width])
    w.call("sync_threads")
    ra, rb = w.alloc("ra", (8,), dtype), w.alloc("rb", (4,), dtype)
    rc = w.alloc("rc", (4,), "float32")
    row = address_of(a_s, TX % 16, TX // 16 * 8)
    w.call("ldmatrix", 4, 0, address_of(ra, 0), row)
    lane = TX % 16
    b_row = address_of(b_s, lane, 0) if trans_b else address_of(b_s, lane % 8, lane // 8 * 8)
    w.call("ldmatrix", 2, int(trans_b), address_of(rb, 0), b_row)
    with w.for_("i", 4) as i:
        w.store(rc, (i,), const(0.0))
    w.call(f"mma_m16n8k16_{ab}_f32", address_of(rc, 0), address_of(ra, 0), address_of(rb, 0))
    for n in range(4):
        w.store(out, (TX // 4 + 8 * (n // 2), TX % 4 * 2 + n % 2), rc[n])
    x = _matrix((16, 16), dtype, 0)
    y = _matrix(tuple(int(e) for e in b.shape), dtype, 1)  # type: ignore[arg-type]
    want = x.astype(np.float32) @ (y if trans_b else y.T).astype(np.float32)
    np.testing.assert_array_equal(_run(w.finish(), out, (a, x), (b, y)), want)


def _cp_async(pending: int) -> Any:
    """Two groups of copies, read after a wait for at most `pending`."""
    out, a = Buffer("Out", (2, 4), "float32"), Buffer("A", (2, 4), "float32")
    s = Buffer("S", (2, 4), "float32", Scope.SHARED)
    w = Builder()
    w.emit(Alloc(s))
    with w.if_(TX == 0):
        for row in range(2):
            w.call("cp_async", 16, address_of(s, row, 0), address_of(a, row, 0), True)
            w.call("cp_async_commit")
        w.call("cp_async_wait", pending)
        with w.for_("i", 8) as i:
            w.store(out, (i // 4, i % 4), s[i // 4, i % 4])
    return _run(w.finish(), out, (a, np.ones((2, 4), np.float32)))


def test_a_wait_that_is_too_weak_shows() -> None:
    assert not np.isnan(_cp_async(0)).any()
    assert np.isnan(_cp_async(1)).tolist() == [[False] * 4, [True] * 4]
    assert np.isnan(_cp_async(2)).all()


def test_cp_async_fills_with_zeros() -> None:
    out, a = Buffer("Out", (4,), "float32"), Buffer("A", (4,), "float32")
    s = Buffer("S", (4,), "float32", Scope.SHARED)
    w = Builder()
    w.emit(Alloc(s))
    with w.if_(TX == 0):
        w.call("cp_async", 16, address_of(s, 0), address_of(a, 0), False)
        w.call("cp_async_commit")
        w.call("cp_async_wait", 0)
    w.call("sync_threads")
    with w.if_(TX < 4):
        w.store(out, (TX,), s[TX] + 1)
    assert _run(w.finish(), out, (a, np.ones(4, np.float32))).tolist() == [1, 1, 1, 1]


def test_mbarriers_hand_over() -> None:
    """Thread 0 waits for 31 arrivals, of which each comes after its store."""
    s, out = Buffer("S", (32,), "int32", Scope.SHARED), Buffer("Out", (1,), "int32")
    bar = Buffer("bar", (1,), "uint64", Scope.BARRIER)
    total = Buffer("total", (1,), "int32", Scope.VAR)
    w = Builder()
    w.emit(Alloc(s), Alloc(bar), Alloc(total, {"init": 0}))
    with w.if_(TX == 0):
        w.call("mbar_init", address_of(bar, 0), 31)
    w.call("sync_threads")
    with w.if_(TX == 0):
        w.call("mbar_wait", address_of(bar, 0), 0)
        with w.for_("i", 31) as i:
            w.store(total, (0,), total[0] + s[i + 1])
        w.store(out, (0,), total[0])
    with w.else_():
        w.store(s, (TX,), TX)
        w.call("mbar_arrive", address_of(bar, 0))
    assert _run(w.finish(), out).tolist() == [sum(range(32))]


def test_named_barriers_count_their_threads() -> None:
    s, out = Buffer("S", (64,), "int32", Scope.SHARED), Buffer("Out", (64,), "int32")
    w = Builder()
    w.emit(Alloc(s))
    w.store(s, (TX,), TX)
    with w.if_(TX < 32):
        w.call("named_barrier_sync", 1, 64)
        w.store(out, (TX,), s[63 - TX])
    with w.else_():
        w.call("named_barrier_arrive", 1, 64)
    assert _run(w.finish(), out, threads=64)[:32].tolist() == list(range(63, 31, -1))


def test_a_deadlock_names_who_waits_for_what() -> None:
    out = Buffer("Out", (1,), "int32")
    w = Builder()
    with w.if_(TX < 16):
        w.call("sync_threads")
    with w.else_():
        w.call("sync_warp", -1)
    with pytest.raises(
        InternalError, match=r"16 threads \(0 …\) in sync_threads; 16 threads \(16 …\) in sync_warp"
    ):
        _run(w.finish(), out)


def test_atomics_return_the_old_value() -> None:
    out, old = Buffer("Out", (2,), "int32"), Var("old")
    body = seq(
        Bind(old, call("atomic_add", [address_of(out, 0), TX], "int32")),
        Store(out, (const(1),), cast(Load(out, (const(0),)) - old, "int32")),
    )  # fmt: skip
    got = _run(body, out)
    assert got.tolist() == [sum(range(32)), 31]


def test_private_memory_is_private() -> None:
    out, x = Buffer("Out", (32,), "int32"), Buffer("x", (1,), "int32", Scope.LOCAL)
    w = Builder()
    w.emit(Alloc(x))
    w.store(x, (0,), TX)
    w.call("sync_threads")
    w.store(out, (TX,), x[0])
    assert _run(w.finish(), out).tolist() == list(range(32))


def test_threads_of_the_first_stage_go_on_together() -> None:
    """Barriers are implied there: what one thread writes, all see in the next statement."""
    s, out = Buffer("S", (64,), "int32", Scope.SHARED), Buffer("Out", (64,), "int32")
    w = Builder()
    w.emit(Alloc(s))
    with w.if_(TX < 48):
        w.store(s, (TX,), TX)
    with w.if_(TX < 48):
        w.store(out, (TX,), s[47 - TX])
    result = np.zeros(64, np.int32)
    thread.run(kernel(w.finish(), out, threads=64, tid=TX), result)
    assert result.tolist() == [*range(47, -1, -1), *[0] * 16]
