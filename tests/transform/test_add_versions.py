# SPDX-License-Identifier: Apache-2.0
"""A second version of a kernel where only the call knows how rows are aligned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilelang.config import Options
from tilelang.interp import thread
from tilelang.ir import HostProgram, PrimFunc
from tilelang.target import Target
from tilelang.testing import kernels
from tilelang.transform import PassContext, lower_to_program


def lowered(func: PrimFunc, target: str = "cuda -arch=sm_80") -> tuple[HostProgram, PassContext]:
    ctx = PassContext(Target(target), Options())
    return lower_to_program(func, ctx), ctx


def test_a_dynamic_matmul_has_an_aligned_version() -> None:
    program, ctx = lowered(kernels.matmul_dynamic())
    fast, slow = program.launches
    assert [k.name for k in program.launches] == [
        "matmul_dynamic_kernel_aligned",
        "matmul_dynamic_kernel",
    ]
    assert "cp_async', 16" in str(fast.body)
    assert "cp_async', 16" not in str(slow.body)
    assert any("_aligned runs where" in n for n in ctx.notes)


@pytest.mark.parametrize("sizes", [(16, 40, 24), (5, 9, 17), (1, 1, 1), (8, 8, 0)])
def test_both_versions_are_right_and_exactly_one_runs(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    rng = np.random.default_rng(1)
    a = rng.integers(-3, 4, (m, k)).astype(np.float16)
    b = rng.integers(-3, 4, (k, n)).astype(np.float16)
    c = np.full((m, n), -9, np.float32)
    program, _ = lowered(kernels.matmul_dynamic())
    thread.run(program, a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (kernels.add, "its sizes are constants"),
        (kernels.scalars, "it has no rows"),
        (kernels.matmul, "its sizes are constants"),
    ],
)
def test_others_have_one_version(make: Any, why: str) -> None:
    program, _ = lowered(make())
    assert len(program.launches) == 1, why


def test_a_cpu_needs_no_versions() -> None:
    program, _ = lowered(kernels.matmul_dynamic(), "llvm -mcpu=x86-64-v3")
    assert len(program.launches) == 1
