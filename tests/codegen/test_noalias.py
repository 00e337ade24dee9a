# SPDX-License-Identifier: Apache-2.0
"""`noalias` and T.annotate_restrict_buffers reach the generated code."""

from __future__ import annotations

import pytest

import tilelang.language as T
from tilelang.config import Options
from tilelang.engine import lower
from tilelang.ir import PrimFunc


def shift(annotated: bool) -> PrimFunc:
    @T.prim_func
    def shift(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            if annotated:
                T.annotate_restrict_buffers(A)
            for i in T.Parallel(64):
                B[i] = A[i] + 1.0

    return shift


@pytest.mark.parametrize(
    ("target", "word"),
    [("cuda -arch=sm_80", "__restrict__"), ("llvm", "ptr noalias"), ("c", "* restrict ")],
)
def test_pointers_that_may_overlap(target: str, word: str) -> None:
    def count(annotated: bool, noalias: bool) -> int:
        source = lower(shift(annotated), target, options=Options(noalias=noalias)).kernel_source
        return source.count(word)

    assert count(False, True) == 2
    assert count(True, True) == 1
    assert count(False, False) == 0
