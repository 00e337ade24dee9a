# SPDX-License-Identifier: Apache-2.0
"""`@tilelang.jit`, `compile`, `par_compile`, `JITKernel`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .impl import JITImpl

if TYPE_CHECKING:
    from .compiler import OutIdx, compile, par_compile
    from .kernel import JITKernel

__all__ = ["JITImpl", "JITKernel", "compile", "jit", "lazy_jit", "par_compile"]

_LAZY = {"compile": "compiler", "par_compile": "compiler", "JITKernel": "kernel"}


def __getattr__(name: str) -> Any:
    """What needs a compiler is imported on first use."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)


def jit(
    func: Any = None,
    *,
    out_idx: OutIdx = None,
    execution_backend: str | None = None,
    target: Any = None,
    target_host: Any = None,
    verbose: bool | None = None,
    pass_configs: Mapping[str, Any] | None = None,
    debug_root_path: str | None = None,
    compile_flags: Sequence[str] | str | None = None,
) -> Any:
    """Decorates a function, bare or with arguments: a factory of PrimFuncs, a kernel, or a
    PrimFunc."""
    outer = sys._getframe(1).f_locals

    def decorate(f: Any) -> JITImpl:
        return JITImpl(
            f, out_idx, execution_backend, target, target_host, verbose, pass_configs,
            debug_root_path, compile_flags, False, outer,
        )  # fmt: skip

    return decorate if func is None else decorate(func)


def lazy_jit(
    func: Any = None,
    *,
    out_idx: OutIdx = None,
    execution_backend: str | None = None,
    target: Any = None,
    target_host: Any = None,
    verbose: bool | None = None,
    pass_configs: Mapping[str, Any] | None = None,
    debug_root_path: str | None = None,
    compile_flags: Sequence[str] | str | None = None,
) -> Any:
    """As `jit`, for a factory: its calls give JITKernels whatever the function looks like."""

    def decorate(f: Any) -> JITImpl:
        return JITImpl(
            f, out_idx, execution_backend, target, target_host, verbose, pass_configs,
            debug_root_path, compile_flags, True,
        )  # fmt: skip

    return decorate if func is None else decorate(func)
