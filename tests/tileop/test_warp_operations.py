# SPDX-License-Identifier: Apache-2.0
"""What the lanes of a warp do together means the same on a GPU and on a CPU, warp by warp, where a
block ends in half a warp and where only some warps come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import OptionError, TargetError

from .everywhere import compiles, everywhere, run

Array = Any
SIZES = (32, 96, 80)


def exchanges(n: int, width: int) -> Any:
    @T.prim_func
    def main(A: T.Tensor((2, n), "int32"), O: T.Tensor((7, 2, n), "int32")):
        with T.Kernel(2, threads=n) as bx:
            tx = T.get_thread_binding()
            v = A[bx, tx]
            O[0, bx, tx] = T.shfl_sync(v, 5, width)
            O[1, bx, tx] = T.shfl_xor(v, 3, width)
            O[2, bx, tx] = T.shfl_up(v, 2, width)
            O[3, bx, tx] = T.shfl_down(v, 3, width)
            O[4, bx, tx] = T.tvm_warp_shuffle(-1, v, 1, width, 32)
            O[5, bx, tx] = T.tvm_warp_shuffle_up(-1, v, 1, width, 32)
            O[6, bx, tx] = T.tvm_warp_shuffle_down(-1, v, 1, width, 32)

    return main


def shuffled(row: Array, source: Array, width: int) -> Array:
    """source: lane of the segment -> lane it reads; outside of it, or of the block, nothing
    moves."""
    n = len(row)
    tid = np.arange(n)
    inner = tid % width
    at = tid - inner + source
    inside = (source >= 0) & (source < width) & (at < n)
    return row[np.where(inside, at, tid)]


@everywhere
@pytest.mark.parametrize("width", [32, 8])
@pytest.mark.parametrize("n", SIZES)
def test_shuffles(where: str, n: int, width: int) -> None:
    a = np.random.default_rng(0).integers(-99, 99, (2, n)).astype(np.int32)
    out = np.zeros((7, 2, n), np.int32)
    run(where, exchanges(n, width), a, out)
    inner = np.arange(n) % width
    sources = [
        np.full(n, 5), inner ^ 3, inner - 2, inner + 3, np.full(n, 1), inner - 1, inner + 1,
    ]  # fmt: skip
    for got, source in zip(out, sources, strict=True):
        np.testing.assert_array_equal(got, [shuffled(row, source, width) for row in a])


def votes(n: int) -> Any:
    @T.prim_func
    def main(A: T.Tensor((n,), "int32"), O: T.Tensor((8, n), "uint32")):
        with T.Kernel(1, threads=n):
            tx = T.get_thread_binding()
            v = A[tx]
            O[0, tx] = T.ballot_sync(v > 3)
            O[1, tx] = T.any_sync(v > 14)
            O[2, tx] = T.all_sync(v > 0)
            O[3, tx] = T.match_any_sync(v)
            O[4, tx] = T.match_all_sync(tx // 32)
            O[5, tx] = T.match_all_sync(v)
            O[6, tx] = T.activemask()
            O[7, tx] = T.match_any_sync(T.cast(v, "float64") * 0.5)

    return main


@everywhere
@pytest.mark.parametrize("n", SIZES)
def test_votes_and_matches(where: str, n: int) -> None:
    a = np.random.default_rng(1).integers(0, 16, n).astype(np.int32)
    a[-3:] = 0
    out = np.zeros((8, n), np.uint32)
    run(where, votes(n), a, out)
    for first in range(0, n, 32):
        v = a[first : first + 32]
        bits = 1 << np.arange(len(v), dtype=np.int64)
        same = [(bits * (v == x)).sum() for x in v]
        live = bits.sum()
        everyone = live if (v == v[0]).all() else 0
        want = [
            (bits * (v > 3)).sum(), (v > 14).any(), (v > 0).all(), same, live, everyone, live, same,
        ]  # fmt: skip
        for got, w in zip(out[:, first : first + 32], want, strict=True):
            np.testing.assert_array_equal(got, np.broadcast_to(w, v.shape))


def block_votes(n: int) -> Any:
    @T.prim_func
    def main(A: T.Tensor((n,), "int32"), O: T.Tensor((4, n), "int32")):
        with T.Kernel(1, threads=n):
            tx = T.get_thread_binding()
            O[0, tx] = T.syncthreads_count(A[tx] > 3)
            O[1, tx] = T.syncthreads_or(A[tx] > 14)
            O[2, tx] = T.syncthreads_and(A[tx] < 16)
            O[3, tx] = T.syncthreads_and(A[tx] < 15)

    return main


@everywhere
@pytest.mark.parametrize("n", SIZES)
def test_votes_of_the_block(where: str, n: int) -> None:
    a = np.random.default_rng(2).integers(0, 16, n).astype(np.int32)
    a[0] = 15
    out = np.zeros((4, n), np.int32)
    run(where, block_votes(n), a, out)
    assert [set(row) for row in out.tolist()] == [{int((a > 3).sum())}, {1}, {1}, {0}]


def block_sum(n: int) -> Any:
    """As written by hand: sums of warps, then the sum of these by the first warp."""

    @T.prim_func
    def main(A: T.Tensor((3, n), "float32"), O: T.Tensor((3,), "float32")):
        with T.Kernel(3, threads=n) as bx:
            tx = T.get_thread_binding()
            part = T.alloc_shared((n // 32,), "float32")
            s = T.warp_reduce_sum(A[bx, tx])
            if T.get_lane_idx() == 0:
                part[T.get_warp_idx()] = s
            T.sync_threads()
            if T.get_warp_idx() == 0:
                p = T.alloc_var("float32", init=0.0)
                if tx < n // 32:
                    p = part[tx]
                total = T.warp_reduce_sum(p)
                if tx == 0:
                    O[bx] = total

    return main


@everywhere
def test_a_reduction_by_hand(where: str) -> None:
    a = np.random.default_rng(3).integers(-9, 9, (3, 256)).astype(np.float32)
    out = np.zeros(3, np.float32)
    run(where, block_sum(256), a, out)
    np.testing.assert_array_equal(out, a.sum(1))


def branches() -> Any:
    @T.prim_func
    def main(A: T.Tensor((96,), "int32"), O: T.Tensor((4, 96), "int32")):
        with T.Kernel(1, threads=96):
            tx = T.get_thread_binding()
            v = A[tx]
            carried = T.alloc_var("int32", init=1)
            if T.get_warp_idx() == 1:
                doubled = v * 2
                m = T.warp_reduce_max(doubled)
                O[0, tx] = m + doubled
                for i in T.serial(3):
                    carried += T.shfl_xor(v + i, 1) * (i + 1)
            else:
                if T.get_warp_idx() == 2:
                    O[0, tx] = T.warp_reduce_min(v)
                    T.sync_warp()
                    carried = T.shfl_up(carried + v, 1)
                else:
                    O[0, tx] = -1
            O[1, tx] = carried
            for i in T.serial(2):
                if v > 7:
                    carried += i
                carried = T.shfl_down(carried, 1)
            O[2, tx] = carried
            if tx >= 64:
                T.thread_return()
            O[3, tx] = v

    return main


@everywhere
def test_branches_and_loops_around_an_exchange(where: str) -> None:
    a = np.random.default_rng(4).integers(0, 16, 96).astype(np.int32)
    out = np.full((4, 96), -7, np.int32)
    run(where, branches(), a, out)
    _, w1, w2 = a.reshape(3, 32)
    lane = np.arange(32)
    np.testing.assert_array_equal(out[0], [*[-1] * 32, *(2 * w1 + 2 * w1.max()), *[w2.min()] * 32])
    other = w1[lane ^ 1]
    last = np.r_[1 + w2[0], (1 + w2)[:-1]]
    carried = np.r_[[1] * 32, 1 + other + 2 * (other + 1) + 3 * (other + 2), last]
    np.testing.assert_array_equal(out[1], carried)
    for i in range(2):
        carried = carried + i * (a > 7)
        carried = carried.reshape(3, 32)[:, np.minimum(lane + 1, 31)].reshape(-1)
    np.testing.assert_array_equal(out[2], carried)
    np.testing.assert_array_equal(out[3], [*a[:64], *[-7] * 32])


def test_cuda_has_these_instructions() -> None:
    text = compiles(votes(64)) + compiles(exchanges(64, 8)) + compiles(block_votes(64))
    compiles(branches())
    for name in ("tl::ballot(", "tl::match_any(", "tl::shfl_down("):
        assert name in text


def test_another_mask_is_refused() -> None:
    with pytest.raises(OptionError, match="full mask"):

        @T.prim_func
        def main(A: T.Tensor((32,), "int32")):
            with T.Kernel(1, threads=32):
                A[0] = T.shfl_xor(A[1], 1, mask=0xFF)


def test_a_wait_that_only_some_threads_reach_is_refused() -> None:
    @T.prim_func
    def arrive(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            if tx < 32:
                T.named_barrier_arrive(1, 64)
            else:
                T.sync_threads(1, 64)
            A[tx] = tx

    with pytest.raises(TargetError, match=r"named_barrier_arrive.*no meaning on a CPU"):
        tilelang.compile(arrive, target="llvm")

    @T.prim_func
    def endless(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            n = T.alloc_var("int32", init=0)
            if tx < 32:
                while n < 3:
                    n += T.shfl_xor(1, 1)
            A[tx] = n

    with pytest.raises(TargetError, match=r"meet in a (while )?loop|reach"):
        tilelang.compile(endless, target="llvm")
