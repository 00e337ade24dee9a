# SPDX-License-Identifier: Apache-2.0
"""Compiles CUDA text for the simulator and launches its kernels.

In: the text that code generation printed, and the names of its kernels. Out: a `SimModule`, whose
`launch` takes host pointers and raises `SimulatorError` where the kernel does something wrong.
"""

from __future__ import annotations

import ctypes
import functools
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilelang.errors import ArgumentValueError, SimulatorError, Span, ToolchainError

from .library import COUNTERS, Range, Request, Site, runtime_library
from .report import SimReport, SiteReport
from .source import HostSource, entry_name, host_source
from .toolchain import build_once, host_compiler, kernel_folder, run_compiler

if TYPE_CHECKING:
    from tilelang.ir import Kernel

__all__ = ["SimModule", "build"]

GENERATED_FILE = "kernel.cu"
_SIM_INCLUDE = Path(__file__).parent / "include"
_DEVICE_HEADERS = Path(__file__).parents[1] / "templates" / "cuda"
# -O1 keeps accesses as the text has them; contraction would make results depend on the processor.
_FLAGS = (
    "-std=c++17",
    "-O1",
    "-g1",
    "-w",
    "-march=native",
    "-fPIC",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-optimize-sibling-calls",
    "-fvisibility=default",
)
_SITE = re.compile(r" ?\{(line|code):([0-9a-f]+)\}")
_ERROR_BYTES = 4096
_MAX_SITES = 1024
_LINE_SITE = 1 << 31  # kLineSite of runtime/shadow.h
_MAX_THREADS = 1024
_MAX_SHARED = 227 * 1024


def build(source: str, kernels: Sequence[Kernel | str], instrument: bool = True) -> SimModule:
    """Compiles `source`; `kernels` are its kernels, or their names.

    Without `instrument` nothing is checked but what the runtime's own functions see.
    """
    names = [k if isinstance(k, str) else k.name for k in kernels]
    runtime_library()  # must be loaded before anything that refers to it
    host = host_source(source, names, GENERATED_FILE)
    flags = (*_FLAGS, *(host_compiler().instrument_flags() if instrument else ()))

    def library() -> Path:
        parts = [host.text, *flags, _headers_text()]
        return build_once(
            kernel_folder(), parts, lambda scratch, out: _make(host, flags, scratch, out)
        )

    path = library()
    try:
        return SimModule(path, host, names)
    except OSError:  # a damaged file in the cache
        path.unlink()
        return SimModule(library(), host, names)


@functools.cache
def _headers_text() -> str:
    paths = [*sorted(_SIM_INCLUDE.rglob("*.h")), *sorted(_DEVICE_HEADERS.glob("*.cuh"))]
    return "\0".join(p.read_text(encoding="utf-8") for p in paths)


def _make(host: HostSource, flags: Sequence[str], scratch: Path, output: Path) -> None:
    text = scratch / GENERATED_FILE  # debug information may name this or the #line
    text.write_text(host.text, encoding="utf-8")
    complaints = run_compiler(
        [
            *flags,
            f"-I{_SIM_INCLUDE}",
            f"-I{_DEVICE_HEADERS}",
            "-shared",
            "-nodefaultlibs",
            "-x",
            "c++",
            str(text),
            "-x",
            "none",
            "-o",
            str(output),
            "-lm",
            "-lc",
        ]
    )
    if complaints:
        lines = complaints.strip().splitlines()
        raise ToolchainError(
            "the C++ compiler refused the generated code:\n" + "\n".join(lines[:12]),
            code="TL0843",
            help="the simulator runs generated code and code over tl:: functions, not inline PTX",
        )


class SimModule:
    """A loaded library with the kernels of one text."""

    def __init__(self, path: Path, host: HostSource, kernels: Sequence[str]) -> None:
        self.path = path
        self.kernels = tuple(kernels)
        self._host = host
        self._library = ctypes.CDLL(str(path))

    def launch(
        self,
        kernel: str,
        grid: Sequence[int],
        block: Sequence[int],
        smem: int,
        args: Sequence[Any],
        ranges: Sequence[tuple[int, int, str, bool]] = (),
        check: bool = True,
        traffic: bool = False,
        host_threads: int = 1,
        time_limit: float = 0.0,
    ) -> SimReport:
        """Runs one kernel to its end.

        args: ctypes values (c_void_p, c_int, a tensor map, …) in the order of the parameters.
        traffic: count bank conflicts and sectors of every access (twice as slow).
        ranges: (address, bytes, name, writable) of all global memory that the kernel may access.
        """
        if kernel not in self.kernels:
            raise ArgumentValueError(
                f"no kernel {kernel!r}; there are {', '.join(self.kernels)}", code="TL0930"
            )
        grid3, block3 = _three(grid), _three(block)
        _check_shape(kernel, grid3, block3, smem)
        counters = (ctypes.c_uint64 * len(COUNTERS))()
        if 0 in grid3:
            return SimReport(kernel, grid3, block3, smem, 0.0, dict.fromkeys(COUNTERS, 0))
        pointers = (ctypes.c_void_p * max(1, len(args)))(*(ctypes.addressof(a) for a in args))
        table = (Range * max(1, len(ranges)))(
            *(Range(p, n, name.encode(), w) for p, n, name, w in ranges)
        )
        sites = (Site * _MAX_SITES)()
        error, kind = (ctypes.create_string_buffer(_ERROR_BYTES) for _ in range(2))
        request = Request(
            ctypes.cast(getattr(self._library, entry_name(kernel)), ctypes.c_void_p).value,
            ctypes.addressof(pointers),
            (ctypes.c_uint * 3)(*grid3),
            (ctypes.c_uint * 3)(*block3),
            smem,
            check,
            traffic,
            host_threads,
            time_limit,
            table,
            len(ranges),
            ctypes.addressof(error),
            ctypes.addressof(kind),
            _ERROR_BYTES,
            counters,
            sites,
            len(sites),
        )
        start = time.perf_counter()
        failed = runtime_library().tlsim_launch(ctypes.byref(request))
        seconds = time.perf_counter() - start
        if failed:
            raise self._error(kernel, kind.value.decode(), error.value.decode(errors="replace"))
        traffic = tuple(self._site_report(s) for s in sites[: request.site_count])
        totals = dict(zip(COUNTERS, counters, strict=True))
        return SimReport(
            kernel,
            grid3,
            block3,
            smem,
            seconds,
            totals,
            tuple(sorted(traffic, key=lambda s: s.line)),
        )

    def line_of(self, code: int) -> int | None:
        """The generated line of an offset into the library's code."""
        # The return address lies behind the call: look at the call.
        command = ["addr2line", "-i", "-e", str(self.path), hex(code - 1)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError:
            return None
        for text in done.stdout.splitlines():  # innermost inlined function first
            file, _, line = text.partition(" ")[0].rpartition(":")
            if Path(file).name == GENERATED_FILE and line.isdigit():
                return int(line)
        return None

    def user_span(self, line: int) -> Span | None:
        """The user's line that a generated line comes from."""
        place = self._host.user_lines.get(line)
        return None if place is None else Span(place[0], place[1])

    def _site_report(self, s: Site) -> SiteReport:
        line = s.site & ~_LINE_SITE if s.site & _LINE_SITE else self.line_of(s.site) or 0
        memory = "shared" if s.flags & 2 else "global"
        return SiteReport(
            line,
            self.user_span(line),
            memory,
            bool(s.flags & 1),
            s.requests,
            s.bytes,
            s.units,
            s.ideal,
        )

    def _error(self, kernel: str, kind: str, text: str) -> SimulatorError:
        lines: list[int] = []

        def place(match: re.Match[str]) -> str:
            line = int(match[2]) if match[1] == "line" else self.line_of(int(match[2], 16))
            if line is None:
                return ""
            lines.append(line)
            span = self.user_span(line)
            return f" (line {line})" if span is None else f" (line {line}, {span.place})"

        message = f"{kernel}: {_SITE.sub(place, text)}"
        span = self.user_span(lines[0]) if lines else None
        source = self._host.text.split("\n")
        first = source.index(f'#line 1 "{GENERATED_FILE}"')
        notes = [f"line {n}: {source[first + n].strip()}" for n in dict.fromkeys(lines)]
        error = SimulatorError(message, code="TL1301", span=span, notes=notes)
        error.kind = kind
        return error


def _three(extents: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = (*extents, 1, 1, 1)[:3]
    return int(x), int(y), int(z)


def _check_shape(
    kernel: str, grid: tuple[int, int, int], block: tuple[int, int, int], smem: int
) -> None:
    """What a real launch would refuse."""
    threads = block[0] * block[1] * block[2]
    if not 1 <= threads <= _MAX_THREADS:
        raise ArgumentValueError(
            f"{kernel}: a block has 1 to {_MAX_THREADS} threads, not {threads}", code="TL0931"
        )
    if grid[0] >= 2**31 or grid[1] >= 2**16 or grid[2] >= 2**16 or min(grid) < 0:
        raise ArgumentValueError(f"{kernel}: the grid {grid} is too large", code="TL0932")
    if not 0 <= smem <= _MAX_SHARED:
        raise ArgumentValueError(
            f"{kernel}: {smem} bytes of dynamic shared memory, the most is {_MAX_SHARED}",
            code="TL0933",
        )
