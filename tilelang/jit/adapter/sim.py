# SPDX-License-Identifier: Apache-2.0
"""Target cuda-sim: the CUDA text that we generated, run by the simulator on CPU tensors."""

from __future__ import annotations

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
        self.device = SimDevice(self.device_kernel_source, self.spec, self.target.arch)
        return with_outputs(self.spec, PythonLauncher(self.spec, self.device), on_cuda=False)

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
        self._first = spec.kernels[0].name if spec.kernels else ""

    def tensor_map(
        self, address: int, dtype: DType, dims: Sequence[int], strides: Sequence[int], spec: MapSpec
    ) -> Any:
        from tilelang.sim import tensor_map

        return tensor_map(address, dtype, dims, strides, spec.box, spec.swizzle)

    def run(
        self, kernel: KernelSpec, grid: Sequence[int], args: Sequence[Any],
        ranges: Sequence[MemoryRange], device: int,
    ) -> None:  # fmt: skip
        if kernel.name == self._first:
            self.reports.clear()
        block, smem = kernel.block, kernel.dynamic_smem
        report = self._module.launch(
            kernel.name, grid, block, smem, args, ranges, arch=self._arch,
            cluster=kernel.cluster, cooperative=kernel.cooperative,
        )  # fmt: skip
        self.reports.append(report)
