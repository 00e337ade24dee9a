# SPDX-License-Identifier: Apache-2.0
"""`lower`: a PrimFunc -> a CompiledArtifact. Read this to see what happens to a kernel, in order.

In: a function at TILE stage and a target. Out: its kernels as source and, on request, as binary and
with a packed entry that calls them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tilelang.config import Options
from tilelang.errors import InternalError, TargetError
from tilelang.ir import HostProgram, IRModule, PrimFunc, own_copy, session
from tilelang.runtime.call_spec import call_spec
from tilelang.runtime.launch import CallSpec
from tilelang.target import Target, canon_target_host, determine_target
from tilelang.transform import PIPELINE, PassContext, run_passes
from tilelang.transform.host import device_of, run_host_passes
from tilelang.utils import fewer_collections

from .artifact import CompiledArtifact, DeviceModule, HostModule, KernelParam, params_of
from .backends import BACKENDS, compile_llvm
from .callback import postprocess
from .depth import deep_expressions
from .observe import Observer, dump_source, observer, print_times

__all__ = [
    "Filter", "LowerAndLegalize", "OptimizeForTarget", "PreLowerSemanticCheck", "call_of",
    "device_codegen", "device_codegen_without_compile", "extrac_params", "host_codegen", "lower",
]  # fmt: skip


def lower(
    func_or_mod: PrimFunc | IRModule,
    target: Any = "auto",
    target_host: Any = None,
    runtime_only: bool = False,
    enable_host_codegen: bool = False,
    enable_device_compile: bool = False,
    *,
    options: Options | None = None,
    observe: Observer | None = None,
) -> CompiledArtifact:
    """Compiles one function. `observe(pass name, result)` sees what each pass gave. options: by
    default those of the PassContext that is entered."""
    mod = func_or_mod
    params: tuple[KernelParam, ...] | None = None
    if isinstance(func_or_mod, PrimFunc):
        func = _by_symbol(func_or_mod)
        params = None if runtime_only else extrac_params(func)
        mod = IRModule({func.name: func})
    target = determine_target(target, return_object=True)
    host = canon_target_host(target, target_host)
    ctx = PassContext(target, _entered_options() if options is None else options)
    observe = observer(observe)

    with session(), deep_expressions(_name(func_or_mod)), fewer_collections():
        mod = _map(mod, own_copy)
        mod = PreLowerSemanticCheck(mod, ctx, observe)
        mod = LowerAndLegalize(mod, ctx, observe)
        mod = OptimizeForTarget(mod, ctx, observe)
        program = _program(mod)
        print_times(program.name, ctx.timings)
        host_mod = Filter(mod, _has_host_part, target)
        device_mod = Filter(mod, _has_device_part, target)

        codegen = device_codegen if enable_device_compile else device_codegen_without_compile
        codegen_mod = codegen(program, target, ctx.options)
        codegen_mod.call = call_of(program, target)
        artifact = CompiledArtifact(
            host_mod, device_mod, params, codegen_mod.inspect_source(), None, target, host,
            codegen_mod.call, codegen_mod, ctx.notes, ctx.timings,
        )  # fmt: skip
        if enable_host_codegen:
            host_module = host_codegen(host_mod, host, kernels=codegen_mod, options=ctx.options)
            host_module.import_module(codegen_mod)
            artifact = replace(artifact, host_mod=host_module, rt_mod=host_module)
    return artifact


def _name(func_or_mod: PrimFunc | IRModule) -> str:
    if isinstance(func_or_mod, PrimFunc):
        return func_or_mod.name
    return ", ".join(func_or_mod.functions)


def _by_symbol(func: PrimFunc) -> PrimFunc:
    """The function by the name that it is to have outside: its attribute, or its own name."""
    symbol = str(func.attrs.get("global_symbol", func.name))
    return func if symbol == func.name else replace(func, name=symbol)


def _entered_options() -> Options:
    entered = PassContext.current()
    return Options() if entered is None else entered.options


def call_of(program: HostProgram, target: Target) -> CallSpec:
    """How the program is called, as data."""
    from tilelang.codegen.host import needed_alignment  # on first use: a cache hit needs none of it

    return call_spec(program, needed_alignment(program, target))


def extrac_params(func: PrimFunc) -> tuple[KernelParam, ...]:
    """The parameters as callers see them (the spelling is the original's)."""
    return params_of(func)


# ------------------------------------------------------------------------------------ IR phases


def PreLowerSemanticCheck(
    mod: IRModule, ctx: PassContext, observe: Observer | None = None
) -> IRModule:
    """Errors that a user can act on, on the user's lines."""
    return _passes(mod, ctx, observe, None, "check_kernel")


def LowerAndLegalize(mod: IRModule, ctx: PassContext, observe: Observer | None = None) -> IRModule:
    """TILE -> LOOP: schedules, warp roles, layouts, tile operations."""
    return _passes(mod, ctx, observe, "check_kernel", "lower_tile_ops")


def OptimizeForTarget(mod: IRModule, ctx: PassContext, observe: Observer | None = None) -> IRModule:
    """LOOP -> FLAT -> DEVICE: guards, vectors, one-dimensional buffers, memory, kernels."""
    return _passes(mod, ctx, observe, "lower_tile_ops", PIPELINE[-1].name, "LOOP")


def _passes(
    mod: IRModule,
    ctx: PassContext,
    observe: Observer | None,
    after: str | None,
    last: str,
    stage: str = "TILE",
) -> IRModule:
    """The rows of PIPELINE that follow `after`, up to `last`, on functions at `stage`."""
    names = [p.name for p in PIPELINE]
    rows = PIPELINE[0 if after is None else names.index(after) + 1 : names.index(last) + 1]
    return _map(mod, lambda f: run_passes(f, ctx, rows, observe, stage=stage))


def _map(mod: Any, f: Callable[[Any], Any]) -> IRModule:
    return IRModule({name: f(func) for name, func in mod.functions.items()})


def _program(mod: Any) -> HostProgram:
    programs = list(mod.functions.values())
    if len(programs) != 1 or not isinstance(programs[0], HostProgram):
        raise InternalError(f"expected one lowered function, got {', '.join(mod.functions)}")
    return programs[0]


def Filter(mod: Any, keep: Callable[[Any, Target], bool], target: Target) -> IRModule:
    """The functions for which `keep` holds, kernels and entries apart."""
    program = _program(mod)
    parts: dict[str, Any] = {k.name: k for k in program.launches} | {program.name: program}
    return IRModule({name: part for name, part in parts.items() if keep(part, target)})


def _has_host_part(part: Any, target: Target) -> bool:
    """Entries; on `llvm` the kernels too, for they are compiled together."""
    return isinstance(part, HostProgram) or target.kind == "llvm"


def _has_device_part(part: Any, target: Target) -> bool:
    return not _has_host_part(part, target)


# ------------------------------------------------------------------------------------ code


def device_codegen_without_compile(
    program: HostProgram, target: Target, options: Options
) -> DeviceModule:
    """The kernels as source."""
    source = BACKENDS[target.kind].source(program.launches, target, options)
    source = postprocess(source, target)
    dump_source(program.name, source, ".cu" if target.is_cuda else f".{target.kind}")
    return DeviceModule(target.kind, source, target.arch_name)


def device_codegen(program: HostProgram, target: Target, options: Options) -> DeviceModule:
    """The kernels as source and, where they are compiled apart from the host code, as binary."""
    module = device_codegen_without_compile(program, target, options)
    backend = BACKENDS[target.kind]
    if not backend.with_host:
        backend.compile(module, target, options)
    return module


def host_codegen(
    host_mod: IRModule,
    target_host: Any,
    *,
    kernels: DeviceModule | None = None,
    options: Options | None = None,
) -> HostModule:
    """The packed entry, compiled; CPU kernels are compiled with it. kernels: their text, where it
    was printed before."""
    host = Target(target_host)
    build = _HOST_BUILDERS.get(host.kind)
    if build is None:
        raise TargetError(
            f"Target host {host.kind} is not supported",
            code="TL0610",
            help=f"use one of {', '.join(_HOST_BUILDERS)}",
        )
    with session():
        mod = run_host_passes(host_mod, host)
        program = _entry(mod)
        device = device_of(program, host)
        if device.is_cpu and device.kind != host.kind:
            raise TargetError(
                f"kernels for {device.kind} cannot be called by host code for {host.kind}: on a"
                " CPU they are one library",
                code="TL0611",
                help=f"leave out target_host, or use {device.kind!r} for it",
            )
        own = ""
        if device.is_cpu:
            given = kernels or device_codegen_without_compile(program, device, options or Options())
            own = given.source
        return build(program, device, own, options or Options())


def _build_llvm(program: HostProgram, device: Target, own: str, options: Options) -> HostModule:
    from tilelang.codegen.host import entry_name, host_llvm  # on first use, as is LLVM

    text = host_llvm(program, device, own)
    binary = compile_llvm(text, device if device.is_cpu else program.attrs["target"])
    return HostModule("llvm", text, entry_name(program), binary)


def _build_c(program: HostProgram, device: Target, own: str, options: Options) -> HostModule:
    from tilelang.codegen.host import entry_name, host_c
    from tilelang.runtime.cc import compile_library

    text = host_c(program, device)
    kernels = [own] if own else []
    binary = compile_library(kernels, program.attrs["target"], options, host=text)
    return HostModule("c", text, entry_name(program), binary)


_HOST_BUILDERS = {"llvm": _build_llvm, "c": _build_c}


def _entry(mod: IRModule) -> HostProgram:
    programs = [f for f in mod.functions.values() if isinstance(f, HostProgram)]
    if len(programs) != 1:
        raise InternalError(f"expected one entry in a host module, got {', '.join(mod.functions)}")
    return programs[0]
