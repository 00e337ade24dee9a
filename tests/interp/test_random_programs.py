# SPDX-License-Identifier: Apache-2.0
"""Random tile programs mean the same at the first stage, at the last, and when compiled."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings

import tilelang
from tests.interp.programs import inputs, stages
from tests.interp.random_programs import programs
from tilelang.errors import ResourceError
from tilelang.interp import tile
from tilelang.ir import PrimFunc, session
from tilelang.testing.compare import assert_close, check_same


def _for_programs(count: int, check: Callable[[PrimFunc], None], large: bool = False) -> None:
    settings(max_examples=count, suppress_health_check=list(HealthCheck))(
        given(programs(large))(check)
    )()


@pytest.mark.parametrize("target", ["llvm", "cuda -arch=sm_80", "cuda -arch=sm_90a"])
def test_lowering_keeps_the_meaning(target: str) -> None:
    def check(func: PrimFunc) -> None:
        with session():
            last = stages(func, target)["split_host_device"]
            check_same(func, last, *inputs(func), rtol=1e-4, atol=1e-4)

    _for_programs(12, check)


@pytest.mark.parametrize(
    ("target", "count", "instruction"),
    [
        ("llvm", 12, ""),
        ("cuda-sim -arch=sm_80", 4, ""),
        ("cuda-sim -arch=sm_90a", 3, ""),
        ("cuda-sim -arch=sm_80", 10, "tl::mma_m"),
        ("cuda-sim -arch=sm_90a", 16, "tl::wgmma_m"),
    ],
)
def test_compiled_code_keeps_the_meaning(target: str, count: int, instruction: str) -> None:
    sources: list[str] = []

    def check(func: PrimFunc) -> None:
        want, got = inputs(func), inputs(func)
        tile.run(func, *want)
        try:
            kernel = tilelang.compile(func, target=target)
        except ResourceError:  # more shared memory than a block has: refused, and rightly
            return
        sources.append(kernel.get_kernel_source())
        kernel(*got)
        for n, (x, y) in enumerate(zip(got, want, strict=True)):
            assert_close(x, y, 1e-4, 1e-4, f"parameter {n}")

    _for_programs(count, check, large=bool(instruction))
    assert sum(instruction in source for source in sources) >= 3
