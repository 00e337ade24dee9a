# SPDX-License-Identifier: Apache-2.0
"""Where barriers stand: between every two accesses that may meet, and never where threads diverge.

Whole kernels run in the simulator, which reports a race (TL1301) and a barrier that not every
thread reaches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.ir import PrimFunc

AMPERE = "cuda-sim -arch=sm_80"

# the place of element i of 128 in a (2, 64) buffer, and the same backwards in its second half
PLACES: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "floordiv": lambda i: (i // 64, i % 64),
    "shift": lambda i: (i >> 6, i & 63),
    "min": lambda i: (T.min(i // 32, 3) // 2, i % 64),
    "max": lambda i: (T.max(i - 63, 0) - T.max(i - 64, 0), i % 64),
    "select": lambda i: (T.if_then_else(i < 64, 0, 1), i % 64),
    "xor": lambda i: ((i ^ 64) // 64, (i ^ 5) % 64),
}


def scattered(place: Callable[[Any], tuple[Any, Any]]) -> PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((2, 64), "float32")
            for i in T.Parallel(128):
                s[place(i)[0], place(i)[1]] = A[i]
            for i in T.Parallel(64):
                B[i] = s[1, 63 - i]

    return main


@pytest.mark.parametrize("name", PLACES)
def test_a_write_is_seen_wherever_it_may_land(name: str) -> None:
    place = PLACES[name]
    a, b = np.arange(128, dtype=np.float32), np.zeros(64, np.float32)
    s = np.zeros((2, 64), np.float32)
    rows = {"xor": lambda i: ((i ^ 64) // 64, (i ^ 5) % 64)}.get(name, lambda i: divmod(i, 64))
    for i in range(128):
        s[rows(i)] = a[i]
    tilelang.compile(scattered(place), target=AMPERE)(a, b)
    np.testing.assert_array_equal(b, s[1, ::-1])
