# SPDX-License-Identifier: Apache-2.0
"""The default fragment: vectors of a tile dealt out to threads in row-major order.

Per dimension, innermost first, a divisor of the remaining thread count goes along that dimension,
so that neighbouring threads hold neighbouring vectors and the fewest registers are padding. Threads
that remain at the end become replicas; no thread is idle.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from .digits import Digit, Replica
from .fragment import Fragment


def row_major_vector(shape: Sequence[int], threads: int, vector: int = 1) -> Fragment:
    """See `Fragment.row_major_vector`. `vector` is taken from the innermost dimensions; a last
    dimension that is not a multiple of it is padded.
    """
    extents = tuple(max(int(s), 1) for s in shape)
    runs = _vector_per_dim(extents, vector)
    vectors = tuple(-(-e // v) for e, v in zip(extents, runs, strict=True))
    along = _deal(tuple(reversed(vectors)), threads)[1][::-1] if vectors else ()
    thread_digits: list[Digit] = []
    inner: list[Digit] = []
    outer: list[Digit] = []
    used, at = 1, 1
    for d in reversed(range(len(extents))):
        inner.append(Digit(d, 1, runs[d], at))
        at *= runs[d]
    for d in reversed(range(len(extents))):
        thread_digits.append(Digit(d, runs[d], along[d], used))
        used *= along[d]
        rounds = -(-vectors[d] // along[d])
        outer.append(Digit(d, runs[d] * along[d], rounds, at))
        at *= rounds
    replicas = [Replica(threads // used, used)]
    return Fragment(shape, threads, thread_digits, [*inner, *outer], replicas)


def _vector_per_dim(extents: Sequence[int], vector: int) -> tuple[int, ...]:
    """How many elements of one vector lie along each dimension; their product divides `vector`."""
    out = [1] * len(extents)
    left = vector
    for d in reversed(range(len(extents))):
        if left == 1:
            break
        if left % extents[d] == 0:
            out[d] = extents[d]
            left //= extents[d]
            continue
        if extents[d] % left == 0 or d == len(extents) - 1:
            out[d] = left
        break
    return tuple(out)


@lru_cache(maxsize=4096)
def _deal(extents: tuple[int, ...], threads: int) -> tuple[int, tuple[int, ...]]:
    """(rounds, threads along each dimension): the fewest rounds; then most threads along the first
    (innermost).
    """
    if not extents:
        return 1, ()
    best: tuple[int, tuple[int, ...]] | None = None
    first = extents[0]
    for n in _divisors(threads):
        rest = _deal(extents[1:], threads // n)
        rounds = -(-first // n) * rest[0]
        if best is None or rounds < best[0]:
            best = rounds, (n, *rest[1])
        if n == 1:
            break
    assert best is not None
    useful = next(n for n in reversed(_divisors(threads)) if n >= min(first, threads))
    if (
        best[1][0] > useful
    ):  # more threads than elements along this dimension: let the others have them
        rest = _deal(extents[1:], threads // useful)
        best = -(-first // useful) * rest[0], (useful, *rest[1])
    return best


@lru_cache(maxsize=256)
def _divisors(n: int) -> tuple[int, ...]:
    """Largest first."""
    return tuple(d for d in range(n, 0, -1) if n % d == 0)
