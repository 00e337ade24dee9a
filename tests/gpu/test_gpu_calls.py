# SPDX-License-Identifier: Apache-2.0
"""Calls on a real GPU by every execution backend: results, streams, devices, outputs."""

from __future__ import annotations

from typing import Any

import pytest

import tilelang
import tilelang.language as T
from tilelang.ir import PrimFunc

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

BACKENDS = ["tvm_ffi", "nvrtc", "ctypes", "torch"]


def scaled_sum(m: Any, n: Any, dtype: str = "float32") -> PrimFunc:
    @T.prim_func
    def main(
        A: T.Tensor((m, n), dtype),
        B: T.Tensor((m, n), dtype),
        s: T.float32,
        C: T.Tensor((m, n), dtype),
    ):
        with T.Kernel(T.ceildiv(m, 32), T.ceildiv(n, 32), threads=128) as (bx, by):
            for i, j in T.Parallel(32, 32):
                C[bx * 32 + i, by * 32 + j] = (
                    A[bx * 32 + i, by * 32 + j] + s * B[bx * 32 + i, by * 32 + j]
                )

    return main


def compiled(backend: str, m: Any = None, n: Any = None, **kwargs: Any) -> Any:
    func = scaled_sum(
        T.dynamic("m") if m is None else m, T.dynamic("n") if n is None else n, **kwargs
    )
    return tilelang.compile(func, out_idx=-1, target="cuda", execution_backend=backend)


def pair(m: int, n: int, dtype: Any = torch.float32) -> tuple[Any, Any]:
    generator = torch.Generator("cuda").manual_seed(m + n)
    return tuple(torch.rand(m, n, device="cuda", generator=generator).to(dtype) for _ in range(2))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("m", "n"), [(64, 64), (77, 100), (1, 1), (0, 5)])
def test_results(backend: str, m: int, n: int) -> None:
    kernel = compiled(backend)
    a, b = pair(m, n)
    out = kernel(a, b, 2)
    assert out.shape == (m, n)
    assert out.device == a.device
    torch.testing.assert_close(out, a + 2 * b)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_current_stream_is_used(backend: str) -> None:
    kernel = compiled(backend, 1024, 1024)
    a, b = pair(1024, 1024)
    kernel(a, b, 1.0)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        a.add_(1.0)  # behind the sleep: visible to the kernel only on this stream
        out = kernel(a, b, 1.0)
    torch.cuda.current_stream().wait_stream(stream)
    torch.testing.assert_close(out, a + b)


@pytest.mark.parametrize("backend", BACKENDS)
def test_in_a_cuda_graph(backend: str) -> None:
    kernel = compiled(backend, 64, 64)
    a, b = pair(64, 64)
    kernel(a, b, 1.0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = kernel(a, b, 3.0)
    a.fill_(5.0)
    graph.replay()
    torch.testing.assert_close(out, a + 3 * b)


@pytest.mark.parametrize("backend", BACKENDS)
def test_cpu_tensors_are_refused(backend: str) -> None:
    kernel = compiled(backend, 8, 8)
    with pytest.raises(ValueError, match="expected a tensor on a CUDA device, got one on cpu"):
        kernel(torch.zeros(8, 8), torch.zeros(8, 8), 1.0)


def test_gpu_tensors_on_a_cpu_kernel_are_refused() -> None:
    kernel = tilelang.compile(scaled_sum(8, 8), out_idx=-1, target="llvm")
    a, b = pair(8, 8)
    with pytest.raises(ValueError, match="expected a tensor on the CPU, got one on cuda:0"):
        kernel(a, b, 1.0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_dtypes(dtype: str) -> None:
    kernel = compiled("tvm_ffi", 64, 64, dtype=dtype)
    a, b = pair(64, 64, getattr(torch, dtype))
    torch.testing.assert_close(kernel(a, b, 1.0), a + b)


def test_the_cache_gives_a_working_kernel() -> None:
    a, b = pair(16, 16)
    first = compiled("tvm_ffi", 16, 16)
    first(a, b, 1.0)
    tilelang.cache.clear_memory()
    again = compiled("tvm_ffi", 16, 16)
    assert again is not first
    torch.testing.assert_close(again(a, b, 1.0), a + b)


def test_the_profiler_times_on_the_device() -> None:
    kernel = compiled("tvm_ffi", 1024, 1024)
    a, b = pair(1024, 1024)
    ms = kernel.get_profiler().do_bench(input_tensors=[a, b, 1.0])
    assert 0.0005 < ms < 1.0


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU")
@pytest.mark.parametrize("backend", BACKENDS)
def test_tensors_of_another_device(backend: str) -> None:
    kernel = compiled(backend, 64, 64)
    a, b = (x.to("cuda:1") for x in pair(64, 64))
    out = kernel(a, b, 1.0)
    assert out.device == a.device
    assert torch.cuda.current_device() == 0
    torch.testing.assert_close(out, a + b)
