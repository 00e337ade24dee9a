# SPDX-License-Identifier: Apache-2.0
"""`kernel.export_library(path)`: a kernel as a shared library that needs tvm-ffi only.

In: a function and its target. Out: a library that exports `__tvm_ffi_<name>`, for
`tvm_ffi.load_module(path)` or a C++ program. It is C throughout: the kernels for a CPU; for CUDA
the entry, the cubin and a loader that finds the driver when it is first called.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilelang.codegen.host import entry_name, host_c
from tilelang.codegen.host_cuda import STATE, STATE_ENTRIES, state_name
from tilelang.engine import lower
from tilelang.errors import ArgumentValueError
from tilelang.ir import HostProgram, PrimFunc
from tilelang.runtime.cc import compile_library
from tilelang.target import Target

if TYPE_CHECKING:
    from tilelang.config import Options

__all__ = ["export_library"]

_LOADER = Path(__file__).parents[1] / "runtime" / "csrc" / "cuda_loader.c"
_BYTES_PER_LINE = 64


def export_library(func: PrimFunc, target: Target, options: Options, path: str | Path) -> None:
    """Writes the library."""
    if target.is_sim:
        raise ArgumentValueError(
            "a simulated kernel cannot be exported",
            code="TL0955",
            help="compile for a CUDA target or for a CPU",
        )
    if target.is_cuda:
        data = _cuda_library(func, target, options)
    else:
        data = _cpu_library(func, target, options)
    _put(Path(path).resolve(), data)


def _put(path: Path, data: bytes) -> None:
    """A new file in place of an old one: a process that has loaded that keeps what it mapped."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_bytes(data)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _lowered(
    func: PrimFunc, target: Target, options: Options, compile: bool
) -> tuple[HostProgram, Any]:
    artifact = lower(func, target, "c", enable_device_compile=compile, options=options)
    program: Any = next(iter(artifact.host_mod.functions.values()))
    return program, artifact.codegen_mod


def _cpu_library(func: PrimFunc, target: Target, options: Options) -> bytes:
    text = str(target)
    as_c = Target("c" + text.removeprefix(target.kind))
    program, kernels = _lowered(func, as_c, options, compile=False)
    host = host_c(program, as_c, for_export=True)
    return compile_library([host, kernels.source], as_c, options)


def _cuda_library(func: PrimFunc, target: Target, options: Options) -> bytes:
    program, kernels = _lowered(func, target, options, compile=True)
    host = host_c(program, target, for_export=True)
    loader = _loader_text(program, kernels.binary)
    return compile_library([host, loader], Target("c"), options, ("m", "dl"))


def _loader_text(program: HostProgram, cubin: bytes) -> str:
    """`cuda_loader.c` and the tables that it reads."""
    kernels = ", ".join(f'{{"{k.name}", {k.dynamic_smem}}}' for k in program.launches)
    functions = ", ".join(f'{{"{name}", {offset}}}' for name, offset in STATE_ENTRIES.items())
    return "\n".join(
        [
            f"#define ENTRY_STATE {state_name(entry_name(program))}",
            f'#define TL_NAME "{program.name}"',
            f"#define TL_NUM_KERNELS {len(program.launches)}",
            f"#define TL_NUM_FUNCTIONS {len(STATE_ENTRIES)}",
            f"#define TL_KERNELS {STATE['kernels']}",
            f"#define TL_CONTEXTS {STATE['contexts']}",
            f"#define TL_READY {STATE['ready']}",
            f"#define TL_LOADER {STATE['loader']}",
            "static const struct { const char* name; int shared; }"
            f" tl_kernels[] = {{{kernels or '{0, 0}'}}};",
            "static const struct { const char* name; int offset; }"
            f" tl_functions[] = {{{functions}}};",
            "static const char tl_cubin[] __attribute__((aligned(64))) =",
            _c_bytes(cubin) + ";",
            _LOADER.read_text(encoding="utf-8"),
        ]
    )


def _c_bytes(data: bytes) -> str:
    """A C string literal: compilers read it ten times faster than a list of numbers."""
    lines = [data[i : i + _BYTES_PER_LINE] for i in range(0, len(data), _BYTES_PER_LINE)]
    return "\n".join('"' + "".join(f"\\{b:03o}" for b in line) + '"' for line in lines) or '""'
