# SPDX-License-Identifier: Apache-2.0
"""How launches are simulated in this process, and what they found.

In: a `Session` made current by `use_session`. Out: its reports and faults, of every launch since.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilelang.errors import SimulatorError

    from .library import Request
    from .report import SimReport

__all__ = ["Session", "session", "use_session"]

_LOOK_SECONDS = 0.1  # between two looks at how far a kernel is
_KEPT = 256  # reports of a long-running process


class Kept(list[Any]):
    """A list that forgets its oldest entries."""

    def append(self, entry: Any) -> None:
        super().append(entry)
        del self[: max(0, len(self) - _KEPT)]


@dataclass
class Session:
    """check: look for faults. traffic: count bank conflicts and sectors of every access, which
    takes longer. host_threads: that blocks run on, 0 for all cores. time_limit: seconds for a
    kernel, 0 for none. progress: called with a launch's report, the blocks done and all blocks;
    from another thread."""

    check: bool = True
    traffic: bool = False
    host_threads: int = 0
    time_limit: float = 300.0
    progress: Callable[[SimReport, int, int], None] | None = None
    reports: list[SimReport] = field(default_factory=Kept)
    faults: list[SimulatorError] = field(default_factory=Kept)

    def __post_init__(self) -> None:
        if self.host_threads <= 0:
            self.host_threads = len(os.sched_getaffinity(0))

    @contextlib.contextmanager
    def watching(self, report: SimReport, request: Request) -> Iterator[None]:
        """Tells `progress` how far the launch is, while the body runs it."""
        progress = self.progress
        if progress is None:
            yield
            return
        total, ended = report.grid[0] * report.grid[1] * report.grid[2], threading.Event()

        def look() -> None:
            while not ended.wait(_LOOK_SECONDS):
                progress(report, request.blocks_done, total)

        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
            progress(report, request.blocks_done, total)


_current = [Session()]


def session() -> Session:
    """The session of launches that are made now."""
    return _current[-1]


@contextlib.contextmanager
def use_session(new: Session) -> Iterator[Session]:
    """Launches in the body belong to `new`, in all threads."""
    _current.append(new)
    try:
        yield new
    finally:
        _current.remove(new)
