# SPDX-License-Identifier: Apache-2.0
"""The smallest choices whose program still fails in the same way.

In: choices, and what says whether the program of some others still fails. Out: the best found.
Parts are left out, longest first, then numbers are lowered; every candidate is a valid program,
because any list of numbers is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .choices import Choices

__all__ = ["minimise"]

Run = Callable[[Sequence[int]], Choices | None]


def minimise(choices: Choices, run: Run) -> Choices:
    """run: makes a program of a list of numbers; the choices that it made if it still fails, or
    None. It is asked once for any list."""
    seen: set[tuple[int, ...]] = {tuple(choices.made)}
    best = choices
    while True:
        better = _first_better(best, run, seen)
        if better is None:
            return best
        best = better


def _first_better(best: Choices, run: Run, seen: set[tuple[int, ...]]) -> Choices | None:
    for candidate in _candidates(best):
        if tuple(candidate) in seen:
            continue
        seen.add(tuple(candidate))
        made = run(candidate)
        if made is not None and _size(made.made) < _size(best.made):
            return made
    return None


def _size(made: Sequence[int]) -> tuple[int, list[int]]:
    """Shorter is smaller, then lower."""
    return len(made), list(made)


def _candidates(best: Choices) -> Iterator[list[int]]:
    made = best.made
    for start, end in sorted(set(best.spans), key=lambda s: s[0] - s[1]):
        yield made[:start] + made[end:]
    for start, end in sorted(set(best.spans), key=lambda s: s[0] - s[1]):
        yield made[:start] + [0] * (end - start) + made[end:]
    for at, n in enumerate(made):
        for lower in dict.fromkeys((0, n // 2, n - 1)):
            if 0 <= lower < n:
                yield [*made[:at], lower, *made[at + 1 :]]
