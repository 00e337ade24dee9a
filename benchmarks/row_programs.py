# SPDX-License-Identifier: Apache-2.0
"""The programs of `rows.py`, as users write them: tiles, T.copy, T.Parallel, reductions, T.gemm."""

from __future__ import annotations

from typing import Any

import tilelang
import tilelang.language as T


@tilelang.jit
def add(N: int, block: int = 4096) -> Any:
    @T.prim_func
    def main(A: T.Tensor((N,)), B: T.Tensor((N,)), C: T.Tensor((N,))):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            a = T.alloc_fragment((block,), "float32")
            b = T.alloc_fragment((block,), "float32")
            c = T.alloc_fragment((block,), "float32")
            T.copy(A[bx * block], a)
            T.copy(B[bx * block], b)
            for i in T.Parallel(block):
                c[i] = a[i] + b[i]
            T.copy(c, C[bx * block])

    return main


@tilelang.jit
def softmax(M: int, N: int, rows: int = 4) -> Any:
    @T.prim_func
    def main(X: T.Tensor((M, N)), Y: T.Tensor((M, N))):
        with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
            x = T.alloc_fragment((rows, N), "float32")
            top = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(X[bx * rows, 0], x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(rows, N):
                x[i, j] = T.exp(x[i, j] - top[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(rows, N):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[bx * rows, 0])

    return main


@tilelang.jit
def rms_norm(M: int, N: int, rows: int = 4) -> Any:
    @T.prim_func
    def main(X: T.Tensor((M, N)), W: T.Tensor((N,)), Y: T.Tensor((M, N))):
        with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
            x = T.alloc_fragment((rows, N), "float32")
            square = T.alloc_fragment((rows, N), "float32")
            scale = T.alloc_fragment((rows,), "float32")
            T.copy(X[bx * rows, 0], x)
            for i, j in T.Parallel(rows, N):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, scale, dim=1)
            for i in T.Parallel(rows):
                scale[i] = T.rsqrt(scale[i] / N + 1e-6)
            for i, j in T.Parallel(rows, N):
                x[i, j] *= scale[i] * W[j]
            T.copy(x, Y[bx * rows, 0])

    return main


@tilelang.jit
def attention(H: int, S: int, D: int, block_M: int = 128, block_N: int = 128) -> Any:
    shape, scale = (H, S, D), 1.4426950408889634 / D**0.5

    @T.prim_func
    def main(Q: T.Tensor(shape), K: T.Tensor(shape), V: T.Tensor(shape), O: T.Tensor(shape)):
        with T.Kernel(T.ceildiv(S, block_M), H, threads=128) as (bx, by):
            q = T.alloc_shared((block_M, D), "float32")
            k = T.alloc_shared((block_N, D), "float32")
            v = T.alloc_shared((block_N, D), "float32")
            scores = T.alloc_fragment((block_M, block_N), "float32")
            out = T.alloc_fragment((block_M, D), "float32")
            top = T.alloc_fragment((block_M,), "float32")
            old_top = T.alloc_fragment((block_M,), "float32")
            rescale = T.alloc_fragment((block_M,), "float32")
            row_sum = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            T.copy(Q[by, bx * block_M, 0], q)
            T.clear(out)
            T.clear(total)
            T.fill(top, -T.infinity("float32"))
            for step in T.Pipelined(T.ceildiv(S, block_N), num_stages=2):
                T.copy(K[by, step * block_N, 0], k)
                T.gemm(q, k, scores, transpose_B=True, clear_accum=True)
                T.copy(top, old_top)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    rescale[i] = T.exp2((old_top[i] - top[i]) * scale)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2(scores[i, j] * scale - top[i] * scale)
                T.reduce_sum(scores, row_sum, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * rescale[i] + row_sum[i]
                for i, j in T.Parallel(block_M, D):
                    out[i, j] *= rescale[i]
                T.copy(V[by, step * block_N, 0], v)
                T.gemm(scores, v, out)
            for i, j in T.Parallel(block_M, D):
                out[i, j] /= total[i]
            T.copy(out, O[by, bx * block_M, 0])

    return main


@tilelang.jit
def layer_norm(M: int, N: int, rows: int = 4) -> Any:
    @T.prim_func
    def main(X: T.Tensor((M, N)), W: T.Tensor((N,)), B: T.Tensor((N,)), Y: T.Tensor((M, N))):
        with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
            x = T.alloc_fragment((rows, N), "float32")
            square = T.alloc_fragment((rows, N), "float32")
            mean = T.alloc_fragment((rows,), "float32")
            scale = T.alloc_fragment((rows,), "float32")
            T.copy(X[bx * rows, 0], x)
            T.reduce_sum(x, mean, dim=1)
            for i, j in T.Parallel(rows, N):
                x[i, j] -= mean[i] / N
            for i, j in T.Parallel(rows, N):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, scale, dim=1)
            for i in T.Parallel(rows):
                scale[i] = T.rsqrt(scale[i] / N + 1e-5)
            for i, j in T.Parallel(rows, N):
                x[i, j] = x[i, j] * scale[i] * W[j] + B[j]
            T.copy(x, Y[bx * rows, 0])

    return main


@tilelang.jit
def layer_norm_backward(M: int, N: int) -> Any:
    @T.prim_func
    def main(
        X: T.Tensor((M, N)), DY: T.Tensor((M, N)), W: T.Tensor((N,)), Mean: T.Tensor((M,)),
        Scale: T.Tensor((M,)), DX: T.Tensor((M, N)), DW: T.Tensor((N,)), DB: T.Tensor((N,)),
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((N,), "float32")
            dy = T.alloc_fragment((N,), "float32")
            g = T.alloc_fragment((N,), "float32")
            gx = T.alloc_fragment((N,), "float32")
            dw = T.alloc_fragment((N,), "float32")
            db = T.alloc_fragment((N,), "float32")
            g_sum = T.alloc_fragment((1,), "float32")
            gx_sum = T.alloc_fragment((1,), "float32")
            T.clear(dw)
            T.clear(db)
            for row in T.serial(M):
                T.copy(X[row, 0:N], x)
                T.copy(DY[row, 0:N], dy)
                for j in T.Parallel(N):
                    x[j] = (x[j] - Mean[row]) * Scale[row]
                for j in T.Parallel(N):
                    dw[j] += dy[j] * x[j]
                    db[j] += dy[j]
                for j in T.Parallel(N):
                    g[j] = dy[j] * W[j]
                    gx[j] = g[j] * x[j]
                T.reduce_sum(g, g_sum, dim=0)
                T.reduce_sum(gx, gx_sum, dim=0)
                for j in T.Parallel(N):
                    g[j] = (g[j] - g_sum[0] / N - x[j] * (gx_sum[0] / N)) * Scale[row]
                T.copy(g, DX[row, 0:N])
            T.copy(dw, DW)
            T.copy(db, DB)

    return main


@tilelang.jit
def elementwise(N: int, op: str, dtype: str = "float32", block: int = 4096) -> Any:
    @T.macro
    def gelu(x):
        return 0.5 * x * (1.0 + T.erf(x * 0.7071067811865476))

    function = gelu if op == "gelu" else getattr(T, op)

    @T.prim_func
    def main(X: T.Tensor((N,), dtype), Y: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            for i in T.Parallel(block):
                Y[bx * block + i] = function(X[bx * block + i])

    return main


@tilelang.jit
def transpose(M: int, N: int, block: int = 64) -> Any:
    @T.prim_func
    def main(X: T.Tensor((M, N)), Y: T.Tensor((N, M))):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            x = T.alloc_shared((block, block), "float32")
            y = T.alloc_shared((block, block), "float32")
            T.copy(X[by * block, bx * block], x)
            T.transpose(x, y)
            T.copy(y, Y[bx * block, by * block])

    return main


@tilelang.jit
def cumsum(M: int, N: int) -> Any:
    @T.prim_func
    def main(X: T.Tensor((M, N)), Y: T.Tensor((M, N))):
        with T.Kernel(M, threads=128) as bx:
            x = T.alloc_fragment((1, N), "float32")
            T.copy(X[bx, 0], x)
            T.cumsum(x, dim=1)
            T.copy(x, Y[bx, 0])

    return main


@tilelang.jit
def histogram(N: int, bins: int = 256, block: int = 1 << 16) -> Any:
    @T.prim_func
    def main(X: T.Tensor((N,), "int32"), H: T.Tensor((bins,), "int32")):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            h = T.alloc_shared((bins,), "int32")
            T.clear(h)
            for i in T.Parallel(block):
                T.atomic_add(h[X[bx * block + i]], 1)
            T.atomic_add(H, h)

    return main


@tilelang.jit
def dequant_int4(M: int, N: int, group: int = 128) -> Any:
    @T.prim_func
    def main(Q: T.Tensor((M, N // 2), "uint8"), S: T.Tensor((M, N // group)), Y: T.Tensor((M, N))):
        with T.Kernel(M, threads=128) as bx:
            q = T.alloc_shared((N // 2,), "uint8")
            y = T.alloc_fragment((N,), "float32")
            T.copy(Q[bx, 0 : N // 2], q)
            for j in T.Parallel(N):
                code = q[j // 2] >> T.cast(j % 2 * 4, "uint8") & T.uint8(15)
                y[j] = (T.cast(code, "float32") - 8.0) * S[bx, j // group]
            T.copy(y, Y[bx, 0:N])

    return main
