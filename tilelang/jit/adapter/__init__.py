# SPDX-License-Identifier: Apache-2.0
"""Execution backends: what turns a compiled artifact into something Python calls.

One module and one class per backend, named in ADAPTERS; each is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .base import BaseKernelAdapter

__all__ = ["ADAPTERS", "adapter_class"]

ADAPTERS = {
    "tvm_ffi": ("tvm_ffi", "TVMFFIKernelAdapter"),
    "nvrtc": ("nvrtc", "NVRTCKernelAdapter"),
    "ctypes": ("ctypes", "CtypesKernelAdapter"),
    "cython": ("cython", "CythonKernelAdapter"),
    "torch": ("torch", "TorchKernelAdapter"),
    "sim": ("sim", "SimKernelAdapter"),
}


def adapter_class(execution_backend: str) -> type[BaseKernelAdapter]:
    """The adapter of a backend."""
    module, name = ADAPTERS[execution_backend]
    found: type[BaseKernelAdapter] = getattr(import_module(f"{__name__}.{module}"), name)
    return found
