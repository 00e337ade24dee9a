# SPDX-License-Identifier: Apache-2.0
"""Programs as users write them, on the CPU and on a simulated GPU, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

import tilelang
import tilelang.language as T

ON = pytest.mark.parametrize("t", ["llvm", "cuda-sim -arch=sm_80"])


@ON
def test_rms_norm(t: str) -> None:
    @tilelang.jit(target=t, out_idx=[-1])
    def rms(M, N, blk_m, dtype="float32"):
        @T.prim_func
        def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype)):
            with T.Kernel(T.ceildiv(M, blk_m), threads=128) as bx:
                A_shared = T.alloc_shared((blk_m, N), dtype)
                A_pow_local = T.alloc_fragment((blk_m, N), dtype)
                A_local = T.alloc_fragment((blk_m, N), dtype)
                A_powsum = T.alloc_fragment((blk_m,), dtype)
                T.copy(A[bx * blk_m : (bx + 1) * blk_m, :], A_shared)
                T.copy(A_shared, A_local)
                for i, j in T.Parallel(blk_m, N):
                    A_pow_local[i, j] = A_local[i, j] * A_local[i, j]
                T.reduce_sum(A_pow_local, A_powsum, dim=1)
                for i in T.Parallel(blk_m):
                    A_powsum[i] = T.rsqrt(A_powsum[i] / N + 1e-12)
                for i, j in T.Parallel(blk_m, N):
                    A_local[i, j] *= A_powsum[i]
                T.copy(A_local, B[bx * blk_m : (bx + 1) * blk_m, :])

        return main

    a = np.random.randn(10, 96).astype(np.float32)
    b = rms(10, 96, 4)(a)
    np.testing.assert_allclose(b, a / np.sqrt((a * a).mean(1, keepdims=True)), rtol=1e-5)


@ON
def test_conv(t: str) -> None:
    N, C, H, W, F, K, S, D, Pd = 1, 8, 10, 10, 16, 3, 1, 1, 1
    KH = KW = K
    OH = (H + 2 * Pd - D * (K - 1) - 1) // S + 1
    OW = (W + 2 * Pd - D * (K - 1) - 1) // S + 1
    bM, bN, bK = 32, 16, 16

    @T.prim_func
    def main(
        data: T.Tensor((N, H, W, C), "float16"),
        kernel: T.Tensor((KH, KW, C, F), "float16"),
        out: T.Tensor((N, OH, OW, F), "float16"),
    ):
        with T.Kernel(T.ceildiv(F, bN), T.ceildiv(N * OH * OW, bM), threads=128) as (bx, by):
            data_shared = T.alloc_shared((bM, bK), "float16")
            kernel_shared = T.alloc_shared((bK, bN), "float16")
            out_local = T.alloc_fragment((bM, bN), "float32")
            out_shared = T.alloc_shared((bM, bN), "float16")
            kernel_flat = T.reshape(kernel, (KH * KW * C, F))
            out_flat = T.reshape(out, (N * OH * OW, F))
            T.clear(out_local)
            for k_iter in T.Pipelined(T.ceildiv(KH * KW * C, bK), num_stages=2):
                for i, j in T.Parallel(bM, bK):
                    k = k_iter * bK + j
                    m = by * bM + i
                    access_h = m % (OH * OW) // OW * S + k // (KW * C) * D - Pd
                    access_w = m % OW * S + k // C % KW * D - Pd
                    in_bound = (
                        (access_h >= 0) and (access_w >= 0) and (access_h < H) and (access_w < W)
                    )
                    data_shared[i, j] = T.if_then_else(
                        in_bound, data[m // (OH * OW), access_h, access_w, k % C], 0
                    )
                T.copy(kernel_flat[k_iter * bK, bx * bN], kernel_shared)
                T.gemm(data_shared, kernel_shared, out_local)
            T.copy(out_local, out_shared)
            T.copy(out_shared, out_flat[by * bM, bx * bN])

    d = np.random.randint(-2, 3, (N, H, W, C)).astype(np.float16)
    w = np.random.randint(-2, 3, (KH, KW, C, F)).astype(np.float16)
    o = np.zeros((N, OH, OW, F), np.float16)
    tilelang.compile(main, target=t)(d, w, o)
    pad = np.pad(d.astype(np.float32), ((0, 0), (1, 1), (1, 1), (0, 0)))
    ref = sum(
        np.einsum("nhwc,cf->nhwf", pad[:, i : i + OH, j : j + OW], w[i, j].astype(np.float32))
        for i in range(3)
        for j in range(3)
    )
    np.testing.assert_array_equal(o, ref.astype(np.float16))


@ON
def test_topk(t: str) -> None:
    M, N, k = 16, 32, 4

    @tilelang.jit(target=t, out_idx=[1, 2])
    def top():
        @T.prim_func
        def main(
            logits: T.Tensor([M, N], "float32"),
            gates: T.Tensor([M, k], "float32"),
            idx: T.Tensor([M, k], "int32"),
        ):
            with T.Kernel(T.ceildiv(M, 8), threads=128) as bx:
                lf = T.alloc_fragment([8, N], "float32")
                mv = T.alloc_fragment([8], "float32")
                ei = T.alloc_fragment([8, N], "int32")
                mi = T.alloc_fragment([8], "int32")
                T.copy(logits[bx * 8, 0], lf)
                for kk in T.serial(k):
                    T.fill(ei, -1)
                    T.reduce_max(lf, mv, dim=1, clear=True)
                    for i, j in T.Parallel(8, N):
                        ei[i, j] = T.if_then_else(mv[i] == lf[i, j], j, ei[i, j])
                    T.reduce_max(ei, mi, dim=1, clear=True)
                    for i, j in T.Parallel(8, N):
                        lf[i, j] = T.if_then_else(mv[i] == lf[i, j], -10000.0, lf[i, j])
                    for i in T.Parallel(8):
                        gates[bx * 8 + i, kk] = mv[i]
                        idx[bx * 8 + i, kk] = mi[i]

        return main

    a = np.random.permutation(M * N).reshape(M, N).astype(np.float32)
    _, i = top()(a)
    np.testing.assert_array_equal(i, np.argsort(-a, 1)[:, :k])


@ON
def test_splitk_eager(t: str) -> None:
    @tilelang.jit(target=t)
    def mm(A, B, block=32, split=2):
        M, K = T.const("M K")
        N = T.const("N")
        A: T.Tensor[[M, K], T.float16]
        B: T.Tensor[[K, N], T.float16]
        C = T.empty((M, N), T.float32)
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            Cl = T.alloc_fragment((block, block), T.float32)
            T.clear(Cl)
            T.copy(Cl, C[by * block, bx * block])
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), split, threads=128) as (bx, by, bz):
            As = T.alloc_shared((block, 32), T.float16)
            Bs = T.alloc_shared((32, block), T.float16)
            Cl = T.alloc_fragment((block, block), T.float32)
            Cs = T.alloc_shared((block, block), T.float32)
            T.clear(Cl)
            chunk = T.ceildiv(K, split * 32) * 32
            for k in T.Pipelined(chunk // 32, num_stages=2):
                T.copy(A[by * block, bz * chunk + k * 32], As)
                T.copy(B[bz * chunk + k * 32, bx * block], Bs)
                T.gemm(As, Bs, Cl)
            T.copy(Cl, Cs)
            for i, j in T.Parallel(block, block):
                if by * block + i < M and bx * block + j < N:
                    T.atomic_add(C[by * block + i, bx * block + j], Cs[i, j])
        return C

    a = np.random.randint(-3, 3, (50, 100)).astype(np.float16)
    b = np.random.randint(-3, 3, (100, 40)).astype(np.float16)
    np.testing.assert_array_equal(mm(a, b), a.astype(np.float32) @ b.astype(np.float32))


@ON
def test_dequant(t: str) -> None:
    M, N, K = 32, 32, 64

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((N, K // 2), "uint8"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(1, threads=128):
            As = T.alloc_shared((M, 32), "float16")
            Bp = T.alloc_shared((N, 16), "uint8")
            Bl = T.alloc_fragment((N, 16), "uint8")
            Bd = T.alloc_fragment((N, 32), "float16")
            Bs = T.alloc_shared((N, 32), "float16")
            Cl = T.alloc_fragment((M, N), "float32")
            T.clear(Cl)
            for k in T.Pipelined(K // 32, num_stages=2):
                T.copy(A[0, k * 32], As)
                T.copy(B[0, k * 16], Bp)
                T.copy(Bp, Bl)
                for i, j in T.Parallel(N, 32):
                    Bd[i, j] = T.cast((Bl[i, j // 2] >> (j % 2 * 4)) & 15, "float16") - 8
                T.copy(Bd, Bs)
                T.gemm(As, Bs, Cl, transpose_B=True)
            T.copy(Cl, C)

    a = np.random.randint(-3, 3, (M, K)).astype(np.float16)
    q = np.random.randint(0, 16, (N, K)).astype(np.uint8)
    packed = (q[:, ::2] | (q[:, 1::2] << 4)).astype(np.uint8)
    c = np.zeros((M, N), np.float32)
    tilelang.compile(main, target=t)(a, packed, c)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ (q.astype(np.float32) - 8).T)


@ON
def test_gemv(t: str) -> None:
    N, K = 40, 64

    @T.prim_func
    def main(
        A: T.Tensor((K,), "float32"), B: T.Tensor((N, K), "float32"), C: T.Tensor((N,), "float32")
    ):
        with T.Kernel(T.ceildiv(N, 8), threads=(8,)) as bn:
            tn = T.get_thread_binding(0)
            As = T.alloc_shared((16,), "float32")
            Bs = T.alloc_shared((8, 16), "float32")
            Cr = T.alloc_local((1,), "float32")
            T.clear(Cr)
            for bk in T.serial(T.ceildiv(K, 16)):
                for tk in T.serial(16):
                    As[tk] = A[bk * 16 + tk]
                    Bs[tn, tk] = B[bn * 8 + tn, bk * 16 + tk]
                for tk in T.serial(16):
                    Cr[0] += As[tk] * Bs[tn, tk]
            C[bn * 8 + tn] = Cr[0]

    a = np.random.randint(-3, 3, K).astype(np.float32)
    b = np.random.randint(-3, 3, (N, K)).astype(np.float32)
    c = np.zeros(N, np.float32)
    tilelang.compile(main, target=t)(a, b, c)
    np.testing.assert_array_equal(c, b @ a)
