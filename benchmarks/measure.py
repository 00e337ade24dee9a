# SPDX-License-Identifier: Apache-2.0
"""Timing on a GPU, fairly: two regimes, contestants interleaved, medians.

burst: the GPU idles, three warm-up calls, ten timed ones: the clock is high. sustained:
back-to-back calls until the card sits at its power limit. Contestants of one group are timed
round-robin in the same run with the same live inputs; only rates of one regime compare."""

from __future__ import annotations

import itertools
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

Call = Callable[[], Any]

IDLE_S = 0.6
BURST_CALLS = 10
SUSTAINED_S = 0.3


@dataclass
class Row:
    """One contestant of a group. rates are in `unit` (TFLOP/s or GB/s); error against the
    reference."""

    group: str
    name: str
    unit: str
    burst: float
    sustained: float
    error: float
    extra: dict[str, Any] = field(default_factory=dict)

    def line(self, base: Row | None) -> str:
        ratio = (
            f"  {self.burst / base.burst:5.2f} x {self.sustained / base.sustained:5.2f} x"
            if base
            else ""
        )
        return (
            f"  {self.name:<42} burst {self.burst:8.1f}  sustained {self.sustained:8.1f}"
            f" {self.unit}{ratio}  error {self.error:.1e} {self.extra or ''}"
        )


def event_times(f: Call, calls: int) -> list[float]:
    """Milliseconds of each of `calls` calls."""
    import torch

    marks = [torch.cuda.Event(enable_timing=True) for _ in range(calls + 1)]
    marks[0].record()
    for m in marks[1:]:
        f()
        m.record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) for a, b in itertools.pairwise(marks)]


def burst_ms(f: Call) -> float:
    import torch

    torch.cuda.synchronize()
    time.sleep(IDLE_S)
    event_times(f, 3)
    return statistics.median(event_times(f, BURST_CALLS))


def sustained_ms(f: Call) -> float:
    one = event_times(f, 3)[-1]
    for _ in range(max(4, int(SUSTAINED_S * 700 / max(one, 1e-3)))):
        f()
    return statistics.fmean(event_times(f, max(6, int(SUSTAINED_S * 1000 / max(one, 1e-3)))))


@dataclass
class Contestant:
    """call: one run. error: of its output against the group's reference (checked after the
    timing)."""

    name: str
    call: Call
    error: Callable[[], float]
    extra: dict[str, Any] = field(default_factory=dict)


def compete(
    group: str, work: float, unit: str, contestants: Sequence[Contestant], rounds: int = 3
) -> list[Row]:
    """Times all contestants round-robin (forwards and backwards in turn); the first is the
    baseline.

    work: operations or bytes of one call, in 1e9 per `unit`-second (1e12 for TFLOP/s is passed as
    1e3 * 1e9)."""
    print(f"## {group}", flush=True)
    bursts: dict[str, list[float]] = {c.name: [] for c in contestants}
    steady: dict[str, list[float]] = {c.name: [] for c in contestants}
    for c in contestants:
        c.call()
    for n in range(rounds):
        for c in contestants if n % 2 == 0 else reversed(contestants):
            bursts[c.name].append(burst_ms(c.call))
    for n in range(rounds):
        for c in contestants if n % 2 == 0 else reversed(contestants):
            steady[c.name].append(sustained_ms(c.call))
    rows: list[Row] = []
    for c in contestants:
        rate = [work / statistics.median(t[c.name]) for t in (bursts, steady)]
        row = Row(group, c.name, unit, rate[0], rate[1], c.error(), c.extra)
        rows.append(row)
        print(row.line(rows[0] if len(rows) > 1 else None), flush=True)
    return rows


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    out: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "cpu": _cpu_name(),
    }
    out["commit"] = _commit()
    out["cores"] = os.cpu_count()
    out["load"] = [round(x, 2) for x in os.getloadavg()]
    out["packages"] = {p: _version(p) for p in ("numpy", "llvmlite", "apache-tvm-ffi")}
    try:
        import torch
    except ImportError:
        return out
    out["torch"] = torch.__version__
    if torch.cuda.is_available():
        out["gpu"] = torch.cuda.get_device_name()
        query = ["nvidia-smi", "--query-gpu=driver_version,power.limit", "--format=csv,noheader"]
        out["driver"] = subprocess.run(
            query, capture_output=True, text=True, check=False
        ).stdout.strip()
    return out


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    """Of the checkout; BENCH_COMMIT names it where a copy without its history is measured."""
    named = os.environ.get("BENCH_COMMIT")
    if named:
        return named
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--verify", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next(
        (x.split(":", 1)[1].strip() for x in lines if x.startswith("model name")),
        platform.processor(),
    )


def save(path: Path, rows: Sequence[Row], **more: Any) -> None:
    """The rows as JSON, with the machine, versions and commit."""
    data = {"machine": machine(), **more, "rows": [asdict(r) for r in rows]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
