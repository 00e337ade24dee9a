# SPDX-License-Identifier: Apache-2.0
"""What a simulated launch counted, as text and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilelang.errors import Span

__all__ = ["SimReport", "SiteReport"]


@dataclass(frozen=True)
class SiteReport:
    """Traffic of one access in the kernel.

    line: of the generated text; span: the user's, if known. memory: "shared" or "global".
    requests: instructions of a warp. bytes: what the lanes asked for. units: shared-memory
    wavefronts or 32-byte sectors; ideal: the least number for these bytes.
    """

    line: int
    span: Span | None
    memory: str
    writes: bool
    requests: int
    bytes: int
    units: int
    ideal: int

    @property
    def efficiency(self) -> float:
        """1 where there are no bank conflicts, or full coalescing."""
        return self.ideal / self.units if self.units else 1.0


@dataclass
class SimReport:
    """One launch. counters: by name, empty if there was nothing to run."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    seconds: float = 0.0
    counters: Mapping[str, int] = field(default_factory=dict)
    sites: tuple[SiteReport, ...] = ()

    def as_dict(self) -> dict[str, object]:
        return {
            "kernel": self.kernel,
            "grid": list(self.grid),
            "block": list(self.block),
            "shared_bytes": self.shared_bytes,
            "seconds": self.seconds,
            "counters": dict(self.counters),
            "sites": [
                {
                    **vars(s),
                    "span": None if s.span is None else s.span.place,
                    "efficiency": s.efficiency,
                }
                for s in self.sites
            ],
        }

    def to_json(self) -> str:
        return json.dumps(self.as_dict(), indent=2)

    def __str__(self) -> str:
        head = f"{self.kernel}: grid {self.grid}, block {self.block}, {self.shared_bytes} bytes of"
        lines = [f"{head} dynamic shared memory, simulated in {self.seconds:.3f} s"]
        lines += [f"  {name:16} {value}" for name, value in self.counters.items() if value]
        return "\n".join([*lines, *map(_site_line, self.sites)])


def _site_line(s: SiteReport) -> str:
    where = f"line {s.line}" if s.span is None else f"line {s.line}, {s.span.place}"
    unit = "wavefronts" if s.memory == "shared" else "sectors"
    access = f"{s.memory} {'write' if s.writes else 'read'}"
    percent = f"{100 * s.efficiency:.0f} %"
    return (
        f"  {where}: {access}, {s.requests} requests, {s.units} {unit}, ideal {s.ideal} ({percent})"
    )
