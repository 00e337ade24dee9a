# SPDX-License-Identifier: Apache-2.0
"""BACKENDS: one row per kind of target: how its kernels become text and binary, and how they are
run.

In: kernels at DEVICE stage. Out: a `DeviceModule`. Everything is imported on first use, so that a
CPU user never loads a CUDA compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilelang.errors import OptionError, did_you_mean
from tilelang.utils import installed_version

from .artifact import DeviceModule

if TYPE_CHECKING:
    from tilelang.config import Options
    from tilelang.ir import Kernel
    from tilelang.target import Target

__all__ = ["BACKENDS", "Backend", "compile_llvm", "resolve_execution_backend"]

Print = Callable[["Sequence[Kernel]", "Target", "Options"], str]
Compile = Callable[[DeviceModule, "Target", "Options"], None]


@dataclass(frozen=True)
class Backend:
    """source: prints kernels. compile: fills in the binary. with_host: kernels and host code are
    one binary, so that `compile` is only for callers that want no host code. versions: names the
    tools whose versions the result depends on. execution: the ways to run it, the default first."""

    kind: str
    source: Print
    compile: Compile
    with_host: bool
    versions: Callable[[Target], str]
    execution: tuple[str, ...]


def _cuda_source(kernels: Sequence[Kernel], target: Target, options: Options) -> str:
    from tilelang.codegen.cuda import cuda_source

    return cuda_source(kernels, target.arch, options)


def _sim_source(kernels: Sequence[Kernel], target: Target, options: Options) -> str:
    """The same text; the simulator names the user's lines."""
    return _cuda_source(kernels, target, replace(options, line_directives=True))


def _compile_cuda(module: DeviceModule, target: Target, options: Options) -> None:
    from tilelang.codegen.headers import device_headers
    from tilelang.runtime.nvrtc import compile_cubin

    headers = device_headers(module.source)
    cubin = compile_cubin(module.source, target.arch_name, options, headers)
    module.binary, module.log = cubin.data, cubin.log


def _cuda_versions(target: Target) -> str:
    from tilelang.runtime.nvrtc import nvrtc

    return str(nvrtc())


def _llvm_source(kernels: Sequence[Kernel], target: Target, options: Options) -> str:
    from tilelang.codegen.llvm import llvm_ir
    from tilelang.transform.host import lowered_kernels

    return llvm_ir(lowered_kernels(kernels, target), target)


def _compile_llvm(module: DeviceModule, target: Target, options: Options) -> None:
    module.binary = compile_llvm(module.source, target)


def compile_llvm(text: str, target: Target) -> bytes:
    """Object code of LLVM IR for the CPU of a target."""
    from tilelang.runtime.llvm_jit import compile_module

    cpu = "" if target.is_native else target.cpu
    return compile_module(text, cpu, ",".join(target.cpu_attributes))


def _llvm_versions(target: Target) -> str:
    return f"llvmlite {installed_version('llvmlite')}"


def _c_source(kernels: Sequence[Kernel], target: Target, options: Options) -> str:
    from tilelang.codegen.c import c_source

    return c_source(kernels, target, options)


def _compile_c(module: DeviceModule, target: Target, options: Options) -> None:
    from tilelang.runtime.cc import compile_library

    module.binary = compile_library([module.source], target, options)


def _c_versions(target: Target) -> str:
    from tilelang.runtime.cc import compiler_version

    return compiler_version()


def _compile_sim(module: DeviceModule, target: Target, options: Options) -> None:
    """Nothing: the simulator keeps its own libraries, by the text that they were made from."""


def _sim_versions(target: Target) -> str:
    return "sim"


_ON_CPU = ("tvm_ffi", "ctypes", "cython", "torch")
_ON_CUDA = ("tvm_ffi", "nvrtc", "ctypes", "cython", "torch")
BACKENDS: dict[str, Backend] = {
    row.kind: row
    for row in (
        Backend("cuda", _cuda_source, _compile_cuda, False, _cuda_versions, _ON_CUDA),
        Backend("cuda-sim", _sim_source, _compile_sim, False, _sim_versions, ("sim",)),
        Backend("llvm", _llvm_source, _compile_llvm, True, _llvm_versions, _ON_CPU),
        Backend("c", _c_source, _compile_c, True, _c_versions, _ON_CPU),
    )
}


def resolve_execution_backend(requested: str | None, target: Target) -> str:
    """The execution backend to use: as requested if the target allows it, else its default."""
    allowed = BACKENDS[target.kind].execution
    if requested in (None, "auto", ""):
        return allowed[0]
    if requested not in allowed:
        names = f"allowed are {', '.join(allowed)}"
        raise OptionError(
            f"invalid execution backend {requested!r} for target {str(target)!r}",
            code="TL0510",
            help=did_you_mean(str(requested), allowed) or names,
        )
    return str(requested)
