# SPDX-License-Identifier: Apache-2.0
"""`python -m tilelang simulate FILE`: a program with its CUDA kernels on the simulated GPU.

In: a Python program and its arguments. Out: a report per kernel, every fault on the user's line,
and an exit code that says whether there was one.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilelang.config import env
from tilelang.errors import SimulatorError

from .script import check_script, run_script

if TYPE_CHECKING:
    from tilelang.sim import Session, SimReport

__all__ = ["Settings", "simulate_program"]


@dataclass(frozen=True)
class Settings:
    """arch: of kernels whose target names none. json: write the report to this file, or to standard
    output for "-". jobs: host threads, 0 for all cores."""

    arch: str = "sm_90a"
    json: str | None = None
    jobs: int = 0
    time_limit: float = 300.0
    check: bool = True
    traffic: bool = True


def simulate_program(file: Path, arguments: Sequence[str], settings: Settings) -> int:
    """Runs the program; 1 if a kernel has a fault, else the program's exit code."""
    check_script(file)
    from tilelang.sim import Session, use_session
    from tilelang.sim.toolchain import host_compiler
    from tilelang.target import Target, simulate_cuda

    host_compiler()  # refuses other systems, with a help line, before anything runs
    default = str(Target(f"cuda-sim -arch={settings.arch}"))
    with _progress() as progress:
        new = Session(
            settings.check, settings.traffic, settings.jobs, settings.time_limit, progress
        )
        saved = env.overrides.get("TILELANG_DEFAULT_TARGET")
        env.TILELANG_DEFAULT_TARGET = default
        try:
            with use_session(new), simulate_cuda(), _output_aside(settings.json == "-"):
                try:
                    code = run_script(file, arguments)
                except SimulatorError:  # the session has noted it
                    code = 1
                finally:
                    sys.stdout.flush()
        finally:
            del env.TILELANG_DEFAULT_TARGET
            if saved is not None:
                env.overrides["TILELANG_DEFAULT_TARGET"] = saved
    _print(new, settings)
    return 1 if new.faults else code


@contextlib.contextmanager
def _output_aside(aside: bool) -> Iterator[None]:
    """What the program and its kernels print goes to standard error, to keep the JSON apart."""
    if not aside:
        yield
        return
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)


@contextlib.contextmanager
def _progress() -> Iterator[Any]:
    """A bar on a terminal for kernels that take a while; None elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[int, Any] = {}

        def show(report: SimReport, done: int, total: int) -> None:
            if id(report) not in tasks:
                tasks[id(report)] = bar.add_task(report.kernel, total=total)
            bar.update(tasks[id(report)], completed=done, visible=done < total)

        yield show


def _print(session: Session, settings: Settings) -> None:
    if settings.json is not None:
        text = json.dumps(
            {
                "kernels": [r.as_dict() for r in session.reports],
                "faults": [_fault(f) for f in session.faults],
            },
            indent=2,
        )
        if settings.json == "-":
            print(text)
        else:
            Path(settings.json).write_text(text + "\n", encoding="utf-8")
            print(f"report written to {settings.json}", file=sys.stderr)
    else:
        for report in session.reports:
            print(report)
        if not session.reports and not session.faults:
            print("no kernel ran in the simulator: the program launched none for a CUDA target")
    for fault in session.faults:
        print(fault.render(), file=sys.stderr)


def _fault(fault: SimulatorError) -> dict[str, Any]:
    return {
        "kind": fault.kind,
        "message": fault.message,
        "place": None if fault.span is None else fault.span.place,
        "notes": [str(n) for n in fault.notes],
    }
