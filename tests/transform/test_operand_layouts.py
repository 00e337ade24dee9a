# SPDX-License-Identifier: Apache-2.0
"""Operands that more than one statement, a user, or a pipeline has a say in: by execution."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.layout import make_swizzled_layout

AMPERE, HOPPER = "cuda-sim -arch=sm_80", "cuda-sim -arch=sm_90a"
both = pytest.mark.parametrize("target", [AMPERE, HOPPER])


def normal(*shape: int, dtype: str = "float16") -> Any:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) / 4).astype(dtype)


def close(got: Any, want: Any) -> bool:
    return bool(np.abs(np.asarray(got) - want).max() <= 4e-3 * max(1.0, np.abs(want).max()))


@both
def test_a_gemm_before_the_pipelined_one_shares_its_operands(target: str) -> None:
    """mma.sync and wgmma want their operands in different layouts."""

    @T.prim_func
    def main(
        Q: T.Tensor((64, 128), "float16"),
        W: T.Tensor((128, 64), "float16"),
        K: T.Tensor((512, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            q = T.alloc_shared((64, 128), "float16")
            w = T.alloc_shared((128, 64), "float16")
            k_s = T.alloc_shared((128, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(Q, q)
            T.copy(W, w)
            T.gemm(q, w, c, clear_accum=True)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(K[k * 128, 0], k_s)
                T.gemm(q, k_s, c)
            T.copy(c, C)

    q, w, k = normal(64, 128), normal(128, 64), normal(512, 64)
    wide = q.astype("f4")
    want = wide @ w + sum(wide @ k[i : i + 128] for i in range(0, 512, 128))
    assert close(tilelang.compile(main, out_idx=-1, target=target)(q, w, k), want)


@both
def test_tma_does_not_read_what_the_kernel_writes(target: str) -> None:
    @T.prim_func
    def main(
        A: T.Tensor((64, 256), "float16"),
        V: T.Tensor((256, 64), "float16"),
        W: T.Tensor((256, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            w = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            for i, j in T.Parallel(256, 64):
                W[i, j] = V[i, j] * 2
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(W[k * 64, 0], w)
                T.gemm(a, w, c)
            T.copy(c, C)

    a, v = normal(64, 256), normal(256, 64)
    w, c = np.zeros_like(v), np.zeros((64, 64), "float32")
    tilelang.compile(main, target=target)(a, v, w, c)
    assert close(c, a.astype("f4") @ (2 * v.astype("f4")))


@both
def test_fragments_of_another_layout_are_converted(target: str) -> None:
    """An accumulator as operand A, and one accumulator under two divisions of the warps: both stay
    on tensor cores."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
        D: T.Tensor((64, 32), "float16"),
        C: T.Tensor((64, 32), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            d = T.alloc_shared((64, 32), "float16")
            s = T.alloc_fragment((64, 64), "float16")
            c = T.alloc_fragment((64, 32), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.copy(D, d)
            T.gemm(a, b, s, clear_accum=True)
            T.gemm(s, d, c, clear_accum=True)
            T.gemm(s, d, c, policy=T.GemmWarpPolicy.FullCol)
            T.copy(c, C)

    a, b, d = normal(64, 64), normal(64, 64), normal(64, 32)
    kernel = tilelang.compile(main, out_idx=-1, target=target)
    assert len(re.findall(r"tl::w?g?mma_m", kernel.get_kernel_source())) == 3
    assert close(kernel(a, b, d), 2 * (a.astype("f4") @ b.astype("f4")) @ d.astype("f4"))


LAYOUTS = {
    "swizzled": make_swizzled_layout,
    "row major": lambda s: T.Layout(s.shape, lambda i, j: (i, j)),
    "column major": lambda s: T.Layout(s.shape, lambda i, j: (j, i)),
}


@both
@pytest.mark.parametrize("stages", [0, 1, 2])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_annotated_operand(target: str, stages: int, layout: str) -> None:
    m, n, k, block_k = 64, 64, 128, 32

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "float16"),
        B: T.Tensor((k, n), "float16"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((m, block_k), "float16")
            b = T.alloc_shared((block_k, n), "float16")
            c = T.alloc_fragment((m, n), "float32")
            T.annotate_layout({a: LAYOUTS[layout](a), b: LAYOUTS[layout](b)})
            T.clear(c)
            for i in T.Pipelined(k // block_k, num_stages=stages):
                T.copy(A[0, i * block_k], a)
                T.copy(B[i * block_k, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    a, b = normal(m, k), normal(k, n)
    kernel = tilelang.compile(main, out_idx=-1, target=target)
    assert close(kernel(a, b), a.astype("f4") @ b.astype("f4"))


@both
@pytest.mark.parametrize("shape", [(16,), (16, 1)])
@pytest.mark.parametrize("dim", [1, -1])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_reduction_of_a_staged_buffer(
    target: str, shape: tuple[int, ...], dim: int, stages: int
) -> None:
    @T.prim_func
    def main(A: T.Tensor((64, 32), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((16, 32), "float32")
            r = T.alloc_fragment(shape, "float32")
            for k in T.Pipelined(4, num_stages=stages):
                T.copy(A[k * 16, 0], s)
                T.reduce_max(s, r, dim=dim)
                for i in T.Parallel(16):
                    B[k * 16 + i] = r[i, 0] if len(shape) == 2 else r[i]

    a = normal(64, 32, dtype="float32")
    kernel = tilelang.compile(main, out_idx=-1, target=target)
    np.testing.assert_array_equal(kernel(a), a.max(1))


@both
def test_a_view_of_a_staged_buffer(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((64, 32), "int32"), B: T.Tensor((64, 128), "int8")):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((16, 32), "int32")
            v = T.view(s, (16, 128), "int8")
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[k * 16, 0], s)
                T.copy(v, B[k * 16, 0])

    a = np.random.default_rng(0).integers(-(2**31), 2**31, (64, 32)).astype("int32")
    kernel = tilelang.compile(main, out_idx=-1, target=target)
    np.testing.assert_array_equal(kernel(a), a.view("int8"))


@both
def test_a_staged_copy_that_nobody_reads(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((64, 256), "float16"), C: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((64, 64), "float16")
            unread = T.alloc_shared((64, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float16")
            T.clear(acc)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], s)
                T.copy(A[0, k * 64], unread)
                for i, j in T.Parallel(64, 64):
                    acc[i, j] += s[i, j]
            T.copy(acc, C)

    a = np.ones((64, 256), "float16")
    assert (np.asarray(tilelang.compile(main, out_idx=-1, target=target)(a)) == 4).all()
