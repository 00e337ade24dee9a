# SPDX-License-Identifier: Apache-2.0
"""The host's C++ compiler, and files that are built once.

In: sources and flags. Out: shared libraries in a cache directory, named by a hash of everything
that they depend on.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilelang.config import env
from tilelang.errors import CacheError, ToolchainError

__all__ = [
    "Compiler",
    "build_once",
    "host_compiler",
    "kernel_folder",
    "run_compiler",
    "runtime_folder",
]

_MACHINES = frozenset({"x86_64", "aarch64", "arm64"})


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler of the GCC or Clang family."""

    path: str
    version: str

    @property
    def is_clang(self) -> bool:
        return "clang" in self.version

    def instrument_flags(self) -> tuple[str, ...]:
        """Calls around loads and stores, volatile ones told apart, none at function entry."""
        if self.is_clang:
            options = ("-tsan-instrument-func-entry-exit=0", "-tsan-distinguish-volatile=1")
            return ("-fsanitize=thread", *(f for o in options for f in ("-mllvm", o)))
        return (
            "-fsanitize=thread",
            "--param=tsan-instrument-func-entry-exit=0",
            "--param=tsan-distinguish-volatile=1",
        )


@functools.cache
def host_compiler() -> Compiler:
    """The first of g++ and clang++ that is there."""
    machine = platform.machine()
    if platform.system() != "Linux" or machine not in _MACHINES:
        raise ToolchainError(
            f"the GPU simulator runs on Linux on x86-64 and aarch64, not on {platform.system()} "
            f"{machine}",
            code="TL0840",
            help="use target 'llvm' to run kernels on this CPU",
        )
    for name in ("g++", "clang++", "c++"):
        path = shutil.which(name)
        if path:
            text = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
            return Compiler(path, text.stdout.splitlines()[0])
    raise ToolchainError(
        "the GPU simulator needs a C++ compiler, and neither g++ nor clang++ is on PATH",
        code="TL0841",
        help="install g++ or clang++, or use target 'llvm'",
    )


@functools.cache
def processor() -> str:
    """What -march=native depends on: a library must not reach another kind of processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    keys = ("model name", "flags", "Features", "CPU part")
    return "\n".join(sorted({x for x in lines if x.startswith(keys)}))


def runtime_folder() -> Path:
    return env.TILELANG_SIM_DIR or env.TILELANG_CACHE_DIR / "sim"


def kernel_folder() -> Path:
    return env.TILELANG_CACHE_DIR / "sim"


def run_compiler(arguments: Sequence[str]) -> str:
    """Runs the compiler; its complaints, or an empty text."""
    timeout = env.TILELANG_COMPILE_TIMEOUT_SECONDS
    try:
        done = subprocess.run(
            [host_compiler().path, *arguments],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ToolchainError(
            f"the C++ compiler did not finish in {timeout} s",
            code="TL0842",
            help="raise TILELANG_COMPILE_TIMEOUT_SECONDS",
        ) from error
    return "" if done.returncode == 0 else done.stderr or f"exit status {done.returncode}"


def build_once(folder: Path, parts: Sequence[str], make: Callable[[Path, Path], None]) -> Path:
    """The library in `folder` that `make(scratch folder, output)` builds from `parts`.

    `parts` is all that the result depends on beside the compiler and the processor. Several
    processes may build at once: the result appears whole or not at all. A file that is no longer
    what was built, which loading could not survive, is built anew.
    """
    digest = hashlib.sha256()
    for part in (host_compiler().version, processor(), *parts):
        digest.update(part.encode() + b"\0")
    _make_private(folder)
    path = folder / f"{digest.hexdigest()[:32]}.so"
    if not env.TILELANG_DISABLE_CACHE and _is_whole(path):
        with contextlib.suppress(OSError):  # what is not used for long makes room (cache/room.py)
            os.utime(path)
        return path
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        output = Path(scratch) / "out.so"
        make(Path(scratch), output)
        with output.open("r+b") as file:  # loaders do not look behind the sections
            file.write(hashlib.sha256(file.read()).digest())
        os.replace(output, path)
    return path


def _is_whole(path: Path) -> bool:
    """Is the file there, and does it end with the hash of what precedes?"""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return False
    size = hashlib.sha256().digest_size
    return hashlib.sha256(content[:-size]).digest() == content[-size:]


def _make_private(folder: Path) -> None:
    """What is loaded from here is run: nobody else may write it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        if status.st_uid == os.getuid():
            if stat.S_IMODE(status.st_mode) & 0o077:
                folder.chmod(0o700)
            return
        why = "belongs to another user"
    except OSError as error:
        why = f"cannot be used: {error.strerror}"
    raise CacheError(
        f"the simulator's cache {folder} {why}",
        code="TL1020",
        help="set TILELANG_CACHE_DIR to a directory of your own",
    )
