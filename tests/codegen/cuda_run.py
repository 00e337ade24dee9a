# SPDX-License-Identifier: Apache-2.0
"""Runs DEVICE-stage kernels on numpy arrays: in the simulator, or on a GPU by the driver.

What both run is the same text; the simulator has its own meaning of the `tl::` functions, so a test
that holds in both says that the two agree.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilelang.codegen.cuda import cuda_source
from tilelang.codegen.headers import device_headers
from tilelang.config import Options
from tilelang.ir import (
    Buffer,
    DType,
    Expr,
    Kernel,
    TensorMap,
    Var,
    const,
    const_int,
    free_vars,
    substitute,
)

WIDTHS = {"int32": ctypes.c_int32, "int64": ctypes.c_int64, "float32": ctypes.c_float}
Array = np.ndarray[Any, Any]


class SimRunner:
    """Compiles once, launches any of the kernels in the simulator."""

    def __init__(self, kernels: Sequence[Kernel], arch: int = 90) -> None:
        from tilelang.sim import build

        self.kernels = {k.name: k for k in kernels}
        self.module = build(cuda_source(kernels, arch, Options()), kernels)

    def __call__(self, name: str, arrays: Mapping[str, Array], scalars: Mapping[str, int]) -> None:
        k = self.kernels[name]
        addresses = {n: x.ctypes.data for n, x in arrays.items()}
        values = [_argument(a, addresses, scalars, self._tensor_map) for a in k.args]
        ranges = [(x.ctypes.data, x.nbytes, n, True) for n, x in arrays.items()]
        self.module.launch(name, _grid(k, scalars), k.block, k.dynamic_smem, values, ranges)

    @staticmethod
    def _tensor_map(address: int, dtype: DType, *shape: Any) -> Any:
        from tilelang.sim.device import tensor_map

        return tensor_map(address, dtype, *shape)


class GpuRunner:
    """The same on device 0."""

    def __init__(self, kernels: Sequence[Kernel], arch: int = 90) -> None:
        from tilelang.runtime.cuda_driver import driver
        from tilelang.runtime.nvrtc import compile_cubin

        self.kernels = {k.name: k for k in kernels}
        self.driver = driver()
        self.driver.use_device(0)
        source = cuda_source(kernels, arch, Options())
        spelling = {80: "sm_80", 90: "sm_90a"}[arch]
        major, minor = self.driver.compute_capability(0)
        if arch == 80:  # the sm_80 forms on whatever is there
            spelling = f"sm_{major}{minor}"
        self.cubin = compile_cubin(source, spelling, Options(), device_headers(source))
        self.library = self.driver.load(self.cubin.data)

    def __call__(self, name: str, arrays: Mapping[str, Array], scalars: Mapping[str, int]) -> None:
        k = self.kernels[name]
        memory = {n: self.driver.upload(x.tobytes()) for n, x in arrays.items()}
        addresses = {n: m.address for n, m in memory.items()}
        values = [_argument(a, addresses, scalars, self._tensor_map) for a in k.args]
        kernel = self.library.kernel(name)
        kernel.allow_shared(k.dynamic_smem)
        kernel.launch(_grid(k, scalars), k.block, values, k.dynamic_smem)
        self.driver.synchronize()
        for n, m in memory.items():
            arrays[n].reshape(-1).view(np.uint8)[:] = np.frombuffer(m.download(), np.uint8)

    def _tensor_map(self, address: int, dtype: DType, *shape: Any) -> Any:
        return self.driver.tensor_map(address, str(dtype), dtype.bits, *shape)


def evaluate(e: Expr, scalars: Mapping[str, int]) -> int:
    """An expression over named scalars."""
    value = const_int(substitute(e, {v: const(scalars[v.name], v.dtype) for v in free_vars(e)}))
    assert value is not None
    return value


def _grid(k: Kernel, scalars: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(evaluate(e, scalars) for e in k.grid)


def _argument(
    a: Any, addresses: Mapping[str, int], scalars: Mapping[str, int], encode: Callable[..., Any]
) -> Any:
    if isinstance(a, Buffer):
        return ctypes.c_uint64(addresses[a.name])
    if isinstance(a, Var):
        return WIDTHS[str(a.dtype)](scalars[a.name])
    assert isinstance(a, TensorMap)
    dtype = a.buffer.dtype
    strides = [evaluate(s, scalars) * dtype.bytes for s in a.strides[1:]]
    dims = [evaluate(d, scalars) for d in a.dims]
    return encode(addresses[a.buffer.name], dtype, dims, strides, a.box, a.swizzle)
