# SPDX-License-Identifier: Apache-2.0
"""TileLang in pure Python: `import tilelang; import tilelang.language as T`.

Names are imported on first use, so that `import tilelang` is quick and needs no other package.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

__version__ = "0.1.0"
# Older import paths (`tilelang.contrib.nvcc`) are found below `compat`, after the real packages.
_COMPAT = f"{__path__[0]}/compat"
__path__ = [*__path__, _COMPAT]

# public name -> (module, attribute); None: the module itself
_NAMES: dict[str, tuple[str, str | None]] = {
    "jit": ("tilelang.jit", "jit"),
    "lazy_jit": ("tilelang.jit", "lazy_jit"),
    "compile": ("tilelang.jit", "compile"),
    "par_compile": ("tilelang.jit", "par_compile"),
    "JITImpl": ("tilelang.jit", "JITImpl"),
    "JITKernel": ("tilelang.jit", "JITKernel"),
    "lower": ("tilelang.engine", "lower"),
    "Profiler": ("tilelang.profiler", "Profiler"),
    "do_bench": ("tilelang.profiler", "do_bench"),
    "TensorSupplyType": ("tilelang.profiler", "TensorSupplyType"),
    "autotune": ("tilelang.autotuner", "autotune"),
    "register_cuda_postproc": ("tilelang.engine.callback", "register_cuda_postproc"),
    "register_c_postproc": ("tilelang.engine.callback", "register_c_postproc"),
    "PassConfigKey": ("tilelang.config", "PassConfigKey"),
    "enable_cache": ("tilelang.cache", "enable_cache"),
    "disable_cache": ("tilelang.cache", "disable_cache"),
    "is_cache_enabled": ("tilelang.cache", "is_cache_enabled"),
    "prim_func": ("tilelang.language", "prim_func"),
    "macro": ("tilelang.language", "macro"),
    "tensor": ("tilelang.language", "tensor"),
    "dtypes": ("tilelang.language.dtypes", None),
    "Layout": ("tilelang.language", "Layout"),
    "Fragment": ("tilelang.language", "Fragment"),
    "PrimFunc": ("tilelang.ir", "PrimFunc"),
    "IRModule": ("tilelang.ir", "IRModule"),
    "DataType": ("tilelang.ir", "DType"),
    "cdiv": ("tilelang.utils", "ceildiv"),
    "next_power_of_2": ("tilelang.utils", "next_power_of_2"),
    "set_log_level": ("tilelang.utils", "set_log_level"),
    "env": ("tilelang.config", "env"),
    "tvm": ("tilelang.tvm", None),
    **{
        name: (f"tilelang.{name}", None)
        for name in (
            "arith",
            "autotuner",
            "cache",
            "codegen",
            "compat",
            "config",
            "engine",
            "errors",
            "interp",
            "ir",
            "language",
            "layout",
            "profiler",
            "runtime",
            "sim",
            "target",
            "testing",
            "tileop",
            "tools",
            "transform",
            "utils",
        )
    },
}

__all__ = ["__version__", *_NAMES]


def __getattr__(name: str) -> Any:
    entry = _NAMES.get(name)
    if entry is None:
        from .errors import did_you_mean

        near = did_you_mean(name, _NAMES)
        raise AttributeError(
            f"module 'tilelang' has no attribute {name!r}" + (f"; {near}" if near else "")
        )
    module, attribute = entry
    value: Any = importlib.import_module(module)
    if attribute is not None:
        value = getattr(value, attribute)
    globals()[name] = value
    return value


class _Package(ModuleType):
    """Sees what Python sets when it has imported a module of this package.

    `tilelang.jit` is the decorator, also after the package of that name was imported, and
    `tilelang.env` the variables; below `tilelang.utils`, which is one file, older programs find
    modules.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "jit" and isinstance(value, ModuleType):
            value = value.jit
        elif name == "env" and isinstance(value, ModuleType):
            value = value.env
        elif name == "utils":
            value.__path__ = [f"{_COMPAT}/utils"]
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted(__all__)
