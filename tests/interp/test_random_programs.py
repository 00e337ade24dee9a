# SPDX-License-Identifier: Apache-2.0
"""Random programs mean the same at the first stage and at the last, thread by thread, and reach
tensor cores and warp roles."""

from __future__ import annotations

import pytest

import tilelang
from tests.interp.programs import stages
from tilelang.errors import ResourceError
from tilelang.ir import session
from tilelang.testing.compare import check_same
from tilelang.testing.fuzz import KINDS, Choices, generate
from tilelang.testing.fuzz.judge import arguments, function_of


def seeds(kind: str, count: int) -> list[int]:
    """The first seeds of programs of a kind."""
    found = [s for s in range(count * 20) if Choices(seed=s).pick(KINDS) == kind]
    return found[:count]


@pytest.mark.parametrize("target", ["llvm", "cuda -arch=sm_80", "cuda -arch=sm_90a"])
def test_lowering_keeps_the_meaning(target: str) -> None:
    for seed in seeds("small", 3) + seeds("threads", 2):
        program = generate(Choices(seed=seed))
        func = function_of(program.text)
        with session():
            last = stages(func, target)["split_host_device"]
            check_same(func, last, *arguments(func, program.sizes), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("kind", "arch", "text"),
    [
        ("large", "sm_80", "tl::mma_m"),
        ("large", "sm_90a", "tl::wgmma_m"),
        ("roles", "sm_90a", "tl::mbar_expect_tx"),
    ],
)
def test_random_programs_reach_the_units(kind: str, arch: str, text: str) -> None:
    """Tensor cores, and warp roles with copies by the tensor unit."""
    sources = []
    for seed in seeds(kind, 12):
        func = function_of(generate(Choices(seed=seed)).text)
        try:
            sources.append(tilelang.lower(func, target=f"cuda -arch={arch}").kernel_source)
        except ResourceError:  # more shared memory than a block has
            continue
    assert len(sources) >= 7
    assert sum(text in source for source in sources) >= 2
