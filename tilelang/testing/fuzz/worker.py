# SPDX-License-Identifier: Apache-2.0
"""Programs are judged in another process: one that crashes or never ends is a failure like others.

In: a text, sizes and targets. Out: a `Failure` or None.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection

from .judge import Failure, failure_of

__all__ = ["Worker"]

_SECONDS = 300.0  # for one program on all targets


class Worker:
    """A process that is started when it is needed, and again after a crash."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._process: multiprocessing.process.BaseProcess | None = None
        self._pipe: Connection | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None

    def judge(self, text: str, sizes: Mapping[str, int], targets: Sequence[str]) -> Failure | None:
        """Target by target, so that a crash names the one that made it."""
        for target in targets:
            found = self._judge(text, dict(sizes), target)
            if found is not None:
                return found
        return None

    def _judge(self, text: str, sizes: dict[str, int], target: str) -> Failure | None:
        pipe = self._started()
        pipe.send((text, sizes, (target,)))
        if not pipe.poll(_SECONDS):
            self.stop()
            return Failure(target, "hang", f"no result after {_SECONDS:.0f} seconds")
        try:
            found: Failure | None = pipe.recv()
        except EOFError:
            code = self._exit_code()
            return Failure(target, "crash", f"the process ended with exit code {code}")
        return found

    def _started(self) -> Connection:
        if self._process is None or self._pipe is None:
            self._pipe, other = self._context.Pipe()
            self._process = self._context.Process(target=_serve, args=(other,), daemon=True)
            self._process.start()
            other.close()
        return self._pipe

    def _exit_code(self) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        process.join()
        return process.exitcode


def _serve(pipe: Connection) -> None:
    while True:
        try:
            text, sizes, targets = pipe.recv()
        except EOFError:
            return
        pipe.send(failure_of(text, sizes, targets))
