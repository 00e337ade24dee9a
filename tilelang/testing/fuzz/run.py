# SPDX-License-Identifier: Apache-2.0
"""Random programs for a while. In: seconds, a seed, targets. Out: the first failure with a small
program, as the text of a Python file; None if there was none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from .choices import Choices
from .generate import Program, generate
from .judge import TARGETS, Failure
from .minimise import minimise
from .worker import Worker

__all__ = ["Found", "fuzz", "minimised", "reproducer"]

Progress = Callable[[str], None]

_REPRODUCER = '''\
"""{kind} on {target}: python -m tilelang fuzz --seed {seed} --programs 1"""

{text}

if __name__ == "__main__":
    from tilelang.testing.fuzz import check

    check(program, {sizes}, {target!r})
'''


@dataclass(frozen=True)
class Found:
    seed: int
    failure: Failure
    program: Program

    def file(self) -> str:
        return reproducer(self)


def reproducer(found: Found) -> str:
    """A Python program that shows the failure: it ends with an exit code of 1 while it is there."""
    return _REPRODUCER.format(
        kind=found.failure.kind, target=found.failure.target, seed=found.seed,
        text=found.program.text, sizes=found.program.sizes,
    )  # fmt: skip


def fuzz(
    seconds: float,
    seed: int = 0,
    targets: Sequence[str] = TARGETS,
    programs: int | None = None,
    progress: Progress = lambda line: None,
) -> Found | None:
    """Programs of the seeds from `seed` on, until one fails."""
    start = time.monotonic()
    with Worker() as worker:
        for n, at in enumerate(_seeds(seed, programs)):
            if time.monotonic() - start > seconds:
                break
            choices = Choices(seed=at)
            program = generate(choices)
            failure = worker.judge(program.text, program.sizes, targets)
            if failure is not None:
                progress(f"seed {at}: {failure.kind} on {failure.target}; making it smaller")
                small, failure = minimised(choices, failure, worker, progress)
                return Found(at, failure, small)
            progress(f"{n + 1} programs, {time.monotonic() - start:.0f} s, last seed {at}")
    return None


def _seeds(seed: int, programs: int | None) -> Iterator[int]:
    while programs is None or programs > 0:
        yield seed
        seed, programs = seed + 1, None if programs is None else programs - 1


def minimised(
    choices: Choices,
    failure: Failure,
    worker: Worker,
    progress: Progress = lambda line: None,
    seconds: float = 600.0,
) -> tuple[Program, Failure]:
    """The smallest program that fails on the same target in the same way."""
    end = time.monotonic() + seconds
    best, last = generate(Choices(choices.made)), failure

    def run(candidate: Sequence[int]) -> Choices | None:
        nonlocal best, last
        if time.monotonic() > end:
            return None
        made = Choices(candidate)
        program = generate(made)
        if len(made.made) > len(candidate):
            return None
        found = worker.judge(program.text, program.sizes, (failure.target,))
        if found is None or (found.target, found.kind) != (failure.target, failure.kind):
            return None
        progress(f"{len(program.text.splitlines())} lines")
        best, last = program, found
        return made

    minimise(choices, run)
    return best, last
