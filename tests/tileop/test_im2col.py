# SPDX-License-Identifier: Apache-2.0
"""`T.im2col` against numpy, alone and as the producer of a pipelined convolution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang.language as T
from tilelang.errors import OptionError, ShapeError

from .everywhere import compiles, everywhere, run

Array = Any


def columns(img: Array, k: int, s: int, d: int, p: int) -> Array:
    n, h, w, c = img.shape
    oh, ow = ((x + 2 * p - d * (k - 1) - 1) // s + 1 for x in (h, w))
    padded = np.pad(img, ((0, 0), (p, p), (p, p), (0, 0)))
    out = np.zeros((n, oh, ow, k, k, c), img.dtype)
    for y in range(oh):
        for x in range(ow):
            rows, cols = y * s + d * np.arange(k), x * s + d * np.arange(k)
            out[:, y, x] = padded[:, rows][:, :, cols]
    return out.reshape(n * oh * ow, k * k * c)


def gather(shape: Any, tile: Any, args: Any, dtype: str) -> Any:
    k, s, d, p = args
    rows, cols = columns(np.zeros(shape), *args).shape
    bm, bk = tile

    @T.prim_func
    def main(A: T.Tensor(shape, dtype), B: T.Tensor((rows, cols), dtype)):
        with T.Kernel(T.ceildiv(rows, bm), T.ceildiv(cols, bk), threads=128) as (bx, by):
            S = T.alloc_shared((bm, bk), dtype)
            T.im2col(A, S, bx, by, k, s, d, p)
            T.copy(S, B[bx * bm, by * bk])

    return main


CASES = [
    ((2, 8, 8, 8), (32, 24), (3, 1, 1, 1)),
    ((1, 9, 7, 5), (16, 32), (3, 2, 1, 1)),
    ((3, 10, 11, 4), (32, 16), (2, 1, 2, 0)),
    ((1, 5, 5, 16), (16, 16), (1, 1, 1, 0)),
    ((1, 4, 4, 2), (8, 8), (3, 3, 2, 4)),
]


@everywhere
@pytest.mark.parametrize(("shape", "tile", "args"), CASES)
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_columns(where: str, shape: Any, tile: Any, args: Any, dtype: str) -> None:
    a = np.random.default_rng(0).integers(-99, 99, shape).astype(dtype)
    want = columns(a, *args)
    out = np.full(want.shape, 77, dtype)
    run(where, gather(shape, tile, args, dtype), a, out)
    np.testing.assert_array_equal(out, want)


def convolution(shape: Any, filters: int, args: Any) -> Any:
    n, h, w, c = shape
    k, s, d, p = args
    oh, ow = ((x + 2 * p - d * (k - 1) - 1) // s + 1 for x in (h, w))
    pixels, depth, bm, bn, bk = n * oh * ow, k * k * c, 64, 32, 32

    @T.prim_func
    def main(
        A: T.Tensor(shape, "float16"),
        F: T.Tensor((depth, filters), "float16"),
        O: T.Tensor((pixels, filters), "float32"),
    ):
        with T.Kernel(T.ceildiv(filters, bn), T.ceildiv(pixels, bm), threads=128) as (bx, by):
            a = T.alloc_shared((bm, bk), "float16")
            f = T.alloc_shared((bk, bn), "float16")
            acc = T.alloc_fragment((bm, bn), "float32")
            T.clear(acc)
            for ko in T.Pipelined(T.ceildiv(depth, bk), num_stages=2):
                T.c2d_im2col(A, a, by, ko, k, s, d, p)
                T.copy(F[ko * bk, bx * bn], f)
                T.gemm(a, f, acc)
            T.copy(acc, O[by * bm, bx * bn])

    return main


@everywhere
@pytest.mark.parametrize("args", [(3, 1, 1, 1), (3, 2, 1, 1), (3, 1, 2, 0)])
def test_a_pipelined_convolution(where: str, args: Any) -> None:
    rng = np.random.default_rng(1)
    shape = (2, 9, 9, 16)
    a = rng.integers(-2, 3, shape).astype(np.float16)
    f = rng.integers(-2, 3, (args[0] ** 2 * 16, 40)).astype(np.float16)
    want = columns(a, *args).astype(np.float32) @ f.astype(np.float32)
    out = np.zeros(want.shape, np.float32)
    run(where, convolution(shape, 40, args), a, f, out)
    np.testing.assert_array_equal(out, want)


def test_cuda_compiles_them() -> None:
    compiles(convolution((2, 9, 9, 16), 40, (3, 1, 1, 1)))
    compiles(gather(*CASES[1], "int8"))


def test_refusals() -> None:
    def refused(call: str, kind: type[Exception], text: str) -> None:
        with pytest.raises(kind, match=text):

            @T.prim_func
            def main(A: T.Tensor((2, 8, 8, 4), "float16"), M: T.Tensor((8, 8), "float16")):
                with T.Kernel(1, threads=32):
                    S = T.alloc_shared((16, 16), "float16")
                    V = T.alloc_shared((4, 16, 16), "float16")
                    eval(call, {"T": T, "A": A, "M": M, "S": S, "V": V})

    refused("T.im2col(A, S, 0, 0, 11, 1, 1, 1)", ShapeError, "does not fit")
    refused("T.im2col(M, S, 0, 0, 3, 1, 1, 1)", ShapeError, r"\[n, h, w, c\]")
    refused("T.im2col(A, V, 0, 0, 3, 1, 1, 1)", ShapeError, "not those of a matrix")
    refused("T.im2col(A, S, 0, 0, 3, 0, 1, 1)", OptionError, "stride must be a constant >= 1")
