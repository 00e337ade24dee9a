# SPDX-License-Identifier: Apache-2.0
"""Small helpers that every layer needs and that know nothing about kernels."""

from __future__ import annotations

import gc
import importlib
import logging
import math
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = [
    "align_up", "ceildiv", "fewer_collections", "installed_version", "is_power_of_2",
    "next_power_of_2", "prod", "set_log_level",
]  # fmt: skip


def ceildiv(a: int, b: int) -> int:
    """`a / b` rounded up, exactly, for any signs."""
    return -(-a // b)


def align_up(value: int, alignment: int) -> int:
    """The smallest multiple of `alignment` that is not below `value`."""
    return ceildiv(value, alignment) * alignment


def is_power_of_2(value: int) -> bool:
    """Whether `value` is 1, 2, 4, ..."""
    return value > 0 and value & (value - 1) == 0


def next_power_of_2(value: int) -> int:
    """The smallest power of two that is not below `value`; 1 for zero and less."""
    return 1 << max(value - 1, 0).bit_length()


def prod(values: Iterable[int]) -> int:
    """The product, 1 for no values: the number of elements of a shape."""
    return math.prod(values)


def installed_version(distribution: str) -> str | None:
    """The version of an installed distribution, None without it.

    It is part of the name of the folder that describes a distribution. Only one that has no such
    folder on the path is asked for by `importlib.metadata`, whose import takes longer than a hit in
    the kernel cache.
    """
    start = distribution.replace("-", "_").lower() + "-"
    length = len(start)
    for folder in sys.path:
        try:
            names = os.listdir(folder or os.curdir)
        except OSError:  # an archive, or a folder that is not there
            continue
        for name in names:
            # Thousands of names, one at most that begins so: the cheap test comes first.
            if name[:length].lower() == start:
                stem, suffix = os.path.splitext(name)
                if suffix in (".dist-info", ".egg-info"):
                    return stem[length:]
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


# New objects between two looks of the garbage collector while something is compiled. A kernel makes
# tens of thousands, nearly all of which end by reference counts; with Python's 700, looking for
# cycles among them, and once among all objects of the program, took a sixth of a cold compile.
_NEW_OBJECTS = 100_000
_collector = threading.Lock()
_compiling = 0
_usual: tuple[int, int, int] = gc.get_threshold()


@contextmanager
def fewer_collections() -> Iterator[None]:
    """The garbage collector looks less often inside. Its settings are the process's: those of
    before come back when the last thread has left."""
    global _compiling, _usual
    with _collector:
        if _compiling == 0:
            _usual = gc.get_threshold()
            if 0 < _usual[0] < _NEW_OBJECTS:
                gc.set_threshold(_NEW_OBJECTS, *_usual[1:])
        _compiling += 1
    try:
        yield
    finally:
        with _collector:
            _compiling -= 1
            # What somebody else has set meanwhile stays.
            if _compiling == 0 and gc.get_threshold() == (_NEW_OBJECTS, *_usual[1:]):
                gc.set_threshold(*_usual)


def set_log_level(level: str | int) -> None:
    """What of our log is shown: "DEBUG", "INFO", "WARNING", "ERROR", or a number of `logging`."""
    logging.getLogger("tilelang").setLevel(level.upper() if isinstance(level, str) else level)


def __getattr__(name: str) -> Any:
    """Older programs find `map_torch_type` here."""
    if name == "map_torch_type":
        return importlib.import_module("tilelang.utils.tensor").map_torch_type
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
