# SPDX-License-Identifier: Apache-2.0
"""C = A · Bᵀ of int8 in int32: python examples/int8_matmul.py [--bench]

Lazy: the exact int32 product. Eager: scaled by a factor per row of A and per column of C, as a
quantised linear layer does."""

from __future__ import annotations

import sys

import harness

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, block_M=64, block_N=64, block_K=64, threads=128, stages=2):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "int8"), B: T.Tensor((N, K), "int8"), C: T.Tensor((M, N), "int32")
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "int8")
            B_shared = T.alloc_shared((block_N, block_K), "int8")
            C_local = T.alloc_fragment((block_M, block_N), "int32")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


@tilelang.jit
def scaled_matmul(
    A, B, scale_A, scale_B, block_M=64, block_N=64, block_K=64, threads=128, stages=2
):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), "int8")
    B: T.Tensor((N, K), "int8")
    scale_A: T.Tensor((M,), "float32")
    scale_B: T.Tensor((N,), "float32")
    C = T.empty((M, N), "float32")
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), "int8")
        B_shared = T.alloc_shared((block_N, block_K), "int8")
        C_local = T.alloc_fragment((block_M, block_N), "int32")
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[bx * block_N, k * block_K], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        for i, j in T.Parallel(block_M, block_N):
            row, column = by * block_M + i, bx * block_N + j
            C[row, column] = T.float32(C_local[i, j]) * scale_A[row] * scale_B[column]
    return C


def run(
    m: int, n: int, k: int, dtype: str, target: str, bench: bool = False, style: str = "lazy"
) -> harness.Result:
    """One shape: compile, run, check. `dtype` is that of the operands."""
    a = harness.integers((m, k), -128, 128, dtype, target, 0)
    b = harness.integers((n, k), -128, 128, dtype, target, 1)
    name = f"int8 matmul {m}x{n}x{k} {style}"
    baseline = None
    if bench and harness.have_torch():
        import torch

        x, y = harness.torch_tensor(a), harness.torch_tensor(b).t()
        baseline = ("torch._int_mm", lambda: torch._int_mm(x, y))
    if style == "lazy":
        return harness.case(
            name,
            lambda: matmul(m, n, k),
            (a, b),
            lambda x, y: x @ y.T,
            "int32",
            target,
            baseline,
        )
    scales = [harness.tensor((s,), "float32", target, 2) for s in (m, n)]
    return harness.case(
        f"{name}, scaled",
        lambda: scaled_matmul,
        (a, b, *scales),
        lambda x, y, p, q: (x @ y.T) * p[:, None] * q,
        "float32",
        target,
        baseline,
    )


SHAPES = [(64, 64, 128), (65, 72, 200), (33, 17, 45), (1, 1, 1), (16, 16, 0), (0, 16, 16)]


def main() -> int:
    return harness.main(__doc__, run, ("int8",), small=SHAPES, cpu=[(1024,) * 3], gpu=[(8192,) * 3])


if __name__ == "__main__":
    sys.exit(main())
