# SPDX-License-Identifier: Apache-2.0
"""Whole kernels in the simulator: right results, no false alarms, every planted fault found."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilelang.ir import DType
from tilelang.sim import SimReport, tensor_map

BF16 = ml_dtypes.bfloat16


def gemm(sim: Any, fault: int, m: int, n: int, k: int, **options: Any) -> tuple[Any, SimReport]:
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (m, k)).astype(np.float16)
    b = rng.integers(-4, 5, (k, n)).astype(np.float16)
    c = np.full((m, n), np.nan, np.float32)
    report = sim.run(
        sim.kernel_file("gemm.cu", fault), a, b, c, m, n, k,
        kernel="gemm", grid=(n // 64, m // 64), block=(128,), smem=24576, read_only="AB", **options,
    )  # fmt: skip
    return np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32)), report


def hopper(sim: Any, fault: int, m: int, n: int, k: int, **options: Any) -> tuple[float, SimReport]:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k)).astype(BF16), rng.standard_normal((n, k)).astype(BF16)
    c = np.full((m, n), np.nan, BF16)
    maps = [
        (tensor_map(x.ctypes.data, DType("bfloat16"), x.shape[::-1], [x.strides[0]], box, 128), x)
        for x, box in ((a, (64, 128)), (b, (64, 256)), (c, (64, 64)))
    ]
    report = sim.run(
        sim.kernel_file("hopper.cu", fault), *maps, m, n, k,
        kernel="hopper", grid=(-(-n // 256), -(-m // 128)), block=(384,), smem=196736, **options,
    )  # fmt: skip
    want = a.astype(np.float32) @ b.astype(np.float32).T
    error = np.abs(c.astype(np.float32) - want) / np.maximum(1, np.abs(want))
    return float(error.max()), report


@pytest.mark.parametrize("shape", [(64, 64, 64), (128, 192, 96)])
@pytest.mark.parametrize("check", [True, False])
def test_gemm_with_cp_async_and_mma(sim: Any, shape: tuple[int, int, int], check: bool) -> None:
    right, report = gemm(sim, 0, *shape, check=check)
    m, n, k = shape
    assert right
    assert report.counters["mma"] == m * n * k // (16 * 8 * 16)
    assert report.counters["flops"] == 2 * m * n * k
    assert all(site.efficiency == 1 for site in report.sites)  # swizzled: no bank conflicts


def test_blocks_on_several_host_threads(sim: Any) -> None:
    right, _ = gemm(sim, 0, 256, 256, 64, host_threads=3)
    assert right


@pytest.mark.parametrize(
    ("fault", "kind", "text"),
    [
        (1, "missing_wait", "may still be writing"),  # no cp_async_wait
        (2, "race", "cp_async of thread"),  # no barrier: others have not copied yet
        (3, "missing_wait", "cp_async"),  # a ring of two stages for three in flight
        (4, "out_of_bounds", "outside the 16384 bytes of C"),
        (5, "misaligned", "not a multiple of 8"),
    ],
)
def test_faults_of_the_gemm(sim: Any, fault: int, kind: str, text: str) -> None:
    source = sim.kernel_file("gemm.cu", fault)
    a, b, c = np.ones((64, 256), "f2"), np.ones((256, 64), "f2"), np.zeros((64, 64), "f4")
    error = sim.fault(kind, source, a, b, c, 64, 64, 256, kernel="gemm", block=(128,), smem=24576)
    assert text in error.message


@pytest.mark.parametrize("shape", [(128, 256, 256), (200, 328, 512), (1, 8, 64), (256, 512, 448)])
def test_hopper_gemm(sim: Any, shape: tuple[int, int, int]) -> None:
    error, report = hopper(sim, 0, *shape)
    assert error < 1e-2
    assert report.counters["wgmma"] > 0


@pytest.mark.parametrize(
    ("fault", "kind", "text"),
    [
        (1, "missing_wait", "TMA load"),  # the full barrier is not waited for
        (2, "deadlock", "mbar_wait for parity 0"),  # wrong parity
        (3, "missing_wait", "the wgmma of warpgroup"),  # released before its wgmma has finished
        (4, "missing_fence", "fence_proxy_async"),
        (5, "missing_wait", "TMA load"),  # fewer bytes announced
        (6, "deadlock", "lacks 0 arrivals and 16 bytes"),  # more bytes announced
        (7, "missing_fence", "wgmma_fence"),
        (8, "deadlock", "lacks 1 arrivals"),  # a count that nobody reaches
        (9, "missing_fence", "fence_mbar_init"),
        (10, "race", "mbar"),  # no barrier after mbar_init
        (11, "barrier", "after all 1 arrivals"),  # the empty barrier is not waited for
        (12, "missing_wait", "reads a register"),  # accumulators read before the wait
        (13, "race", "TMA store"),  # no barrier before the store
        (14, "missing_wait", "never committed"),
        (15, "missing_wait", "tma_store_wait is missing"),
    ],
)
def test_faults_of_the_hopper_gemm(sim: Any, fault: int, kind: str, text: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        hopper(sim, fault, 128, 256, 512)
    assert caught.value.kind == kind  # type: ignore[attr-defined]
    assert text in str(caught.value)


def test_softmax_rows_by_shuffles(sim: Any) -> None:
    body = """
  float* red = (float*)buf_dyn_shmem;
  const int t = (int)threadIdx.x, row = (int)blockIdx.x;
  float m = -tl::inf();
  for (int i = t; i < n; i += 64) m = tl::max(m, X[row * n + i]);
#pragma unroll
  for (int o = 16; o; o >>= 1) m = tl::max(m, tl::shfl_xor(m, o, 32));
  if ((t & 31) == 0) red[t >> 5] = m;
  tl::sync_threads();
  m = tl::max(red[0], red[1]);
  float s = 0.0f;
  for (int i = t; i < n; i += 64) s += tl::exp(X[row * n + i] - m);
#pragma unroll
  for (int o = 16; o; o >>= 1) s += tl::shfl_xor(s, o, 32);
  if ((t & 31) == 0) red[2 + (t >> 5)] = s;
  tl::sync_threads();
  s = red[2] + red[3];
  for (int i = t; i < n; i += 64) Y[row * n + i] = tl::exp(X[row * n + i] - m) / s;"""
    source = sim.kernel("const float* X, float* Y, int n", body, "math warp")
    x = np.random.default_rng(0).standard_normal((5, 150)).astype(np.float32)
    y = np.zeros_like(x)
    sim.run(source, x, y, 150, grid=(5,), block=(64,), smem=16, read_only="A")
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5)
