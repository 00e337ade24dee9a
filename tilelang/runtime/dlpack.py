# SPDX-License-Identifier: Apache-2.0
"""Any framework's tensor as plain numbers: address, shape, strides, dtype, device.

In: torch tensors, numpy arrays (ml_dtypes included), anything with `__dlpack__`. Out: a `View`, or
an object that tvm-ffi takes where numpy itself cannot export (read-only arrays, ml_dtypes). No
framework is imported: objects are recognised by their types' modules.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any, NamedTuple

from tilelang.errors import ArgumentTypeError, ArgumentValueError
from tilelang.ir import DType
from tilelang.utils import prod

__all__ = ["CPU", "CUDA", "View", "allocate", "as_ffi_tensor", "is_numpy", "is_torch", "view_of"]

CPU, CUDA = 1, 2  # DLDeviceType
_DEVICES = {"cpu": CPU, "cuda": CUDA}
_CAPSULE = b"dltensor"
_LINE, _LARGE = 64, 32 << 20  # bytes: of a cache line; see `codegen/llvm/streaming.py`


class View(NamedTuple):
    """strides: in elements. device: (DLDeviceType, index). owner: keeps the memory alive."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: tuple[int, int]
    owner: Any


_PARTS = ("int4", "uint4", "int2", "uint2", "uint1", "float4_e2m1fn")
"""Dtypes of parts of a byte. numpy gives each element a byte of its own."""


def is_torch(x: object) -> bool:
    return _isinstance(x, "torch", "Tensor")


def is_numpy(x: object) -> bool:
    return _isinstance(x, "numpy", "ndarray")


def _isinstance(x: object, module: str, name: str) -> bool:
    """Of a class whose module the program may not have imported (or is importing just now)."""
    found = getattr(sys.modules.get(module), name, None)
    try:
        return found is not None and isinstance(x, found)
    except ReferenceError:  # a proxy of something that is gone
        return False


def view_of(x: Any) -> View | None:
    """The view of a tensor; None for what is no tensor. Raises `ArgumentTypeError` for a tensor
    whose elements do not lie in memory one by one, as this machine reads them."""
    if is_torch(x):
        if x.layout is not sys.modules["torch"].strided:
            raise _unusable(f"dense memory, got layout {x.layout}", "pass x.to_dense()")
        if x.device.type == "meta" or type(x).__name__ == "FakeTensor":
            raise ArgumentValueError("a meta or fake tensor has no data", code="TL0919")
        device = (_DEVICES.get(x.device.type, -1), x.device.index or 0)
        dtype = _torch_name(x.dtype)
        return View(x.data_ptr(), tuple(x.shape), tuple(x.stride()), dtype, device, x)
    if is_numpy(x):
        size = x.dtype.itemsize
        if not x.dtype.isnative:
            raise _unusable(
                f"this machine's byte order, got {x.dtype.str!r}",
                'pass x.astype(x.dtype.newbyteorder("="))',
            )
        if x.dtype.names is not None or not size:
            raise _unusable(f"numbers, got records {x.dtype}", "pass one field: x[name].copy()")
        if x.dtype.name in _PARTS:
            bits = DType(x.dtype.name).bits
            raise _unusable(
                f"packed elements, got a byte for each {x.dtype.name}",
                f"pass int8 or uint8 with {8 // bits} of them to a byte, the first in the low bits",
            )
        strides = tuple(s // size for s in x.strides)
        if any(s % size for s in x.strides):
            text = f"strides of whole elements ({size} bytes), got {x.strides} bytes"
            raise _unusable(text, "pass numpy.ascontiguousarray(x)")
        return View(x.ctypes.data, x.shape, strides, x.dtype.name, (CPU, 0), x)
    if hasattr(x, "__dlpack__") and not isinstance(x, type):
        return _view_of_capsule(x)
    return None


def _unusable(text: str, help: str) -> ArgumentTypeError:
    return ArgumentTypeError(f"expected a tensor of {text}", code="TL0923", help=help)


@functools.cache
def _torch_name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


class _DLTensor(ctypes.Structure):
    """DLTensor (dlpack.h)."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class _DLManagedTensor(ctypes.Structure):
    """DLManagedTensor (dlpack.h)."""

    _fields_ = (("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


_DTYPE_OF = {
    DType(name).row.dlpack: name
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e4m3fnuz",
        "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn",
    )
}  # fmt: skip


def _view_of_capsule(x: Any) -> View:
    capsule = x.__dlpack__()
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    managed = _DLManagedTensor.from_address(pointer_of(capsule, _CAPSULE))
    t = managed.tensor
    shape = tuple(t.shape[: t.ndim])
    strides = tuple(t.strides[: t.ndim]) if t.strides else _row_major(shape)
    dtype = _DTYPE_OF.get((t.code, t.bits), f"dtype({t.code}, {t.bits})")
    address = (t.data or 0) + t.byte_offset
    return View(address, shape, strides, dtype, (t.device_type, t.device_id), (x, capsule))


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    out: list[int] = []
    step = 1
    for extent in reversed(shape):
        out.append(step)
        step *= extent
    return tuple(reversed(out))


class _Exported:
    """A numpy array offered through DLPack by ourselves: numpy refuses dtypes it does not know and
    arrays it may not write."""

    def __init__(self, array: Any) -> None:
        self.array = array
        view = view_of(array)
        assert view is not None
        code, bits = DType(view.dtype).row.dlpack
        self.shape = (ctypes.c_int64 * array.ndim)(*view.shape)
        self.strides = (ctypes.c_int64 * array.ndim)(*view.strides)
        self.managed = _DLManagedTensor()
        t = self.managed.tensor
        t.data, t.device_type, t.device_id, t.ndim = view.address, CPU, 0, array.ndim
        t.code, t.bits, t.lanes = code, bits, 1
        t.shape = ctypes.cast(self.shape, ctypes.POINTER(ctypes.c_int64))
        t.strides = ctypes.cast(self.strides, ctypes.POINTER(ctypes.c_int64))
        self.managed.deleter = ctypes.cast(_release, ctypes.c_void_p)

    def __dlpack__(self, **_: object) -> Any:
        address = ctypes.addressof(self.managed)
        _alive[address] = self
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = (
            ctypes.py_object,
            (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
        )
        return new(address, _CAPSULE, None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (CPU, 0)


_alive: dict[int, _Exported] = {}


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _release(managed: int) -> None:
    _alive.pop(managed, None)


def as_ffi_tensor(array: Any) -> Any:
    """A tvm-ffi tensor over the memory of a numpy array."""
    from .tvm_ffi import tvm_ffi

    return tvm_ffi().from_dlpack(_Exported(array))


def allocate(shape: tuple[int, ...], dtype: DType, like: Any = None, cuda_device: int = -1) -> Any:
    """A new tensor of the framework of `like`, on its device.

    Without `like`: torch on `cuda_device` if that is given; else torch if the program uses it, else
    numpy.
    """
    shape = _container_shape(shape, dtype)
    if like is not None and not is_torch(like) and cuda_device < 0:
        return _numpy_empty(shape, dtype)
    torch = sys.modules.get("torch")
    if torch is None and cuda_device >= 0:
        import torch  # the only allocator of device memory that callers can use afterwards
    if torch is None:
        return _numpy_empty(shape, dtype)
    device = like.device if is_torch(like) else f"cuda:{cuda_device}" if cuda_device >= 0 else "cpu"
    return torch.empty(shape, dtype=dtype.as_torch(), device=device)


def _numpy_empty(shape: tuple[int, ...], dtype: DType) -> Any:
    import numpy

    kind = numpy.dtype(numpy.int8 if dtype.bits < 8 else dtype.as_numpy())
    size = prod(shape) * kind.itemsize
    if size < _LARGE:
        return numpy.empty(shape, kind)
    # From a cache line on: a CPU kernel writes what is this large past the caches, by lines.
    memory = numpy.empty(size + _LINE, numpy.uint8)
    start = -memory.ctypes.data % _LINE
    return memory[start : start + size].view(kind).reshape(shape)


def _container_shape(shape: tuple[int, ...], dtype: DType) -> tuple[int, ...]:
    """Sub-byte elements are packed along the last dimension."""
    if dtype.bits >= 8 or not shape:
        return shape
    return (*shape[:-1], (shape[-1] * dtype.bits + 7) // 8)
