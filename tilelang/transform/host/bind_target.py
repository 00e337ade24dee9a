# SPDX-License-Identifier: Apache-2.0
"""BindTarget: every function says what it is compiled for.

    HostProgram add, launches add_kernel (target: cuda)   →   HostProgram add (target: llvm)

A kernel keeps the target that it was lowered for (its code depends on it); the entry, and a kernel
that has none yet, gets the host's. The printers read the attribute, and so does whoever compiles
the text.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilelang.target import Target


def run(func: Any, target_host: Target) -> Any:
    if func.attrs.get("target") is not None:
        return func
    return replace(func, attrs={**func.attrs, "target": target_host})
