# SPDX-License-Identifier: Apache-2.0
"""One program on every executor: the oracle, both CPU targets, the simulated GPU; and NVRTC."""

from __future__ import annotations

from typing import Any

import pytest

import tilelang
from tilelang.codegen.headers import device_headers
from tilelang.config import Options
from tilelang.interp import tile
from tilelang.ir import PrimFunc
from tilelang.runtime.nvrtc import compile_cubin

ORACLE = "oracle"
TARGETS = ("llvm", "c", "cuda-sim -arch=sm_80")
EXECUTORS = (ORACLE, *TARGETS)
everywhere = pytest.mark.parametrize("where", EXECUTORS)
on_targets = pytest.mark.parametrize("where", TARGETS)


def run(where: str, func: PrimFunc, *args: Any) -> None:
    """The arrays change in place."""
    if where == ORACLE:
        tile.run(func, *args)
    else:
        tilelang.compile(func, target=where)(*args)


def source(func: PrimFunc, arch: str, options: Options | None = None) -> str:
    """The CUDA text of a program, which NVRTC accepts."""
    text: str = tilelang.lower(func, target=f"cuda -arch={arch}", options=options).kernel_source
    compile_cubin(text, arch, Options(fast_compile=True), device_headers(text))
    return text


def compiles(func: PrimFunc) -> str:
    """The CUDA text for sm_80; NVRTC accepts this and that for sm_90a."""
    source(func, "sm_90a")
    return source(func, "sm_80")
