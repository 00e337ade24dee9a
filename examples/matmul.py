# SPDX-License-Identifier: Apache-2.0
"""C = relu(A · B + bias) for any M, N, K: python examples/matmul.py [--dtype float16] [--bench]

The lazy style: a factory takes the sizes and returns the kernel; all its arguments are
compile-time. The same program runs on the CPU, on Ampere (cp.async ring, mma.sync) and on Hopper
(TMA ring, wgmma)."""

from __future__ import annotations

import sys

import harness
import numpy as np

import tilelang
import tilelang.language as T


def blocks(target: str, dtype: str) -> dict[str, int]:
    """Tile sizes that suit the machine: what a user would choose by hand or by autotuning."""
    t = tilelang.target.Target(tilelang.target.determine_target(target))
    if t.is_cpu or dtype == "float32":
        return {"block_M": 128, "block_N": 128, "block_K": 32, "threads": 128, "stages": 2}
    if t.arch >= 90:
        return {"block_M": 128, "block_N": 256, "block_K": 64, "threads": 256, "stages": 4}
    return {"block_M": 128, "block_N": 128, "block_K": 32, "threads": 128, "stages": 4}


@tilelang.jit(out_idx=[-1])
def matmul(
    M,
    N,
    K,
    dtype="float16",
    accum="float32",
    block_M=128,
    block_N=128,
    block_K=32,
    threads=128,
    stages=3,
    bias=True,
):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        Bias: T.Tensor((N,), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum)
            T.use_swizzle(panel_size=16)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            if bias:
                for i, j in T.Parallel(block_M, block_N):
                    C_local[i, j] = T.max(C_local[i, j] + Bias[bx * block_N + j], 0)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def run(m: int, n: int, k: int, dtype: str, target: str, bench: bool = False) -> harness.Result:
    """One shape: compile, run, check."""
    a = harness.tensor((m, k), dtype, target, 0)
    b = harness.tensor((k, n), dtype, target, 1)
    bias = harness.tensor((n,), dtype, target, 2)

    def make():
        with tilelang.target.Target(tilelang.target.determine_target(target)):
            return matmul(m, n, k, dtype, **blocks(target, dtype))

    def reference(x, y, z):
        return np.maximum(x @ y + z, 0)

    baseline = (
        (("numpy" if isinstance(a, np.ndarray) else "torch"), lambda: a @ b) if bench else None
    )
    return harness.case(
        f"matmul {m}x{n}x{k} {dtype}", make, (a, b, bias), reference, dtype, target, baseline
    )


SHAPES = [(256, 256, 256), (77, 1000, 1040), (1, 1, 1), (128, 0, 64), (64, 64, 0)]


def main() -> int:
    p = harness.parser(__doc__)
    p.add_argument("--dtype", choices=("float32", "float16", "bfloat16"))
    args = p.parse_args()
    dtypes = [args.dtype] if args.dtype else ["float32", "float16", "bfloat16"]
    shapes = SHAPES
    if args.bench:
        shapes = [(4096,) * 3, (8192,) * 3] if harness.on_gpu(args.target) else [(1024,) * 3]
    return harness.report([run(*s, d, args.target, args.bench) for d in dtypes for s in shapes])


if __name__ == "__main__":
    sys.exit(main())
