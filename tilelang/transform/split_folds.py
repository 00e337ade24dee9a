# SPDX-License-Identifier: Apache-2.0
"""A `Parallel` nest that folds into several fragments, as one nest for each.

In: a nest. Out: nests. The thread that owns an element runs all of its updates, so a nest has room
for one fold only; the statements of another get a nest of their own, where neither sees what the
other writes.

    for i, j in T.Parallel(m, n):          for i, j in T.Parallel(m, n):
        rows[i] += x[i, j]           ->        rows[i] += x[i, j]
        columns[j] += x[i, j]              for i, j in T.Parallel(m, n):
                                               columns[j] += x[i, j]
"""

from __future__ import annotations

from operator import is_

from tilelang.errors import LayoutError
from tilelang.ir import Parallel, Stmt, const_int, effects, flatten, free_vars, seq

from .fragment_access import FragmentAccess, fragment_accesses
from .pipeline_body import inline_binds

__all__ = ["is_fold", "split_folds"]


def is_fold(n: Parallel, a: FragmentAccess) -> bool:
    """Do several iterations write one element (`total[i] += x[i, j]`)?"""
    used = {v for e in a.indices for v in free_vars(e)}
    return a.writes and any(
        v not in used and const_int(x) != 1 for v, x in zip(n.vars, n.extents, strict=True)
    )


def split_folds(s: Parallel) -> list[Parallel]:
    """The nest, or several in its place."""
    if len(_owners(s, s.body)) < 2:
        return [s]
    groups: list[list[Stmt]] = []
    for x in inline_binds(flatten(s.body)):
        if groups and len(_owners(s, seq(groups[-1], x))) < 2:
            groups[-1].append(x)
        else:
            groups.append([x])
    bodies = [seq(g) for g in groups]
    if any(len(_owners(s, b)) > 1 for b in bodies) or not _independent(bodies):
        raise LayoutError(
            "this T.Parallel folds into several fragments, and each update needs the thread that "
            "owns the element",
            code="TL1154",
            span=s.span,
            help="give each fold a T.Parallel of its own",
        )
    return [Parallel(s.vars, s.extents, b, s.annotations, s.span) for b in bodies]


def _owners(n: Parallel, body: Stmt) -> list[FragmentAccess]:
    """One access for each way of indexing what is folded into."""
    out: list[FragmentAccess] = []
    for a in fragment_accesses(body):
        if is_fold(n, a) and not any(_alike(a, b) for b in out):
            out.append(a)
    return out


def _alike(a: FragmentAccess, b: FragmentAccess) -> bool:
    return len(a.indices) == len(b.indices) and all(map(is_, a.indices, b.indices))


def _independent(bodies: list[Stmt]) -> bool:
    """Does no body write what another touches?"""
    found = [effects(b) for b in bodies]
    return not any(
        w.buffer.root() is a.buffer.root()
        for n, one in enumerate(found)
        for w in one.writes
        for m, other in enumerate(found)
        if m != n
        for a in other.accesses
    )
