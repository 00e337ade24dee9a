# SPDX-License-Identifier: Apache-2.0
"""Random tile programs mean the same at the first stage and at the last."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.interp.programs import inputs, stages
from tests.interp.random_programs import programs
from tilelang.ir import PrimFunc, session
from tilelang.testing.compare import check_same


@pytest.mark.parametrize("target", ["llvm", "cuda -arch=sm_80"])
def test_lowering_keeps_the_meaning(target: str) -> None:
    @settings(max_examples=8, suppress_health_check=list(HealthCheck))
    @given(programs())
    def check(func: PrimFunc) -> None:
        with session():
            last = stages(func, target)["split_host_device"]
            check_same(func, last, *inputs(func), rtol=1e-4, atol=1e-4)

    check()
