# SPDX-License-Identifier: Apache-2.0
"""Random programs of single threads mean the same to the oracle, which has a coroutine per thread,
to a CPU, where loops over the threads are cut where they meet, and to the simulated GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilelang.language import remember_source

from .everywhere import ORACLE, run
from .thread_programs import thread_program


def program(seed: int) -> tuple[Any, int]:
    text, threads = thread_program(seed)
    file = f"thread_program_{seed}.py"
    remember_source(text, file)
    names: dict[str, Any] = {}
    exec(compile(text, file, "exec"), names)
    return names["main"], threads


def outputs(where: str, func: Any, threads: int, seed: int) -> tuple[Any, Any]:
    a = np.random.default_rng(seed).integers(-5, 9, (2, threads)).astype(np.int32)
    out, total = np.zeros((2, 2, threads), np.int32), np.zeros(1, np.int32)
    run(where, func, a, out, total)
    return out, total


def check(seed: int, *targets: str) -> None:
    func, threads = program(seed)
    want, total = outputs(ORACLE, func, threads, seed)
    for where in targets:
        got, sum_ = outputs(where, func, threads, seed)
        np.testing.assert_array_equal(got, want, err_msg=where)
        assert sum_ == total, where


@pytest.mark.parametrize("seed", range(16))
def test_on_a_cpu(seed: int) -> None:
    check(seed, "llvm")


@pytest.mark.parametrize("seed", range(16, 20))
def test_everywhere(seed: int) -> None:
    check(seed, "llvm", "c", "cuda-sim -arch=sm_80")


@pytest.mark.slow
def test_many_on_a_cpu() -> None:
    for seed in range(100, 400):
        check(seed, "llvm")
