# SPDX-License-Identifier: Apache-2.0
"""What a simulated launch counted, as text and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .estimate import Estimate, estimate
from .registers import NO_REGISTERS, Registers

if TYPE_CHECKING:
    from tilelang.errors import Span

__all__ = ["SimReport", "SiteReport", "TensorReport"]

_MOST_LINES = 12  # of sites in the text; the JSON has all


@dataclass(frozen=True)
class SiteReport:
    """One place in the kernel and what it does there.

    line: of the generated text; span: the user's, if known. kind: one of `library.SITE_KINDS`.
    requests: instructions of a warp for accesses, else how often it was done. bytes: what the lanes
    asked for (of matrix instructions: FLOP). units: of an access, shared-memory wavefronts or
    32-byte sectors; ideal: the least number for these bytes.
    """

    line: int
    span: Span | None
    kind: str
    requests: int
    bytes: int
    units: int
    ideal: int

    @property
    def is_access(self) -> bool:
        return self.kind.startswith(("global", "shared"))

    @property
    def memory(self) -> str:
        """ "shared" or "global", of an access."""
        return self.kind.split()[0] if self.is_access else ""

    @property
    def writes(self) -> bool:
        return self.kind.endswith("write")

    @property
    def efficiency(self) -> float:
        """1 where there are no bank conflicts, or full coalescing."""
        return self.ideal / self.units if self.units else 1.0

    def as_dict(self) -> dict[str, object]:
        row = {**vars(self), "span": None if self.span is None else self.span.place}
        return {**row, "efficiency": self.efficiency} if self.is_access else row


@dataclass(frozen=True)
class TensorReport:
    """Distinct 32-byte sectors of an argument that were read and written, in bytes."""

    name: str
    bytes: int
    read_bytes: int
    written_bytes: int


@dataclass
class SimReport:
    """One launch. counters: by name, empty if there was nothing to run. arch: 10 * major + minor.
    Sites other than matrix loads, and tensors, are there if traffic was counted."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    seconds: float = 0.0
    counters: Mapping[str, int] = field(default_factory=dict)
    sites: tuple[SiteReport, ...] = ()
    tensors: tuple[TensorReport, ...] = ()
    registers: Registers = NO_REGISTERS
    arch: int = 80

    @property
    def ideal(self) -> Estimate | None:
        """The least time on a GPU, if traffic was counted."""
        return estimate(self, self.arch) if self.tensors and self.counters else None

    def as_dict(self) -> dict[str, object]:
        ideal = self.ideal
        return {
            "kernel": self.kernel,
            "grid": list(self.grid),
            "block": list(self.block),
            "shared_bytes": self.shared_bytes,
            "registers": self.registers._asdict(),
            "seconds": self.seconds,
            "counters": dict(self.counters),
            "ideal": ideal
            and {
                "machine": ideal.machine.name,
                "seconds": ideal.seconds,
                "binds": ideal.binds,
                "units": dict(ideal.units),
            },
            "tensors": [vars(t) for t in self.tensors],
            "sites": [s.as_dict() for s in self.sites],
        }

    def to_json(self) -> str:
        return json.dumps(self.as_dict(), indent=2)

    def __str__(self) -> str:
        lines = [
            f"{self.kernel}: grid {self.grid}, block {self.block}, {self.shared_bytes} bytes of "
            f"dynamic shared memory, simulated in {self.seconds:.3f} s",
            f"  registers: {self.registers}",
        ]
        if self.ideal is not None:
            lines.append(f"  ideal: {self.ideal}")
        lines += [f"  {name:18} {value}" for name, value in self.counters.items() if value]
        lines += [
            f"  {t.name}: {t.bytes} bytes, {t.read_bytes} read, {t.written_bytes} written"
            for t in self.tensors
        ]
        # The most wasteful first, then the busiest.
        order = sorted(self.sites, key=lambda s: (s.ideal - s.units, -s.requests))
        lines += [_site_line(s) for s in order[:_MOST_LINES]]
        if len(order) > _MOST_LINES:
            lines.append(f"  and {len(order) - _MOST_LINES} more places, all of them in the JSON")
        return "\n".join(lines)


def _site_line(s: SiteReport) -> str:
    where = f"line {s.line}" if s.span is None else f"line {s.line}, {s.span.place}"
    if not s.is_access:
        return f"  {where}: {s.kind}, {s.requests} times"
    unit = "wavefronts" if s.memory == "shared" else "sectors"
    percent = f"{100 * s.efficiency:.0f} %"
    return (
        f"  {where}: {s.kind}, {s.requests} requests, {s.units} {unit}, ideal {s.ideal} ({percent})"
    )
