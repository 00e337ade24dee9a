# SPDX-License-Identifier: Apache-2.0
"""How much room the kernels on disk take, and which of them go when it is too much.

In: the cache's directory and a limit in bytes. Out: entries removed, those that were not used for
longest first, over all versions of us and all platforms that share the directory. What the
simulator has compiled (`sim/`, a file each) counts as well.

Any number of processes may do this at once, without a lock. An entry was last used when its
manifest (or its file) was last touched; it is removed by renaming it (which one of two processes
can do, and which a reader sees as an entry that is not there) and deleting what it was renamed to.
Two that remove at once agree on the order, so that together they remove hardly more than one would.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "MANIFEST", "SIMULATED", "STAGING", "Entry", "entries", "keep_limit", "mark_used",
    "remove_entry",
]  # fmt: skip

MANIFEST = "manifest.json"
STAGING = ".staging"
SIMULATED = "sim"
# Once it is too much, a tenth is freed, so that not every kernel has to look again.
_KEEP = 0.9
# Of the limit: what this process may write before it looks at what others have written.
_LOOK_AGAIN = 16
_ABANDONED_SECONDS = 3600.0


@dataclass(frozen=True)
class Entry:
    """A kernel on disk: a folder, or the simulator's file. used: when, in seconds since the
    epoch."""

    folder: Path
    size: int
    used: float


@dataclass
class _Seen:
    """What this process knows of a directory: the size when it last looked, and what it has
    written since."""

    total: int
    written: int = 0


_seen: dict[Path, _Seen] = {}
_guard = threading.Lock()


def mark_used(folder: Path) -> None:
    """Notes that an entry was used now, if the disk lets us."""
    with contextlib.suppress(OSError):
        os.utime(folder / MANIFEST)


def remove_entry(folder: Path) -> bool:
    """Removes an entry; False if it was gone, or the disk does not let us."""
    try:
        staging = folder.parents[1] / STAGING
        staging.mkdir(mode=0o700, exist_ok=True)
        place = Path(tempfile.mkdtemp(dir=staging))
    except OSError:
        return False
    try:
        os.rename(folder, place / folder.name)
        return True
    except OSError:
        return False
    finally:
        shutil.rmtree(place, ignore_errors=True)


def entries(cache: Path) -> Iterator[Entry]:
    """All entries below the cache's directory, of every version and platform."""
    for folder in cache.glob("*/*/kernels/*"):
        try:
            with os.scandir(folder) as files:
                status = {f.name: f.stat() for f in files}
        except OSError:  # removed meanwhile
            continue
        newest = max((s.st_mtime for s in status.values()), default=0.0)
        used = status[MANIFEST].st_mtime if MANIFEST in status else newest
        yield Entry(folder, sum(s.st_size for s in status.values()), used)
    for path in cache.glob(f"{SIMULATED}/*.so"):
        with contextlib.suppress(OSError):
            yield Entry(path, path.stat().st_size, path.stat().st_mtime)


def keep_limit(cache: Path, written: int, limit: int) -> None:
    """Removes entries if there are more than `limit` bytes, now that `written` were added."""
    with _guard:
        seen = _seen.get(cache)
        if seen is not None:
            seen.written += written
            if seen.total + seen.written <= limit and seen.written * _LOOK_AGAIN < limit:
                return
        found = sorted(entries(cache), key=lambda e: e.used)
        total = sum(e.size for e in found)
        if total > limit:
            _remove_abandoned(cache)
            for entry in found:
                if total <= limit * _KEEP:
                    break
                remove_entry(entry.folder)
                total -= entry.size
        _seen[cache] = _Seen(total)


def _remove_abandoned(cache: Path) -> None:
    """What processes that died were writing or removing."""
    before = time.time() - _ABANDONED_SECONDS
    for place in (*cache.glob(f"*/*/{STAGING}/*"), *cache.glob(f"{STAGING}/*")):
        with contextlib.suppress(OSError):
            if place.stat().st_mtime < before:
                shutil.rmtree(place, ignore_errors=True)
