# SPDX-License-Identifier: Apache-2.0
"""`T.gemm` by mma.sync for every operand dtype of the instruction, in the simulator."""

from __future__ import annotations

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.config import Options

from .everywhere import source

BLOCK = 64


def _kernel(m, n, k, dtype, accum, options):
    @T.prim_func
    def main(A: T.Tensor((m, k), dtype), B: T.Tensor((n, k), dtype), C: T.Tensor((m, n), accum)):
        with T.Kernel(T.ceildiv(n, BLOCK), T.ceildiv(m, BLOCK), threads=128) as (bx, by):
            a = T.alloc_shared((BLOCK, BLOCK), dtype)
            b = T.alloc_shared((BLOCK, BLOCK), dtype)
            c = T.alloc_fragment((BLOCK, BLOCK), accum)
            T.clear(c)
            for ko in T.Pipelined(T.ceildiv(k, BLOCK), num_stages=2):
                T.copy(A[by * BLOCK, ko * BLOCK], a)
                T.copy(B[bx * BLOCK, ko * BLOCK], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[by * BLOCK, bx * BLOCK])

    return tilelang.compile(main, out_idx=[-1], target="cuda-sim -arch=sm_80", pass_configs=options)


def _operand(dtype, shape, rng):
    if dtype.endswith("int8"):
        return rng.integers(0 if dtype == "uint8" else -128, 127, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("shape", [(128, 64, 128), (65, 33, 48)])
@pytest.mark.parametrize(
    ("dtype", "accum", "options", "instruction", "tolerance"),
    [
        ("int8", "int32", {}, "mma_m16n8k32_s8_s32", 0),
        ("uint8", "int32", {}, "mma_m16n8k32_u8_s32", 0),
        ("float16", "float16", {}, "mma_m16n8k16_f16_f16", 4e-3),
        ("float16", "float32", {}, "mma_m16n8k16_f16_f32", 1e-6),
        ("float32", "float32", {"tl.allow_tf32": True}, "mma_m16n8k8_tf32_f32", 2e-3),
        ("float32", "float32", {}, None, 1e-6),
    ],
)
def test_every_operand_dtype(dtype, accum, options, instruction, tolerance, shape):
    m, n, k = shape
    kernel = _kernel(m, n, k, dtype, accum, options)
    source = kernel.get_kernel_source()
    assert (instruction in source) if instruction else ("mma_m16" not in source)
    rng = np.random.default_rng(0)
    a, b = _operand(dtype, (m, k), rng), _operand(dtype, (n, k), rng)
    want = a.astype("f8") @ b.astype("f8").T
    got = np.asarray(kernel(a, b)).astype("f8")
    assert np.abs(got - want).max() <= tolerance * np.abs(want).max()


@pytest.mark.parametrize("shape", [(128, 64, 128), (65, 33, 48)])
@pytest.mark.parametrize(("dtype", "name"), [("float8_e4m3fn", "e4m3"), ("float8_e5m2", "e5m2")])
@pytest.mark.parametrize("in_registers", [False, True])
def test_eight_bit_floats_on_hopper(dtype, name, shape, in_registers):
    import ml_dtypes

    m, n, k = shape

    @T.prim_func
    def main(
        A: T.Tensor((m, k), dtype), B: T.Tensor((n, k), dtype), C: T.Tensor((m, n), "float32")
    ):
        with T.Kernel(T.ceildiv(n, BLOCK), T.ceildiv(m, BLOCK), threads=128) as (bx, by):
            a = T.alloc_shared((BLOCK, BLOCK), dtype)
            b = T.alloc_shared((BLOCK, BLOCK), dtype)
            x = T.alloc_fragment((BLOCK, BLOCK), dtype)
            c = T.alloc_fragment((BLOCK, BLOCK), "float32")
            T.clear(c)
            for ko in T.Pipelined(T.ceildiv(k, BLOCK), num_stages=2):
                T.copy(A[by * BLOCK, ko * BLOCK], a)
                T.copy(B[bx * BLOCK, ko * BLOCK], b)
                if in_registers:
                    T.copy(a, x)
                    T.gemm(x, b, c, transpose_B=True)
                else:
                    T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[by * BLOCK, bx * BLOCK])

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(getattr(ml_dtypes, dtype)) for s in ((m, k), (n, k)))
    want = a.astype("f8") @ b.astype("f8").T
    options = {"tl.disable_wgmma": True}
    assert f"mma_m16n8k32_{name}_f32" in source(main, "sm_90a", Options(wgmma=False))
    assert "mma_m16" not in source(main, "sm_80")
    for where in ("cuda-sim -arch=sm_90a", "cuda-sim -arch=sm_80"):
        c = np.zeros((m, n), np.float32)
        tilelang.compile(main, target=where, pass_configs=options)(a, b, c)
        assert np.abs(c - want).max() <= 1e-5 * np.abs(want).max()


@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("shape", [(64, 96, 48), (61, 35, 30)])
def test_doubles(trans_a, trans_b, shape):
    m, n, k = shape
    rows, cols, depth = 32, 32, 16

    @T.prim_func
    def main(
        A: T.Tensor((k, m) if trans_a else (m, k), "float64"),
        B: T.Tensor((n, k) if trans_b else (k, n), "float64"),
        C: T.Tensor((m, n), "float64"),
    ):
        with T.Kernel(T.ceildiv(n, cols), T.ceildiv(m, rows), threads=128) as (bx, by):
            a = T.alloc_shared((depth, rows) if trans_a else (rows, depth), "float64")
            b = T.alloc_shared((cols, depth) if trans_b else (depth, cols), "float64")
            c = T.alloc_fragment((rows, cols), "float64")
            for ko in T.Pipelined(T.ceildiv(k, depth), num_stages=2):
                if trans_a:
                    T.copy(A[ko * depth, by * rows], a)
                else:
                    T.copy(A[by * rows, ko * depth], a)
                if trans_b:
                    T.copy(B[bx * cols, ko * depth], b)
                else:
                    T.copy(B[ko * depth, bx * cols], b)
                T.gemm(a, b, c, transpose_A=trans_a, transpose_B=trans_b, clear_accum=ko == 0)
            T.copy(c, C[by * rows, bx * cols])

    rng = np.random.default_rng(0)
    a = rng.standard_normal((k, m) if trans_a else (m, k))
    b = rng.standard_normal((n, k) if trans_b else (k, n))
    want = (a.T if trans_a else a) @ (b.T if trans_b else b)
    for arch in ("sm_80", "sm_90a"):
        assert "mma_m8n8k4_f64_f64" in source(main, arch)
        c = np.zeros((m, n))
        tilelang.compile(main, target=f"cuda-sim -arch={arch}")(a, b, c)
        np.testing.assert_allclose(c, want, rtol=1e-13, atol=1e-13)
