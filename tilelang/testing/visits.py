# SPDX-License-Identifier: Apache-2.0
"""The work of a compilation, in measures that no load of the machine disturbs.

In: a PrimFunc and a target. Out: the number of nodes it has and the number of times that lowering
took one apart (read its children, or rewrote them), whichever traversal did it; or the number of
function calls that each pass made.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tilelang.engine import lower
from tilelang.ir import PrimFunc
from tilelang.ir.node import NODES, Node

__all__ = ["Visits", "count_calls", "count_visits"]


class Visits(NamedTuple):
    """nodes: of the function as the user wrote it, as a tree: what is written twice counts
    twice."""

    nodes: int
    visits: int

    @property
    def per_node(self) -> float:
        return self.visits / self.nodes


def count_visits(func: PrimFunc, target: Any) -> Visits:
    """Lowers the function (without compiling what comes out)."""
    nodes = _size(func.body)
    with _counting() as count:
        lower(func, target)
    return Visits(nodes, count[0])


def _size(node: Node) -> int:
    return 1 + sum(map(_size, node.children))


@contextmanager
def _counting() -> Iterator[list[int]]:
    """Every class's `children` and `map_children` count themselves."""
    count = [0]
    classes: list[Any] = list(NODES.values())
    saved = [(c, c.__dict__["children"], c.__dict__["map_children"]) for c in classes]
    for cls, children, rewrite in saved:
        cls.children = property(_counted(children.fget, count))
        cls.map_children = _counted(rewrite, count)
    try:
        yield count
    finally:
        for cls, children, rewrite in saved:
            cls.children, cls.map_children = children, rewrite


def _counted(function: Callable[..., Any], count: list[int]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        count[0] += 1
        return function(*args)

    return call


def count_calls(func: PrimFunc, target: Any) -> Counter[str]:
    """Function calls, of Python's own functions too, that lowering makes: by pass, and after the
    last pass (printing) as "code"."""
    total = 0
    counts: Counter[str] = Counter()

    def called(frame: object, event: str, what: object) -> None:
        nonlocal total
        total += event in ("call", "c_call")

    def passed(name: str, result: object) -> None:
        counts[name] += total - counts.total()

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        lower(func, target, observe=passed)
    finally:
        sys.setprofile(before)
    counts["code"] = total - counts.total()
    return counts
