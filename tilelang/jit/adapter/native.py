# SPDX-License-Identifier: Apache-2.0
"""A CPython function made of generated code: the quick way for torch tensors, in front of a Python
launcher that does everything else.

In: a module of `codegen.host_python` and the launcher. Out: a builtin function. What it does not
handle it passes to the launcher, which either does it or raises.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilelang.codegen.host_cuda import STATE, state_name
from tilelang.codegen.host_python import PYTHON_STATE, host_python, python_entry
from tilelang.engine import HostModule
from tilelang.engine.backends import compile_llvm
from tilelang.ir import IRModule
from tilelang.runtime.dlpack import CUDA, view_of
from tilelang.runtime.named import by_position
from tilelang.target import canon_target_host

from .base import program_of
from .cuda_state import CudaState, put
from .exchange import exchange_table

if TYPE_CHECKING:
    from tilelang.engine import DeviceModule
    from tilelang.runtime.launch import CallSpec
    from tilelang.target import Target

__all__ = [
    "FASTCALL", "FASTCALL_KEYWORDS", "builtin_function", "native_function", "native_module",
]  # fmt: skip

FASTCALL, FASTCALL_KEYWORDS = 0x80, 0x82  # METH_* (methodobject.h)


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


def builtin_function(
    self: object, owned: list[Any], name: str, address: int, flags: int, doc: str = ""
) -> Callable[..., Any]:
    """The C function at `address` as a builtin. It keeps its `self` alive, which must keep `owned`
    alive: the definition goes there."""
    definition = _MethodDef(name.encode(), address, flags, doc.encode() or None)
    owned.append(definition)
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, (
        ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p,
    )  # fmt: skip
    made: Callable[..., Any] = new(ctypes.addressof(definition), self, None)
    return made


class _NativeCall:
    def __init__(
        self, module: HostModule, spec: CallSpec, launcher: Callable[..., None], on_cuda: bool
    ) -> None:
        from tilelang.runtime.llvm_jit import load

        self._spec = spec
        self._launcher = launcher
        self._on_cuda = on_cuda
        self._attached = False
        self._cuda_state = 0
        names = [module.entry, f"{module.entry}_python_state"]
        if on_cuda:
            names.append(state_name(module.entry))
        assert module.binary is not None
        self._code = load(module.binary, names)
        get = ctypes.CFUNCTYPE(ctypes.c_void_p)
        self._state: int = get(self._code.address(names[1]))()
        if on_cuda:
            self._cuda_state = get(self._code.address(names[2]))()
            cubin = module.imported_modules[0].binary or b""
            self._cuda = CudaState(cubin, spec, report=lambda message: None)
        self._slow, self._failed = self.slow, self.failed  # native code holds their addresses
        for name, value in (
            ("slow", self._slow), ("failed", self._failed), ("long_type", int),
            ("float_type", float), ("bool_type", bool), ("none", None),
        ):  # fmt: skip
            put(self._state + PYTHON_STATE[name], id(value))
        self._owned: list[Any] = []
        entry = self._code.address(module.entry)
        self.function: Callable[..., None] = builtin_function(
            self, self._owned, spec.name, entry, FASTCALL_KEYWORDS
        )

    def slow(self, *args: Any, **named: Any) -> None:
        """A call that native code has handed back."""
        if named:
            self.function(*by_position(self._spec, args, named))
        elif self._attach_torch() or self._load(args):
            self.function(*args)
        else:
            self._launcher(*args)

    def failed(self, message: str) -> None:
        """Raises the error of a CPU kernel."""
        raise self._spec.failed(message)

    def _load(self, args: Sequence[Any]) -> bool:
        """Loads the kernels on the device of the tensors, if it is new."""
        views = (view_of(x) for x in args) if self._on_cuda else ()
        device = next((v.device[1] for v in views if v is not None and v.device[0] == CUDA), -1)
        ready = self._cuda_state + STATE["ready"] + device if device >= 0 else 0
        if not ready or ctypes.c_int8.from_address(ready).value:
            return False
        self._cuda.fill(self._cuda_state, device)
        return True

    def _attach_torch(self) -> bool:
        """Tells native code how to read torch tensors, if there is a torch and it does not know."""
        torch = sys.modules.get("torch")
        table = None if self._attached else exchange_table(torch)
        if table is None or torch is None:
            return False
        self._attached = True
        put(self._state + PYTHON_STATE["dltensor_from"], table.tensor_of)
        put(self._state + PYTHON_STATE["current_stream"], table.stream_of)
        put(self._state + PYTHON_STATE["tensor_type"], id(torch.Tensor))
        return True
