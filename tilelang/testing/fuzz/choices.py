# SPDX-License-Identifier: Apache-2.0
"""The choices that make a program, so that a program can be made smaller by making other ones.

In: a seed, or the choices of an earlier program. Out: numbers. What is chosen is recorded as a
list of numbers from 0, where 0 is the simplest; `spans` are the parts of that list that belong
together, a statement for instance. Any list of numbers makes a valid program: a number beyond the
end is 0, one that is too large is the largest.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

__all__ = ["Choices"]

_T = TypeVar("_T")


class Choices:
    def __init__(self, given: Sequence[int] | None = None, seed: int = 0) -> None:
        self._random = random.Random(seed) if given is None else None
        self._given = given or ()
        self.made: list[int] = []
        self.spans: list[tuple[int, int]] = []

    def number(self, most: int) -> int:
        """From 0 to most."""
        if self._random is not None:
            n = self._random.randint(0, most)
        else:
            at = len(self.made)
            n = min(self._given[at], most) if at < len(self._given) else 0
        self.made.append(n)
        return n

    def between(self, low: int, high: int) -> int:
        return low + self.number(high - low)

    def pick(self, options: Sequence[_T]) -> _T:
        """One of them; the first is the simplest."""
        return options[self.number(len(options) - 1)]

    def flag(self) -> bool:
        return self.number(1) == 1

    @contextmanager
    def span(self) -> Iterator[None]:
        start = len(self.made)
        yield
        self.spans.append((start, len(self.made)))

    def repeat(self, most: int, item: Callable[[], Any]) -> None:
        """item() up to `most` times: each time is a span that begins with a choice to go on, so
        that leaving out the span leaves out the item."""
        for left in range(most, 0, -1):
            with self.span():
                if self.number(left) == 0:
                    return
                item()
