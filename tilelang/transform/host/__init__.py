# SPDX-License-Identifier: Apache-2.0
"""The passes over host code, in order: what `host_codegen` does before it prints.

In: the functions of a host module at DEVICE stage: the `HostProgram`, and where host and kernels
are one LLVM module (target llvm) its `Kernel`s. Out: the same, in terms that the CPU has. The names
are those of the original's passes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilelang.ir import HostProgram, IRModule, Kernel
from tilelang.target import Target

from . import (
    bind_target,
    combine_context,
    legalize_storage,
    lower_builtin,
    lower_custom_dtypes,
    lower_intrinsics,
    lower_storage_scopes,
)

__all__ = ["HOST_PIPELINE", "HostPass", "device_of", "lowered_kernels", "run_host_passes"]


@dataclass(frozen=True)
class HostPass:
    """A row of HOST_PIPELINE: `run(function, target host)` gives the function back."""

    name: str
    run: Callable[[Any, Target], Any]


HOST_PIPELINE: tuple[HostPass, ...] = (
    HostPass("BindTarget", bind_target.run),
    HostPass("FP8StorageLegalize", legalize_storage.run_fp8),
    HostPass("BF16StorageLegalize", legalize_storage.run_bf16),
    HostPass("LowerTVMBuiltin", lower_builtin.run),
    HostPass("LowerCustomDatatypes", lower_custom_dtypes.run),
    HostPass("LowerIntrin", lower_intrinsics.run),
    HostPass("LowerDeviceStorageAccessInfo", lower_storage_scopes.run),
    HostPass("CombineContextCall", combine_context.run),
)


def run_host_passes(
    mod: IRModule,
    target_host: Target,
    observe: Callable[[str, IRModule], None] | None = None,
) -> IRModule:
    """All of them, in order; `observe(name, module)` sees what each one gave."""
    functions: dict[str, Any] = dict(mod.functions)
    for p in HOST_PIPELINE:
        functions = {name: p.run(f, target_host) for name, f in functions.items()}
        if observe is not None:
            observe(p.name, IRModule(dict(functions)))
    return IRModule(functions)


def lowered_kernels(kernels: Sequence[Kernel], target: Target) -> list[Kernel]:
    """CPU kernels after the passes of the host module that they are part of."""
    out: list[Kernel] = []
    for kernel in kernels:
        for p in HOST_PIPELINE:
            kernel = p.run(kernel, target)
        out.append(kernel)
    return out


def device_of(program: HostProgram, target_host: Target) -> Target:
    """What the kernels that a program launches are for; its own CPU where it launches none."""
    targets = (k.attrs.get("target") for k in program.launches)
    return next((t for t in targets if t is not None), target_host)
