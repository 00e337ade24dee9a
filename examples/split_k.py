# SPDX-License-Identifier: Apache-2.0
"""A matmul whose long K is split over blocks, for few rows and columns: python examples/split_k.py
[--bench]

Two ways to add the parts up. Lazy: a kernel clears C, the next one adds its parts to it atomically.
Eager: the parts go to scratch memory (`T.alloc_global`), and a second kernel sums them, always in
the same order."""

from __future__ import annotations

import sys

import harness

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def matmul_atomic(
    M, N, K, dtype="float16", splits=4, block_M=64, block_N=64, block_K=32, threads=128, stages=2
):
    part = T.ceildiv(T.ceildiv(K, block_K), splits)  # tiles of K for each block

    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            T.clear(C[by * block_M : (by + 1) * block_M, bx * block_N : (bx + 1) * block_N])
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), splits, threads=threads) as (
            bx,
            by,
            bz,
        ):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_local)
            for i in T.Pipelined(part, num_stages=stages):
                k = (bz * part + i) * block_K
                T.copy(A[by * block_M, k], A_shared)
                T.copy(B[k, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.atomic_add(C[by * block_M, bx * block_N], C_local)

    return main


@tilelang.jit
def matmul_scratch(
    A, B, dtype="float16", splits=4, block_M=64, block_N=64, block_K=32, threads=128, stages=2
):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), dtype)
    B: T.Tensor((K, N), dtype)
    C = T.empty((M, N), "float32")
    parts = T.alloc_global((splits, M, N), "float32")
    part = T.ceildiv(T.ceildiv(K, block_K), splits)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), splits, threads=threads) as (
        bx,
        by,
        bz,
    ):
        A_shared = T.alloc_shared((block_M, block_K), dtype)
        B_shared = T.alloc_shared((block_K, block_N), dtype)
        C_local = T.alloc_fragment((block_M, block_N), "float32")
        T.clear(C_local)
        for i in T.Pipelined(part, num_stages=stages):
            k = (bz * part + i) * block_K
            T.copy(A[by * block_M, k], A_shared)
            T.copy(B[k, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, parts[bz, by * block_M, bx * block_N])
    with T.Kernel(T.ceildiv(N, block_N), M, threads=threads) as (bx, row):
        total = T.alloc_fragment((block_N,), "float32")
        T.clear(total)
        for s in range(splits):
            for j in T.Parallel(block_N):
                total[j] += parts[s, row, bx * block_N + j]
        T.copy(total, C[row, bx * block_N])
    return C


def run(
    m: int, n: int, k: int, dtype: str, target: str, bench: bool = False, style: str = "lazy"
) -> harness.Result:
    """One shape: compile, run, check."""
    a, b = harness.tensor((m, k), dtype, target, 0), harness.tensor((k, n), dtype, target, 1)

    def make():
        if style == "lazy":
            return matmul_atomic(m, n, k, dtype)
        return lambda x, y: matmul_scratch(x, y, dtype)

    baseline = None
    if bench and harness.have_torch():
        x, y = harness.torch_tensor(a), harness.torch_tensor(b)
        baseline = ("torch", lambda: x @ y)
    name = f"split-K matmul {m}x{n}x{k} {dtype} {style}"
    return harness.case(name, make, (a, b), lambda x, y: x @ y, dtype, target, baseline)


SHAPES = [(64, 64, 512), (17, 72, 1001), (1, 1, 1), (16, 16, 0), (0, 16, 16)]


def main() -> int:
    return harness.main(
        __doc__,
        run,
        ("float32", "float16"),
        small=SHAPES,
        cpu=[(64, 64, 65536)],
        gpu=[(128, 128, 1 << 20)],
    )


if __name__ == "__main__":
    sys.exit(main())
