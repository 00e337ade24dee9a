# SPDX-License-Identifier: Apache-2.0
"""Launches kernels from Python, from a `CallSpec` alone: no generated host code.

In: the spec and a `Device` that runs one kernel. Out: a callable over all parameters. It is what
the `nvrtc` and `ctypes` backends and the simulator run through; each brings its own `Device`.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from tilelang.ir import DType
from tilelang.target.cuda_abi import LaunchAttribute

from .dlpack import CUDA, allocate, view_of
from .launch import Bound, CallSpec, KernelSpec, MapSpec, evaluate
from .named import by_position

__all__ = [
    "CudaDevice", "Device", "MemoryRange", "PythonLauncher", "argument_ctype", "current_stream",
    "launch_attributes", "on_stream",
]  # fmt: skip

_CTYPES: dict[str, Any] = {
    "bool": ctypes.c_bool, "int8": ctypes.c_int8, "int16": ctypes.c_int16, "int32": ctypes.c_int32,
    "int64": ctypes.c_int64, "uint8": ctypes.c_uint8, "uint16": ctypes.c_uint16,
    "uint32": ctypes.c_uint32, "uint64": ctypes.c_uint64, "float32": ctypes.c_float,
    "float64": ctypes.c_double, "handle": ctypes.c_void_p,
}  # fmt: skip


class MemoryRange(NamedTuple):
    """Global memory that a launch may touch."""

    address: int
    size: int
    name: str
    writable: bool


class Device(Protocol):
    """Where kernels run. device_type: DLDeviceType of the tensors."""

    device_type: int

    def tensor_map(
        self, address: int, dtype: DType, dims: Sequence[int], strides: Sequence[int], spec: MapSpec
    ) -> Any:
        """A ctypes value with the descriptor; strides are in bytes, of dims[1:]."""

    def run(
        self, kernel: KernelSpec, grid: Sequence[int], args: Sequence[Any],
        ranges: Sequence[MemoryRange], device: int,
    ) -> None:  # fmt: skip
        """Runs (or enqueues) one kernel."""


class PythonLauncher:
    """Calls a program with all its parameters, outputs included."""

    def __init__(self, spec: CallSpec, device: Device) -> None:
        self.spec = spec
        self.device = device

    def __call__(self, *args: Any, **named: Any) -> None:
        self.launch(by_position(self.spec, args, named) if named else args)

    def launch(self, args: Sequence[Any], trusted: bool = False) -> None:
        """trusted: see `CallSpec.bind`."""
        bound = self.spec.bind(args, device_type=self.device.device_type, trusted=trusted)
        workspaces = [self._workspace(w, bound, args) for w in self.spec.workspaces]
        for kernel in self.spec.kernels:
            grid = [evaluate(g, bound.symbols) for g in kernel.grid]
            if min(grid) > 0:
                values = [self._value(a, kernel, bound, workspaces) for a in kernel.args]
                ranges = self._ranges(kernel, bound, workspaces)
                self.device.run(kernel, grid, values, ranges, bound.device[1])

    def _workspace(
        self, row: tuple[str, tuple[Any, ...]], bound: Bound, args: Sequence[Any]
    ) -> Any:
        shape = tuple(evaluate(s, bound.symbols) for s in row[1])
        first = next(iter(bound.views), None)
        like = None if first is None else args[first]
        on_cuda = bound.device[1] if self.device.device_type == CUDA else -1
        return allocate(shape, DType(row[0]), like, on_cuda)

    def _value(
        self, arg: tuple[Any, ...], kernel: KernelSpec, bound: Bound, workspaces: Sequence[Any]
    ) -> Any:
        kind = arg[0]
        if kind == "symbol":
            return _scalar(bound.symbols[arg[1]], DType(arg[2]))
        if kind == "map":
            return self._map(kernel.maps[arg[1]], bound, workspaces)
        return ctypes.c_void_p(self._address((kind, arg[1]), bound, workspaces))

    def _address(self, source: tuple[str, int], bound: Bound, workspaces: Sequence[Any]) -> int:
        kind, index = source
        if kind == "param":
            return bound.views[index].address
        view = view_of(workspaces[index])
        return view.address if view else 0

    def _map(self, m: MapSpec, bound: Bound, workspaces: Sequence[Any]) -> Any:
        dims = [evaluate(d, bound.symbols) for d in m.dims]
        dtype = DType(m.dtype)
        strides = [evaluate(s, bound.symbols) * dtype.bits // 8 for s in m.strides[1:]]
        address = self._address(m.source, bound, workspaces)
        return self.device.tensor_map(address, dtype, dims, strides, m)

    def _ranges(
        self, kernel: KernelSpec, bound: Bound, workspaces: Sequence[Any]
    ) -> list[MemoryRange]:
        out = []
        for index, view in bound.views.items():
            if 0 in view.shape:
                continue
            p = self.spec.params[index]
            width = max(DType(p.dtype).bits, 8) // 8
            steps = [(n - 1) * s for n, s in zip(view.shape, view.strides, strict=True)]
            first, last = (sum(f(s, 0) for s in steps) for f in (min, max))
            begin, size = view.address + first * width, (last - first + 1) * width
            out.append(MemoryRange(begin, size, p.name, index in kernel.writes))
        for n, workspace in enumerate(workspaces):
            own = view_of(workspace)
            if own is not None and 0 not in own.shape:
                out.append(MemoryRange(own.address, workspace.nbytes, f"workspace{n}", True))
        return out


def argument_ctype(arg: tuple[Any, ...]) -> Any:
    """The ctypes type of a kernel's argument; narrow floats are passed as their bit patterns."""
    if arg[0] != "symbol":
        return ctypes.c_void_p
    dtype = DType(arg[2])
    found = _CTYPES.get(dtype.row.name)
    if found is None:
        found = ctypes.c_uint16 if dtype.bits == 16 else ctypes.c_uint8
    return found


def _scalar(value: Any, dtype: DType) -> Any:
    """A ctypes value."""
    if dtype.row.name in _CTYPES:
        return _CTYPES[dtype.row.name](value)
    bits = _rounded(value, dtype)
    return ctypes.c_uint16(bits) if dtype.bits == 16 else ctypes.c_uint8(bits)


def _rounded(value: Any, dtype: DType) -> int:
    import numpy

    return int(numpy.array(value, dtype.as_numpy()).view(f"u{dtype.bits // 8}"))


_given = threading.local()


@contextmanager
def on_stream(stream: int | None) -> Iterator[None]:
    """Launches of this thread go to `stream`; None: to the current one."""
    _given.stream = stream
    try:
        yield
    finally:
        _given.stream = None


def current_stream(device: int) -> int:
    """The stream that torch would use on this device; the default stream without torch."""
    given: int | None = getattr(_given, "stream", None)
    if given is not None:
        return given
    return _current_of_torch(device)


def _current_of_torch(device: int) -> int:
    torch = sys.modules.get("torch")
    return 0 if torch is None else int(torch.cuda.current_stream(device).cuda_stream)


class CudaDevice:
    """Runs the kernels of a cubin through the driver. The module is loaded at the first launch, and
    a device's share of dynamic shared memory is raised once."""

    device_type = CUDA

    def __init__(self, cubin: bytes) -> None:
        self._cubin = cubin
        self._kernels: dict[str, Any] = {}
        self._prepared: set[tuple[str, int]] = set()
        self._library: Any = None

    def tensor_map(
        self, address: int, dtype: DType, dims: Sequence[int], strides: Sequence[int], spec: MapSpec
    ) -> Any:
        from .cuda_driver import driver

        name, bits = dtype.row.name, dtype.bits
        return driver().tensor_map(address, name, bits, dims, strides, spec.box, spec.swizzle)

    def run(
        self, kernel: KernelSpec, grid: Sequence[int], args: Sequence[Any],
        ranges: Sequence[MemoryRange], device: int,
    ) -> None:  # fmt: skip
        from .cuda_driver import driver

        driver().use_device(device)
        handle = self._kernel(kernel, device)
        stream = current_stream(device)
        attributes = launch_attributes(kernel)
        handle.launch(grid, kernel.block, args, kernel.dynamic_smem, stream, attributes)

    def _kernel(self, kernel: KernelSpec, device: int) -> Any:
        from .cuda_driver import driver

        if self._library is None:
            self._library = driver().load(self._cubin)
        handle = self._kernels.get(kernel.name)
        if handle is None:
            handle = self._kernels[kernel.name] = self._library.kernel(kernel.name)
        if (kernel.name, device) not in self._prepared:
            if kernel.dynamic_smem > _SMEM_WITHOUT_ASKING:
                handle.allow_shared(kernel.dynamic_smem, device)
            self._prepared.add((kernel.name, device))
        return handle


def launch_attributes(kernel: KernelSpec) -> dict[LaunchAttribute, Sequence[int]]:
    """Clusters, cooperative launch, programmatic dependent launch."""
    out: dict[LaunchAttribute, Sequence[int]] = {}
    if kernel.cluster and tuple(kernel.cluster) != (1, 1, 1):
        out[LaunchAttribute.CLUSTER_DIMENSION] = kernel.cluster
    if kernel.cooperative:
        out[LaunchAttribute.COOPERATIVE] = (1,)
    if kernel.pdl:
        out[LaunchAttribute.PROGRAMMATIC_STREAM_SERIALIZATION] = (1,)
    return out


_SMEM_WITHOUT_ASKING = 48 * 1024  # CUDA C++ Programming Guide, "Shared Memory"
