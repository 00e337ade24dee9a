# SPDX-License-Identifier: Apache-2.0
"""Where barriers stand: between every two accesses that may meet, and never where threads diverge.

Whole kernels run in the simulator, which reports a race (TL1301) and a barrier that not every
thread reaches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.config import Options
from tilelang.ir import Call, If, PrimFunc, While, own_copy, session, walk
from tilelang.ir.intrinsics import TABLE
from tilelang.target import Target
from tilelang.transform import PIPELINE, PassContext, run_passes

AMPERE = "cuda-sim -arch=sm_80"


def barriers(func: PrimFunc) -> tuple[int, int]:
    """How many barriers there are, and how many of them under a condition."""
    context = PassContext(Target(AMPERE), Options())
    with session():
        out = run_passes(own_copy(func), context, PIPELINE, stop_after="insert_syncs")

        def count(n: Any) -> int:
            return sum(x.op == "sync_threads" for x in walk(n) if type(x) is Call)

        return count(out.body), sum(count(x) for x in walk(out.body) if type(x) in (If, While))


# the place of element i of 128 in a (2, 64) buffer, and the same backwards in its second half
PLACES: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "floordiv": lambda i: (i // 64, i % 64),
    "shift": lambda i: (i >> 6, i & 63),
    "min": lambda i: (T.min(i // 32, 3) // 2, i % 64),
    "max": lambda i: (T.max(i - 63, 0) - T.max(i - 64, 0), i % 64),
    "select": lambda i: (T.if_then_else(i < 64, 0, 1), i % 64),
    "xor": lambda i: ((i ^ 64) // 64, (i ^ 5) % 64),
}


def scattered(place: Callable[[Any], tuple[Any, Any]]) -> PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((2, 64), "float32")
            for i in T.Parallel(128):
                s[place(i)[0], place(i)[1]] = A[i]
            for i in T.Parallel(64):
                B[i] = s[1, 63 - i]

    return main


@pytest.mark.parametrize("name", PLACES)
def test_a_write_is_seen_wherever_it_may_land(name: str) -> None:
    place = PLACES[name]
    a, b = np.arange(128, dtype=np.float32), np.zeros(64, np.float32)
    s = np.zeros((2, 64), np.float32)
    rows = {"xor": lambda i: ((i ^ 64) // 64, (i ^ 5) % 64)}.get(name, lambda i: divmod(i, 64))
    for i in range(128):
        s[rows(i)] = a[i]
    tilelang.compile(scattered(place), target=AMPERE)(a, b)
    np.testing.assert_array_equal(b, s[1, ::-1])


# ------------------------------------------------------------------------ where threads diverge

LANE = "__device__ int lane() { return threadIdx.x; }\n"
SET_LANE = "__device__ void set_lane(int* x) { *x = threadIdx.x; }\n"


def rotated(condition: Callable[[Any, Any, Any], Any]) -> PrimFunc:
    """Threads for which the condition holds pass an element through shared memory, four times."""

    @T.prim_func
    def main(
        A: T.Tensor((4, 128), "int32"), B: T.Tensor((4, 128), "int32"), N: T.Tensor((1,), "int32")
    ):
        with T.Kernel(1, threads=128):
            T.import_source(LANE + SET_LANE)
            tx = T.get_thread_binding()
            s = T.alloc_shared((128,), "int32")
            own = T.alloc_local((2,), "int32")
            own[0] = 0
            own[1] = 0
            c = condition(tx, N, own)
            if c < 64:
                for k in T.serial(4):
                    s[tx] = A[k, tx]
                    B[k, tx] = s[tx]

    return main


def by_pointer(tx: Any, n: Any, own: Any) -> Any:
    T.call_extern("handle", "set_lane", T.address_of(own[0]))
    return own[0]


def by_pointer_to_a_view(tx: Any, n: Any, own: Any) -> Any:
    T.call_extern("handle", "set_lane", T.address_of(T.view(own, (1, 2))[0, 0]))
    return own[0]


DIVERGENT: dict[str, Callable[[Any, Any, Any], Any]] = {
    "thread": lambda tx, n, own: tx,
    "extern": lambda tx, n, own: T.call_extern("int32", "lane"),
    "extern_pointer": by_pointer,
    "extern_pointer_to_a_view": by_pointer_to_a_view,
    "atomic_add": lambda tx, n, own: T.atomic_add(n[0], 1, return_prev=True),
    "shuffle": lambda tx, n, own: T.shfl_xor(tx, 1),
}


@pytest.mark.parametrize("name", DIVERGENT)
def test_no_barrier_under_a_condition_that_threads_may_answer_differently(name: str) -> None:
    func = rotated(DIVERGENT[name])
    assert barriers(func)[1] == 0
    a, b = np.arange(512, dtype=np.int32).reshape(4, 128), np.zeros((4, 128), np.int32)
    tilelang.compile(func, target=AMPERE)(a, b, np.zeros(1, np.int32))
    assert (b == a).all(axis=0).sum() == 64


def test_a_barrier_under_a_condition_that_all_threads_answer_alike() -> None:
    func = rotated(lambda tx, n, own: n[0])
    assert barriers(func)[1] > 0
    a, b = np.arange(512, dtype=np.int32).reshape(4, 128), np.zeros((4, 128), np.int32)
    tilelang.compile(func, target=AMPERE)(a, b, np.zeros(1, np.int32))
    np.testing.assert_array_equal(a, b)


def test_no_barrier_in_a_loop_that_some_threads_leave_earlier() -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 128), "int32"), B: T.Tensor((4, 128), "int32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            s = T.alloc_shared((128,), "int32")
            trips = T.alloc_var("int32", init=0)
            for k in T.serial(4):
                if tx < 32 * k:
                    break
                s[tx] = A[k, tx]
                B[k, tx] = s[tx]
                trips = trips + 1
            if trips > 2:
                s[tx] = A[0, tx]
                B[0, tx] = s[tx] + 1

    assert barriers(main) == (1, 0)  # before the last branch, which all threads reach
    a, b = np.arange(512, dtype=np.int32).reshape(4, 128), np.zeros((4, 128), np.int32)
    tilelang.compile(main, target=AMPERE)(a, b)
    k, tx = np.arange(4)[:, None], np.arange(128)
    np.testing.assert_array_equal(
        b, np.where(tx >= 32 * k, a, 0) + np.where((k == 0) & (tx >= 64), 1, 0)
    )


def test_what_an_extern_call_may_do_behind_its_pointers() -> None:
    source = """
    __device__ void put(int* s, int i, int v) { s[i] = v; }
    __device__ int after(const int* s, int i) { return s[(i + 1) % 128]; }
    """

    @T.prim_func
    def main(A: T.Tensor((128,), "int32"), B: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            T.import_source(source)
            tx = T.get_thread_binding()
            s = T.alloc_shared((128,), "int32")
            T.call_extern("handle", "put", T.address_of(s[0]), tx, A[tx])
            B[tx] = T.call_extern("int32", "after", T.address_of(s[0]), tx)

    a, b = np.arange(128, dtype=np.int32), np.zeros(128, np.int32)
    tilelang.compile(main, target=AMPERE)(a, b)
    np.testing.assert_array_equal(b, np.roll(a, -1))


def test_the_table_says_whose_results_differ_per_thread() -> None:
    for row in TABLE.values():
        if row.effect == "opaque" or "atomic" in row.pointers.values():
            assert row.per_thread, row.name
    assert {n for n, row in TABLE.items() if row.per_thread} == {
        "call_extern", "elect_one", "atomic_add", "atomic_max", "atomic_min", "atomic_or",
        "atomic_load", "atomic_store", "match_any", "cluster_load",
        "shfl_idx", "shfl_xor", "shfl_up", "shfl_down",
    }  # fmt: skip
