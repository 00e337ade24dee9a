# SPDX-License-Identifier: Apache-2.0
"""The system's C compiler: C text -> a shared library.

In: translation units. Out: the bytes of a shared library (cached on disk by the caller, under a key
with `compiler_version`), and `load_library`, which brings such bytes into the process. The
compiler is CC if that is set, else the first of cc, gcc and clang on the path.
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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tilelang.config import env
from tilelang.errors import ToolchainError

from .pool import STATE, attach
from .tvm_ffi import preload

if TYPE_CHECKING:
    from tilelang.config import Options
    from tilelang.target import Target

__all__ = ["compile_library", "compiler_version", "find_compiler", "load_library"]

_CANDIDATES = ("cc", "gcc", "clang")
# Host code reaches structures by byte offsets, which strict aliasing forbids; contraction would
# make results depend on the processor; integers wrap, as the IR says.
_FLAGS = (
    "-shared", "-fPIC", "-pipe", "-w", "-fno-strict-aliasing", "-fwrapv", "-fno-math-errno",
    "-ffp-contract=off",
)  # fmt: skip
# Host code runs once per call: it takes a quarter less time to compile so, and none more to call.
_LEVEL, _HOST_LEVEL = "-O2", "-O1"
# What fast math permits. Not -ffast-math: our functions round by adding and taking away a large
# number, which it cancels; it takes NaN and infinity (a masked softmax has both) for impossible;
# and linking with it makes the whole process flush subnormals.
_FAST = ("-fno-trapping-math", "-fno-signed-zeros", "-freciprocal-math", "-ffp-contract=fast")
_LIBRARY = "kernel.so"
_FAULT = re.compile(r"^(?P<file>[^:\n]*):(?P<line>\d+):\d+: (?:fatal )?error: (?P<text>.*)$", re.M)
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
            code="TL0857",
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


def compiler_version() -> str:
    """What a library depends on besides its source, the target and the options."""
    command = find_compiler()
    return "\n".join((*command, _version(command), _LEVEL, _HOST_LEVEL, *_FLAGS, *_FAST))


@functools.cache
def _version(command: tuple[str, ...]) -> str:
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.partition("\n")[0]


def _flags(target: Target | None, options: Options | None) -> list[str]:
    """`-march`, `-m<feature>` and what the user adds (last, so that it wins)."""
    if target is None or options is None:
        return [*_FLAGS]
    cpu = "native" if target.is_native else target.cpu
    arm = platform.machine().lower() in ("aarch64", "arm64")
    machine = f"-mcpu={cpu}" if arm else f"-march={cpu}"
    features = [f"-m{'no-' if a[0] == '-' else ''}{a[1:]}" for a in target.cpu_attributes]
    fast = _FAST if options.fast_math else ()
    own = options.compile_flags if target.kind == "c" else ()
    return [*_FLAGS, machine, *features, *fast, *own]


def compile_library(
    sources: Sequence[str],
    target: Target | None,
    options: Options | None,
    libraries: Sequence[str] = ("m",),
    host: str = "",
) -> bytes:
    """The shared library of the given C sources and of host code (separate translation units).
    Without a target: for every machine of this architecture."""
    with tempfile.TemporaryDirectory(prefix="tilelang-cc-") as name:
        folder = Path(name)
        levels = [_LEVEL] * len(sources) + [_HOST_LEVEL] * bool(host)
        sources = [*sources, host] if host else sources
        files = [f"part{n}.c" for n in range(len(sources))]
        for file, source in zip(files, sources, strict=True):
            (folder / file).write_text(source, encoding="utf-8")
        named = dict(zip(files, sources, strict=True))
        compiler, flags = find_compiler(), _flags(target, options)
        if len(files) > 1:
            objects = [file.replace(".c", ".o") for file in files]
            _run(
                [
                    [*compiler, "-c", file, level, *flags, "-o", made]
                    for file, made, level in zip(files, objects, levels, strict=True)
                ],
                folder, named,
            )  # fmt: skip
            files = objects
        command = [*compiler, *files, levels[0], *flags, "-o", _LIBRARY]
        command += [f"-l{library}" for library in libraries]
        _run([command], folder, named)
        return (folder / _LIBRARY).read_bytes()


def _run(commands: Sequence[Sequence[str]], folder: Path, sources: Mapping[str, str]) -> None:
    """Runs compilers at the same time."""
    limit = env.TILELANG_COMPILE_TIMEOUT_SECONDS
    running = [
        subprocess.Popen(
            c, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        for c in commands
    ]
    try:
        preload()
        logs = [process.communicate(timeout=limit)[1] for process in running]
    except subprocess.TimeoutExpired:
        raise ToolchainError(
            f"{commands[0][0]} did not finish within {limit:g} seconds",
            code="TL0854",
            help="raise TILELANG_COMPILE_TIMEOUT_SECONDS",
        ) from None
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.communicate()
    for command, process, log in zip(commands, running, logs, strict=True):
        if process.returncode != 0:
            raise _refused(command, log, sources)


def _refused(command: Sequence[str], log: str, sources: Mapping[str, str]) -> ToolchainError:
    """The error for a source that the compiler does not accept, with the lines at fault."""
    faults = list(_FAULT.finditer(log))[:_MAX_FAULTS]
    notes = []
    for fault in faults:
        lines = sources.get(fault["file"], "").splitlines()
        at = int(fault["line"])
        first = max(1, at - _AROUND)
        shown = enumerate(lines[first - 1 : at + _AROUND], first)
        notes.append("\n".join([fault["text"], *(f"{n:>5} | {text}" for n, text in shown)]))
    message = faults[0]["text"] if faults else (log.strip() or "no message")
    return ToolchainError(
        f"{command[0]} does not accept the generated C: {message}",
        code="TL0855",
        notes=notes,
        help=f"the command was: {shlex.join(command)}",
    )


def load_library(data: bytes) -> ctypes.CDLL:
    """Maps a library. Its file has a name of its own (the loader takes two files of one name for
    the same library) and is gone at once, so that nothing is left behind."""
    with tempfile.NamedTemporaryFile(prefix="tilelang-", suffix=".so", delete=False) as file:
        file.write(data)
    try:
        library = ctypes.CDLL(file.name)
    except OSError as error:
        missing = re.search(r"undefined symbol: (\w+)", str(error))
        what = (
            f"it calls {missing[1]}, which this process does not define" if missing else str(error)
        )
        raise ToolchainError(
            f"the compiled kernel cannot be loaded: {what}",
            code="TL0856",
            help="first load the library that defines it: ctypes.CDLL(path, ctypes.RTLD_GLOBAL)",
        ) from error
    finally:
        Path(file.name).unlink(missing_ok=True)
    try:
        state = ctypes.c_uint64.in_dll(library, STATE)
    except ValueError:  # no kernel in it is large enough for several threads
        return library
    attach(ctypes.addressof(state))
    return library
