# SPDX-License-Identifier: Apache-2.0
"""What every adapter is given, and how outputs that the caller leaves out are made.

In: what `lower` gave, module by module. Out: `.func`, which takes the inputs, by position or by
name, and gives None, the output, or a list of the outputs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from tilelang.engine import BACKENDS, DeviceModule
from tilelang.engine.lower import call_of
from tilelang.errors import ArgumentValueError
from tilelang.ir import DType, HostProgram, IRModule, PrimFunc
from tilelang.runtime.dlpack import allocate
from tilelang.runtime.quick_call import from_the_second, quick_outputs
from tilelang.target import determine_target

if TYPE_CHECKING:
    from tilelang.config import Options
    from tilelang.engine import HostModule, KernelParam
    from tilelang.runtime.launch import CallSpec
    from tilelang.target import Target

__all__ = ["BaseKernelAdapter", "program_of", "result_positions", "with_outputs"]


class BaseKernelAdapter(ABC):
    """params: all parameters. result_idx: those that are outputs. host_mod, device_mod, rt_mod: as
    `lower` gave them; device_mod may also be the kernels as a `DeviceModule`. options: by default
    what the function, pass_configs and compile_flags say."""

    name: ClassVar[str]
    needs_host_code: ClassVar[bool] = False
    traceable: ClassVar[bool] = False  # may torch.compile look into a call?

    def __init__(
        self,
        params: Sequence[KernelParam],
        result_idx: Sequence[int] | int | None,
        target: Target | str,
        func_or_mod: PrimFunc | IRModule | None,
        host_mod: Any = None,
        device_mod: Any = None,
        rt_mod: HostModule | None = None,
        device_kernel_source: str = "",
        verbose: bool = False,
        pass_configs: Mapping[str, Any] | None = None,
        compile_flags: Sequence[str] | str | None = None,
        *,
        options: Options | None = None,
    ) -> None:
        self.params = params
        self.result_idx = result_positions(result_idx, len(params))
        self.target: Target = determine_target(target, return_object=True)
        self.func_or_mod = func_or_mod
        self.host_mod = host_mod
        self.device_mod = device_mod
        self.rt_mod = rt_mod
        self.module = self._device_module(device_kernel_source)
        self.device_kernel_source = device_kernel_source or self.module.source
        self.verbose = verbose
        self.pass_configs = pass_configs
        self.compile_flags = compile_flags
        self.options = self._options() if options is None else options
        assert self.module.call is not None
        # The outputs that the code itself knows may be fewer: then they are allocated here.
        self.spec: CallSpec = replace(self.module.call, outputs=self.result_idx)
        self.func: Callable[..., Any] = self.make_func()

    def _device_module(self, source: str) -> DeviceModule:
        """The kernels, with how their program is called."""
        if isinstance(self.device_mod, DeviceModule):
            return self.device_mod
        if self.rt_mod is not None:
            return self.rt_mod.imported_modules[0]
        if not isinstance(self.host_mod, IRModule):
            raise ArgumentValueError(
                f"an adapter for {self.name} needs the modules that tilelang.lower gives",
                code="TL0974",
                help="pass its host_mod, device_mod and rt_mod",
            )
        call = call_of(program_of(self.host_mod), self.target)
        return DeviceModule(self.target.kind, source, self.target.arch_name, call=call)

    def _options(self) -> Options:
        from tilelang.jit.compiler import merged_options  # it imports the adapters

        func = self.func_or_mod if isinstance(self.func_or_mod, PrimFunc) else None
        return merged_options(func, self.pass_configs, self.compile_flags)

    @abstractmethod
    def make_func(self) -> Callable[..., Any]:
        """The callable."""

    def binary(self) -> DeviceModule:
        """The kernels with their binary, compiled now if neither `lower` nor the cache did."""
        module = self.module
        if module.binary is None:
            BACKENDS[module.kind].compile(module, self.target, self.options)
        return module

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.func(*args, **named)

    def get_kernel_source(self) -> str:
        return self.device_kernel_source

    def get_host_source(self) -> str:
        """Text of the packed entry; empty for a backend that has none."""
        return "" if self.rt_mod is None else self.rt_mod.inspect_source()


def program_of(host_mod: IRModule) -> HostProgram:
    """The entry among the functions of a module."""
    functions: list[Any] = list(host_mod.functions.values())
    return next(f for f in functions if isinstance(f, HostProgram))


def result_positions(result_idx: Sequence[int] | int | None, count: int) -> tuple[int, ...]:
    """Positions of the outputs among `count` parameters; negative ones count from the end."""
    given = () if result_idx is None else result_idx
    given = (given,) if isinstance(given, int) else given
    for index in given:
        if not -count <= index < count:
            raise ArgumentValueError(
                f"result_idx should be an integer between {-count} and {count - 1}, got {index}",
                code="TL0975",
            )
    return tuple(index % count for index in given)


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
        if like is None:  # it may be one that no kernel reads
            tensors = (args[at] for at, i in enumerate(spec.inputs) if spec.params[i].shape)
            like = next((x for x in tensors if x is not None), None)
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

    return from_the_second(spec, spec.inputs, call, lambda f: quick_outputs(f, spec, run, call))
