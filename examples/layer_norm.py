# SPDX-License-Identifier: Apache-2.0
"""LayerNorm of rows, forward and backward: python examples/layer_norm.py [--bench]

Y = (X - mean) · rstd · W + B. The forward keeps mean and rstd for the backward, which gives the
gradients of X (row by row) and of W and B (sums over rows: each block adds up its own rows, then
adds to the result atomically)."""

from __future__ import annotations

import sys

import harness
import numpy as np

import tilelang
import tilelang.language as T

EPS = 1e-5


@tilelang.jit(out_idx=[-3, -2, -1])
def forward(M, N, dtype="float32", threads=256):
    @T.prim_func
    def main(
        X: T.Tensor((M, N), dtype),
        W: T.Tensor((N,), dtype),
        B: T.Tensor((N,), dtype),
        Y: T.Tensor((M, N), dtype),
        Mean: T.Tensor((M,), "float32"),
        Rstd: T.Tensor((M,), "float32"),
    ):
        with T.Kernel(M, threads=threads) as row:
            x = T.alloc_fragment((N,), "float32")
            square = T.alloc_fragment((N,), "float32")
            mean = T.alloc_fragment((1,), "float32")
            rstd = T.alloc_fragment((1,), "float32")
            T.copy(X[row, :], x)
            T.reduce_sum(x, mean)
            mean[0] /= N
            for j in T.Parallel(N):
                x[j] -= mean[0]
                square[j] = x[j] * x[j]
            T.reduce_sum(square, rstd)
            rstd[0] = T.rsqrt(rstd[0] / N + EPS)
            for j in T.Parallel(N):
                Y[row, j] = x[j] * rstd[0] * W[j] + B[j]
            T.copy(mean, Mean[row])
            T.copy(rstd, Rstd[row])

    return main


@tilelang.jit(out_idx=[-3, -2, -1])
def backward(M, N, dtype="float32", rows=8, threads=256):
    @T.prim_func
    def main(
        X: T.Tensor((M, N), dtype),
        W: T.Tensor((N,), dtype),
        DY: T.Tensor((M, N), dtype),
        Mean: T.Tensor((M,), "float32"),
        Rstd: T.Tensor((M,), "float32"),
        DX: T.Tensor((M, N), dtype),
        DW: T.Tensor((N,), "float32"),
        DB: T.Tensor((N,), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            T.clear(DW)
            T.clear(DB)
        with T.Kernel(T.ceildiv(M, rows), threads=threads) as bx:
            x = T.alloc_fragment((N,), "float32")
            dy = T.alloc_fragment((N,), "float32")
            dw = T.alloc_fragment((N,), "float32")
            db = T.alloc_fragment((N,), "float32")
            product = T.alloc_fragment((N,), "float32")
            total = T.alloc_fragment((1,), "float32")
            total_x = T.alloc_fragment((1,), "float32")
            T.clear(dw)
            T.clear(db)
            for r in range(rows):
                row = bx * rows + r
                if row < M:
                    T.copy(DY[row, :], dy)
                    for j in T.Parallel(N):
                        x[j] = (X[row, j] - Mean[row]) * Rstd[row]
                        db[j] += dy[j]
                        dw[j] += dy[j] * x[j]
                        dy[j] *= W[j]
                        product[j] = dy[j] * x[j]
                    T.reduce_sum(dy, total)
                    T.reduce_sum(product, total_x)
                    for j in T.Parallel(N):
                        DX[row, j] = Rstd[row] * (dy[j] - (total[0] + x[j] * total_x[0]) / N)
            T.atomic_add(DW, dw)
            T.atomic_add(DB, db)

    return main


@tilelang.jit
def forward_eager(X, W, B, dtype="float32", rows=4, threads=128):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    W: T.Tensor((N,), dtype)
    B: T.Tensor((N,), dtype)
    Y = T.empty((M, N), dtype)
    Mean = T.empty((M,), "float32")
    Rstd = T.empty((M,), "float32")
    with T.Kernel(T.ceildiv(M, rows), threads=threads) as bx:
        x = T.alloc_fragment((rows, N), "float32")
        square = T.alloc_fragment((rows, N), "float32")
        mean = T.alloc_fragment((rows,), "float32")
        rstd = T.alloc_fragment((rows,), "float32")
        T.copy(X[bx * rows, 0], x)
        T.reduce_sum(x, mean, dim=1)
        for i in T.Parallel(rows):
            mean[i] = mean[i] / N
        for i, j in T.Parallel(rows, N):
            square[i, j] = (x[i, j] - mean[i]) * (x[i, j] - mean[i])
        T.reduce_sum(square, rstd, dim=1)
        for i in T.Parallel(rows):
            rstd[i] = T.rsqrt(rstd[i] / N + EPS)
        for i, j in T.Parallel(rows, N):
            Y[bx * rows + i, j] = (x[i, j] - mean[i]) * rstd[i] * W[j] + B[j]
        T.copy(mean, Mean[bx * rows])
        T.copy(rstd, Rstd[bx * rows])
    return Y, Mean, Rstd


@tilelang.jit
def backward_eager(X, W, DY, Mean, Rstd, dtype="float32", rows=8, threads=128):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    W: T.Tensor((N,), dtype)
    DY: T.Tensor((M, N), dtype)
    Mean: T.Tensor((M,), "float32")
    Rstd: T.Tensor((M,), "float32")
    DX = T.empty((M, N), dtype)
    DW = T.empty((N,), "float32")
    DB = T.empty((N,), "float32")
    blocks = T.ceildiv(M, rows)
    parts = T.alloc_global((2, blocks, N), "float32")
    with T.Kernel(blocks, threads=threads) as bx:
        x = T.alloc_fragment((rows, N), "float32")
        dy = T.alloc_fragment((rows, N), "float32")
        dot = T.alloc_fragment((rows, N), "float32")
        total = T.alloc_fragment((rows,), "float32")
        total_x = T.alloc_fragment((rows,), "float32")
        sums = T.alloc_fragment((2, N), "float32")
        T.copy(DY[bx * rows, 0], dy)
        for i, j in T.Parallel(rows, N):
            row = bx * rows + i
            x[i, j] = (X[row, j] - Mean[row]) * Rstd[row]
            dot[i, j] = dy[i, j] * x[i, j]
        T.reduce_sum(dot, sums[0, :], dim=0)
        T.reduce_sum(dy, sums[1, :], dim=0)
        T.copy(sums, parts[:, bx, :])
        for i, j in T.Parallel(rows, N):
            dy[i, j] *= W[j]
            dot[i, j] *= W[j]
        T.reduce_sum(dy, total, dim=1)
        T.reduce_sum(dot, total_x, dim=1)
        for i, j in T.Parallel(rows, N):
            mean = (total[i] + x[i, j] * total_x[i]) / N
            DX[bx * rows + i, j] = Rstd[bx * rows + i] * (dy[i, j] - mean)
    with T.Kernel(T.ceildiv(N, threads), threads=threads) as bx:
        dw = T.alloc_fragment((threads,), "float32")
        db = T.alloc_fragment((threads,), "float32")
        T.clear(dw)
        T.clear(db)
        for b in range(blocks):
            for j in T.Parallel(threads):
                dw[j] += parts[0, b, bx * threads + j]
                db[j] += parts[1, b, bx * threads + j]
        T.copy(dw, DW[bx * threads])
        T.copy(db, DB[bx * threads])
    return DX, DW, DB


def reference(x, w, b, dy):
    """Y, and the gradients of X, W and B."""
    if x.size == 0:
        return x, x, np.zeros_like(w), np.zeros_like(b)
    centred = x - x.mean(axis=1, keepdims=True)
    rstd = 1 / np.sqrt((centred**2).mean(axis=1, keepdims=True) + EPS)
    h = centred * rstd
    g = dy * w
    dx = rstd * (g - g.mean(axis=1, keepdims=True) - h * (g * h).mean(axis=1, keepdims=True))
    return h * w + b, dx, (dy * h).sum(axis=0), dy.sum(axis=0)


def run(
    m: int, n: int, dtype: str, target: str, bench: bool = False, style: str = "lazy"
) -> harness.Result:
    """One shape: compile, run, check."""
    x, dy = harness.tensor((m, n), dtype, target, 0), harness.tensor((m, n), dtype, target, 3)
    w, b = harness.tensor((n,), dtype, target, 1), harness.tensor((n,), dtype, target, 2)

    def make():
        ahead, back = forward_eager, backward_eager
        if style == "lazy":
            ahead, back = forward(m, n, dtype), backward(m, n, dtype)
        options = {} if style == "lazy" else {"dtype": dtype}

        def both(x, w, b, dy):
            y, mean, rstd = ahead(x, w, b, **options)
            return y, *back(x, w, dy, mean, rstd, **options)

        return both

    name = f"LayerNorm {m}x{n} {dtype} {style}"
    baseline = torch_baseline(x, w, b, dy) if bench and harness.have_torch() else None
    return harness.case(name, make, (x, w, b, dy), reference, dtype, target, baseline)


def torch_baseline(x, w, b, dy):
    import torch

    tx, tw, tb = (harness.torch_tensor(t).requires_grad_() for t in (x, w, b))
    tdy = harness.torch_tensor(dy)

    def both():
        y = torch.nn.functional.layer_norm(tx, (tx.shape[1],), tw, tb, EPS)
        return y, *torch.autograd.grad(y, (tx, tw, tb), tdy)

    return "torch", both


SHAPES = [(16, 1024), (7, 1000), (33, 77), (1, 8), (0, 128)]


def main() -> int:
    return harness.main(
        __doc__,
        run,
        ("float32", "bfloat16"),
        small=SHAPES,
        cpu=[(4096, 4096)],
        gpu=[(32768, 4096)],
    )


if __name__ == "__main__":
    sys.exit(main())
