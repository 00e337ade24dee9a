# SPDX-License-Identifier: Apache-2.0
"""`T.PersistentTileScheduler`: which tiles a persistent block works on, in which order.

In: the numbers of tiles, the number of workers. Out: statements and values of the kernel around it.
Worker w takes the tiles w, w + workers, w + 2 * workers, … of a walk through all of them:

    s = T.PersistentTileScheduler(m_tiles, n_tiles, workers)
    s.init(block)
    while s.valid():
        …  s.m_idx, s.n_idx …
        s.next_tile()
"""

from __future__ import annotations

from typing import Any

from tilelang.errors import OptionError
from tilelang.ir import Expr, const_int

from .alloc import alloc_var
from .kernel import get_block_extent
from .math import max as tile_max
from .math import min as tile_min
from .trace import current
from .values import VarRef, plain, store


class PersistentTileScheduler:
    """Deals the tiles of an m by n grid to `num_workers` workers.

    num_workers: default, the blocks of the kernel (divided by cluster_size, the blocks that work on
    one tile together). column_major: neighbours in the walk differ in m, else in n. swizzle_size:
    the walk goes along panels of so many columns (rows, if not column_major), so that what
    neighbours read is in the L2 cache. stateful=False: only `coord` is wanted, no variables are
    made. name: of the variables, in the generated code.
    """

    def __init__(
        self,
        num_m_tiles: Any,
        num_n_tiles: Any,
        num_workers: Any = None,
        swizzle_size: int = 1,
        column_major: bool = True,
        cluster_size: int = 1,
        stateful: bool = True,
        name: str | None = None,
    ) -> None:
        self.num_m_tiles, self.num_n_tiles = num_m_tiles, num_n_tiles
        self.swizzle_size = _positive("swizzle_size", swizzle_size)
        cluster_size = _positive("cluster_size", cluster_size)
        self.column_major = column_major
        self.stateful = stateful
        if not stateful:
            return
        self.num_workers = (
            get_block_extent(0) // cluster_size if num_workers is None else num_workers
        )
        prefix = f"{name}_" if name else ""
        self._linear = _variable(f"{prefix}linear_idx")
        self._iter = _variable(f"{prefix}current_iter")

    def init(self, worker: Any) -> None:
        """The first tile of a worker."""
        self._move(worker, 0)

    def next_tile(self) -> None:
        """The next tile of this worker."""
        self._move(self.linear_idx + self.num_workers, self.current_iter + 1)

    def _move(self, linear: Any, count: Any) -> None:
        t = current("T.PersistentTileScheduler")
        for var, value in zip(self._state(), (linear, count), strict=True):
            store(t, var.buffer, var.indices, value)

    def valid(self) -> Any:
        """Is there a tile?"""
        return self.linear_idx < self.num_m_tiles * self.num_n_tiles

    def coord(self, linear: Any) -> tuple[Any, Any]:
        """Row and column of a tile of the walk."""
        rows, columns = self.num_m_tiles, self.num_n_tiles
        if not self.column_major:
            rows, columns = columns, rows
        size = self.swizzle_size
        if size == 1:
            along, across = linear % _at_least_1(rows), linear // _at_least_1(rows)
        else:
            panel = linear // _at_least_1(rows * size)
            place = linear % _at_least_1(rows * size)
            width = tile_max(tile_min(columns - panel * size, size), 1)
            along, across = place // width, panel * size + place % width
        return (along, across) if self.column_major else (across, along)

    @property
    def m_idx(self) -> Any:
        return self.coord(self.linear_idx)[0]

    @property
    def n_idx(self) -> Any:
        return self.coord(self.linear_idx)[1]

    @property
    def linear_idx(self) -> Expr:
        return self._state()[0].__tl_expr__()

    @property
    def current_iter(self) -> Expr:
        return self._state()[1].__tl_expr__()

    def _state(self) -> tuple[VarRef, VarRef]:
        if not self.stateful:
            raise current("T.PersistentTileScheduler").error(
                "T.PersistentTileScheduler(stateful=False) keeps no tile of its own",
                "TL0588",
                "use coord(linear), or leave stateful=False out",
                OptionError,
            )
        return self._linear, self._iter


def _variable(name: str) -> VarRef:
    var = alloc_var("int32")
    var.buffer.name = name
    return var


def _at_least_1(n: Any) -> Any:
    """A divisor; without tiles nothing is visited, but the division is still there."""
    return n if const_int(plain(n)) else tile_max(n, 1)


def _positive(name: str, value: Any) -> int:
    n = const_int(plain(value))
    if n is None or n < 1:
        raise current("T.PersistentTileScheduler").error(
            f"T.PersistentTileScheduler: {name} must be an int >= 1, got {value!r}",
            "TL0589",
            f"leave {name} out for 1",
            OptionError,
        )
    return n
