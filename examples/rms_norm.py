# SPDX-License-Identifier: Apache-2.0
"""Y = X / sqrt(mean(X²) + eps) · W by rows: python examples/rms_norm.py [--bench]

Lazy: one block per row, the row stays in registers. Eager: several rows per block, for rows that
are short."""

from __future__ import annotations

import sys

import harness
import numpy as np

import tilelang
import tilelang.language as T

EPS = 1e-6


@tilelang.jit(out_idx=[-1])
def rms_norm(M, N, dtype="float32", threads=256):
    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), W: T.Tensor((N,), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(M, threads=threads) as row:
            x = T.alloc_fragment((N,), "float32")
            square = T.alloc_fragment((N,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(X[row, :], x)
            for j in T.Parallel(N):
                square[j] = x[j] * x[j]
            T.reduce_sum(square, total, dim=0)
            scale = T.rsqrt(total[0] / N + EPS)
            for j in T.Parallel(N):
                Y[row, j] = x[j] * scale * W[j]

    return main


@tilelang.jit
def rms_norm_rows(X, W, dtype="float32", rows=4, threads=128):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    W: T.Tensor((N,), dtype)
    Y = T.empty((M, N), dtype)
    with T.Kernel(T.ceildiv(M, rows), threads=threads) as bx:
        x = T.alloc_fragment((rows, N), "float32")
        square = T.alloc_fragment((rows, N), "float32")
        scale = T.alloc_fragment((rows,), "float32")
        T.copy(X[bx * rows, 0], x)
        for i, j in T.Parallel(rows, N):
            square[i, j] = x[i, j] * x[i, j]
        T.reduce_sum(square, scale, dim=1)
        for i in T.Parallel(rows):
            scale[i] = T.rsqrt(scale[i] / N + EPS)
        for i, j in T.Parallel(rows, N):
            x[i, j] *= scale[i] * W[j]
        T.copy(x, Y[bx * rows, 0])
    return Y


def reference(x, w):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + EPS) * w


def run(
    m: int, n: int, dtype: str, target: str, bench: bool = False, style: str = "lazy"
) -> harness.Result:
    """One shape: compile, run, check."""
    x, w = harness.tensor((m, n), dtype, target, 0), harness.tensor((n,), dtype, target, 1)

    def make():
        if style == "lazy":
            return rms_norm(m, n, dtype)
        return lambda x, w: rms_norm_rows(x, w, dtype)

    baseline = None
    if bench and harness.have_torch():
        import torch

        tx, tw = harness.torch_tensor(x), harness.torch_tensor(w)
        norm = torch.nn.functional.rms_norm
        baseline = ("torch", lambda: norm(tx, (n,), tw, EPS))
    name = f"RMSNorm {m}x{n} {dtype} {style}"
    return harness.case(name, make, (x, w), reference, dtype, target, baseline)


SHAPES = [(16, 1024), (7, 1000), (33, 77), (1, 1), (0, 128)]


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
