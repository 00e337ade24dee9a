# SPDX-License-Identifier: Apache-2.0
"""Backend ctypes: kernels called through ctypes from the call as data; it needs no tvm-ffi.

On a CPU the kernels' own functions are called; on CUDA the driver's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from tilelang.errors import InternalError, ToolchainError
from tilelang.runtime.dlpack import CPU
from tilelang.runtime.launch import KernelSpec
from tilelang.runtime.python_launch import CudaDevice, Device, MemoryRange, PythonLauncher
from tilelang.utils import prod

from .base import BaseKernelAdapter, with_outputs

__all__ = ["CtypesKernelAdapter"]


class CtypesKernelAdapter(BaseKernelAdapter):
    """Launches from Python."""

    name = "ctypes"

    def make_func(self) -> Callable[..., Any]:
        module = self.binary()
        on_cuda = self.target.is_cuda
        device: Device
        device = CudaDevice(module.binary or b"") if on_cuda else CpuDevice(module, self.spec)
        return with_outputs(self.spec, PythonLauncher(self.spec, device), on_cuda)


class CpuDevice:
    """Calls kernels of a module in this process."""

    device_type = CPU

    def __init__(self, module: Any, spec: Any) -> None:
        names = [k.name for k in spec.kernels]
        if module.kind == "llvm":
            from tilelang.runtime.llvm_jit import load

            self._code: Any = load(module.binary, names)
            addresses = {name: self._code.address(name) for name in names}
        else:
            from tilelang.runtime.cc import load_library

            self._code = load_library(module.binary)
            addresses = {
                name: ctypes.cast(getattr(self._code, name), ctypes.c_void_p).value or 0
                for name in names
            }
        self._functions = {n: ctypes.CFUNCTYPE(ctypes.c_char_p)(a) for n, a in addresses.items()}

    def tensor_map(self, *_: object) -> Any:
        raise InternalError("a CPU kernel has no tensor maps")

    def run(
        self, kernel: KernelSpec, grid: Sequence[int], args: Sequence[Any],
        ranges: Sequence[MemoryRange], device: int,
    ) -> None:  # fmt: skip
        """All blocks, in order; the kernel returns NULL or a message."""
        function = self._functions[kernel.name]
        function.argtypes = [*(type(a) for a in args), ctypes.c_int64, ctypes.c_int64]
        message = function(*args, 0, prod(grid))
        if message:
            raise ToolchainError(f"kernel {kernel.name}: {message.decode()}", code="TL0817")
