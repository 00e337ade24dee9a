# SPDX-License-Identifier: Apache-2.0
"""What NVRTC and nvcc have in common: flags, the ptxas report, and errors a person can use.

In: `Options`, a compiler's log, the generated source. Out: command-line flags; `Cubin`, which
carries registers, spills and shared memory of each kernel; a `ToolchainError` that shows the lines
around the fault.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tilelang.config import Options
from tilelang.errors import Note, ToolchainError

__all__ = ["SOURCE_NAME", "Cubin", "KernelUsage", "common_flags", "parse_usage", "refused"]

SOURCE_NAME = "kernel.cu"
_AROUND = 2  # lines shown on either side of a fault
_MAX_FAULTS = 3


@dataclass(frozen=True)
class KernelUsage:
    """What ptxas says about one kernel; sizes in bytes. `smem` is static shared memory."""

    name: str
    registers: int = 0
    stack: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    smem: int = 0
    barriers: int = 0

    @property
    def spills(self) -> int:
        return self.spill_stores + self.spill_loads


class Cubin(NamedTuple):
    """Machine code and the compiler's log."""

    data: bytes
    log: str

    @property
    def usage(self) -> dict[str, KernelUsage]:
        """Per kernel, from the log (empty if there is no report in it)."""
        return parse_usage(self.log)

    @property
    def serialized_wgmma(self) -> bool:
        """Did ptxas give up on running wgmma asynchronously (its messages C7510 to C7514)?"""
        return re.search(r"\bC751[0-4]\b|wgmma.*serializ", self.log) is not None

    @property
    def problems(self) -> list[str]:
        """What makes a kernel that compiles much slower than it should be, one line each."""
        out = [
            f"{u.name}: {u.spills} bytes of registers are spilled to memory"
            for u in self.usage.values()
            if u.spills
        ]
        if self.serialized_wgmma:
            out.append("wgmma instructions wait for each other: ptxas could not overlap them")
        return out


_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_PROPERTIES = re.compile(r"Function properties for (\w+)")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SMEM = re.compile(r"(\d+)(?:\+\d+)? bytes smem")


def parse_usage(log: str) -> dict[str, KernelUsage]:
    """The report that `ptxas -v` writes, per entry function."""
    found: dict[str, dict[str, int]] = {}
    entry = here = ""
    for line in log.splitlines():
        if m := _ENTRY.search(line):
            entry = here = m[1]
            found.setdefault(entry, {})
        elif m := _PROPERTIES.search(line):
            here = m[1]
        elif here != entry or not entry:
            continue  # a function that was not inlined: its frame is counted by its callers
        elif m := _SPILLS.search(line):
            found[entry].update(stack=int(m[1]), spill_stores=int(m[2]), spill_loads=int(m[3]))
        elif m := _USED.search(line):
            rest = {"barriers": _BARRIERS.search(line), "smem": _SMEM.search(line)}
            found[entry].update({k: int(x[1]) for k, x in rest.items() if x}, registers=int(m[1]))
    return {name: KernelUsage(name, **values) for name, values in found.items()}


def common_flags(options: Options) -> list[str]:
    """Flags that NVRTC and nvcc spell alike."""
    flags = ["--std=c++17", "--ptxas-options=-v"]
    if options.fast_math:
        flags.append("--use_fast_math")
    if options.line_directives:
        flags.append("-lineinfo")
    if options.ptxas_register_usage_level is not None:
        flags.append(f"--ptxas-options=--register-usage-level={options.ptxas_register_usage_level}")
    return [*flags, *options.compile_flags]


_FAULT = re.compile(
    r"^(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\): (?:catastrophic )?error: (?P<text>.*)$", re.M
)
_OTHER = re.compile(r"^.*(?:error|fatal)\b.*$", re.M | re.I)


def refused(compiler: str, log: str, source: str, headers: Mapping[str, str]) -> ToolchainError:
    """The error for a source that the compiler does not accept, with the lines at fault."""
    faults = list(_FAULT.finditer(log))
    if not faults:
        other = _OTHER.search(log)
        text = other[0] if other else (log or "no message")
        text = text.strip().removeprefix("nvrtc: error: ")
        return ToolchainError(
            f"{compiler} failed: {text}",
            code="TL0807",
            help="check compile_flags; TILELANG_DUMP=source writes the source",
            notes=[_whole(log)] if log.strip() else [],
        )
    notes: list[Note | str] = []
    for fault in faults[:_MAX_FAULTS]:
        where, line = fault["file"], int(fault["line"])
        text = (
            source if where.endswith(SOURCE_NAME) else headers.get(_header_name(where, headers), "")
        )
        shown = _lines_around(text, line)
        notes.append(f"{where}:{line}: {fault['text']}{shown}")
    if len(faults) > _MAX_FAULTS:
        notes.append(f"and {len(faults) - _MAX_FAULTS} more")
    return ToolchainError(
        f"{compiler} refused the generated code: {faults[0]['text']}",
        code="TL0801",
        notes=notes,
        help="if the fault is not in CUDA code of your own, this is a bug in tilelang; "
        "TILELANG_DUMP=source writes the whole source",
    )


def _header_name(where: str, headers: Mapping[str, str]) -> str:
    """nvcc reads headers from files, so the include name is the end of a path."""
    return next((name for name in headers if where.endswith(name)), where)


def _lines_around(text: str, line: int) -> str:
    lines = text.splitlines()
    if not 1 <= line <= len(lines):
        return ""  # a #line directive: the place is in the user's own file, which the message names
    first, last = max(1, line - _AROUND), min(len(lines), line + _AROUND)
    width = len(str(last))
    rows = [
        f"{'>' if n == line else ' '} {n:>{width}} | {lines[n - 1]}" for n in range(first, last + 1)
    ]
    return "".join(f"\n     {row}" for row in rows)


def _whole(log: str) -> str:
    lines = log.strip().splitlines()
    return "\n     ".join(["the compiler said:", *lines[:20]])
