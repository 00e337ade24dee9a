# SPDX-License-Identifier: Apache-2.0
"""A process that lowers kernels for `par_compile`: what `pool.Worker` starts and talks to.

In: a `Job` per message on standard input. Out: on standard output, first a message that it is
ready, then per job a `Done`, or None where it failed (the caller then does the work itself, and
gets the error with its own traceback). A message is eight bytes of length and a pickle. End of
input ends the process, so none outlives whoever started it.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import warnings
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilelang.config import Options
    from tilelang.engine import CompiledArtifact
    from tilelang.ir import PrimFunc
    from tilelang.target import Target

__all__ = ["Done", "Job", "main", "receive", "send"]

_LENGTH = 8


@dataclass(frozen=True)
class Job:
    """One call of `lower`. packed: with host code and a device binary; else the kernels alone."""

    func: PrimFunc
    target: Target
    target_host: Target
    options: Options
    packed: bool


@dataclass(frozen=True)
class Done:
    """The artifact, without its IR, and the warnings that lowering gave: (text, class)."""

    artifact: CompiledArtifact
    warnings: tuple[tuple[str, type[Warning]], ...]


def send(stream: IO[bytes], data: bytes) -> None:
    """Writes one message."""
    stream.write(len(data).to_bytes(_LENGTH, "little"))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """The next message; None at the end of the stream."""
    head = stream.read(_LENGTH)
    if len(head) < _LENGTH:
        return None
    size = int.from_bytes(head, "little")
    data = stream.read(size)
    return data if len(data) == size else None


def main() -> None:
    """Works until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the caller's business
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a kernel's trace prints is no answer
    send(answers, pickle.dumps(None))
    while (message := receive(sys.stdin.buffer)) is not None:
        try:
            answer = pickle.dumps(_done(pickle.loads(message)))
        except Exception:
            answer = pickle.dumps(None)
        send(answers, answer)


def _done(job: Job) -> Done:
    from tilelang.engine import BACKENDS, lower

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        artifact: Any = lower(
            job.func, job.target, job.target_host, enable_host_codegen=job.packed,
            enable_device_compile=job.packed, options=job.options,
        )  # fmt: skip
        module = artifact.codegen_mod
        if not job.packed and module.binary is None:
            BACKENDS[module.kind].compile(module, job.target, job.options)
    plain = replace(artifact, host_mod=artifact.rt_mod, device_mod=None)
    return Done(plain, tuple((str(w.message), w.category) for w in caught))
