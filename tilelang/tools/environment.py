# SPDX-License-Identifier: Apache-2.0
"""What a bug report needs: versions, compilers, devices, targets. Out: (name, value) pairs."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tilelang.errors import TileError

__all__ = ["environment"]

_PACKAGES = ("numpy", "ml_dtypes", "apache-tvm-ffi", "llvmlite", "torch", "hypothesis")


def environment() -> Iterator[tuple[str, str]]:
    """Rows in the order in which they are worth reading."""
    yield "tilelang", str(sys.modules["tilelang"].__version__)
    yield "location", str(Path(__file__).parents[1])
    yield "python", f"{platform.python_version()} on {sys.platform} {platform.machine()}"
    for package in _PACKAGES:
        yield package, _package(package)
    yield "C compiler", _tried(_c_compiler)
    yield "C++ compiler", _tried(_cxx_compiler)
    yield "NVRTC", _tried(_nvrtc)
    yield "CUDA driver", _tried(_driver)
    for number, name in enumerate(_devices()):
        yield f"device {number}", name
    yield "target auto", _tried(_auto)
    yield "kernel cache", _tried(_cache)


def _package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _tried(find: Callable[[], str]) -> str:
    """What cannot be found says why, in a line."""
    try:
        return find()
    except (TileError, OSError) as error:
        text = error.message if isinstance(error, TileError) else str(error)
        return f"none ({text.splitlines()[0]})"


def _c_compiler() -> str:
    from tilelang.runtime.cc import compiler_version, find_compiler

    return f"{' '.join(find_compiler())}: {compiler_version().splitlines()[1]}"


def _cxx_compiler() -> str:
    from tilelang.sim.toolchain import host_compiler

    found = host_compiler()
    return f"{found.path}: {found.version.splitlines()[0]}"


def _nvrtc() -> str:
    from tilelang.engine import BACKENDS
    from tilelang.target import Target

    return BACKENDS["cuda"].versions(Target("cuda"))


def _driver() -> str:
    from tilelang.runtime.cuda_driver import driver_version

    found = driver_version()
    return "none" if found is None else f"for CUDA {'.'.join(map(str, found))}"


def _devices() -> list[str]:
    from tilelang.runtime.cuda_driver import driver
    from tilelang.target.detect import cuda_devices

    return [
        f"{driver().device_name(i)}, sm_{d.arch}, {d.num_sms} multiprocessors"
        for i, d in enumerate(cuda_devices())
    ]


def _auto() -> str:
    from tilelang.target import determine_target

    return str(determine_target("auto", return_object=True))


def _cache() -> str:
    from .disk import cache_folder

    return str(cache_folder())
