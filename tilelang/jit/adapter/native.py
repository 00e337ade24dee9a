# SPDX-License-Identifier: Apache-2.0
"""A CPython function made of generated code: the quick way for torch tensors, in front of a Python
launcher that does everything else.

In: a module of `codegen.host_python` and the launcher. Out: a builtin function. What it does not
handle it passes to the launcher, which either does it or raises.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilelang.codegen.host_cuda import state_name
from tilelang.codegen.host_python import PYTHON_STATE, host_python, python_entry
from tilelang.engine import HostModule
from tilelang.engine.backends import compile_llvm
from tilelang.ir import IRModule
from tilelang.runtime.dlpack import CUDA, view_of
from tilelang.runtime.named import by_position
from tilelang.target import canon_target_host

from .base import program_of
from .cuda_state import CudaState, put

if TYPE_CHECKING:
    from tilelang.engine import DeviceModule
    from tilelang.runtime.launch import CallSpec
    from tilelang.target import Target

__all__ = ["native_function", "native_module"]

_METH_FASTCALL_KEYWORDS = 0x82
# Offsets in torch's table of functions (dlpack.h, DLPackExchangeAPI).
_DLTENSOR_FROM, _CURRENT_STREAM = 40, 48


def native_module(
    rt_mod: HostModule | None, host_mod: Any, kernels: DeviceModule, target: Target
) -> HostModule | None:
    """The module of a program: `rt_mod` if that is it (from the cache), else made of its IR now;
    None if there is none."""
    assert kernels.call is not None
    if rt_mod is not None and rt_mod.entry == python_entry(kernels.call.name):
        return rt_mod
    if not isinstance(host_mod, IRModule):
        return None
    program = program_of(host_mod)
    text = host_python(program, target, kernels.source if target.kind == "llvm" else "")
    host = target if target.is_cpu else canon_target_host(target, None)
    module = HostModule("llvm", text, python_entry(program.name), compile_llvm(text, host))
    module.import_module(kernels)
    return module


def native_function(
    module: HostModule, spec: CallSpec, launcher: Callable[..., None], target: Target
) -> Callable[..., None]:
    """The builtin, which owns all that it needs."""
    call = _NativeCall(module, spec, launcher, target.is_cuda)
    return call.function


class _MethodDef(ctypes.Structure):
    """PyMethodDef (methodobject.h)."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )  # fmt: skip


class _NativeCall:
    def __init__(
        self, module: HostModule, spec: CallSpec, launcher: Callable[..., None], on_cuda: bool
    ) -> None:
        from tilelang.runtime.llvm_jit import load

        self._spec = spec
        self._launcher = launcher
        self._on_cuda = on_cuda
        self._attached = False
        names = [module.entry, f"{module.entry}_python_state"]
        if on_cuda:
            names.append(state_name(module.entry))
        assert module.binary is not None
        self._code = load(module.binary, names)
        get = ctypes.CFUNCTYPE(ctypes.c_void_p)
        self._state: int = get(self._code.address(names[1]))()
        if on_cuda:
            self._cuda_state: int = get(self._code.address(names[2]))()
            cubin = module.imported_modules[0].binary or b""
            self._cuda = CudaState(cubin, spec, report=lambda message: None)
        self._slow = self.slow  # one object: native code holds its address
        for name, value in (
            ("slow", self._slow), ("long_type", int), ("float_type", float), ("bool_type", bool),
            ("none", None),
        ):  # fmt: skip
            put(self._state + PYTHON_STATE[name], id(value))
        self._definition = _MethodDef(
            spec.name.encode(), self._code.address(module.entry), _METH_FASTCALL_KEYWORDS, None
        )
        new = ctypes.pythonapi.PyCFunction_NewEx
        new.restype, new.argtypes = ctypes.py_object, (
            ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p,
        )  # fmt: skip
        # The function keeps this object alive: it is its `self`.
        self.function: Callable[..., None] = new(ctypes.addressof(self._definition), self, None)

    def slow(self, *args: Any, **named: Any) -> None:
        """A call that native code has handed back. The next one like it may be quick."""
        if named:
            args = by_position(self._spec, args, named)
        self._launcher(*args)
        self._attach_torch()
        if self._on_cuda:
            for x in args:
                view = view_of(x)
                if view is not None and view.device[0] == CUDA:
                    self._cuda.fill(self._cuda_state, view.device[1])
                    break

    def _attach_torch(self) -> None:
        """Tells native code how to read torch tensors, once torch is there."""
        torch = sys.modules.get("torch")
        capsule = getattr(getattr(torch, "Tensor", None), "__dlpack_c_exchange_api__", None)
        if self._attached or capsule is None:
            return
        self._attached = True
        table = capsule if isinstance(capsule, int) else _pointer_of(capsule)
        for name, offset in (
            ("dltensor_from", _DLTENSOR_FROM), ("current_stream", _CURRENT_STREAM),
        ):  # fmt: skip
            function = ctypes.c_uint64.from_address(table + offset).value
            if not function:
                return
            put(self._state + PYTHON_STATE[name], function)
        assert torch is not None
        put(self._state + PYTHON_STATE["tensor_type"], id(torch.Tensor))


def _pointer_of(capsule: Any) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return int(get(capsule, b"dlpack_exchange_api"))
