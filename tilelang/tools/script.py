# SPDX-License-Identifier: Apache-2.0
"""Runs a user's program inside a tool, as `python FILE ARGUMENTS` would. Out: its exit code."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from tilelang.errors import ArgumentValueError

__all__ = ["check_script", "run_script"]


def check_script(file: Path) -> None:
    if not file.is_file():
        raise ArgumentValueError(
            f"there is no file {file}", code="TL0980", help="give the path of a Python program"
        )


def run_script(file: Path, arguments: Sequence[str]) -> int:
    """Errors of the program pass; `sys.exit` in it is its exit code."""
    saved = sys.argv, list(sys.path)
    sys.argv, sys.path[:0] = [str(file), *arguments], [str(file.parent)]
    try:
        runpy.run_path(str(file), run_name="__main__")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    finally:
        sys.argv, sys.path[:] = saved
    return 0
