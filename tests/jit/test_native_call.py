# SPDX-License-Identifier: Apache-2.0
"""The generated CPython function: what it does itself, and what it hands to Python."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilelang.language as T
from tilelang.engine import CompiledArtifact, lower
from tilelang.ir import PrimFunc
from tilelang.jit.adapter.ctypes import CpuDevice
from tilelang.jit.adapter.native import native_function, native_module
from tilelang.runtime.python_launch import PythonLauncher
from tilelang.target import Target

torch = pytest.importorskip("torch")
LLVM = Target("llvm")


def program() -> PrimFunc:
    n = T.dynamic("n")

    @T.prim_func
    def main(
        A: T.Tensor((n, 4), "float32"),
        s: T.float32,
        k: T.int32,
        flag: T.bool,
        B: T.Tensor((n, 4), "float32"),
    ):
        with T.Kernel(n) as bx:
            for j in T.Parallel(4):
                if flag:
                    B[bx, j] = A[bx, j] * s + k
                else:
                    B[bx, j] = -1.0

    return main


class Recorded:
    """A function for `program` and what went through Python."""

    def __init__(self, func: PrimFunc) -> None:
        artifact: CompiledArtifact = lower(func, LLVM)
        kernels = artifact.codegen_mod
        module = native_module(None, artifact.host_mod, kernels, LLVM)
        assert module is not None
        assert native_module(module, None, kernels, LLVM) is module
        from tilelang.engine.backends import compile_llvm

        kernels.binary = compile_llvm(kernels.source, LLVM)
        launcher = PythonLauncher(artifact.call, CpuDevice(kernels, artifact.call))
        self.slow = 0

        def counted(*args: Any) -> None:
            self.slow += 1
            launcher(*args)

        self.call: Callable[..., None] = native_function(module, artifact.call, counted, LLVM)


@pytest.fixture
def run() -> Recorded:
    return Recorded(program())


def test_torch_tensors_do_not_go_through_python(run: Recorded) -> None:
    a, b = torch.rand(5, 4), torch.empty(5, 4)
    for n in range(4):
        assert run.call(a, 2.5, n, True, b) is None
        assert torch.equal(b, a * 2.5 + n)
    run.call(a, 2, 7, False, b)
    assert (b == -1).all()
    run.call(a, B=b, s=3.0, flag=True, k=1)
    assert torch.equal(b, a * 3 + 1)
    assert run.slow == 0
    run.call(torch.rand(0, 4), 2.0, 1, True, torch.empty(0, 4))  # its address may be NULL


def test_numbers_arrive(run: Recorded) -> None:
    a, b = torch.ones(1, 4), torch.empty(1, 4)
    run.call(a, 1.0, 0, True, b)
    for s, k in [(0.5, -3), (-1, 2**31 - 1), (3, -(2**31)), (-1.0, -1), (True, False)]:
        run.call(a, s, k, True, b)
        want = np.float32(np.float32(s) + np.float32(k))
        assert b[0, 0].item() == want


def test_numpy_arrays_go_through_python(run: Recorded) -> None:
    a, b = np.ones((3, 4), np.float32), np.zeros((3, 4), np.float32)
    for _ in range(2):
        run.call(a, 2.0, 1, True, b)
        assert (b == 3).all()
    assert run.slow == 2


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda v: v[:3], "expected 5 arguments"),
        (lambda v: [v[0].double(), *v[1:]], "expected dtype float32, got float64"),
        (lambda v: [v[0][:, :2], *v[1:]], r"A: shape\[1\]: expected 4, got 2"),
        (lambda v: [*v[:4], torch.empty(3, 4)], r"B: shape\[0\]: expected 5"),
        (lambda v: [torch.empty(4, 5).T, *v[1:]], "not contiguous"),
        (lambda v: [v[0], "x", *v[2:]], "parameter s: expected a float"),
        (lambda v: [*v[:2], 2**40, *v[3:]], "expected a value of int32"),
        (lambda v: [*v[:2], 2**70, *v[3:]], "expected a value of int32"),
        (lambda v: [*v[:2], 1.5, *v[3:]], "parameter k: expected an int"),
        (lambda v: [None, *v[1:]], "parameter A: expected a tensor"),
        (lambda v: [v[0].to("meta"), *v[1:]], "parameter A: "),
    ],
)
def test_refusals_come_from_python(run: Recorded, change: Any, text: str) -> None:
    values = [torch.rand(5, 4), 2.0, 1, True, torch.empty(5, 4)]
    run.call(*values)
    with pytest.raises((TypeError, ValueError), match=text):
        run.call(*change(values))
    run.call(*values)
    assert run.slow == 1


def test_nothing_leaks(run: Recorded) -> None:
    a, b = torch.rand(5, 4), torch.empty(5, 4)
    run.call(a, 2.0, 1, True, b)
    before = (sys.getrefcount(None), sys.getrefcount(a), sys.getrefcount(b))
    for _ in range(1000):
        run.call(a, 2.0, 1, True, b)
    after = (sys.getrefcount(None), sys.getrefcount(a), sys.getrefcount(b))
    assert after[1:] == before[1:]
    assert abs(after[0] - before[0]) < 100


def test_the_function_owns_its_code() -> None:
    call = Recorded(program()).call
    import gc

    gc.collect()
    a, b = torch.rand(5, 4), torch.empty(5, 4)
    for _ in range(3):
        call(a, 2.0, 1, True, b)
    assert torch.equal(b, a * 2.0 + 1)
