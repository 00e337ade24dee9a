# SPDX-License-Identifier: Apache-2.0
"""Backend tvm_ffi: the packed entry that we generated, called through tvm-ffi.

In: an artifact with a host module. Out: a callable whose common case is the native function itself,
which checks, allocates and launches. What native code cannot do is done here: outputs for numpy
callers, several outputs, arrays that numpy does not export.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from tilelang.codegen.host_cuda import STATE, state_name
from tilelang.engine.lower import host_codegen
from tilelang.errors import ArgumentTypeError, ArgumentValueError, TileError
from tilelang.ir import DType, IRModule
from tilelang.runtime import tvm_ffi
from tilelang.runtime.dlpack import CPU, CUDA, allocate, as_ffi_tensor, is_numpy
from tilelang.runtime.launch import CODES, CallSpec
from tilelang.runtime.named import by_position
from tilelang.target import canon_target_host

from .base import BaseKernelAdapter, with_outputs
from .cuda_state import CudaState, put
from .keywords import given, with_parameters

__all__ = ["TVMFFIKernelAdapter"]

# Only Python knows whether there is a device, the digits of a long integer, and the names of types.
_EXPLAINED_BY_PYTHON = (CODES["device"], CODES["scalar"], CODES["kind"], CODES["null"])
_NO_ALLOCATOR = "allocator is nullptr"  # tvm-ffi's own words


class TVMFFIKernelAdapter(BaseKernelAdapter):
    """Calls the host module's entry."""

    name = "tvm_ffi"
    needs_host_code = True

    def make_func(self) -> Callable[..., Any]:
        self._make_host_code()
        on_cuda = self.target.is_cuda
        self.native = load_entry(self.rt_mod, self.spec, on_cuda)
        if on_cuda:
            # A launch takes microseconds: not worth handing the lock to another thread.
            self.native.release_gil = False
        guarded = _guarded(self.native, self.spec, CUDA if on_cuda else CPU)
        if not self.spec.outputs:
            return guarded
        allocating = with_outputs(self.spec, guarded, on_cuda)
        assert self.module.call is not None
        own = self.spec.outputs == self.module.call.outputs
        if not own or len(self.spec.outputs) > 1 or self.spec.first_tensor < 0:
            return allocating
        # One output: the entry allocates it itself, except for numpy, which lends it no allocator.
        return _guarded(self.native, self.spec, CUDA if on_cuda else CPU, allocating)

    def _make_host_code(self) -> None:
        """The packed entry, of a program that was lowered without it."""
        if self.rt_mod is None and isinstance(self.host_mod, IRModule):
            host = canon_target_host(self.target, None)
            if self.target.is_cuda:
                self.binary()
            self.rt_mod = host_codegen(
                self.host_mod, host, kernels=self.module, options=self.options
            )
            self.rt_mod.import_module(self.module)
        if self.rt_mod is None or self.rt_mod.entry != f"__tvm_ffi_{self.spec.name}":
            raise ArgumentValueError(
                f"an adapter for {self.name} needs host code",
                code="TL0976",
                help="call tilelang.lower with enable_host_codegen=True, and pass its rt_mod",
            )


def load_entry(module: Any, spec: CallSpec, on_cuda: bool) -> Any:
    """The entry of a host module as a tvm-ffi function."""
    tvm_ffi.tvm_ffi()
    names = [module.entry, state_name(module.entry)] if on_cuda else [module.entry]
    code, addresses = _load_host(module, names)
    loader = None
    if on_cuda:
        loader = CudaState(module.imported_modules[0].binary, spec, _report)
        state = ctypes.CFUNCTYPE(ctypes.c_void_p)(addresses[1])()
        put(state + STATE["loader"], loader.loader)
    return tvm_ffi.function_at(addresses[0], (code, loader))


def _report(message: str) -> None:
    tvm_ffi.set_error(tvm_ffi.LAUNCH_FAILED, message)


def _load_host(module: Any, names: list[str]) -> tuple[Any, list[int]]:
    """What keeps the code alive, and the addresses of its functions."""
    if module.form == "llvm":
        from tilelang.runtime.llvm_jit import load

        code = load(module.binary, names, tvm_ffi.symbols())
        return code, [code.address(name) for name in names]
    from tilelang.runtime.cc import load_library

    library = load_library(module.binary)
    functions = [getattr(library, name) for name in names]
    return library, [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in functions]


def _guarded(
    native: Any, spec: CallSpec, device_type: int, for_numpy: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """The native function; what a framework's export refuses is retried or explained.

    for_numpy: what to call when the first tensor is a numpy array. There is one layer of Python
    here, and it does next to nothing: each costs a tenth of the call.
    """
    retry = _retrier(native, spec, device_type)
    if for_numpy is not None:
        return _numpy_apart(native, spec, retry, for_numpy)

    def call(*args: Any, **named: Any) -> Any:
        if named:
            args = by_position(spec, args, named)
        try:
            return native(*args)
        except Exception as error:  # of any framework, or of an object that is no tensor
            return retry(error, args)

    return with_parameters(spec, native, retry) or call


def _numpy_apart(
    native: Any,
    spec: CallSpec,
    retry: Callable[[Exception, tuple[Any, ...]], Any],
    other: Callable[..., Any],
) -> Callable[..., Any]:
    """The native function, except for frameworks that lend it no allocator: `other` for those."""
    import numpy

    first, ndarray = spec.first_tensor, numpy.ndarray

    def retry_either(error: Exception, args: tuple[Any, ...]) -> Any:
        try:
            if _NO_ALLOCATOR not in str(error):
                return retry(error, args)
        except RuntimeError as again:
            if _NO_ALLOCATOR not in str(again):
                raise
        return other(*args)

    def call(*args: Any, **named: Any) -> Any:
        if named:
            args = by_position(spec, args, named)
        if len(args) > first and type(args[first]) is ndarray:
            return other(*args)
        try:
            return native(*args)
        except Exception as error:
            return retry_either(error, args)

    return with_parameters(spec, native, retry_either, (first, ndarray, other)) or call


def _retrier(
    native: Any, spec: CallSpec, device_type: int
) -> Callable[[Exception, tuple[Any, ...]], Any]:
    """What a call does that raised an error: again with other arguments, or a better error."""

    def retry(error: Exception, args: tuple[Any, ...]) -> Any:
        passed = given(args)
        if len(passed) < len(args):
            return native(*passed)  # says how many there should be
        if isinstance(error, TileError):
            if error.code not in _EXPLAINED_BY_PYTHON:
                raise error
            better = _explained(error, args, spec, device_type)
            if better is not error:
                raise better from None
            return native(*_numbers(_filled(args, spec, device_type), spec))
        try:
            again = _exportable(args, spec)
        except (ArgumentTypeError, TypeError):  # the checks below name the parameter
            again = None
        if again is None:
            raise _explained(error, args, spec, device_type) from error
        return native(*_numbers(again, spec))

    return retry


def _numbers(args: Sequence[Any], spec: CallSpec) -> list[Any]:
    """The arguments with scalars as Python's own: native code knows neither those of other packages
    nor integers of more than 64 bits."""
    indices = range(len(spec.params)) if len(args) == len(spec.params) else spec.inputs
    return [
        spec.number(spec.params[i], x) if spec.params[i].kind == "scalar" else x
        for i, x in zip(indices, args, strict=True)
    ]


def _filled(args: Sequence[Any], spec: CallSpec, device_type: int) -> Sequence[Any]:
    """The arguments with a tensor for each None: no kernel looks at it, but the entry does."""
    if all(x is not None for x in args):
        return args
    whole = len(args) == len(spec.params)
    bound = spec.bind(args, device_type=device_type, partial=not whole)
    indices = range(len(spec.params)) if whole else spec.inputs
    like = next((view.owner for view in bound.views.values()), None)
    device = bound.device[1] if device_type == CUDA else -1
    return [
        allocate(spec.stand_in(i, bound), DType(spec.params[i].dtype), like, device)
        if x is None
        else x
        for i, x in zip(indices, args, strict=True)
    ]


def _exportable(args: Sequence[Any], spec: CallSpec) -> list[Any] | None:
    """The arguments with arrays that numpy does not export wrapped by ourselves; None if none
    is."""
    indices = range(len(spec.params)) if len(args) == len(spec.params) else spec.inputs
    out, changed = [], False
    for index, x in zip(indices, args, strict=True):
        if is_numpy(x) and (not x.flags.writeable or x.dtype.isbuiltin != 1):
            spec.check_writable(index, x)
            x, changed = as_ffi_tensor(x), True
        out.append(x)
    return out if changed else None


def _explained(
    error: Exception, args: tuple[Any, ...], spec: CallSpec, device_type: int
) -> Exception:
    """What our own checks say about these arguments, else the error itself."""
    try:
        spec.bind(args, device_type=device_type, partial=len(args) != len(spec.params))
    except TileError as better:
        return better
    return error
