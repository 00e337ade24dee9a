# SPDX-License-Identifier: Apache-2.0
"""Long programs: twice the statements cost twice the work, in every pass.

Two measures: visits of nodes, which miss comparisons of what was found before (pairs of accesses,
say), and function calls, which see those too and are slower to count.
"""

from __future__ import annotations

import pytest

import tilelang.language as T
from tilelang.ir import PrimFunc
from tilelang.testing.visits import count_calls, count_visits

TARGETS = ("llvm", "cuda -arch=sm_80")
ROOM = 1.08
"""Above twice the work. Quadratic work would be four times as much."""
SMALL = 20_000
"""Calls: a pass that makes fewer is not looked at, a few things happen only once."""


@pytest.fixture(autouse=True)
def no_verification(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checking the IR after every pass visits it too."""
    monkeypatch.setenv("TILELANG_VERIFY", "0")


def stores(count: int) -> PrimFunc:
    """Rows of a matrix, one after the other."""
    n = 64
    rows = tuple(range(count))

    @T.prim_func
    def main(A: T.Tensor((count, n), "float32"), B: T.Tensor((count, n), "float32")):
        with T.Kernel(1, threads=n):
            t = T.get_thread_binding(0)
            for k in rows:
                B[k, t] = A[k, t] * 2 + k

    return main


def branches(count: int) -> PrimFunc:
    """Values with names, and a branch for each."""
    n = 64
    rows = tuple(range(count))

    @T.prim_func
    def main(A: T.Tensor((count, n), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=n):
            t = T.get_thread_binding(0)
            top = T.alloc_var("float32")
            for k in rows:
                y = A[k, t] + top
                if y > 3:
                    top = y
            B[t] = top

    return main


def ragged(count: int) -> PrimFunc:
    """Guards that no range proves."""
    rows = tuple(range(count))

    @T.prim_func
    def main(A: T.Tensor((count, 61), "float32"), B: T.Tensor((count, 61), "float32"), m: T.int32):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding(0)
            for i in T.serial(m):
                for k in rows:
                    if i % (k + 2) == 0:
                        B[k, t + i] = A[k, t + i]

    return main


def nests(count: int) -> PrimFunc:
    """Element loops over a chain of fragments whose layout only the last one decides."""
    n = 32
    rows = tuple(range(count))

    @T.prim_func
    def main(A: T.Tensor((n, 16), "float16"), B: T.Tensor((n, n), "float32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((n, 16), "float16")
            x = T.alloc_fragment((n, n), "float32")
            chain = [x]
            T.copy(A, a)
            T.clear(x)
            for _ in rows:
                y = T.alloc_fragment((n, n), "float32")
                x = chain[-1]
                for i, j in T.Parallel(n, n):
                    y[i, j] = x[i, j] * 2
                chain.append(y)
            z = chain[-1]
            T.gemm(a, a, z, transpose_B=True)
            T.copy(z, B)

    return main


def tile_ops(count: int) -> PrimFunc:
    """Copies and products."""
    n = 32
    rows = tuple(range(count))

    @T.prim_func
    def main(A: T.Tensor((n * count, n), "float16"), B: T.Tensor((n, n), "float16")):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((n, n), "float16")
            c = T.alloc_fragment((n, n), "float32")
            T.clear(c)
            for k in rows:
                T.copy(A[k * n, 0], a)
                T.gemm(a, a, c)
            T.copy(c, B)

    return main


def tiles(count: int) -> PrimFunc:
    """Each row through a shared buffer of its own (not many: pairs of buffers are compared, and a
    block's shared memory holds few)."""
    n = 64
    rows = tuple(range(count))

    @T.prim_func
    def main(A: T.Tensor((count, n), "float32"), B: T.Tensor((count, n), "float32")):
        with T.Kernel(1, threads=n):
            for k in rows:
                s = T.alloc_shared((n,), "float32")
                T.copy(A[k, 0:n], s)
                T.copy(s, B[k, 0:n])

    return main


PROGRAMS = {
    stores: 120, branches: 120, ragged: 80, nests: 50, tile_ops: 12, tiles: 30,
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_twice_the_program_makes_at_most_twice_the_calls(make: object, target: str) -> None:
    assert callable(make)
    size = PROGRAMS[make]
    one, two = (count_calls(make(n), target) for n in (size, 2 * size))
    assert two.total() <= 2 * ROOM * one.total(), (one, two)
    grown = {p: two[p] / one[p] for p in two if one[p] > SMALL and two[p] > 2 * ROOM * one[p]}
    assert grown == {}


@pytest.mark.slow  # the test above sees more at smaller sizes
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("make", "size"),
    [(stores, 1000), (branches, 1000), (ragged, 1000), (tile_ops, 100)],
    ids=lambda x: getattr(x, "__name__", str(x)),
)
def test_two_thousand_statements(make: object, size: int, target: str) -> None:
    assert callable(make)
    one, two = (count_visits(make(n), target) for n in (size, 2 * size))
    assert two.nodes > 1.9 * one.nodes
    assert two.visits <= 2 * ROOM * one.visits, (one, two)
