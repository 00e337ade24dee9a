# SPDX-License-Identifier: Apache-2.0
"""One compiled matmul for all M, N, K: python examples/matmul_dynamic.py [--bench]

`T.dynamic` sizes are bound from the tensors at each call. The compiled kernel holds two versions:
one with 16-byte accesses for row lengths that are multiples of 16 bytes, one that is right for
every size; the host entry picks."""

from __future__ import annotations

import sys

import harness

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def matmul(
    dtype="float16", accum="float32", block_M=128, block_N=128, block_K=32, threads=128, stages=2
):
    M, N, K = T.dynamic("M"), T.dynamic("N"), T.dynamic("K")

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def run(m: int, n: int, k: int, dtype: str, target: str, bench: bool = False) -> harness.Result:
    """One shape of the one kernel."""
    a, b = harness.tensor((m, k), dtype, target, 0), harness.tensor((k, n), dtype, target, 1)

    def make():
        with tilelang.target.Target(tilelang.target.determine_target(target)):
            return matmul(dtype)

    baseline = ("x @ y", lambda: a @ b) if bench else None
    return harness.case(
        f"dynamic matmul {m}x{n}x{k} {dtype}",
        make,
        (a, b),
        lambda x, y: x @ y,
        dtype,
        target,
        baseline,
    )


SHAPES = [(128, 128, 128), (77, 1000, 1040), (65, 33, 17), (1, 1, 1), (0, 16, 16), (16, 16, 0)]


def main() -> int:
    args = harness.parser(__doc__).parse_args()
    shapes = SHAPES
    if args.bench:
        shapes = [(4096,) * 3, (4097, 4095, 1001)] if harness.on_gpu(args.target) else [(1024,) * 3]
    return harness.report(
        [run(*s, d, args.target, args.bench) for d in ("float32", "float16") for s in shapes]
    )


if __name__ == "__main__":
    sys.exit(main())
