# SPDX-License-Identifier: Apache-2.0
"""NVRTC through ctypes: CUDA C++ to cubin or PTX, in memory, with no toolkit and no GPU.

In: a source, an architecture (`sm_90a`), `Options`, headers as text. Out: `Cubin(data, log)`. The
library comes from a pip wheel (nvidia-cuda-nvrtc, -cu12) or from the system; it is loaded on first
use, and one that is newer than the driver is not used, because the driver could not load its code.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tilelang.config import Options, env
from tilelang.errors import ToolchainError

from .cuda_driver import driver_version
from .device_compiler import SOURCE_NAME, Cubin, common_flags, refused

__all__ = ["Nvrtc", "compile_cubin", "compile_ptx", "find_libraries", "nvrtc"]

Version = tuple[int, int]

_SONAMES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")
_INSTALL = "pip install tilelang-py[cuda] (or [cuda12] for a driver of CUDA 12)"
_SUCCESS, _COMPILATION_ERROR = 0, 6  # nvrtcResult
_FAST_COMPILE_SINCE: Version = (12, 9)  # NVRTC documentation, --Ofast-compile


class Nvrtc:
    """One loaded NVRTC library. Programs may be compiled from several threads at once."""

    def __init__(self, path: str) -> None:
        self.path = path
        _load_builtins(path)
        self._lib = ctypes.CDLL(path)
        self._lib.nvrtcGetErrorString.restype = ctypes.c_char_p
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(
            self._lib.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "nvrtcVersion"
        )
        self.version: Version = (major.value, minor.value)

    def __str__(self) -> str:
        return f"NVRTC {self.version[0]}.{self.version[1]}"

    def compile(
        self,
        source: str,
        arch: str,
        options: Options,
        headers: Mapping[str, str],
        *,
        ptx: bool = False,
    ) -> Cubin:
        """Cubin (or PTX) of `source`; `headers` maps include names to texts."""
        target = arch.replace("sm_", "compute_") if ptx else arch
        flags = [f"--gpu-architecture={target}", *common_flags(options)]
        if options.fast_compile and self.version >= _FAST_COMPILE_SINCE:
            flags.append("--Ofast-compile=mid")
        program = self._create(source, headers)
        try:
            code = self._lib.nvrtcCompileProgram(program, len(flags), _strings(flags))
            log = self._text(program, "ProgramLog")
            if code == _COMPILATION_ERROR or (code != _SUCCESS and log.strip()):
                raise refused(str(self), log, source, headers)
            self._check(code, "nvrtcCompileProgram")
            return Cubin(self._bytes(program, "PTX" if ptx else "CUBIN"), log)
        finally:
            self._lib.nvrtcDestroyProgram(ctypes.byref(program))

    def _create(self, source: str, headers: Mapping[str, str]) -> ctypes.c_void_p:
        program = ctypes.c_void_p()
        code = self._lib.nvrtcCreateProgram(
            ctypes.byref(program), source.encode(), SOURCE_NAME.encode(), len(headers),
            _strings(headers.values()), _strings(headers),
        )  # fmt: skip
        self._check(code, "nvrtcCreateProgram")
        return program

    def _bytes(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(
            getattr(self._lib, f"nvrtcGet{what}Size")(program, ctypes.byref(size)),
            f"nvrtcGet{what}Size",
        )
        buffer = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._lib, f"nvrtcGet{what}")(program, buffer), f"nvrtcGet{what}")
        return buffer.raw

    def _text(self, program: ctypes.c_void_p, what: str) -> str:
        return self._bytes(program, what).rstrip(b"\0").decode(errors="replace")

    def _check(self, code: int, call: str) -> None:
        if code != _SUCCESS:
            text = self._lib.nvrtcGetErrorString(code).decode()
            raise ToolchainError(
                f"{call} failed: {text} ({code})",
                code="TL0802",
                help="pip install an nvidia-cuda-nvrtc that fits the driver",
            )


def _strings(items: Any) -> Any:
    texts = [item.encode() for item in items]
    return (ctypes.c_char_p * len(texts))(*texts)


def _load_builtins(path: str) -> None:
    """NVRTC looks for its builtins on the loader's path only: have them loaded before it asks."""
    for builtins in sorted(Path(path).parent.glob("libnvrtc-builtins.so*")):
        ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)


def find_libraries() -> Iterator[str]:
    """Paths or names of libraries to try: wheels first, then a toolkit, then the loader's path."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for pattern in ("cu[0-9]*/lib/libnvrtc.so.*", "cuda_nvrtc/lib/libnvrtc.so.*"):
            yield from (str(p) for p in sorted(Path(folder).glob(pattern), reverse=True))
    if env.CUDA_HOME is not None:
        for folder in ("lib64", "lib"):
            yield from (
                str(p) for p in sorted((env.CUDA_HOME / folder).glob("libnvrtc.so.[0-9][0-9]"))
            )
    yield from _SONAMES


_lock = threading.Lock()


def nvrtc() -> Nvrtc:
    """The first NVRTC that the driver of this machine (if there is one) can use."""
    with _lock:
        return _choose(driver_version())


@functools.cache
def _choose(driver: Version | None) -> Nvrtc:
    too_new: list[Nvrtc] = []
    problems: list[str] = []
    for path in find_libraries():
        try:
            lib = Nvrtc(path)
        except (OSError, AttributeError) as error:
            problems.append(str(error))
            continue
        if driver is None or lib.version <= driver:
            return lib
        too_new.append(lib)
    if too_new:
        raise ToolchainError(
            f"{too_new[0]} is newer than the driver, which supports CUDA {_dotted(driver)}",
            code="TL0804",
            notes=[f"{lib} is {lib.path}" for lib in too_new],
            help=f"pip install 'nvidia-cuda-nvrtc<={_dotted(driver)}.*', or update the driver",
        )
    raise ToolchainError(
        "there is no NVRTC, the compiler of CUDA kernels",
        code="TL0803",
        notes=problems,
        help=_INSTALL,
    )


def _dotted(version: Version | None) -> str:
    return "?" if version is None else f"{version[0]}.{version[1]}"


def compile_cubin(source: str, arch: str, options: Options, headers: Mapping[str, str]) -> Cubin:
    """Machine code for `arch` ("sm_90a")."""
    return nvrtc().compile(source, arch, options, headers)


def compile_ptx(source: str, arch: str, options: Options, headers: Mapping[str, str]) -> str:
    """PTX for `arch`, for people to read."""
    return nvrtc().compile(source, arch, options, headers, ptx=True).data.rstrip(b"\0").decode()
