# SPDX-License-Identifier: Apache-2.0
"""The CUDA driver through ctypes: devices, cubins, launches, tensor maps, memory, streams.

In: nothing at import; the driver is opened by name when it is first asked for. Out: objects over
driver handles. A missing driver is None or 0 from the questions (`driver_version`, `device_count`)
and a `ToolchainError` from everything that needs one.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator, Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

from tilelang.errors import ToolchainError
from tilelang.target.cuda_abi import (
    DRIVER_SONAME,
    DeviceAttribute,
    FunctionAttribute,
    LaunchAttribute,
    TensorMapSwizzle,
    tensor_map_dtype,
)

__all__ = [
    "CudaKernel", "CudaLibrary", "DeviceMemory", "Driver", "LaunchAttributeStruct", "LaunchConfig",
    "TensorMapStruct", "device_count", "driver", "driver_version", "missing_device",
]  # fmt: skip

Version = tuple[int, int]
_L2_PROMOTION_256B, _INTERLEAVE_NONE, _OOB_ZEROS = 3, 0, 0  # CUtensorMap* enumerations


class _AttributeValue(ctypes.Union):
    _fields_ = (("dim", c_uint * 3), ("flag", c_int), ("bytes", ctypes.c_char * 64))


class LaunchAttributeStruct(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = (("id", c_int), ("pad", c_int), ("value", _AttributeValue))


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared_bytes", c_uint),
        ("stream", c_void_p),
        ("attributes", POINTER(LaunchAttributeStruct)),
        ("attribute_count", c_uint),
    )


class TensorMapStruct(ctypes.Structure):
    """CUtensorMap; it must lie at a multiple of 64 bytes, which `tensor_map` sees to."""

    _fields_ = (("opaque", c_uint64 * 16),)


class Driver:
    """An opened driver. Every failed call raises a `ToolchainError` that names call and reason."""

    def __init__(self, path: str = DRIVER_SONAME) -> None:
        try:
            self._lib = ctypes.CDLL(path)
        except OSError as error:
            raise ToolchainError(
                "there is no CUDA driver on this machine",
                code="TL0810",
                notes=[str(error)],
                help="install the NVIDIA driver, or compile for target 'llvm' or 'cuda-sim'",
            ) from None
        self._contexts: dict[int, c_void_p] = {}
        self.call("cuInit", c_uint(0))

    def call(self, name: str, *args: Any) -> None:
        """Calls a driver function and checks its result."""
        try:
            function = getattr(self._lib, name)
        except AttributeError:
            raise ToolchainError(
                f"the CUDA driver has no {name}: it is too old",
                code="TL0811",
                help="update the driver",
            ) from None
        code = function(*args)
        if code != 0:
            raise self.failure(name, code)

    def failure(self, what: str, code: int) -> ToolchainError:
        """The error for a driver function's result."""
        return ToolchainError(
            f"{what} failed: {self._reason(code)}",
            code="TL0812",
            help="CUDA_LAUNCH_BLOCKING=1 makes the call at fault the one that fails",
        )

    def _reason(self, code: int) -> str:
        texts = []
        for question in ("cuGetErrorName", "cuGetErrorString"):
            text = c_char_p()
            if getattr(self._lib, question)(c_int(code), byref(text)) == 0 and text.value:
                texts.append(text.value.decode())
        return f"{': '.join(texts) or 'unknown error'} ({code})"

    def _number(self, name: str, *args: Any) -> int:
        value = c_int()
        self.call(name, byref(value), *args)
        return value.value

    @property
    def version(self) -> Version:
        """The newest CUDA that the driver supports, as (major, minor)."""
        number = self._number("cuDriverGetVersion")
        return number // 1000, number % 1000 // 10

    @property
    def device_count(self) -> int:
        return self._number("cuDeviceGetCount")

    def device_name(self, device: int) -> str:
        text = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", text, c_int(len(text)), c_int(device))
        return text.value.decode()

    def attribute(self, device: int, attribute: DeviceAttribute) -> int:
        return self._number("cuDeviceGetAttribute", c_int(attribute), c_int(device))

    def compute_capability(self, device: int) -> Version:
        return (
            self.attribute(device, DeviceAttribute.COMPUTE_CAPABILITY_MAJOR),
            self.attribute(device, DeviceAttribute.COMPUTE_CAPABILITY_MINOR),
        )

    def use_device(self, device: int) -> None:
        """Makes the primary context of `device` current in this thread: the one that other software
        (torch, CUDA's runtime) uses too, so memory and streams are shared."""
        self.call("cuCtxSetCurrent", self.primary_context(device))

    def primary_context(self, device: int) -> c_void_p:
        """The primary context of `device`, kept alive from now on."""
        context = self._contexts.get(device)
        if context is None:
            context = c_void_p()
            self.call("cuDevicePrimaryCtxRetain", byref(context), c_int(device))
            self._contexts[device] = context
        return context

    @contextlib.contextmanager
    def on_device(self, device: int) -> Iterator[None]:
        """Makes the primary context of `device` current inside, then the thread's own again."""
        self.call("cuCtxPushCurrent_v2", self.primary_context(device))
        try:
            yield
        finally:
            self.call("cuCtxPopCurrent_v2", byref(c_void_p()))

    def address_of(self, name: str) -> int:
        """The address of a driver function, for code that calls it natively."""
        return ctypes.cast(getattr(self._lib, name), c_void_p).value or 0

    def load(self, code: bytes) -> CudaLibrary:
        """A cubin, for all devices that can run it."""
        handle = c_void_p()
        nothing = (None, None, c_uint(0), None, None, c_uint(0))
        self.call("cuLibraryLoadData", byref(handle), c_char_p(code), *nothing)
        return CudaLibrary(self, handle, code)

    def synchronize(self) -> None:
        self.call("cuCtxSynchronize")

    def stream(self) -> int:
        """A new stream, as the integer that other software passes around."""
        handle = c_void_p()
        self.call("cuStreamCreate", byref(handle), c_uint(1))  # CU_STREAM_NON_BLOCKING
        return handle.value or 0

    def allocate(self, size: int) -> DeviceMemory:
        address = c_uint64()
        self.call("cuMemAlloc_v2", byref(address), c_size_t(max(size, 1)))
        return DeviceMemory(self, address.value, size)

    def upload(self, data: bytes) -> DeviceMemory:
        """New device memory with these bytes."""
        memory = self.allocate(len(data))
        self.call("cuMemcpyHtoD_v2", c_uint64(memory.address), c_char_p(data), c_size_t(len(data)))
        return memory

    def elapsed_ms(self, run: Any, stream: int = 0) -> float:
        """The time that the work issued by `run()` takes on the device."""
        events = [c_void_p(), c_void_p()]
        for event in events:
            self.call("cuEventCreate", byref(event), c_uint(0))
        self.call("cuEventRecord", events[0], c_void_p(stream))
        run()
        self.call("cuEventRecord", events[1], c_void_p(stream))
        self.call("cuEventSynchronize", events[1])
        out = c_float()
        self.call("cuEventElapsedTime", byref(out), *events)
        for event in events:
            self.call("cuEventDestroy_v2", event)
        return out.value

    def tensor_map(
        self, address: int, dtype: str, bits: int, dims: Sequence[int], strides: Sequence[int],
        box: Sequence[int], swizzle: int,
    ) -> TensorMapStruct:  # fmt: skip
        """Encodes a descriptor. dims, box: elements, innermost first; strides: bytes, of dims[1:];
        swizzle: 0, 32, 64 or 128 bytes. The driver cannot describe an empty tensor: its descriptor
        is all zeros, which the TMA unit refuses."""
        room = (ctypes.c_char * (ctypes.sizeof(TensorMapStruct) + 64))()
        offset = -ctypes.addressof(room) % 64
        out = TensorMapStruct.from_buffer(room, offset)
        rank = len(dims)
        if 0 in dims:
            return out
        self.call(
            "cuTensorMapEncodeTiled",
            byref(out),
            c_int(tensor_map_dtype(dtype, bits)),
            c_uint(rank),
            c_void_p(address),
            (c_uint64 * rank)(*dims),
            (c_uint64 * max(rank - 1, 1))(*strides),
            (c_uint * rank)(*box),
            (c_uint * rank)(*[1] * rank),  # element strides
            c_int(_INTERLEAVE_NONE),
            c_int(TensorMapSwizzle.of_bytes(swizzle)),
            c_int(_L2_PROMOTION_256B),
            c_int(_OOB_ZEROS),
        )
        return out


@dataclass
class DeviceMemory:
    """Memory of a device, freed with the object."""

    driver: Driver
    address: int
    size: int

    def download(self) -> bytes:
        out = ctypes.create_string_buffer(max(self.size, 1))
        self.driver.call("cuMemcpyDtoH_v2", out, c_uint64(self.address), c_size_t(self.size))
        return out.raw[: self.size]

    def __del__(self) -> None:
        with contextlib.suppress(ToolchainError):  # the driver may have shut down before us
            self.driver.call("cuMemFree_v2", c_uint64(self.address))


@dataclass
class CudaLibrary:
    """A loaded cubin. `code` is kept: the driver may read it again for another device."""

    driver: Driver
    handle: c_void_p
    code: bytes

    def kernel(self, name: str) -> CudaKernel:
        handle = c_void_p()
        self.driver.call("cuLibraryGetKernel", byref(handle), self.handle, c_char_p(name.encode()))
        return CudaKernel(self, name, handle)

    def __del__(self) -> None:
        with contextlib.suppress(ToolchainError):  # the driver may have shut down before us
            self.driver.call("cuLibraryUnload", self.handle)


@dataclass
class CudaKernel:
    """A kernel of a library. Launches go to the current context."""

    library: CudaLibrary
    name: str
    handle: c_void_p

    def attribute(self, attribute: FunctionAttribute, device: int = 0) -> int:
        value = c_int()
        self.library.driver.call(
            "cuKernelGetAttribute", byref(value), c_int(attribute), self.handle, c_int(device)
        )
        return value.value

    def allow_shared(self, dynamic_bytes: int, device: int = 0) -> None:
        """Opts in to more dynamic shared memory than the 48 KiB that every kernel may use."""
        attribute = c_int(FunctionAttribute.MAX_DYNAMIC_SHARED_SIZE_BYTES)
        self.library.driver.call(
            "cuKernelSetAttribute", attribute, c_int(dynamic_bytes), self.handle, c_int(device)
        )

    def launch(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: Sequence[Any],
        dynamic_smem: int = 0,
        stream: int = 0,
        attributes: Mapping[LaunchAttribute, Sequence[int]] | None = None,
    ) -> None:
        """Enqueues the kernel. arguments: ctypes values (`c_int(3)`, `c_uint64(address)`, a tensor
        map); `attributes` holds one number, or three for a dimension."""
        pointers = (c_void_p * max(len(arguments), 1))(*[ctypes.addressof(a) for a in arguments])
        items = list((attributes or {}).items())
        structs = (LaunchAttributeStruct * max(len(items), 1))()
        for struct, (key, values) in zip(structs, items, strict=False):
            struct.id = key
            struct.value.dim[:] = [*values, 0, 0][:3]
        config = LaunchConfig(
            (c_uint * 3)(*_three(grid)),
            (c_uint * 3)(*_three(block)),
            dynamic_smem,
            stream,
            structs,
            len(items),
        )
        self.library.driver.call("cuLaunchKernelEx", byref(config), self.handle, pointers, None)


def _three(extents: Sequence[int]) -> tuple[int, ...]:
    return (*extents, 1, 1)[:3]


@functools.cache
def driver() -> Driver:
    """The driver of this machine."""
    return Driver()


@functools.cache
def driver_version() -> Version | None:
    """The CUDA version that the driver supports; None without a driver.

    Asked without `cuInit`, which a driver without devices refuses.
    """
    try:
        lib = ctypes.CDLL(DRIVER_SONAME)
        number = c_int()
        if lib.cuDriverGetVersion(byref(number)) != 0:
            return None
    except (OSError, AttributeError):
        return None
    return number.value // 1000, number.value % 1000 // 10


def device_count() -> int:
    """How many CUDA devices there are; 0 without a driver."""
    try:
        return driver().device_count
    except ToolchainError:
        return 0


def missing_device() -> str:
    """What this machine lacks to run a CUDA kernel; empty where it has a device."""
    if device_count():
        return ""
    return f"this machine has no CUDA {'driver' if driver_version() is None else 'device'}"
