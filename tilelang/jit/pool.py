# SPDX-License-Identifier: Apache-2.0
"""Processes that lower: lowering is Python, and threads would take turns at it.

In: what `lower` is given, from a thread of `par_compile`. Out: the artifact, or None where this
kernel has to be lowered by the caller itself: it cannot be pickled, a hook or an observer of this
process wants to see it, or there are no processes to be had.

A worker is a fresh interpreter that runs `tilelang.jit.worker` and nothing of the user's: it
inherits no lock, no thread and no device, and needs no guard around the user's main program. It is
started when there is work for it, and ends with the `with` block of its pool.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tilelang.engine import is_observed
from tilelang.engine.callback import postproc_key

from .kernel import lowered_elsewhere
from .worker import Done, Job, receive, send

if TYPE_CHECKING:
    from tilelang.config import Options
    from tilelang.engine import CompiledArtifact
    from tilelang.ir import PrimFunc
    from tilelang.target import Target

__all__ = ["LoweringPool", "processors"]

_PACKAGE = Path(__file__).parents[1]
_PROGRAM = """
import sys
sys.path[:] = {path!r}
from {package}.jit.worker import main
main()
"""


def processors() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Worker:
    """A process of `worker.main`; OSError where it cannot be started."""

    def __init__(self) -> None:
        path = [str(_PACKAGE.parent), *sys.path]
        program = _PROGRAM.format(path=path, package=_PACKAGE.name)
        if not sys.executable:
            raise FileNotFoundError("this interpreter has no program of its own")
        self.process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.requests, self.answers = self.process.stdin, self.process.stdout
        if receive(self.answers) is None:
            self.end()
            raise OSError("the interpreter does not start")

    def ask(self, message: bytes) -> Done | None:
        """The answer; OSError where the process has died."""
        send(self.requests, message)
        answer = receive(self.answers)
        if answer is None:
            raise OSError("the process has died")
        done: Done | None = pickle.loads(answer)
        return done

    def kill(self) -> None:
        """Ends it in the middle of its work; whoever waits for it sees the end of its answers."""
        self.process.kill()

    def end(self) -> None:
        """Ends it after its work, and waits until it is gone."""
        for stream in (self.requests, self.answers):
            with suppress(OSError):  # what was still to be written found no reader
                stream.close()
        self.process.wait()


class LoweringPool:
    """Up to `size` workers, for the time of a `with`."""

    def __init__(self, size: int) -> None:
        # None: one that is not started; those that are come first.
        self.places: queue.LifoQueue[Worker | None] = queue.LifoQueue()
        for _ in range(size):
            self.places.put(None)
        self.workers: list[Worker] = []
        self.usable = size > 1
        self.stopped = False

    def __enter__(self) -> LoweringPool:
        return self

    def __exit__(self, *exc: object) -> None:
        for worker in self.workers:
            worker.end()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Kernels that this thread compiles are lowered by the pool."""
        token = lowered_elsewhere.set(self.lower)
        try:
            yield
        finally:
            lowered_elsewhere.reset(token)

    def lower(
        self, func: PrimFunc, target: Target, target_host: Target, options: Options, packed: bool
    ) -> CompiledArtifact | None:
        """The artifact; None: the caller has to lower it itself."""
        if is_observed() or postproc_key(target) is None:
            return None
        try:
            message = pickle.dumps(Job(func, target, target_host, options, packed))
        except Exception:  # whatever a user's object raises when it is pickled
            return None
        done = self.ask(message)
        if done is None:
            return None
        for text, category in done.warnings:
            warnings.warn(text, category, stacklevel=2)
        return done.artifact

    def stop(self) -> None:
        """Gives up: what is being lowered is not wanted any more."""
        self.stopped = True
        for worker in self.workers:
            worker.kill()

    def ask(self, message: bytes) -> Done | None:
        """Waits for a free worker and for its answer."""
        if not self.usable:
            return None
        worker = self.places.get()
        try:
            if self.stopped:
                raise CancelledError
            if worker is None and self.usable:
                worker = Worker()
                self.workers.append(worker)
            return None if worker is None else worker.ask(message)
        except OSError:
            if self.stopped:
                raise CancelledError from None
            self.usable = False  # no more processes: one that died may have been out of memory
            worker = None
            return None
        finally:
            self.places.put(worker)
