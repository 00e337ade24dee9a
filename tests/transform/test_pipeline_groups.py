# SPDX-License-Identifier: Apache-2.0
"""`T.Pipelined(group=…)`: schedules whose entries stand for several statements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import OptionError

TILE, STEPS = 32, 5


def program(**schedule: Any) -> Any:
    @T.prim_func
    def main(
        A: T.Tensor((STEPS, TILE, TILE), "float32"),
        B: T.Tensor((STEPS, TILE, TILE), "float32"),
        C: T.Tensor((TILE, TILE), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((TILE, TILE), "float32")
            b = T.alloc_shared((TILE, TILE), "float32")
            x = T.alloc_fragment((TILE, TILE), "float32")
            out = T.alloc_fragment((TILE, TILE), "float32")
            T.clear(out)
            for k in T.Pipelined(STEPS, num_stages=2, **schedule):
                T.copy(A[k, :, :], a)
                T.copy(a, x)
                for i, j in T.Parallel(TILE, TILE):
                    x[i, j] = x[i, j] * 2
                T.copy(B[k, :, :], b)
                for i, j in T.Parallel(TILE, TILE):
                    out[i, j] += x[i, j] * b[i, j]
            T.copy(out, C)

    return main


GROUPS = [[0], [1, 2], [3], [4]]


@pytest.mark.parametrize("target", ["cuda-sim -arch=sm_80", "cuda-sim -arch=sm_90a", "llvm"])
@pytest.mark.parametrize(
    "schedule",
    [
        {"order": [-1, 0, -1, 1], "stage": [-1, 0, -1, 0], "group": GROUPS},
        {"order": [-1, 1, -1, 0], "stage": [-1, 0, -1, 1], "group": GROUPS},
        {
            "order": [-1, 0, 1],
            "stage": [-1, 0, 1],
            "group": [[0], [1], [9]],
        },  # not these statements
    ],
    ids=["plain", "across the back edge", "of another compiler"],
)
def test_groups(target: str, schedule: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, STEPS, TILE, TILE)).astype("float32")
    kernel = tilelang.compile(program(**schedule), out_idx=-1, target=target)
    np.testing.assert_allclose(kernel(a, b), (2 * a * b).sum(0), rtol=1e-5, atol=1e-5)


def test_a_group_without_an_entry_is_refused() -> None:
    func = program(order=[-1, 0, -1], stage=[-1, 0, -1], group=GROUPS)
    with pytest.raises(OptionError, match=r"stage has 3 entries, but the loop body has 4 groups"):
        tilelang.compile(func, target="cuda-sim -arch=sm_80")
