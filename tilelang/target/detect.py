# SPDX-License-Identifier: Apache-2.0
"""Is there a CUDA device that we can compile for? Asked once per process.

The driver is initialised but no context is made, so that asking costs milliseconds and no memory.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import shutil
import sys
from typing import NamedTuple

__all__ = ["Device", "cuda_devices", "has_cuda_compiler"]

# CUdevice_attribute values (cuda.h).
_MULTIPROCESSOR_COUNT, _MAJOR, _MINOR = 16, 75, 76


class Device(NamedTuple):
    """arch: 10 * major + minor of the compute capability."""

    arch: int
    num_sms: int


@functools.cache
def cuda_devices() -> tuple[Device, ...]:
    """The CUDA devices that the driver shows; none without a driver."""
    try:
        cuda = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return ()
    count = ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return ()

    def attribute(which: int, device: int) -> int:
        value = ctypes.c_int()
        cuda.cuDeviceGetAttribute(ctypes.byref(value), which, device)
        return value.value

    return tuple(
        Device(
            10 * attribute(_MAJOR, i) + attribute(_MINOR, i), attribute(_MULTIPROCESSOR_COUNT, i)
        )
        for i in range(count.value)
    )


@functools.cache
def has_cuda_compiler() -> bool:
    """Whether NVRTC (a wheel or a library on the path) or nvcc can be found."""
    if shutil.which("nvcc"):
        return True
    for package in ("nvidia.cu13", "nvidia.cuda_nvrtc"):
        try:
            if importlib.util.find_spec(package) is not None:
                return True
        except ModuleNotFoundError:  # not even the parent package
            continue
    for major in (13, 12):
        try:
            ctypes.CDLL(f"libnvrtc.so.{major}")
        except OSError:
            continue
        return True
    return False
