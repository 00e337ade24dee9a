# SPDX-License-Identifier: Apache-2.0
"""CombineContextCall: launches of one call share one context.

    context; launch f_kernel              context; launch f_kernel
    context; launch f_kernel_1        →   launch f_kernel_1

A call is on one device and one stream from its beginning to its end: after the first launch has
found them, the others need not ask again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilelang.ir import HostProgram, Kernel
from tilelang.target import Target


def run(func: Any, target_host: Target) -> Any:
    if not isinstance(func, HostProgram):
        return func
    asking = [k for k in func.launches if k.attrs.get("context")]
    if len(asking) < 2:
        return func
    return replace(
        func, launches=tuple(_without(k) if k in asking[1:] else k for k in func.launches)
    )


def _without(kernel: Kernel) -> Kernel:
    return replace(kernel, attrs={**kernel.attrs, "context": False})
