# SPDX-License-Identifier: Apache-2.0
"""LowerTVMBuiltin: a launch on a device becomes what it takes: a context, then the launch.

    launch f_kernel                       context; launch f_kernel
    launch f_kernel_1                 →   context; launch f_kernel_1

The context of a launch is its device with the program's module on it, and the caller's stream. A
kernel on the CPU is a plain call and needs none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilelang.ir import HostProgram, Kernel
from tilelang.target import Target


def run(func: Any, target_host: Target) -> Any:
    if not isinstance(func, HostProgram) or not any(map(_on_device, func.launches)):
        return func
    launches = [
        replace(k, attrs={**k.attrs, "context": True}) if _on_device(k) else k
        for k in func.launches
    ]
    return replace(func, launches=tuple(launches))


def _on_device(kernel: Kernel) -> bool:
    target = kernel.attrs.get("target")
    return target is not None and bool(target.is_cuda)
