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

    there = [on_device(a) if is_tensor(a) else a for a in args]
    out = kernel(*there)
    torch.cuda.synchronize()
    for a, b in zip(args, there, strict=True):
        if isinstance(a, np.ndarray):
            a.view(np.uint8)[...] = b.cpu().view(torch.uint8).numpy()
        elif is_tensor(a):
            a.copy_(b)
    return on_host(out)


def on_host(out: Any) -> Any:
    """Outputs as numpy arrays."""
    return [on_host(x) for x in out] if isinstance(out, list) else out.cpu().numpy()


def is_tensor(a: Any) -> bool:
    return isinstance(a, np.ndarray) or hasattr(a, "__dlpack__")


def on_device(a: Any) -> Any:
    """A copy on the GPU of a numpy array or torch tensor."""
    import torch

    if not isinstance(a, np.ndarray):
        return a.cuda()
    if a.dtype.kind in "fiub" and a.dtype.isbuiltin:
        return torch.from_numpy(a).cuda()
    bits = torch.from_numpy(a.view(np.uint8).reshape(*a.shape[:-1], -1))
    return bits.view(getattr(torch, a.dtype.name)).cuda()
