# SPDX-License-Identifier: Apache-2.0
"""The example programs compile for every architecture that the compiler knows and NVRTC has."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

import tilelang
from tilelang.config import Options
from tilelang.target import ARCHES, Target

EXAMPLES = Path(__file__).parents[2] / "examples"
# NVRTC 13 has no sm_70.
NAMES = [name for name in ARCHES if name != "sm_70"]


def example(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module(name)


def cubin(program: Any, target: str) -> bytes:
    pytest.importorskip("nvidia.cu13")
    fast = Options(fast_compile=True)
    artifact = tilelang.lower(program, target, enable_device_compile=True, options=fast)
    assert artifact.codegen_mod is not None
    return artifact.codegen_mod.binary or b""


@pytest.mark.parametrize("arch", NAMES)
def test_matmul(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = f"cuda -arch={arch}"
    matmul = example("matmul", monkeypatch)
    with Target(target):
        blocks = matmul.blocks(target, "float16")
        # The tile that fits the architecture with the least shared memory.
        blocks |= {"block_M": 64, "block_N": 64, "threads": 128}
        program = matmul.matmul.get_tir(256, 256, 256, "float16", **blocks)
    assert cubin(program, target)


@pytest.mark.parametrize("arch", ["sm_75", "sm_120a"])
def test_attention(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = f"cuda -arch={arch}"
    with Target(target):
        program = example("flash_attention", monkeypatch).attention.get_tir(1, 128, 2, 64)
    assert cubin(program, target)
