# SPDX-License-Identifier: Apache-2.0
"""The ideal time of a launch: what each unit of the GPU needs at least for what was counted.

In: a report with traffic. Out: seconds per unit; the slowest binds. A lower bound: units overlap
fully, DRAM moves every byte once, and of instructions only accesses, matrix instructions, shuffles
and barriers are counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .machine import ISSUES_PER_CYCLE, SHARED_BYTES_PER_CYCLE, Machine, machine_of

if TYPE_CHECKING:
    from .report import SimReport

__all__ = ["Estimate", "estimate"]


@dataclass(frozen=True)
class Estimate:
    """units: seconds by unit, of a machine."""

    machine: Machine
    units: Mapping[str, float]

    @property
    def seconds(self) -> float:
        return max(self.units.values())

    @property
    def binds(self) -> str:
        """The unit that takes longest."""
        return max(self.units, key=lambda unit: self.units[unit])

    def __str__(self) -> str:
        parts = ", ".join(f"{u} {1e6 * s:.2f}" for u, s in self.units.items())
        return (
            f"at least {1e6 * self.seconds:.2f} us on {self.machine.name}, bound by {self.binds} "
            f"({parts})"
        )


def estimate(report: SimReport, arch: int) -> Estimate:
    machine, count = machine_of(arch), report.counters
    blocks = max(1, report.grid[0] * report.grid[1] * report.grid[2])
    # The multiprocessor with the most blocks ends last.
    share = -(-blocks // machine.sms) / blocks / machine.clock
    by_kind: dict[str, int] = {}
    for site in report.sites:
        by_kind[site.kind] = by_kind.get(site.kind, 0) + site.units
    dram = sum(t.read_bytes + t.written_bytes for t in report.tensors)
    l2 = 32 * (by_kind.get("global read", 0) + by_kind.get("global write", 0)) + count["tma_bytes"]
    return Estimate(
        machine,
        {
            "DRAM": dram / machine.dram,
            "L2": l2 / (machine.l2 * machine.sms * machine.clock),
            "shared memory": share * _wavefronts(count, by_kind),
            "tensor cores": share * _tensor_cycles(machine, count),
            "issue": share * _instructions(report) / ISSUES_PER_CYCLE,
        },
    )


def _wavefronts(count: Mapping[str, int], by_kind: Mapping[str, int]) -> float:
    """Those of accesses, and those of the units that move or read 128 bytes at a time."""
    bulk = count["wgmma_shared_bytes"] + count["tma_bytes"]
    return (
        by_kind.get("shared read", 0)
        + by_kind.get("shared write", 0)
        + bulk / (SHARED_BYTES_PER_CYCLE)
    )


def _tensor_cycles(machine: Machine, count: Mapping[str, int]) -> float:
    special = ("flops_tf32", "flops_narrow", "flops_double")
    cycles = sum(count[name] / getattr(machine, name) for name in special)
    return cycles + (count["flops"] - sum(count[name] for name in special)) / machine.flops


def _instructions(report: SimReport) -> float:
    """Warp instructions."""
    count = report.counters
    warps = -(-report.block[0] * report.block[1] * report.block[2] // 32)
    accesses = sum(s.requests for s in report.sites if s.is_access)
    by_lane = count["shuffles"] + count["warp_syncs"] + count["mbarrier_waits"] + count["atomics"]
    return accesses + count["mma"] + 4 * count["wgmma"] + by_lane / 32 + warps * count["barriers"]
