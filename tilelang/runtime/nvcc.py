# SPDX-License-Identifier: Apache-2.0
"""nvcc as a subprocess, for who asks for it: the same results as NVRTC, in more time.

In: a source, an architecture, `Options`, headers as text. Out: `Cubin(data, log)`.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tilelang.config import Options, env
from tilelang.errors import ToolchainError

from .device_compiler import SOURCE_NAME, Cubin, common_flags, refused

__all__ = ["compile_cubin", "compile_ptx", "find_nvcc"]


def find_nvcc() -> str:
    """The path of nvcc: of CUDA_HOME if it is set, else the first on the path."""
    if env.CUDA_HOME is not None:
        candidate = env.CUDA_HOME / "bin" / "nvcc"
        if candidate.is_file():
            return str(candidate)
    found = shutil.which("nvcc")
    if found is None:
        raise ToolchainError(
            "nvcc was asked for and is neither in CUDA_HOME nor on the path",
            code="TL0805",
            help="install a CUDA toolkit, or use NVRTC, which needs none",
        )
    return found


def compile_cubin(source: str, arch: str, options: Options, headers: Mapping[str, str]) -> Cubin:
    """Machine code for `arch` ("sm_90a")."""
    flags = ["-cubin", f"--gpu-architecture={arch}"]
    return _compile(source, flags + common_flags(options), headers, "kernel.cubin")


def compile_ptx(source: str, arch: str, options: Options, headers: Mapping[str, str]) -> str:
    """PTX for `arch`, for people to read."""
    flags = ["-ptx", f"--gpu-architecture={arch.replace('sm_', 'compute_')}"]
    made = _compile(source, flags + common_flags(options), headers, "kernel.ptx")
    return made.data.decode()


def _compile(source: str, flags: list[str], headers: Mapping[str, str], result: str) -> Cubin:
    compiler = find_nvcc()
    with tempfile.TemporaryDirectory(prefix="tilelang-nvcc-") as name:
        folder = Path(name)
        (folder / SOURCE_NAME).write_text(source, encoding="utf-8")
        for include, text in headers.items():
            path = folder / "include" / include
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        command = [compiler, *flags, f"-I{folder / 'include'}", "-o", result, SOURCE_NAME]
        log, code = _run(command, folder)
        if code != 0:
            raise refused("nvcc", log, source, headers)
        return Cubin((folder / result).read_bytes(), log)


def _run(command: list[str], folder: Path) -> tuple[str, int]:
    limit = env.TILELANG_COMPILE_TIMEOUT_SECONDS
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        raise ToolchainError(
            f"nvcc did not finish within {limit:g} seconds",
            code="TL0806",
            help="raise TILELANG_COMPILE_TIMEOUT_SECONDS",
        ) from None
    return done.stdout + done.stderr, done.returncode
