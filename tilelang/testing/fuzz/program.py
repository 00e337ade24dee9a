# SPDX-License-Identifier: Apache-2.0
"""A tile program while it is written: its lines, its tensors, the tiles that hold values.

All values are whole numbers, and every tile has a `limit` that they do not exceed: sums are exact
in any order, so that all executions of a right program give the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from .choices import Choices

__all__ = ["EXACT", "Tile", "Writer"]

EXACT = 1 << 22  # float32 counts to 2**24; nothing that is written adds more than four of these
SMALL = 3  # what tensors hold
# Numbers that survive a conversion as a whole number, rounded perhaps.
CONVERTIBLE = {
    "float32": EXACT, "float16": 60000, "bfloat16": EXACT, "int32": EXACT, "int8": 127,
    "int16": 32767, "float8_e4m3fn": 400, "float8_e5m2": 50000, "float64": EXACT, "int64": EXACT,
}  # fmt: skip

_FILE = """\
import tilelang
import tilelang.language as T
{sizes}

@T.prim_func
def program({params}):
    with T.Kernel({grid}, threads={threads}) as bx:
{body}
"""


@dataclass
class Tile:
    """A fragment of numbers up to `limit`."""

    name: str
    limit: int = SMALL


@dataclass
class Writer:
    """m, n: the shape of every tile; k: the depth of a product's step. acc: the dtype of tiles.
    rows: how many rows the tensors have, as text: a number, or a name that `sizes` has."""

    choices: Choices
    m: int
    n: int
    k: int
    threads: int
    dtype: str
    acc: str
    rows: str
    sizes: dict[str, int] = field(default_factory=dict)
    kind: str = "small"
    params: list[str] = field(default_factory=list)
    allocs: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    tiles: list[Tile] = field(default_factory=list)
    row_vectors: list[Tile] = field(default_factory=list)
    column_vectors: list[Tile] = field(default_factory=list)
    depth: int = 0
    repeats: int = 0  # loops around: what is added there is added more than once

    def emit(self, *lines: str) -> None:
        self.lines += ["    " * self.depth + line for line in lines]

    @property
    def large(self) -> bool:
        return self.kind != "small"

    @contextmanager
    def block(self, head: str, *, repeats: bool = False) -> Iterator[None]:
        self.emit(head)
        self.depth += 1
        self.repeats += repeats
        yield
        self.repeats -= repeats
        self.depth -= 1

    def nest(self) -> AbstractContextManager[None]:
        """Over all elements of a tile, as i and j."""
        return self.block(f"for i, j in T.Parallel({self.m}, {self.n}):")

    # ------------------------------------------------------------------------------ memory

    def tensor(self, shape: str, dtype: str) -> str:
        name = f"G{len(self.params)}"
        self.params.append(f'{name}: T.Tensor(({shape}), "{dtype}")')
        return name

    def scalar(self, value: int) -> str:
        name = f"s{len(self.params)}"
        self.params.append(f"{name}: T.int32")
        self.sizes[name] = value
        return name

    def alloc(self, shape: str, dtype: str, scope: str) -> str:
        name = f"t{len(self.allocs)}"
        self.allocs.append(f'{name} = T.alloc_{scope}(({shape}), "{dtype}")')
        return name

    def variable(self) -> str:
        name = f"v{len(self.allocs)}"
        self.allocs.append(f'{name} = T.alloc_var("int32", init=0)')
        return name

    def shared(self, dtype: str) -> str:
        return self.alloc(f"{self.m}, {self.n}", dtype, "shared")

    def fragment(self, dtype: str) -> str:
        return self.alloc(f"{self.m}, {self.n}", dtype, "fragment")

    def tile(self, limit: int = SMALL) -> Tile:
        """A new one, which the caller writes."""
        t = Tile(self.fragment(self.acc), limit)
        self.tiles.append(t)
        return t

    def some(self) -> Tile:
        return self.choices.pick(self.tiles)

    # ------------------------------------------------------------------------------ values

    def cast(self, text: str, dtype: str) -> str:
        return text if dtype == self.acc else f'T.cast({text}, "{self.acc}")'

    def bound(self, tile: Tile, limit: int) -> None:
        """Makes the tile's numbers small enough."""
        if tile.limit <= limit and not self.repeats:
            return
        with self.nest():
            self.emit(f"{tile.name}[i, j] = T.min(T.max({tile.name}[i, j], {-limit}), {limit})")
        tile.limit = max(tile.limit, limit) if self.depth else limit

    def stored(self, value: str, limit: int) -> tuple[str, int]:
        """The value and its limit, cut where it may grow too large."""
        if limit <= EXACT // 64 and not self.repeats:
            return value, limit
        most = 1000
        return f"T.min(T.max({value}, {-most}), {most})", most

    # ------------------------------------------------------------------------------ the program

    def text(self) -> str:
        sizes = "".join(f'{n} = T.dynamic("{n}")\n' for n in self.sizes if n == self.rows)
        indent = " " * 8
        body = "\n".join(indent + line for line in (*self.allocs, *self.lines))
        grid = f"T.ceildiv({self.rows}, {self.m})"
        params = ", ".join(self.params)
        return _FILE.format(sizes=sizes, params=params, grid=grid, threads=self.threads, body=body)
