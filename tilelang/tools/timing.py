# SPDX-License-Identifier: Apache-2.0
"""Where compile time goes: a program is run with the cache off, and the passes of each kernel that
it compiles are timed. Out: a table per kernel on standard output."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .script import check_script, run_script

__all__ = ["time_program"]


def time_program(file: Path, arguments: Sequence[str]) -> int:
    """Runs the program as a script; its exit code."""
    check_script(file)
    from tilelang.cache import disable_cache
    from tilelang.jit import kernel

    module: Any = kernel
    original = module.lower

    def timed(func: Any, *args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        artifact = original(func, *args, **kwargs)
        _print(getattr(func, "name", "kernel"), artifact, time.perf_counter() - start)
        return artifact

    disable_cache()
    module.lower = timed
    try:
        return run_script(file, arguments)
    finally:
        module.lower = original


def _print(name: str, artifact: Any, seconds: float) -> None:
    rows = list(artifact.timings.items())
    rest = seconds - sum(t for _, t in rows)
    print(f"{name} for {artifact.target}: {1e3 * seconds:.1f} ms")
    for step, t in [*rows, ("code and compilers", rest)]:
        print(f"  {step:<24} {1e3 * t:8.2f} ms {100 * t / seconds:5.1f} %")
