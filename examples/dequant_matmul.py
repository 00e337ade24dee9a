# SPDX-License-Identifier: Apache-2.0
"""fp16 activations times int4 weights: python examples/dequant_matmul.py [--bench]

B holds two 4-bit weights a byte along K, the lower half first, and one scale for each `GROUP`
weights of a row. The weights stay packed until they are in the block. Lazy: signed weights,
C = A · (int4(B) · scale)ᵀ. Eager: unsigned weights and one zero point for each group,
C = A · ((uint4(B) - zero) · scale)ᵀ, unpacked in registers."""

from __future__ import annotations

import sys

import harness
import numpy as np

import tilelang
import tilelang.language as T

GROUP = 32


@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, dtype="float16", block_M=64, block_N=64, block_K=64, threads=128, stages=2):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K // 2), "uint8"),
        Scale: T.Tensor((N, T.ceildiv(K, GROUP)), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            packed = T.alloc_shared((block_N, block_K // 2), "uint8")
            B_shared = T.alloc_shared((block_N, block_K), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K // 2], packed)
                for n, j in T.Parallel(block_N, block_K):
                    bits = packed[n, j // 2] >> T.uint8(j % 2 * 4) & 15
                    value = T.int8(bits ^ 8) - 8  # sign extension of four bits
                    scale = Scale[bx * block_N + n, (k * block_K + j) // GROUP]
                    B_shared[n, j] = T.cast(value, dtype) * scale
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


@tilelang.jit
def matmul_zeros(
    A, B, Scale, Zero, dtype="float16", block_M=32, block_N=64, block_K=64, threads=128, stages=2
):
    M, N, K, groups = T.const("M, N, K, groups")
    A: T.Tensor((M, K), dtype)
    B: T.Tensor((N, K // 2), "uint8")
    Scale: T.Tensor((N, groups), dtype)
    Zero: T.Tensor((N, groups), "uint8")
    C = T.empty((M, N), dtype)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), dtype)
        packed = T.alloc_fragment((block_N, block_K // 2), "uint8")
        B_shared = T.alloc_shared((block_N, block_K), dtype)
        C_local = T.alloc_fragment((block_M, block_N), "float32")
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[bx * block_N, k * block_K // 2], packed)
            for n, j in T.Parallel(block_N, block_K // 2):
                row, group = bx * block_N + n, (k * block_K + 2 * j) // GROUP
                scale, zero = T.float32(Scale[row, group]), T.float32(Zero[row, group])
                B_shared[n, 2 * j] = (T.float32(packed[n, j] & 15) - zero) * scale
                B_shared[n, 2 * j + 1] = (T.float32(packed[n, j] >> 4) - zero) * scale
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


def unpack(b):
    """The unsigned weights of packed bytes."""
    return np.stack([b % 16, b // 16], axis=-1).reshape(b.shape[0], -1)


def by_group(x, k):
    """What belongs to a group, for each of its weights."""
    return np.repeat(x, GROUP, axis=1)[:, :k]


def reference(a, b, scale):
    bits, k = unpack(b), a.shape[1]
    return a @ ((bits - 16 * (bits >= 8)) * by_group(scale, k)).T


def reference_zeros(a, b, scale, zero):
    k = a.shape[1]
    return a @ ((unpack(b) - by_group(zero, k)) * by_group(scale, k)).T


def run(
    m: int, n: int, k: int, dtype: str, target: str, bench: bool = False, style: str = "lazy"
) -> harness.Result:
    """One shape: compile, run, check."""
    groups = -(-k // GROUP)
    inputs = [
        harness.tensor((m, k), dtype, target, 0),
        harness.integers((n, k // 2), 0, 256, "uint8", target, 1),
        harness.tensor((n, groups), dtype, target, 2),
    ]
    if style == "eager":
        inputs.append(harness.integers((n, groups), 0, 16, "uint8", target, 3))

    def make():
        if style == "lazy":
            return matmul(m, n, k, dtype)
        return lambda *t: matmul_zeros(*t, dtype)

    baseline = None
    if bench and harness.have_torch():
        x = harness.torch_tensor(inputs[0])
        dense = harness.torch_tensor(harness.tensor((k, n), dtype, target, 1))
        baseline = (f"torch {dtype}", lambda: x @ dense)
    name = f"{dtype} x {'int4' if style == 'lazy' else 'uint4'} matmul {m}x{n}x{k} {style}"
    expected = reference if style == "lazy" else reference_zeros
    return harness.case(name, make, inputs, expected, dtype, target, baseline)


SHAPES = [(64, 64, 128), (17, 72, 200), (5, 33, 46), (1, 1, 2), (0, 16, 16)]


def main() -> int:
    return harness.main(
        __doc__,
        run,
        ("float16",),
        small=SHAPES,
        cpu=[(64, 1024, 1024)],
        gpu=[(64, 8192, 8192)],
    )


if __name__ == "__main__":
    sys.exit(main())
