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


def product(**schedule: Any) -> Any:
    @T.prim_func
    def main(
        A: T.Tensor((64, STEPS * 64), "float16"),
        B: T.Tensor((STEPS * 64, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            out = T.alloc_fragment((64, 64), "float32")
            T.clear(out)
            for k in T.Pipelined(STEPS, num_stages=2, **schedule):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, out)
            T.copy(out, C)

    return main


@pytest.mark.parametrize("group", [[[0, 1], [2]], [[2], [1, 0]]])
def test_copies_of_a_group_run_ahead(group: list[list[int]]) -> None:
    """A group in an earlier stage gets ring slots for its tiles, as its statements alone would."""
    copies = group.index(next(g for g in group if 0 in g))
    schedule = {"stage": [int(n != copies) for n in range(2)], "order": [0, 1], "group": group}
    if copies:
        schedule["order"] = [1, 0]
    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (64, STEPS * 64)).astype("float16")
    b = rng.integers(-3, 4, (STEPS * 64, 64)).astype("float16")
    kernel = tilelang.compile(product(**schedule), out_idx=-1, target="cuda-sim -arch=sm_80")
    assert "cp_async" in kernel.get_kernel_source()
    assert (kernel(a, b) == a.astype("f4") @ b.astype("f4")).all()


def test_the_order_of_groups_is_not_that_of_the_program() -> None:
    """Dependences are those between the statements where they stand in the loop."""
    func = product(order=[0, 1], stage=[0, 0], group=[[2], [0, 1]])
    with pytest.raises(OptionError, match="statement 2 runs before statement 0"):
        tilelang.compile(func, target="cuda-sim -arch=sm_80")
