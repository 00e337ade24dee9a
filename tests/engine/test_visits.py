# SPDX-License-Identifier: Apache-2.0
"""Lowering stays linear: visits per input node, and what a program of twice the size costs."""

from __future__ import annotations

import pytest

import tilelang.language as T
from tilelang.ir import PrimFunc
from tilelang.testing import kernels
from tilelang.testing.visits import count_visits

TARGETS = ("llvm", "cuda -arch=sm_80", "cuda -arch=sm_90a")
MOST_VISITS_PER_NODE = 60


def matmul() -> PrimFunc:
    return kernels.matmul(512, 512, 512, 128, 128, 32, 3, out="float16")


def attention() -> PrimFunc:
    return kernels.attention()


@pytest.fixture(autouse=True)
def no_verification(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checking the IR after every pass visits it too."""
    monkeypatch.setenv("TILELANG_VERIFY", "0")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("make", [matmul, attention])
def test_visits_per_node(make: object, target: str) -> None:
    assert callable(make)
    found = count_visits(make(), target)
    assert found.per_node <= MOST_VISITS_PER_NODE, found


def steps(count: int) -> PrimFunc:
    """`count` times: a copy to shared memory, a loop over a fragment, a product."""
    n = 64
    rows = tuple(range(count))

    @T.prim_func
    def main(A: T.Tensor((n * count, n), "float16"), B: T.Tensor((n, n), "float16")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((n, n), "float16")
            x = T.alloc_fragment((n, n), "float16")
            c = T.alloc_fragment((n, n), "float32")
            T.clear(c)
            for k in rows:
                T.copy(A[k * n, 0], a)
                T.copy(a, x)
                for i, j in T.Parallel(n, n):
                    x[i, j] = x[i, j] * 2 + 1
                T.copy(x, a)
                T.gemm(a, a, c)
            T.copy(c, B)

    return main


@pytest.mark.parametrize("target", TARGETS)
def test_twice_the_program_costs_at_most_twice(target: str) -> None:
    one, two = (count_visits(steps(n), target) for n in (8, 16))
    assert two.nodes > 1.7 * one.nodes  # it was unrolled while it was read
    assert two.visits <= 2 * one.visits, (one, two)
