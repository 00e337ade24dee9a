# SPDX-License-Identifier: Apache-2.0
"""Runs hand-written DEVICE kernels of the CPU code generators on numpy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from tilelang.codegen.c import c_source
from tilelang.codegen.llvm import llvm_ir
from tilelang.config import Options
from tilelang.ir import Buffer, DType, Kernel, Var, const
from tilelang.runtime.cc import compile_library, load_library
from tilelang.runtime.llvm_jit import compile_module, load
from tilelang.target import Target


def block_vars() -> tuple[Var, Var, Var]:
    return Var("bx"), Var("by"), Var("bz")


def make(
    name: str, args: list[Any], body: Any, grid: tuple[Any, ...] = (1, 1, 1), blocks: Any = None
) -> Kernel:
    """A kernel with one thread per block."""
    threads = (Var("tx"), Var("ty"), Var("tz"))
    x, y, z = (const(g) if isinstance(g, int) else g for g in grid)
    return Kernel(name, tuple(args), body, (x, y, z), (1, 1, 1), blocks or block_vars(), threads)


def caller(kernel: Kernel, address: int, keep: Any) -> Callable[..., str | None]:
    """A callable over numpy arrays and Python scalars; returns the failed assertion's message."""
    types: list[Any] = [
        ctypes.c_void_p if isinstance(a, Buffer) else _scalar(a.dtype) for a in kernel.args
    ]
    f = ctypes.CFUNCTYPE(ctypes.c_char_p, *types, ctypes.c_int64, ctypes.c_int64)(address)

    def call(*args: Any, blocks: int = 1, first: int = 0) -> str | None:
        raw = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in args]
        error = f(*raw, first, blocks)
        return error.decode() if error else None

    call.keep = keep  # type: ignore[attr-defined]
    return call


def _scalar(dtype: DType) -> Any:
    """As C passes it; narrow floats as their bit patterns, a sub-byte integer in a byte."""
    if dtype.is_float and dtype.bits < 32:
        return {8: ctypes.c_uint8, 16: ctypes.c_uint16}[dtype.bits]
    return ctypes.c_int8 if dtype.bits < 8 else np.ctypeslib.as_ctypes_type(dtype.as_numpy())


backend = "llvm"
"""The target of `load_kernels`: a test module sets it to "c" to run the same tests there."""


def load_kernels(kernels: list[Kernel]) -> list[Callable[..., str | None]]:
    """The kernels of one module as callables."""
    if backend == "c":
        library = load_library(
            compile_library([c_source(kernels, Target("c"), Options())], Target("c"), Options())
        )
        addresses = [ctypes.cast(getattr(library, k.name), ctypes.c_void_p).value for k in kernels]
        return [caller(k, a or 0, library) for k, a in zip(kernels, addresses, strict=True)]
    target = Target(backend)
    features = ",".join(target.cpu_attributes)
    binary = compile_module(
        llvm_ir(kernels, target), "" if target.is_native else target.cpu, features
    )
    code = load(binary, [k.name for k in kernels])
    return [caller(k, code.address(k.name), code) for k in kernels]


def build(kernel: Kernel) -> Callable[..., str | None]:
    return load_kernels([kernel])[0]
