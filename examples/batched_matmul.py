# SPDX-License-Identifier: Apache-2.0
"""C[z] = op(A[z]) · op(B[z]), each of A and B transposed or not: python examples/batched_matmul.py
[--bench]

The batch is the third dimension of the grid. A transposed operand lies in memory, and in its
shared tile, as it is: `T.gemm` is told."""

from __future__ import annotations

import sys

import harness

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def batched_matmul(
    Z,
    M,
    N,
    K,
    transpose_A=False,
    transpose_B=False,
    dtype="float16",
    block_M=64,
    block_N=64,
    block_K=32,
    threads=128,
    stages=2,
):
    A_shape = (Z, K, M) if transpose_A else (Z, M, K)
    B_shape = (Z, N, K) if transpose_B else (Z, K, N)
    A_tile = (block_K, block_M) if transpose_A else (block_M, block_K)
    B_tile = (block_N, block_K) if transpose_B else (block_K, block_N)

    @T.prim_func
    def main(
        A: T.Tensor(A_shape, dtype), B: T.Tensor(B_shape, dtype), C: T.Tensor((Z, M, N), dtype)
    ):
        grid = (T.ceildiv(N, block_N), T.ceildiv(M, block_M), Z)
        with T.Kernel(*grid, threads=threads) as (bx, by, bz):
            A_shared = T.alloc_shared(A_tile, dtype)
            B_shared = T.alloc_shared(B_tile, dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                if transpose_A:
                    T.copy(A[bz, k * block_K, by * block_M], A_shared)
                else:
                    T.copy(A[bz, by * block_M, k * block_K], A_shared)
                if transpose_B:
                    T.copy(B[bz, bx * block_N, k * block_K], B_shared)
                else:
                    T.copy(B[bz, k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_A, transpose_B)
            T.copy(C_local, C[bz, by * block_M, bx * block_N])

    return main


@tilelang.jit
def batched_matmul_eager(
    A,
    B,
    transpose_A=False,
    transpose_B=False,
    dtype="float16",
    block_M=64,
    block_N=64,
    block_K=32,
    threads=128,
    stages=2,
):
    Z, M, N, K = T.const("Z, M, N, K")
    A: T.Tensor((Z, K, M) if transpose_A else (Z, M, K), dtype)
    B: T.Tensor((Z, N, K) if transpose_B else (Z, K, N), dtype)
    C = T.empty((Z, M, N), dtype)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), Z, threads=threads) as (bx, by, bz):
        rows = slice(by * block_M, (by + 1) * block_M)
        cols = slice(bx * block_N, (bx + 1) * block_N)
        A_shared = T.alloc_shared((block_K, block_M) if transpose_A else (block_M, block_K), dtype)
        B_shared = T.alloc_shared((block_N, block_K) if transpose_B else (block_K, block_N), dtype)
        C_local = T.alloc_fragment((block_M, block_N), "float32")
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
            deep = slice(k * block_K, (k + 1) * block_K)
            T.copy(A[bz, deep, rows] if transpose_A else A[bz, rows, deep], A_shared)
            T.copy(B[bz, cols, deep] if transpose_B else B[bz, deep, cols], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_A, transpose_B)
        T.copy(C_local, C[bz, rows, cols])
    return C


def run(
    z: int,
    m: int,
    n: int,
    k: int,
    transpose_A: bool,
    transpose_B: bool,
    dtype: str,
    target: str,
    bench: bool = False,
    style: str = "lazy",
) -> harness.Result:
    """One shape: compile, run, check."""
    a = harness.tensor((z, k, m) if transpose_A else (z, m, k), dtype, target, 0)
    b = harness.tensor((z, n, k) if transpose_B else (z, k, n), dtype, target, 1)

    def make():
        if style == "lazy":
            return batched_matmul(z, m, n, k, transpose_A, transpose_B, dtype)
        return lambda x, y: batched_matmul_eager(x, y, transpose_A, transpose_B, dtype)

    def product(x, y):
        return (x.swapaxes(1, 2) if transpose_A else x) @ (y.swapaxes(1, 2) if transpose_B else y)

    baseline = None
    if bench and harness.have_torch():
        x, y = harness.torch_tensor(a), harness.torch_tensor(b)
        baseline = ("torch", lambda: product(x, y))
    name = f"batched matmul {z}x{m}x{n}x{k} {'NT'[transpose_A]}{'NT'[transpose_B]} {dtype} {style}"
    return harness.case(name, make, (a, b), product, dtype, target, baseline)


BOTH = (False, True)
SHAPES = [(2, 65, 72, 40, ta, tb) for ta in BOTH for tb in BOTH] + [
    (3, 1, 1, 1, False, True),
    (0, 16, 16, 16, False, False),
    (2, 16, 16, 0, True, False),
]


def main() -> int:
    layouts = [(ta, tb) for ta in BOTH for tb in BOTH]
    return harness.main(
        __doc__,
        run,
        ("float32", "float16"),
        small=SHAPES,
        cpu=[(8, 512, 512, 512, *t) for t in layouts],
        gpu=[(16, 2048, 2048, 2048, *t) for t in layouts],
    )


if __name__ == "__main__":
    sys.exit(main())
