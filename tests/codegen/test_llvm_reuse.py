# SPDX-License-Identifier: Apache-2.0
"""What was read or written is not read again, until something may have changed it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.ir import PrimFunc
from tilelang.target import Target


def thrice(overlap: bool = False) -> PrimFunc:
    @T.prim_func
    def main(X: T.Tensor((4,), "float32"), Y: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=1):
            if overlap:
                T.annotate_restrict_buffers(X, Y)
            Y[0] = X[0] + 1.0
            Y[1] = X[0] + Y[0]
            Y[2] = X[0] + Y[1]

    return main


def loads(func: PrimFunc) -> int:
    text = tilelang.lower(func, "llvm").kernel_source
    body = text[text.index("define") :]
    return len(re.findall(r"= load float,", body))


def test_reads_outlive_writes_elsewhere() -> None:
    assert loads(thrice()) == 1
    assert loads(thrice(overlap=True)) == 3  # of X; what was written to Y is known


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_tensors_that_overlap(target: str) -> None:
    with Target(target):
        kernel = tilelang.compile(thrice(overlap=True))
    memory = np.array([1, 0, 0, 0, 0, 0, 0, 0], np.float32)
    kernel(memory[:4], memory[:4])
    assert memory[:3].tolist() == [2, 4, 6]


def chained(n: int = 8) -> PrimFunc:
    """An index that is read from memory changes between two reads through it."""

    @T.prim_func
    def main(P: T.Tensor((4,), "int32"), Y: T.Tensor((n,), "int32"), Z: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=1):
            Y[P[0]] = 7
            Z[0] = Y[P[0]]
            P[0] = 3
            Z[1] = Y[P[0]]

    return main


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_an_index_that_changes(target: str) -> None:
    with Target(target):
        kernel = tilelang.compile(chained())
    p: Any = np.array([1, 0, 0, 0], np.int32)
    y, z = np.arange(8, dtype=np.int32) * 10, np.zeros(2, np.int32)
    kernel(p, y, z)
    assert z.tolist() == [7, 30]
