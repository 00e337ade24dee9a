# SPDX-License-Identifier: Apache-2.0
"""What the tests of pitfalls share: the targets, and a launch with numpy arrays on each of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
from tilelang.target import Target

ON = pytest.mark.parametrize(
    "t",
    [
        "llvm",
        "c",
        "cuda-sim -arch=sm_80",
        "cuda-sim -arch=sm_90a",
        pytest.param("cuda", marks=pytest.mark.gpu),
    ],
)
"""The CPU, simulated GPUs and, marked `gpu`, the GPU of this machine."""


def launch(f: Any, t: str, *args: Any) -> Any:
    """Compiles a program without outputs and runs it on numpy arrays, in place on every target."""
    return run(tilelang.compile(f, target=t), t, *args)


def run(kernel: Any, t: str, *args: Any) -> Any:
    """Calls a compiled kernel; on a real GPU with copies of the arrays, which are copied back."""
    target = Target(t)
    if not target.is_cuda or target.is_sim:
        return kernel(*args)
    import torch

    there = [on_device(a) if isinstance(a, np.ndarray) else a for a in args]
    out = kernel(*there)
    torch.cuda.synchronize()
    for a, b in zip(args, there, strict=True):
        if isinstance(a, np.ndarray):
            a.view(np.uint8)[...] = b.cpu().view(torch.uint8).numpy().view(np.uint8)
    return out


def on_device(a: Any) -> Any:
    import torch

    names = {"bfloat16", "float8_e4m3fn", "float8_e5m2"}
    x = torch.from_numpy(a.view(np.uint8) if a.dtype.name in names else a)
    return x.view(getattr(torch, a.dtype.name)).cuda() if a.dtype.name in names else x.cuda()
