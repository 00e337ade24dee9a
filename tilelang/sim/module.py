# SPDX-License-Identifier: Apache-2.0
"""Launches kernels of a compiled text.

In: host pointers and the memory ranges behind them. Out: a `SimReport`, or a `SimulatorError` that
says what the kernel does wrong and on which line.
"""

from __future__ import annotations

import ctypes
import math
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tilelang.errors import ArgumentValueError, SimulatorError

from .library import COUNTERS, SITE_KINDS, Range, Request, Site, runtime_library
from .lines import LINE_SITE, LineTable
from .registers import declared_registers
from .report import SimReport, SiteReport, TensorReport
from .session import session
from .source import HostSource, entry_name

__all__ = ["SimModule"]

_SITE = re.compile(r" ?\{(line|code):([0-9a-f]+)\}")
_ERROR_BYTES = 4096
# With these, blocks may wait for each other: they run on one host thread, and their order is exact.
_WAITS = re.compile(r"\btl::(memory_fence|atomic_load|atomic_store|sync_grid)\b|\bvolatile\b")
_MAX_SITES = 1024
_MAX_THREADS = 1024
_MAX_SHARED = 227 * 1024
_MAX_CLUSTER = 16  # with the non-portable size allowed (CUDA C++ Programming Guide, clusters)


class SimModule:
    """A loaded library with the kernels of one text."""

    def __init__(self, path: Path, host: HostSource, kernels: Sequence[str]) -> None:
        self.path = path
        self.kernels = tuple(kernels)
        self.lines = LineTable(path, host)
        self.waits_between_blocks = bool(_WAITS.search(host.text))
        self._library = ctypes.CDLL(str(path))

    def launch(
        self,
        kernel: str,
        grid: Sequence[int],
        block: Sequence[int],
        smem: int,
        args: Sequence[Any],
        ranges: Sequence[tuple[int, int, str, bool]] = (),
        check: bool | None = None,
        traffic: bool | None = None,
        host_threads: int | None = None,
        time_limit: float | None = None,
        arch: int = 80,
        defined: Mapping[int, Any] = MappingProxyType({}),
        cluster: Sequence[int] = (),
        cooperative: bool = False,
    ) -> SimReport:
        """Runs one kernel to its end. What is None is as the session has it.

        args: ctypes values (c_void_p, c_int, a tensor map, …) in the order of the parameters.
        ranges: (address, bytes, name, writable) of all global memory that the kernel may access.
        traffic: count bank conflicts and sectors of every access, which takes longer.
        host_threads: that blocks run on. time_limit: seconds after which the kernel is stopped; 0
        for none. cluster: blocks of a cluster. cooperative: all blocks run at once.
        defined: by the address of a range, a ctypes array that says of each byte whether it has a
        value; the kernel's writes are added.
        """
        now = session()
        self._check_launch(kernel, _three(grid), _three(block), smem, _three(cluster))
        report = SimReport(kernel, _three(grid), _three(block), smem, arch=arch)
        report.registers = declared_registers(self.lines.host.text, kernel, math.prod(report.block))
        if 0 in report.grid:
            return report
        pointers = (ctypes.c_void_p * max(1, len(args)))(*(ctypes.addressof(a) for a in args))
        rows = [Range(p, n, name.encode(), w, _address(defined.get(p))) for p, n, name, w in ranges]
        counters = (ctypes.c_uint64 * len(COUNTERS))()
        sites = (Site * _MAX_SITES)()
        error, kind = (ctypes.create_string_buffer(_ERROR_BYTES) for _ in range(2))
        entry = ctypes.cast(getattr(self._library, entry_name(kernel)), ctypes.c_void_p).value
        request = Request(
            entry=entry, args=ctypes.addressof(pointers), grid=report.grid, block=report.block,
            cluster=_three(cluster), cooperative=cooperative, together=self.waits_between_blocks,
            shared_bytes=smem, check=now.check if check is None else check,
            count_traffic=now.traffic if traffic is None else traffic,
            host_threads=min(host_threads or now.host_threads, math.prod(report.grid)),
            time_limit=now.time_limit if time_limit is None else time_limit,
            ranges=(Range * max(1, len(rows)))(*rows), range_count=len(rows),
            error=ctypes.addressof(error), error_kind=ctypes.addressof(kind),
            error_size=_ERROR_BYTES, counters=counters, sites=sites, site_capacity=_MAX_SITES,
        )  # fmt: skip
        start = time.perf_counter()
        with now.watching(report, request):
            failed = runtime_library().tlsim_launch(ctypes.byref(request))
        report.seconds = time.perf_counter() - start
        report.counters = dict(zip(COUNTERS, counters, strict=True))
        report.sites = self._site_reports(sites[: request.site_count])
        if request.count_traffic:
            report.tensors = tuple(
                TensorReport(r.name.decode(), r.bytes, r.read, r.written)
                for r in request.ranges[: len(rows)]
            )
        if failed:
            fault = self._error(kernel, kind.value.decode(), error.value.decode(errors="replace"))
            now.faults.append(fault)
            raise fault
        now.reports.append(report)
        return report

    def _check_launch(
        self, kernel: str, grid: Sequence[int], block: Sequence[int], smem: int,
        cluster: Sequence[int],
    ) -> None:  # fmt: skip
        """What a real launch would refuse."""
        if kernel not in self.kernels:
            names = ", ".join(self.kernels)
            raise ArgumentValueError(
                f"no kernel {kernel!r}; there are {names}",
                code="TL0930",
                help="name one of them",
            )
        threads = block[0] * block[1] * block[2]
        if not 1 <= threads <= _MAX_THREADS:
            raise ArgumentValueError(
                f"{kernel}: a block has 1 to {_MAX_THREADS} threads, not {threads}",
                code="TL0931",
                help="use fewer threads",
            )
        if grid[0] >= 2**31 or grid[1] >= 2**16 or grid[2] >= 2**16 or min(grid) < 0:
            raise ArgumentValueError(
                f"{kernel}: the grid {grid} is too large",
                code="TL0932",
                help="use fewer blocks",
            )
        if not 0 <= smem <= _MAX_SHARED:
            raise ArgumentValueError(
                f"{kernel}: {smem} bytes of dynamic shared memory, the most is {_MAX_SHARED}",
                code="TL0933",
                help="use less shared memory",
            )
        whole = all(c > 0 and g % c == 0 for g, c in zip(grid, cluster, strict=True))
        if not whole or math.prod(cluster) > _MAX_CLUSTER:
            raise ArgumentValueError(
                f"{kernel}: clusters of {tuple(cluster)} blocks do not fill the grid {grid}, or "
                f"have more than {_MAX_CLUSTER} blocks",
                code="TL0925",
            )

    def _site_reports(self, sites: Sequence[Site]) -> tuple[SiteReport, ...]:
        line_of = self.lines.of_sites(s.site for s in sites)
        rows = [_site_report(s, line_of[s.site], self.lines) for s in sites]
        return tuple(sorted(rows, key=lambda s: (s.line, s.kind)))

    def _error(self, kernel: str, kind: str, text: str) -> SimulatorError:
        """The runtime's report with lines instead of sites."""
        found = [(m[0], _site_of(m)) for m in _SITE.finditer(text)]
        line_of = self.lines.of_sites(site for _, site in found)
        for token, site in found:
            line = line_of[site]
            span = self.lines.user_span(line)
            place = f"line {line}" if span is None else f"line {line}, {span.place}"
            text = text.replace(token, f" ({place})" if line else "", 1)
        lines = [line for line in dict.fromkeys(line_of[site] for _, site in found) if line]
        error = SimulatorError(
            f"{kernel}: {text}",
            code="TL1301",
            span=self.lines.user_span(lines[0]) if lines else None,
            notes=[f"line {n}: {self.lines.text(n)}" for n in lines],
        )
        error.kind = kind
        return error


def _site_of(match: re.Match[str]) -> int:
    return LINE_SITE | int(match[2]) if match[1] == "line" else int(match[2], 16)


def _site_report(s: Site, line: int, lines: LineTable) -> SiteReport:
    kind, span = SITE_KINDS[s.kind], lines.user_span(line)
    return SiteReport(line, span, kind, s.requests, s.bytes, s.units, s.ideal)


def _address(array: Any) -> int | None:
    return None if array is None else ctypes.addressof(array)


def _three(extents: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = (*extents, 1, 1, 1)[:3]
    return int(x), int(y), int(z)
