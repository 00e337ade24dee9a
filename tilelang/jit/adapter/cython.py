# SPDX-License-Identifier: Apache-2.0
"""Backend cython: an extension module, built once per machine, that reads the call as tables.

In: an artifact. Out: a builtin function of the kernel's parameters, with two keywords besides:
`stream=` (a handle, or torch's object; by default the current one) and
`skip_tensor_validation=True`, which trusts dtype, shape, strides and device of the tensors.

The name is that of the original's backend. The extension (runtime/csrc/launcher.c) is C by hand:
it needs no Cython, no header and neither torch nor tvm-ffi. What it does not handle itself goes to
the Python launcher, which does it or says what is wrong.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

from tilelang.codegen.host_cuda import STATE, state_size
from tilelang.codegen.host_slots import slots_c, slots_llvm, slots_name
from tilelang.codegen.host_values import value_type
from tilelang.engine import DeviceModule, HostModule
from tilelang.engine.backends import compile_llvm
from tilelang.errors import ArgumentTypeError, ArgumentValueError, ToolchainError
from tilelang.ir import DType
from tilelang.runtime import cuda_driver
from tilelang.runtime.cc import compile_library
from tilelang.runtime.dlpack import CUDA, view_of
from tilelang.runtime.launch import CallSpec
from tilelang.runtime.named import by_position
from tilelang.runtime.python_launch import CudaDevice, PythonLauncher, on_stream

from .base import BaseKernelAdapter, with_outputs
from .ctypes import CpuDevice
from .cuda_state import CudaState
from .launcher import CALL, CALL_ON, address_of, attach_frameworks
from .native import FASTCALL, FASTCALL_KEYWORDS, builtin_function
from .plan import Plan, Unplannable, make_plan

__all__ = ["CythonKernelAdapter", "Launch"]

_OPTIONS = _STREAM, _SKIP = "stream", "skip_tensor_validation"


class CythonKernelAdapter(BaseKernelAdapter):
    """Calls the extension. `plan`: its tables; None for a program that only Python calls."""

    name = "cython"

    def make_func(self) -> Callable[..., Any]:
        spec, on_cuda = self.spec, self.target.is_cuda
        launch = Launch(spec, *(self._on_cuda() if on_cuda else self._on_cpu()))
        self.plan = launch.plan
        if not spec.outputs:
            return launch.function
        allocating = with_outputs(spec, launch.function, on_cuda)

        @functools.lru_cache(maxsize=16)
        def with_options(stream: int | None, skip: bool) -> Callable[..., Any]:
            run = functools.partial(launch.run, stream=stream, skip=skip)
            return with_outputs(spec, lambda *args: run(args), on_cuda)

        def call(*args: Any, **named: Any) -> Any:
            if not named:
                return allocating(*args)
            options = launch.options(named)
            return with_options(*options)(*by_position(spec, args, named, _OPTIONS))

        call.__name__ = call.__qualname__ = spec.name
        return call

    def _on_cuda(self) -> tuple[Any, Callable[[str], int], bytes]:
        cubin = self.binary().binary or b""
        return CudaDevice(cubin), lambda name: 0, cubin

    def _on_cpu(self) -> tuple[Any, Callable[[str], int], bytes]:
        module = self._slots_module()
        names = [slots_name(k.name) for k in self.spec.kernels]
        device = CpuDevice(DeviceModule(module.form, "", "", module.binary), self.spec, names)
        return device, device.address, b""

    def _slots_module(self) -> HostModule:
        """The kernels, also behind the one signature that the extension calls."""
        entry = f"tl_slots_{self.spec.name}"
        if self.rt_mod is None or self.rt_mod.entry != entry:
            types = {
                k.name: [value_type(DType(a[2])) if a[0] == "symbol" else "ptr" for a in k.args]
                for k in self.spec.kernels
            }
            source, kind = self.device_kernel_source, self.target.kind
            if kind == "llvm":
                text = slots_llvm(types, source)
                binary = compile_llvm(text, self.target)
            else:
                text = slots_c(types)
                binary = compile_library([source, text], self.target, self.options)
            self.rt_mod = HostModule(kind, text, entry, binary)
            self.rt_mod.import_module(self.module)
        return self.rt_mod


class Launch:
    """Runs a program with all its parameters: `function` by position, `run` with options."""

    def __init__(
        self, spec: CallSpec, device: Any, address: Callable[[str], int], cubin: bytes
    ) -> None:
        self._spec = spec
        self._launcher = PythonLauncher(spec, device)
        self._on_cuda = device.device_type == CUDA
        self._state = ctypes.create_string_buffer(state_size(len(spec.kernels)))
        self._cuda = CudaState(cubin, spec, report=lambda message: None) if self._on_cuda else None
        attach_frameworks()
        self.plan: Plan | None = None
        self.function: Callable[..., None] = self._named
        try:
            self.plan = make_plan(
                spec, self._on_cuda, address, ctypes.addressof(self._state),
                slow=self._slow, named=self._named, failed=self._failed,
            )  # fmt: skip
        except Unplannable:
            return
        self.plan.owned.append(self)
        names = ", ".join([*(p.name for p in spec.params), "*"])
        doc = f"{spec.name}({names}, {_STREAM}=None, {_SKIP}=False)\n--\n\nRuns the kernel."
        call, call_on = address_of(CALL), address_of(CALL_ON)
        own = self.plan.owned
        self.function = builtin_function(self.plan, own, spec.name, call, FASTCALL_KEYWORDS, doc)
        self._call_on = builtin_function(self.plan, own, spec.name, call_on, FASTCALL, "")

    def options(self, named: dict[str, Any]) -> tuple[int | None, bool]:
        """Takes the two options out of the keywords: the stream's handle, and whether to trust."""
        skip = named.pop(_SKIP, False)
        stream = named.pop(_STREAM, None)
        if not isinstance(skip, bool):
            raise ArgumentTypeError(
                f"kernel {self._spec.name}: {_SKIP} is True or False, not {skip!r}", code="TL0977"
            )
        return self._handle(stream), skip

    def _handle(self, stream: Any) -> int | None:
        if stream is None or stream == -1:  # the original's default
            return None
        if not self._on_cuda:
            raise ArgumentValueError(
                f"kernel {self._spec.name}: {_STREAM}= is for CUDA; this kernel runs on the CPU",
                code="TL0978",
                help=f"leave out {_STREAM}=",
            )
        handle = getattr(stream, "cuda_stream", stream)
        if not isinstance(handle, int) or isinstance(handle, bool):
            raise ArgumentTypeError(
                f"kernel {self._spec.name}: {_STREAM} is a stream or its handle, not {stream!r}",
                code="TL0979",
                help="pass torch.cuda.current_stream(), or its .cuda_stream",
            )
        return handle

    def run(self, args: Sequence[Any], stream: int | None = None, skip: bool = False) -> None:
        """All parameters by position."""
        if self.plan is not None:
            self._prepare(args)
            if self._call_on(stream, int(skip), *args):
                return
        with on_stream(stream):
            self._launcher.launch(args, trusted=skip)

    def _named(self, *args: Any, **named: Any) -> None:
        """A call with keywords, or with too few or too many arguments."""
        options = self.options(named)
        self.run(by_position(self._spec, args, named, _OPTIONS) if named else args, *options)

    def _slow(self, *args: Any) -> None:
        """A call that the extension has handed back; it may only lack a framework or a device."""
        self.run(args)

    def _prepare(self, args: Sequence[Any]) -> None:
        """Lets the extension know of what there is now, and loads the kernels on a new device."""
        attach_frameworks()
        if self._cuda is None:
            return
        for x in args:
            view = view_of(x)
            if view is not None and view.device[0] == CUDA:
                if not self._state[STATE["ready"] + view.device[1]][0]:
                    self._cuda.fill(ctypes.addressof(self._state), view.device[1])
                return

    def _failed(self, index: int, code: int, message: str) -> None:
        """Raises the error of a kernel: a CPU kernel's message, or what the driver answered."""
        if message:
            raise self._spec.failed(message)
        name = self._spec.kernels[index].name
        if code < 0:
            raise ToolchainError(
                f"kernel {name}: the driver does not take a TMA descriptor of its tensors",
                code="TL0863",
                help="their data and strides must be multiples of 16 bytes",
            )
        raise cuda_driver.driver().failure(f"kernel {name}: cuLaunchKernelEx", code)
