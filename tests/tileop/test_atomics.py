# SPDX-License-Identifier: Apache-2.0
"""Atomic operations on every executor: their values, the old values, and all memory orders."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tilelang.language as T
from tilelang.errors import OptionError

from .everywhere import compiles, everywhere, run

ORDERS = ("relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst")


def updates() -> Any:
    @T.prim_func
    def main(
        A: T.Tensor((64,), "int32"),
        B: T.Tensor((8,), "int32"),
        U: T.Tensor((2,), "uint8"),
        Q: T.Tensor((4,), "int64"),
        P: T.Tensor((64,), "int32"),
    ):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            for n, order in enumerate(ORDERS):
                T.atomic_add(B[n], A[tx], memory_order=order)
            P[tx] = T.atomic_or(B[6], T.shift_left(1, tx % 32), return_prev=True)
            T.atomic_or(U[0], tx % 8)
            T.atomic_or(Q[0], T.shift_left(T.int64(1), tx), memory_order="seq_cst")
            T.atomic_max(Q[1], A[tx], memory_order="release")
            T.atomic_min(Q[2], A[tx], memory_order="acquire")

    return main


@everywhere
def test_every_thread_makes_an_update_outside_of_a_parallel_loop(where: str) -> None:
    @T.prim_func
    def main(C: T.Tensor((4,), "int32"), D: T.Tensor((2, 8, 4), "int32")):
        with T.Kernel(2, threads=(8, 4)) as bx:
            tx, ty = T.get_thread_binding(0), T.get_thread_binding(1)
            T.atomic_add(C[0], 1)
            old = T.atomic_add(C[1], 2, return_prev=True)
            for i in T.serial(3):
                T.atomic_max(C[2], i + bx)
            for i in T.Parallel(10):
                T.atomic_add(C[3], i)
            D[bx, tx, ty] = old

    c, d = np.zeros(4, np.int32), np.zeros((2, 8, 4), np.int32)
    run(where, main, c, d)
    assert c.tolist() == [64, 128, 3, 90]
    assert len(set(d.flat)) == 64


@everywhere
def test_updates(where: str) -> None:
    a = np.random.default_rng(0).integers(-50, 50, 64).astype(np.int32)
    b, u, q = np.zeros(8, np.int32), np.zeros(2, np.uint8), np.zeros(4, np.int64)
    p = np.zeros(64, np.int32)
    run(where, updates(), a, b, u, q, p)
    assert b.tolist() == [a.sum()] * 6 + [-1, 0]
    assert u.tolist() == [7, 0]
    assert q.tolist() == [-1, max(0, a.max()), min(0, a.min()), 0]
    grown = sorted(p.view(np.uint32).tolist(), key=int.bit_count)
    assert grown[0] == 0
    assert all(x & y == x for x, y in pairwise(grown))


@everywhere
def test_equal_updates_are_two(where: str) -> None:
    @T.prim_func
    def main(C: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=8):
            tx = T.get_thread_binding()
            for _ in range(2):
                T.atomic_add(C[0], tx)
            if tx % 2 == 0:
                T.atomic_add(C[1], T.atomic_add(C[2], 1, return_prev=True) * 0 + 1)
                T.atomic_add(C[1], T.atomic_add(C[2], 1, return_prev=True) * 0 + 1)
            for i in T.Parallel(8):
                T.atomic_add(C[3], i)
                T.atomic_add(C[3], i)

    c = np.zeros(4, np.int32)
    run(where, main, c)
    assert c.tolist() == [56, 8, 8, 56]


def hand_over(dtype: str) -> Any:
    """One thread writes data and then a flag; another reads the flag and then the data."""

    @T.prim_func
    def main(A: T.Tensor((64,), dtype), F: T.Tensor((2,), "int32"), O: T.Tensor((64,), dtype)):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            D = T.alloc_shared((64,), dtype)
            T.atomic_store(D[tx], A[tx], memory_order="release")
            T.sync_threads()
            O[tx] = T.atomic_load(D[63 - tx], memory_order="acquire")
            if tx == 0:
                T.atomic_store(F[0], 7)
                F[1] = T.atomic_load(F[0]) + 1

    return main


@everywhere
@pytest.mark.parametrize("dtype", ["int32", "float32", "float16", "uint8", "float64"])
def test_loads_and_stores(where: str, dtype: str) -> None:
    a = np.random.default_rng(1).integers(0, 99, 64).astype(dtype)
    f, o = np.zeros(2, np.int32), np.zeros(64, dtype)
    run(where, hand_over(dtype), a, f, o)
    np.testing.assert_array_equal(o, a[::-1])
    assert f.tolist() == [7, 8]


def groups(dtype: str) -> Any:
    @T.prim_func
    def main(A: T.Tensor((16, 4), dtype), B: T.Tensor((2, 4), dtype), P: T.Tensor((16, 4), dtype)):
        with T.Kernel(1, threads=16):
            tx = T.get_thread_binding()
            T.atomic_addx2(B[0, 1], A[tx, 1])
            old = T.atomic_addx4(B[1, 0], A[tx, 0], return_prev=True)
            for k in T.unroll(4, explicit=True):
                P[tx, k] = T.extract_lane(old, k)

    return main


@everywhere
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
def test_groups_of_elements(where: str, dtype: str) -> None:
    import ml_dtypes

    own = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    a = np.random.default_rng(2).integers(1, 5, (16, 4)).astype(own)
    b, p = np.zeros((2, 4), own), np.full((16, 4), -1, np.float32).astype(own)
    run(where, groups(dtype), a, b, p)
    sums = a.astype(np.float32).sum(0)
    np.testing.assert_array_equal(b.astype(np.float32), [[0, sums[1], sums[2], 0], sums])
    for k in range(4):  # the old values are the partial sums in some order: each appears once
        column = sorted(p[:, k].astype(np.float32))
        assert column[0] == 0
        assert len(set(column)) == 16
        assert column[-1] < sums[k]


def mixed() -> Any:
    @T.prim_func
    def main(A: T.Tensor((8, 16), "float16"), B: T.Tensor((8, 16), "float32")):
        with T.Kernel(2, threads=32):
            S = T.alloc_shared((8, 16), "float16")
            T.copy(A, S)
            T.atomic_add(B, S)
            for i, j in T.Parallel(8, 16):
                T.atomic_add(B[i, j], A[i, j])

    return main


@everywhere
def test_a_value_of_another_dtype(where: str) -> None:
    a = np.random.default_rng(3).integers(-9, 9, (8, 16)).astype(np.float16)
    b = np.ones((8, 16), np.float32)
    run(where, mixed(), a, b)
    np.testing.assert_array_equal(b, 1 + 4 * a.astype(np.float32))


def test_cuda_has_these_instructions() -> None:
    text = compiles(updates()) + compiles(hand_over("float16")) + compiles(groups("bfloat16"))
    compiles(mixed())
    for name in ("atomic_or(", "atomic_load(", "atomic_store(", "memory_fence<1>(", "fence<3>("):
        assert name in text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("T.atomic_load(A[0], memory_order='release')", "no memory order of this operation"),
        ("T.atomic_store(A[0], 1, memory_order='acquire')", "no memory order of this operation"),
        ("T.atomic_add(A[0], 1, memory_order='strong')", "'strong' is no memory order"),
    ],
)
def test_orders_that_an_operation_has_not(body: str, text: str) -> None:
    with pytest.raises(OptionError, match=text):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1, threads=32):
                eval(body)


@everywhere
def test_updates_outside_of_a_tensor_are_dropped(where: str) -> None:
    """Of a tile at the ragged end, and of elements in every dimension."""

    @T.prim_func
    def main(
        A: T.Tensor((2, 16, 8), "int32"),
        C: T.Tensor((21, 5), "int32"),
        D: T.Tensor((5,), "int32"),
    ):
        with T.Kernel(2, threads=32) as bx:
            tile = T.alloc_fragment((16, 8), "int32")
            T.copy(A[bx, :, :], tile)
            T.atomic_add(C[bx * 16 : bx * 16 + 16, 0:8], tile)
            for i in T.Parallel(8):
                T.atomic_max(D[i - 2], 40 + i)

    a = np.arange(256, dtype=np.int32).reshape(2, 16, 8)
    c = np.full((21, 5), 3, np.int32)
    want = c + a.reshape(32, 8)[:21, :5]
    d = np.zeros(5, np.int32)
    run(where, main, a, c, d)
    np.testing.assert_array_equal(c, want)
    assert d.tolist() == [42, 43, 44, 45, 46]
