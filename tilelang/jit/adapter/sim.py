# SPDX-License-Identifier: Apache-2.0
"""Target cuda-sim: the CUDA text that we generated, run by the simulator on CPU tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from tilelang.ir import DType
from tilelang.runtime.dlpack import CPU
from tilelang.runtime.launch import CallSpec, KernelSpec, MapSpec
from tilelang.runtime.python_launch import MemoryRange, PythonLauncher

from .base import BaseKernelAdapter, with_outputs

__all__ = ["SimKernelAdapter"]


class SimKernelAdapter(BaseKernelAdapter):
    """Runs kernels in the simulator. `reports` holds what it said about the last call."""

    name = "sim"

    def make_func(self) -> Callable[..., Any]:
        self.device = device = SimDevice(self.device_kernel_source, self.spec, self.target.arch)
        launch = with_outputs(self.spec, PythonLauncher(self.spec, self.device), on_cuda=False)
        count = len(self.spec.params)

        def call(*args: Any, **named: Any) -> Any:
            device.begin(allocates_outputs=len(args) + len(named) < count)
            return launch(*args, **named)

        return call

    @property
    def reports(self) -> list[Any]:
        return self.device.reports


class SimDevice:
    """The simulator as a device of CPU memory."""

    device_type = CPU

    def __init__(self, source: str, spec: CallSpec, arch: int) -> None:
        from tilelang.sim import build

        self._arch = arch
        self.reports: list[Any] = []
        self._module = build(source, [k.name for k in spec.kernels])
        self._outputs = {spec.params[o].name for o in spec.outputs}
        self._params = {p.name for p in spec.params}
        self.allocates_outputs = False
        self._defined: dict[int, Any] = {}  # by address: which bytes of what is allocated here

    def begin(self, allocates_outputs: bool) -> None:
        """Before a call: what is allocated for it has no values."""
        self.reports.clear()
        self.allocates_outputs = allocates_outputs
        self._defined.clear()

    def tensor_map(
        self, address: int, dtype: DType, dims: Sequence[int], strides: Sequence[int], spec: MapSpec
    ) -> Any:
        from tilelang.sim import tensor_map

        return tensor_map(address, dtype, dims, strides, spec.box, spec.swizzle)

    def run(
        self, kernel: KernelSpec, grid: Sequence[int], args: Sequence[Any],
        ranges: Sequence[MemoryRange], device: int,
    ) -> None:  # fmt: skip
        for r in ranges:
            made = self.allocates_outputs and r.name in self._outputs
            if (made or r.name not in self._params) and r.address not in self._defined:
                self._defined[r.address] = (ctypes.c_ubyte * r.size)()
        block, smem = kernel.block, kernel.dynamic_smem
        report = self._module.launch(
            kernel.name, grid, block, smem, args, ranges, arch=self._arch,
            defined=self._defined, cluster=kernel.cluster, cooperative=kernel.cooperative,
        )  # fmt: skip
        self.reports.append(report)
