# SPDX-License-Identifier: Apache-2.0
"""Adapters made by hand, from what `tilelang.lower` gives: the constructor that all share."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import ArgumentValueError
from tilelang.jit.adapter import ADAPTERS, adapter_class
from tilelang.jit.adapter.base import BaseKernelAdapter

PARAMETERS = [
    "params", "result_idx", "target", "func_or_mod", "host_mod", "device_mod", "rt_mod",
    "device_kernel_source", "verbose", "pass_configs", "compile_flags",
]  # fmt: skip
ON_CPU = [name for name in ADAPTERS if name not in ("nvrtc", "sim")]
n = T.dynamic("n")


@T.prim_func
def scale(A: T.Tensor((n, 4), "float32"), s: T.float32, B: T.Tensor((n, 4), "float32")):
    with T.Kernel(n, threads=32) as bx:
        for j in T.Parallel(4):
            B[bx, j] = A[bx, j] * s


def made(name: str, target: str, result_idx: Any = None, host: bool = False) -> BaseKernelAdapter:
    artifact = tilelang.lower(scale, target, enable_host_codegen=host, enable_device_compile=host)
    return adapter_class(name)(
        params=artifact.params, result_idx=result_idx, target=target, func_or_mod=scale,
        host_mod=artifact.host_mod, device_mod=artifact.device_mod, rt_mod=artifact.rt_mod,
        device_kernel_source=artifact.kernel_source, verbose=False,
        pass_configs={"tl.disable_safe_memory_legalize": False}, compile_flags=None,
    )  # fmt: skip


@pytest.mark.parametrize("name", sorted(set(ADAPTERS)))
def test_parameters(name: str) -> None:
    signature = inspect.signature(adapter_class(name)).parameters
    positional = [p.name for p in signature.values() if p.kind is not p.KEYWORD_ONLY]
    assert positional == PARAMETERS
    assert issubclass(adapter_class(name), BaseKernelAdapter)
    assert adapter_class(name).name == name


@pytest.mark.parametrize("host", [False, True], ids=["without host code", "with host code"])
@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("name", ON_CPU)
def test_it_runs_through_func(name: str, target: str, host: bool) -> None:
    a, b = np.random.default_rng(0).random((5, 4), np.float32), np.zeros((5, 4), np.float32)
    adapter = made(name, target, None, host)
    assert adapter.func(a, 2.0, b) is None
    np.testing.assert_array_equal(b, a * 2)
    b[:] = 0
    assert adapter(a, B=b, s=3.0) is None
    np.testing.assert_array_equal(b, a * 3)
    assert "scale" in adapter.get_kernel_source()


@pytest.mark.parametrize("host", [False, True], ids=["without host code", "with host code"])
@pytest.mark.parametrize("result_idx", [[-1], [2], 2])
@pytest.mark.parametrize("name", ON_CPU)
def test_outputs_are_those_of_result_idx(name: str, result_idx: Any, host: bool) -> None:
    """`scale` was lowered without any output: only the adapter knows of them."""
    a = np.random.default_rng(0).random((5, 4), np.float32)
    adapter = made(name, "llvm", result_idx, host)
    assert adapter.result_idx == (2,)
    np.testing.assert_array_equal(adapter.func(a, 2.0), a * 2)


@pytest.mark.parametrize("bad", [[3], -4, [0, 7]])
def test_an_output_that_is_no_parameter(bad: Any) -> None:
    with pytest.raises(ArgumentValueError, match="result_idx should be an integer between -3 and"):
        made("ctypes", "llvm", bad)


@pytest.mark.parametrize("name", ["tvm_ffi", "ctypes"])
def test_modules_are_needed(name: str) -> None:
    params = tilelang.lower(scale, "llvm").params
    with pytest.raises(ArgumentValueError, match="needs the modules that"):
        adapter_class(name)(params, [2], "llvm", scale)
