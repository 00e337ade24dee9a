# SPDX-License-Identifier: Apache-2.0
"""Whole kernels, most of them wrong somewhere, compile or give a typed error at the user's line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import InternalError, TileError
from tilelang.language import remember_source

from .random_kernels import random_kernel

TARGETS = ("llvm", "cuda -arch=sm_80", "cuda -arch=sm_90a", "c")
KERNELS = 60


def lowered(seed: int, target: str) -> TileError | None:
    """The error of a random kernel, or None. Python's own errors are not caught: they fail."""
    text, file = random_kernel(seed, wrong=0.03), f"kernel_{seed}.py"
    try:
        code = compile(remember_source(text, file), file, "exec")
    except SyntaxError:
        return None
    scope: dict[str, Any] = {"m": T.dynamic("m"), "s": T.dynamic("s"), "__name__": "user"}
    try:
        exec(code, scope)
        tilelang.lower(scope["main"], target=target)
    except TileError as error:
        return error
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(8))
def test_random_kernels(part: int) -> None:
    for seed in range(part * KERNELS, (part + 1) * KERNELS):
        error = lowered(seed, TARGETS[seed % len(TARGETS)])
        if error is None:
            continue
        assert not isinstance(error, InternalError), error
        assert error.span is not None, error
        assert error.span.file == f"kernel_{seed}.py", error
        assert error.help, error
        assert not error.code.startswith("TL08"), error  # no other compiler's complaint


@pytest.mark.parametrize("where", ["llvm", "cuda-sim -arch=sm_80"])
def test_a_loop_beyond_a_fragment_with_a_test_inside(where: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((16,), "float32"), O: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=64):
            R = T.alloc_fragment((16,), "float32")
            T.copy(A, R)
            for i in T.Parallel(32):
                if i < 16:
                    O[i] = R[i] + 1
                else:
                    O[i] = -1
            for i in T.Parallel(32):
                if i < 16:
                    R[i] = R[i] * 2
            T.copy(R, A)

    a, o = np.arange(16, dtype=np.float32), np.zeros(32, np.float32)
    tilelang.compile(main, target=where)(a, o)
    assert o.tolist() == [*range(1, 17), *[-1] * 16]
    assert a.tolist() == [2 * i for i in range(16)]


@pytest.mark.parametrize("where", ["llvm", "cuda-sim -arch=sm_80"])
def test_truth_values_are_copied_as_numbers(where: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "bool"), B: T.Tensor((64,), "float32"), C: T.Tensor((64,), "int8")):
        with T.Kernel(1, threads=16):
            T.copy(A, B)
            T.copy(A, C)

    a = np.arange(64) % 3 == 0
    b, c = np.zeros(64, np.float32), np.zeros(64, np.int8)
    tilelang.compile(main, target=where)(a, b, c)
    np.testing.assert_array_equal(b, a)
    np.testing.assert_array_equal(c, a)
