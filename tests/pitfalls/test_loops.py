# SPDX-License-Identifier: Apache-2.0
"""Loops: steps, bounds that are read, no trip, `break` and `continue`, tiles visited once."""
# ruff: noqa: B023 - a kernel is captured where it is defined, before the loop goes on

from __future__ import annotations

import numpy as np
import pytest

import tilelang.language as T
from tests.pitfalls.support import ON, launch

RANGES = [(10, 0, -3), (0, 10, 3), (5, 5, 1), (5, 4, 2), (3, 4, -1), (-3, 4, 2), (9, -1, -1)]


@ON
@pytest.mark.parametrize("loop", ["serial", "unroll", "range"])
def test_steps(t: str, loop: str) -> None:
    """Each range visits what Python's visits, in its order."""
    steps = {"serial": T.serial, "unroll": T.unroll, "range": range}[loop]

    @T.prim_func
    def main(O: T.Tensor((len(RANGES), 16), "int32"), N: T.Tensor((len(RANGES),), "int32")):
        with T.Kernel(1, threads=1):
            for r in range(len(RANGES)):
                N[r] = 0
            for r, (first, end, step) in enumerate(RANGES):
                for i in steps(first, end, step):
                    O[r, N[r]] = i
                    N[r] += 1

    o, n = np.full((len(RANGES), 16), -77, np.int32), np.full(len(RANGES), -77, np.int32)
    launch(main, t, o, n)
    for row, count, r in zip(o, n, RANGES, strict=True):
        assert list(row[:count]) == list(range(*r)), r
        assert (row[count:] == -77).all(), r


@ON
def test_steps_that_are_read(t: str) -> None:
    @T.prim_func
    def main(R: T.Tensor((3,), "int32"), O: T.Tensor((17,), "int32")):
        with T.Kernel(1, threads=1):
            O[16] = 0
            for i in T.serial(R[0], R[1], R[2]):
                O[O[16]] = i
                O[16] += 1

    for r in RANGES:
        o = np.full(17, -77, np.int32)
        launch(main, t, np.array(r, np.int32), o)
        want = list(range(*r))
        assert list(o[: len(want)]) == want, r
        assert o[16] == len(want), r


@ON
def test_break_and_continue(t: str) -> None:
    """Around tile operations, in serial, unrolled and pipelined loops."""

    @T.prim_func
    def main(X: T.Tensor((8, 32), "int32"), O: T.Tensor((3, 32), "int32"), stop: T.int32):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((32,), "int32")
            f = T.alloc_fragment((3, 32), "int32")
            T.clear(f)
            for k in T.serial(8):
                if k == stop:
                    break
                if k % 3 == 1:
                    continue
                T.copy(X[k, :], s)
                for j in T.Parallel(32):
                    f[0, j] += s[31 - j]
            for k in T.unroll(8):
                if k >= stop:
                    break
                T.copy(X[k, :], f[1, :])
            for k in T.Pipelined(8, num_stages=2):
                if k % 2 == 1:
                    continue
                T.copy(X[k, :], s)
                for j in T.Parallel(32):
                    f[2, j] += s[j]
            T.copy(f, O)

    x = np.random.default_rng(0).integers(-9, 9, (8, 32)).astype(np.int32)
    for stop in (0, 1, 5, 8, 99):
        o = np.full((3, 32), -7, np.int32)
        launch(main, t, x, o, stop)
        kept = [k for k in range(min(stop, 8)) if k % 3 != 1]
        assert (o[0] == x[kept][:, ::-1].sum(axis=0)).all(), stop
        assert (o[1] == (x[min(stop, 8) - 1] if stop else 0)).all(), stop
        assert (o[2] == x[::2].sum(axis=0)).all(), stop


@ON
def test_break_of_a_nested_loop_and_of_a_while(t: str) -> None:
    @T.prim_func
    def main(O: T.Tensor((2,), "int32"), stop: T.int32):
        with T.Kernel(1, threads=32):
            n = T.alloc_var("int32", 0)
            total = T.alloc_var("int32", 0)
            for k in T.serial(8):
                for m in T.serial(4):
                    if m > k:
                        break
                    total += 1
            O[0] = total
            total = 0
            while n < 100:
                n += 1
                if n % 2 == 0:
                    continue
                if n > stop:
                    break
                total += n
            O[1] = total

    for stop in (0, 1, 5, 200):
        o = np.full(2, -7, np.int32)
        launch(main, t, o, stop)
        assert o[0] == sum(min(k + 1, 4) for k in range(8))
        assert o[1] == sum(n for n in range(1, 100, 2) if n <= stop), stop


@ON
def test_break_of_a_vectorized_loop(t: str) -> None:
    for at in (0, 1, 5, 15):

        @T.prim_func
        def main(A: T.Tensor((16,), "int32")):
            with T.Kernel(1, threads=1):
                for i in T.vectorized(16):
                    if i == at:
                        break
                    A[i] = i + 1

        a = np.full(16, -7, np.int32)
        launch(main, t, a)
        assert list(a) == [*range(1, at + 1), *[-7] * (16 - at)], at


@ON
def test_persistent_tiles_are_visited_once(t: str) -> None:
    cases = [((4, n), 3) for n in range(1, 13)] + [((7, 11), 5), ((1, 1), 4), ((2, 3, 5), 4)]
    for domain, workers in cases:

        @T.prim_func
        def main(C: T.Tensor(domain, "int32")):
            with T.Kernel(workers, threads=1) as block:
                for tile in T.Persistent(list(domain), workers, block):
                    T.atomic_add(C[tuple(tile)], 1)

        c = np.zeros(domain, np.int32)
        launch(main, t, c)
        assert (c == 1).all(), (domain, workers)


@ON
def test_what_a_loop_leaves_behind(t: str) -> None:
    """`tmp` is a value, not a place; a variable is a place."""

    @T.prim_func
    def main(
        A: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32"), O: T.Tensor((2,), "int32")
    ):
        with T.Kernel(1, threads=16):
            count = T.alloc_var("int32", 0)
            last = T.alloc_var("int32", -1)
            for i in T.serial(16):
                tmp = T.max(A[i], 1)
                B[i] = tmp / 2
                A[i] = tmp * 2
                if tmp > 1:
                    count += 1
                    last = i
            O[0] = count
            O[1] = last

    a = np.random.default_rng(1).random(16).astype(np.float32) * 3
    old, b, o = a.copy(), np.zeros(16, np.float32), np.zeros(2, np.int32)
    launch(main, t, a, b, o)
    m = np.maximum(old, 1)
    assert (b == m / 2).all()
    assert (a == m * 2).all()
    assert list(o) == [(old > 1).sum(), np.nonzero(old > 1)[0][-1]]
