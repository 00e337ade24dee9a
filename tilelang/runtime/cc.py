# SPDX-License-Identifier: Apache-2.0
"""The system's C compiler: C text -> a shared library.

In: one translation unit. Out: the bytes of a shared library (cached on disk by the caller, under
`compiler_key`), and `load_library`, which brings such bytes into the process. The compiler is CC if
that is set, else the first of cc, gcc and clang on the path.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tilelang.config import env
from tilelang.errors import ToolchainError

__all__ = ["compile_library", "compiler_key", "find_compiler", "load_library"]

_CANDIDATES = ("cc", "gcc", "clang")
_FLAGS = ("-shared", "-fPIC", "-pipe", "-w", "-fno-math-errno", "-ffp-contract=off")
_FAULT = re.compile(r"^[^:\n]*:(\d+):\d+: (?:fatal )?error: (.*)$", re.M)
_AROUND = 2
_MAX_FAULTS = 3


def find_compiler() -> tuple[str, ...]:
    """The compiler's command (CC may hold arguments as well)."""
    return _find(env.CC)


@functools.cache
def _find(wanted: str) -> tuple[str, ...]:
    if wanted:
        command = tuple(shlex.split(wanted))
        if command and shutil.which(command[0]):
            return command
        raise ToolchainError(
            f"CC names {wanted!r}, which is not on the path",
            code="TL0853",
            help="unset CC, or let it name a C compiler",
        )
    for name in _CANDIDATES:
        path = shutil.which(name)
        if path is not None:
            return (path,)
    raise ToolchainError(
        f"target 'c' needs a C compiler, and none of {', '.join(_CANDIDATES)} is on the path",
        code="TL0853",
        help="install gcc or clang, set CC, or use target 'llvm', which needs none",
    )


def compiler_key(cpu: str = "", opt: int = 2) -> str:
    """All of the compiler and its flags that a library depends on. The processor itself, which
    `-march=native` means, is in the target's own key."""
    command = find_compiler()
    return "\n".join((*command, _version(command), *_flags(cpu, opt)))


@functools.cache
def _version(command: tuple[str, ...]) -> str:
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.partition("\n")[0]


def _flags(cpu: str, opt: int) -> tuple[str, ...]:
    name = cpu or "native"
    arm = platform.machine().lower() in ("aarch64", "arm64")
    return (*_FLAGS, f"-O{opt}", f"-mcpu={name}" if arm else f"-march={name}")


def compile_library(
    source: str, *, cpu: str = "", opt: int = 2, flags: Sequence[str] = ()
) -> bytes:
    """The shared library of one C source.

    cpu: as the compiler names it; empty means this machine. flags: more arguments, at the end.
    """
    with tempfile.TemporaryDirectory(prefix="tilelang-cc-") as folder:
        out = Path(folder) / "kernel.so"
        command = [
            *find_compiler(),
            *_flags(cpu, opt),
            "-x",
            "c",
            "-",
            "-o",
            str(out),
            *flags,
            "-lm",
        ]
        limit = env.TILELANG_COMPILE_TIMEOUT_SECONDS
        try:
            done = subprocess.run(
                command, input=source, capture_output=True, text=True, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            raise ToolchainError(
                f"{command[0]} did not finish within {limit:g} seconds",
                code="TL0854",
                help="raise TILELANG_COMPILE_TIMEOUT_SECONDS",
            ) from None
        if done.returncode != 0:
            raise _refused(command, done.stderr, source)
        return out.read_bytes()


def _refused(command: Sequence[str], log: str, source: str) -> ToolchainError:
    """The error for a source that the compiler does not accept, with the lines at fault."""
    faults = list(_FAULT.finditer(log))[:_MAX_FAULTS]
    lines = source.splitlines()
    notes = []
    for fault in faults:
        at = int(fault[1])
        first = max(1, at - _AROUND)
        shown = enumerate(lines[first - 1 : at + _AROUND], first)
        notes.append("\n".join([fault[2], *(f"{n:>5} | {text}" for n, text in shown)]))
    message = faults[0][2] if faults else (log.strip() or "no message")
    return ToolchainError(
        f"{command[0]} does not accept the generated C: {message}",
        code="TL0855",
        notes=notes,
        help=f"the command was: {shlex.join(command)}",
    )


def load_library(data: bytes) -> ctypes.CDLL:
    """The library in this process. Its file is removed at once: the mapping keeps it."""
    with tempfile.TemporaryDirectory(prefix="tilelang-cc-") as folder:
        path = Path(folder) / "kernel.so"
        path.write_bytes(data)
        return ctypes.CDLL(str(path))
