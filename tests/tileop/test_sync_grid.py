# SPDX-License-Identifier: Apache-2.0
"""`T.sync_grid`: all blocks wait for each other, on a simulated GPU by a cooperative launch, on a
CPU by cutting the loop over the blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import TargetError

from .everywhere import everywhere, run, source

BLOCKS, THREADS = 6, 64


def exchange() -> Any:
    """Each block reads what another one wrote, several times; shared memory stays its own."""

    @T.prim_func
    def main(
        A: T.Tensor((BLOCKS, THREADS), "int32"),
        W: T.Tensor((BLOCKS, THREADS), "int32"),
        B: T.Tensor((BLOCKS, THREADS), "int32"),
    ):
        with T.Kernel(BLOCKS, threads=THREADS) as bx:
            tx = T.get_thread_binding()
            S = T.alloc_shared((THREADS,), "int32")
            x = T.alloc_var("int32", init=0)
            x = A[bx, tx]
            S[tx] = x
            for i in T.serial(3):
                W[bx, tx] = x
                T.sync_grid()
                x = W[(bx + 1) % BLOCKS, THREADS - 1 - tx] + i
                T.sync_grid()
            B[bx, tx] = x * 1000 + S[THREADS - 1 - tx]

    return main


@everywhere
def test_blocks_exchange_values(where: str) -> None:
    a = np.random.default_rng(0).integers(0, 9, (BLOCKS, THREADS)).astype(np.int32)
    w, b = np.zeros_like(a), np.zeros_like(a)
    run(where, exchange(), a, w, b)
    x = a
    for i in range(3):
        x = np.roll(x, -1, 0)[:, ::-1] + i
    np.testing.assert_array_equal(b, x * 1000 + a[:, ::-1])


def split_k(m: int, n: int, k: int, parts: int) -> Any:
    """Tile programs: partial products to a workspace, then each block sums its share."""

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "float16"),
        B: T.Tensor((k, n), "float16"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(n // 32, m // 32, parts, threads=128) as (bx, by, bz):
            W = T.alloc_global((parts, m, n), "float32")
            a = T.alloc_shared((32, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            acc = T.alloc_fragment((32, 32), "float32")
            T.clear(acc)
            for ko in T.Pipelined(k // parts // 32, num_stages=2):
                T.copy(A[by * 32, bz * (k // parts) + ko * 32], a)
                T.copy(B[bz * (k // parts) + ko * 32, bx * 32], b)
                T.gemm(a, b, acc)
            T.copy(acc, W[bz, by * 32, bx * 32])
            T.sync_grid()
            if bz == 0:
                total = T.alloc_fragment((32, 32), "float32")
                part = T.alloc_fragment((32, 32), "float32")
                T.clear(total)
                for z in T.serial(parts):
                    T.copy(W[z, by * 32, bx * 32], part)
                    for i, j in T.Parallel(32, 32):
                        total[i, j] += part[i, j]
                T.copy(total, C[by * 32, bx * 32])

    return main


@everywhere
def test_a_product_in_parts(where: str) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, s).astype(np.float16) for s in ((64, 128), (128, 96)))
    c = np.zeros((64, 96), np.float32)
    run(where, split_k(64, 96, 128, 2), a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_on_hopper_and_ampere(arch: str) -> None:
    text = source(split_k(64, 96, 128, 2), arch)
    assert "tl::sync_grid()" in text
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, s).astype(np.float16) for s in ((64, 128), (128, 96)))
    c = np.zeros((64, 96), np.float32)
    run(f"cuda-sim -arch={arch}", split_k(64, 96, 128, 2), a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


def test_what_a_cpu_cannot_do() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def dynamic(A: T.Tensor((n,), "int32")):
        with T.Kernel(n, threads=1) as bx:
            A[bx] = 1
            T.sync_grid()
            A[bx] = A[n - 1 - bx] + 1

    with pytest.raises(TargetError, match="known at compile time"):
        tilelang.compile(dynamic, target="llvm")

    @T.prim_func
    def some(A: T.Tensor((4,), "int32")):
        with T.Kernel(4, threads=1) as bx:
            if bx > 1:
                T.sync_grid()
            A[bx] = 1

    with pytest.raises(TargetError, match="only some blocks of the grid reach"):
        tilelang.compile(some, target="llvm")
