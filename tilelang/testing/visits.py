# SPDX-License-Identifier: Apache-2.0
"""How often a compilation looks at a node: its own speed, in a measure that no load disturbs.

In: a PrimFunc and a target. Out: the number of nodes it has and the number of times that lowering
took one apart (read its children, or rewrote them), whichever traversal did it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tilelang.engine import lower
from tilelang.ir import PrimFunc
from tilelang.ir.node import NODES, Node

__all__ = ["Visits", "count_visits"]


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
