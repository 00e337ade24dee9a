# SPDX-License-Identifier: Apache-2.0
"""Backend ctypes: kernels called through ctypes from the call as data; it needs no tvm-ffi.

On a CPU the kernels' own functions are called; on CUDA the driver's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from tilelang.errors import InternalError
from tilelang.runtime.dlpack import CPU
from tilelang.runtime.launch import CallSpec, KernelSpec
from tilelang.runtime.python_launch import (
    CudaDevice,
    MemoryRange,
    PythonLauncher,
    argument_ctype,
)
from tilelang.runtime.quick_call import quick_first
from tilelang.utils import prod

from .base import BaseKernelAdapter, with_outputs

__all__ = ["CtypesKernelAdapter"]


class CtypesKernelAdapter(BaseKernelAdapter):
    """Launches from Python."""

    name = "ctypes"

    def make_func(self) -> Callable[..., Any]:
        module = self.binary()
        on_cuda = self.target.is_cuda
        if on_cuda:
            launcher = PythonLauncher(self.spec, CudaDevice(module.binary or b""))
            return with_outputs(self.spec, launcher, on_cuda)
        device = CpuDevice(module, self.spec)
        run = quick_first(self.spec, device.functions, PythonLauncher(self.spec, device))
        return with_outputs(self.spec, run, on_cuda)


class CpuDevice:
    """Calls kernels of a module in this process."""

    device_type = CPU

    def __init__(self, module: Any, spec: CallSpec, more: Sequence[str] = ()) -> None:
        """more: further functions of the module, for `address`."""
        self._spec = spec
        names = [k.name for k in spec.kernels]
        if module.kind == "llvm":
            from tilelang.runtime.llvm_jit import load

            self._code: Any = load(module.binary, [*names, *more])
            addresses = {name: self._code.address(name) for name in (*names, *more)}
        else:
            from tilelang.runtime.cc import load_library

            self._code = load_library(module.binary)
            addresses = {
                name: ctypes.cast(getattr(self._code, name), ctypes.c_void_p).value or 0
                for name in (*names, *more)
            }
        self.address = addresses.__getitem__
        self.functions = []
        for k in spec.kernels:
            types = [argument_ctype(a) for a in k.args]
            kind = ctypes.CFUNCTYPE(ctypes.c_char_p, *types, ctypes.c_int64, ctypes.c_int64)
            self.functions.append(kind(addresses[k.name]))
        self._by_name = dict(zip(names, self.functions, strict=True))

    def tensor_map(self, *_: object) -> Any:
        raise InternalError("a CPU kernel has no tensor maps")

    def run(
        self, kernel: KernelSpec, grid: Sequence[int], args: Sequence[Any],
        ranges: Sequence[MemoryRange], device: int,
    ) -> None:  # fmt: skip
        """All blocks, in order; the kernel returns NULL or a message."""
        message = self._by_name[kernel.name](*args, 0, prod(grid))
        if message:
            raise self._spec.failed(message.decode())
