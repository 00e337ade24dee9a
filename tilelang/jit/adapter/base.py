# SPDX-License-Identifier: Apache-2.0
"""What every adapter is given, and how outputs that the caller leaves out are made.

In: a compiled artifact. Out: `.func`, which takes the inputs and gives None, the output, or a list
of the outputs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tilelang.engine import BACKENDS
from tilelang.ir import DType
from tilelang.runtime.dlpack import allocate, is_torch
from tilelang.runtime.torch_call import torch_outputs

if TYPE_CHECKING:
    from tilelang.config import Options
    from tilelang.engine import CompiledArtifact, DeviceModule, KernelParam
    from tilelang.ir import PrimFunc
    from tilelang.runtime.launch import CallSpec
    from tilelang.target import Target

__all__ = ["BaseKernelAdapter", "with_outputs"]


class BaseKernelAdapter(ABC):
    """params: all parameters. result_idx: those that are outputs. The artifact holds the
    modules."""

    name: ClassVar[str]
    needs_host_code: ClassVar[bool] = False
    traceable: ClassVar[bool] = False  # may torch.compile look into a call?

    def __init__(
        self,
        params: Sequence[KernelParam],
        result_idx: Sequence[int],
        target: Target,
        func_or_mod: PrimFunc | None,
        artifact: CompiledArtifact,
        *,
        options: Options,
        verbose: bool = False,
        pass_configs: dict[str, Any] | None = None,
        compile_flags: Sequence[str] | None = None,
    ) -> None:
        assert artifact.call is not None
        self.params = params
        self.result_idx = tuple(result_idx)
        self.target = target
        self.func_or_mod = func_or_mod
        self.artifact = artifact
        self.host_mod = artifact.host_mod
        self.device_mod = artifact.device_mod
        self.rt_mod = artifact.rt_mod
        self.device_kernel_source = artifact.kernel_source
        self.options = options
        self.verbose = verbose
        self.pass_configs = pass_configs
        self.compile_flags = compile_flags
        self.spec: CallSpec = artifact.call
        self.func: Callable[..., Any] = self.make_func()

    @abstractmethod
    def make_func(self) -> Callable[..., Any]:
        """The callable."""

    def binary(self) -> DeviceModule:
        """The kernels with their binary, compiled now if neither `lower` nor the cache did."""
        module = self.artifact.codegen_mod
        assert module is not None
        if module.binary is None:
            BACKENDS[module.kind].compile(module, self.target, self.options)
        return module

    def __call__(self, *args: Any) -> Any:
        return self.func(*args)

    def get_kernel_source(self) -> str:
        return self.device_kernel_source

    def get_host_source(self) -> str:
        """Text of the packed entry; empty for a backend that has none."""
        return "" if self.rt_mod is None else self.rt_mod.inspect_source()


def with_outputs(spec: CallSpec, run: Callable[..., Any], on_cuda: bool) -> Callable[..., Any]:
    """`run` takes all parameters; the result takes the inputs and allocates the outputs.

    Shapes come from the inputs; the outputs are of the first tensor's framework, on its device.
    """
    outputs = spec.outputs
    if not outputs:
        return run
    dtypes = [DType(spec.params[o].dtype) for o in outputs]
    num_inputs, first, count = len(spec.inputs), spec.first_tensor, len(spec.params)
    places = sorted(range(len(outputs)), key=lambda i: outputs[i])

    def call(*args: Any) -> Any:
        if len(args) == count:
            run(*args)
            return None
        if len(args) != num_inputs:
            spec.bind(args, partial=True)  # says how many are expected
        like = args[first] if first >= 0 else None
        shapes = spec.output_shapes(args)
        made = [
            allocate(shape, dtype, like, 0 if on_cuda and like is None else -1)
            for shape, dtype in zip(shapes, dtypes, strict=True)
        ]
        everything = list(args)
        for i in places:
            everything.insert(outputs[i], made[i])
        run(*everything)
        return made[0] if len(made) == 1 else made

    return _torch_first(spec, run, call)


def _torch_first(
    spec: CallSpec, run: Callable[..., Any], call: Callable[..., Any]
) -> Callable[..., Any]:
    """`call`, and for torch tensors, once there are any, a function made for this program."""
    num_inputs = len(spec.inputs)
    quick: Callable[..., Any] | None = None

    def either(*args: Any) -> Any:
        nonlocal quick
        if len(args) != num_inputs:
            return call(*args)
        if quick is not None:
            return quick(*args)
        result = call(*args)
        if any(map(is_torch, args)):
            quick = torch_outputs(spec, run, call)
        return result

    names = ", ".join(spec.params[i].name for i in spec.inputs)
    # Python says this in front of "got an unexpected keyword argument".
    either.__qualname__ = f"this kernel takes {names} by position only: {spec.name}"
    return either
