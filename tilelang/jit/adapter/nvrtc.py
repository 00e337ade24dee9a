# SPDX-License-Identifier: Apache-2.0
"""Backend nvrtc: a cubin, the driver through ctypes, and the call as data: no host compiler at
all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.runtime.python_launch import CudaDevice, PythonLauncher

from .base import BaseKernelAdapter, with_outputs

__all__ = ["NVRTCKernelAdapter"]


class NVRTCKernelAdapter(BaseKernelAdapter):
    """Launches from Python."""

    name = "nvrtc"

    def make_func(self) -> Callable[..., Any]:
        launcher = PythonLauncher(self.spec, CudaDevice(self.binary().binary or b""))
        return with_outputs(self.spec, launcher, on_cuda=True)
