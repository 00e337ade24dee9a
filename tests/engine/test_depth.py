# SPDX-License-Identifier: Apache-2.0
"""Expressions of many levels."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.engine import depth, lower
from tilelang.errors import LanguageError
from tilelang.ir import PrimFunc


@pytest.fixture(autouse=True)
def no_verification(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checking the IR of so deep an expression after each pass takes many seconds."""
    monkeypatch.setenv("TILELANG_VERIFY", "0")


def long_sum(terms: int) -> PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                B[i] = sum((A[(i + k) % 64] for k in range(terms)), A[i])

    return main


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_a_sum_of_many_terms(target: str) -> None:
    kernel = tilelang.compile(long_sum(320), out_idx=-1, target=target)
    a = np.arange(64, dtype=np.int32)
    np.testing.assert_array_equal(kernel(a), a + 5 * a.sum())


def test_cuda_source_of_a_sum_of_many_terms() -> None:
    assert "A[" in lower(long_sum(320), "cuda -arch=sm_90a").kernel_source


def test_what_is_too_deep_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depth, "LIMIT", 0)
    with pytest.raises(LanguageError, match="an expression of main is nested too deeply") as caught:
        lower(long_sum(320), "llvm")
    assert caught.value.code == "TL0197"


def test_the_limit_is_what_it_was() -> None:
    before = sys.getrecursionlimit()
    inside = threading.Barrier(2)
    seen: list[int] = []

    def work() -> None:
        with depth.deep_expressions("f"):
            inside.wait(30)
            seen.append(sys.getrecursionlimit())
            inside.wait(30)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert seen == [depth.LIMIT] * 2
    assert sys.getrecursionlimit() == before
