# SPDX-License-Identifier: Apache-2.0
"""`python -m tilelang fuzz`: random programs, run everywhere, until two results differ.

In: seconds, a seed, targets. Out: a line of progress, the failure, a small program that shows it,
and an exit code that says whether there was one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tilelang.target import determine_target

__all__ = ["fuzz_programs"]

_LOG_SECONDS = 10.0


def fuzz_programs(
    seconds: float, seed: int, programs: int | None, targets: Sequence[str] | None, out: Path | None
) -> int:
    """0 if every program meant the same everywhere, else 1."""
    from tilelang.testing import fuzz

    chosen = targets or fuzz.TARGETS
    for target in chosen:
        determine_target(target)
    last = [f"no programs in {seconds:g} s"]

    terminal, told = sys.stderr.isatty(), time.monotonic()

    def progress(line: str) -> None:
        """In a terminal one line that changes, in a log a line now and then."""
        nonlocal told
        last[0] = line
        if terminal:
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - told > _LOG_SECONDS:
            told = time.monotonic()
            print(line, file=sys.stderr, flush=True)

    found = fuzz.fuzz(seconds, seed, chosen, programs, progress)
    if terminal:
        print(file=sys.stderr)
    if found is None:
        print(f"no failure: {last[0]}")
        return 0
    print(f"seed {found.seed}: {found.failure.kind} on {found.failure.target}")
    print(found.failure.message)
    if out is None:
        print(found.file())
    else:
        out.write_text(found.file(), encoding="utf-8")
        print(f"{out} shows it")
    return 1
