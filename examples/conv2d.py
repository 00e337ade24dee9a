# SPDX-License-Identifier: Apache-2.0
"""2-D convolution as a matmul over pixels: python examples/conv2d.py [--bench]

X is [batch, height, width, channels], Weight [kernel height, kernel width, channels, filters]. Each
block computes `block_M` output pixels of `block_N` filters. Lazy: the rows of the matmul are
gathered from the image element by element. Eager: one tap of the kernel after the other, each a
matmul over channels of a shifted row of the image."""

from __future__ import annotations

import sys

import harness
import numpy as np

import tilelang
import tilelang.language as T


def extent(size: int, kernel: int, stride: int, padding: int) -> int:
    """Pixels that come out of `size`."""
    return (size + 2 * padding - kernel) // stride + 1


@tilelang.jit(out_idx=[-1])
def conv2d(
    N,
    H,
    W,
    C,
    F,
    kernel=3,
    stride=1,
    padding=1,
    dtype="float16",
    block_M=64,
    block_N=64,
    block_K=32,
    threads=128,
    stages=2,
):
    OH, OW = extent(H, kernel, stride, padding), extent(W, kernel, stride, padding)
    pixels, depth = N * OH * OW, kernel * kernel * C

    @T.prim_func
    def main(
        X: T.Tensor((N, H, W, C), dtype),
        Weight: T.Tensor((kernel, kernel, C, F), dtype),
        Y: T.Tensor((N, OH, OW, F), dtype),
    ):
        with T.Kernel(T.ceildiv(F, block_N), T.ceildiv(pixels, block_M), threads=threads) as (
            bx,
            by,
        ):
            image = T.alloc_shared((block_M, block_K), dtype)
            weight = T.alloc_shared((block_K, block_N), dtype)
            out = T.alloc_fragment((block_M, block_N), "float32")
            flat_weight = T.reshape(Weight, (depth, F))
            flat_Y = T.reshape(Y, (pixels, F))
            T.clear(out)
            for step in T.Pipelined(T.ceildiv(depth, block_K), num_stages=stages):
                for i, j in T.Parallel(block_M, block_K):
                    k = step * block_K + j
                    pixel = by * block_M + i
                    y = pixel % (OH * OW) // OW * stride + k // (kernel * C) - padding
                    x = pixel % OW * stride + k // C % kernel - padding
                    inside = y >= 0 and y < H and x >= 0 and x < W and k < depth
                    image[i, j] = T.if_then_else(inside, X[pixel // (OH * OW), y, x, k % C], 0)
                T.copy(flat_weight[step * block_K, bx * block_N], weight)
                T.gemm(image, weight, out)
            T.copy(out, flat_Y[by * block_M, bx * block_N])

    return main


@tilelang.jit
def conv2d_taps(
    X,
    Weight,
    stride=1,
    padding=1,
    dtype="float16",
    block_M=32,
    block_N=64,
    block_K=32,
    threads=128,
    stages=2,
):
    N, H, W, C, F, kernel = T.const("N, H, W, C, F, kernel")
    X: T.Tensor((N, H, W, C), dtype)
    Weight: T.Tensor((kernel, kernel, C, F), dtype)
    OH, OW = extent(H, kernel, stride, padding), extent(W, kernel, stride, padding)
    Y = T.empty((N, OH, OW, F), dtype)
    tiles_x, tiles_c = T.ceildiv(OW, block_M), T.ceildiv(C, block_K)
    with T.Kernel(T.ceildiv(F, block_N), tiles_x * OH, N, threads=threads) as (bx, by, n):
        image = T.alloc_shared((block_M, block_K), dtype)
        weight = T.alloc_shared((block_K, block_N), dtype)
        out = T.alloc_fragment((block_M, block_N), "float32")
        row, first = by // tiles_x, by % tiles_x * block_M
        T.clear(out)
        for step in T.Pipelined(kernel * kernel * tiles_c, num_stages=stages):
            c = step % tiles_c * block_K
            dy, dx = step // tiles_c // kernel, step // tiles_c % kernel
            for i, j in T.Parallel(block_M, block_K):
                image[i, j] = X[
                    n, row * stride + dy - padding, (first + i) * stride + dx - padding, c + j
                ]  # outside of the image: 0
            T.copy(Weight[dy, dx, c : c + block_K, bx * block_N : (bx + 1) * block_N], weight)
            T.gemm(image, weight, out)
        T.copy(out, Y[n, row, first : first + block_M, bx * block_N : (bx + 1) * block_N])
    return Y


def reference(x, w, stride, padding):
    kernel = w.shape[0]
    x = np.pad(x, ((0, 0), (padding,) * 2, (padding,) * 2, (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=(1, 2))
    return np.einsum("nyxcuv,uvcf->nyxf", windows[:, ::stride, ::stride], w)


def run(
    n: int,
    h: int,
    w: int,
    c: int,
    f: int,
    kernel: int,
    stride: int,
    padding: int,
    dtype: str,
    target: str,
    bench: bool = False,
    style: str = "lazy",
) -> harness.Result:
    """One shape: compile, run, check."""
    x = harness.tensor((n, h, w, c), dtype, target, 0)
    weight = harness.tensor((kernel, kernel, c, f), dtype, target, 1)

    def make():
        if style == "lazy":
            return conv2d(n, h, w, c, f, kernel, stride, padding, dtype)
        return lambda x, y: conv2d_taps(x, y, stride, padding, dtype)

    baseline = None
    if bench and harness.have_torch():
        import torch

        image = harness.torch_tensor(x).permute(0, 3, 1, 2)
        taps = harness.torch_tensor(weight).permute(3, 2, 0, 1)
        conv = torch.nn.functional.conv2d
        baseline = ("torch", lambda: conv(image, taps, stride=stride, padding=padding))
    name = f"conv2d {n}x{h}x{w}x{c}->{f} {kernel}x{kernel}/{stride} {dtype} {style}"
    return harness.case(
        name, make, (x, weight), lambda *t: reference(*t, stride, padding), dtype, target, baseline
    )


SHAPES = [
    (1, 8, 8, 32, 64, 3, 1, 1),
    (2, 7, 9, 5, 13, 3, 2, 1),
    (1, 6, 5, 3, 8, 1, 1, 0),
    (1, 9, 11, 4, 8, 5, 2, 2),
    (0, 8, 8, 16, 16, 3, 1, 1),
]


def main() -> int:
    return harness.main(
        __doc__,
        run,
        ("float32", "float16"),
        small=SHAPES,
        cpu=[(1, 56, 56, 64, 64, 3, 1, 1)],
        gpu=[(32, 56, 56, 256, 256, 3, 1, 1)],
    )


if __name__ == "__main__":
    sys.exit(main())
