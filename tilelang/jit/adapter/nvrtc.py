# SPDX-License-Identifier: Apache-2.0
"""Backend nvrtc: a cubin, the driver through ctypes, and the call as data: no host compiler at
all."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

from tilelang.runtime.python_launch import CudaDevice, PythonLauncher

from .base import BaseKernelAdapter, with_outputs
from .native import native_function, native_module

__all__ = ["NVRTCKernelAdapter"]


class NVRTCKernelAdapter(BaseKernelAdapter):
    """Launches from Python."""

    name = "nvrtc"

    def make_func(self) -> Callable[..., Any]:
        launcher = PythonLauncher(self.spec, CudaDevice(self.binary().binary or b""))
        run: Callable[..., Any] = launcher
        if importlib.util.find_spec("llvmlite") is not None:
            module = native_module(self.rt_mod, self.host_mod, self.module, self.target)
            if module is not None:
                self.rt_mod = module
                run = native_function(module, self.spec, launcher, self.target)
        return with_outputs(self.spec, run, on_cuda=True)
