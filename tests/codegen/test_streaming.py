# SPDX-License-Identifier: Apache-2.0
"""Large outputs are written past the caches, wherever their memory begins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.ir import DType, PrimFunc
from tilelang.runtime.dlpack import allocate
from tilelang.target import Target

LARGE = 8 << 20  # elements
WORDS = {"llvm": "!nontemporal", "c": "movntdq512"}


@tilelang.jit
def scale(n: int, factor: float = 2.0, block: int = 1024) -> Any:
    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=128) as b:
            x = T.alloc_fragment((block,), "float32")
            T.copy(X[b * block], x)
            for i in T.Parallel(block):
                x[i] = x[i] * factor
            T.copy(x, Y[b * block])

    return main


def in_place(n: int = LARGE) -> PrimFunc:
    @T.prim_func
    def main(X: T.Tensor((n,), "float32")):
        with T.Kernel(n // 1024, threads=128) as b:
            for i in T.Parallel(1024):
                X[b * 1024 + i] = X[b * 1024 + i] * 2.0

    return main


def source(func: PrimFunc, target: str) -> str:
    return tilelang.lower(func, f"{target} -mcpu=x86-64-v4").kernel_source


@pytest.mark.parametrize("target", WORDS)
def test_which_tensors_are(target: str) -> None:
    word = WORDS[target]
    assert word in source(scale.get_tir(LARGE), target)
    assert word not in source(scale.get_tir(LARGE // 2), target)
    assert word not in source(in_place(), target)
    narrow = tilelang.lower(scale.get_tir(LARGE), f"{target} -mcpu=x86-64-v3").kernel_source
    assert word not in narrow


@pytest.mark.parametrize("target", WORDS)
@pytest.mark.parametrize("n", [LARGE, LARGE + 24])
def test_every_start(n: int, target: str) -> None:
    """At a line, at an element inside it; a size that ends inside a line."""
    memory = np.zeros(n + 64, np.float32)
    at = -memory.ctypes.data % 64 // 4
    x = np.arange(n, dtype=np.float32)
    with Target(target):
        kernel = scale(n)
    for start in (at, at + 5):
        memory[:] = -1
        kernel(x, memory[start : start + n])
        np.testing.assert_array_equal(memory[start : start + n], x * 2)
        assert (memory[:start] == -1).all()
        assert (memory[start + n :] == -1).all()


def test_a_large_result_in_numpy_starts_at_a_line() -> None:
    out = allocate((LARGE // 8, 8), DType("float32"), like=np.zeros(1))
    assert out.ctypes.data % 64 == 0
    assert out.shape == (LARGE // 8, 8)
    assert out.dtype == np.float32
    assert out.flags.writeable
