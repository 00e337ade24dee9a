# SPDX-License-Identifier: Apache-2.0
"""Layouts that are no digits: finite maps held in numpy, with the interface of `Fragment` and
`Layout`.

Where the map came from a view of digits, its expressions are still exact and small (flatten, then
unflatten with other extents). A map known only as a table gives expressions for constant
coordinates, or as a chain of selects while it is small; more is refused, because it would be code
as large as the tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from tilelang.errors import InternalError
from tilelang.ir import Expr, as_expr, const_int, select

from . import digits as dg

if TYPE_CHECKING:
    import numpy as np

    from .fragment import Fragment
    from .layout import Layout

    Array = np.ndarray[Any, Any]

Formula: TypeAlias = Callable[..., Any]  # the expression that the table was made from

MOST_SELECTS = 64  # entries of a table that may be written out as nested selects


def lookup(table: Array, index: Any) -> Any:
    """table[index] for an int, an array, or (small tables only) an expression."""
    if not isinstance(index, Expr):
        return table[index]
    at = const_int(index)
    if at is not None:
        return int(table[at])
    if len(table) > MOST_SELECTS:
        raise InternalError(f"a table of {len(table)} entries is not written out as code")
    out: Any = as_expr(int(table[-1]))
    for k in range(len(table) - 2, -1, -1):
        if table[k] != table[k + 1]:
            out = select(index <= k, int(table[k]), out)
    return out


class FragmentTable:
    """A fragment as a table: owner[replica, *coords] and register[*coords]."""

    __slots__ = (
        "_base",
        "_inverse",
        "_owner",
        "_register",
        "formulas",
        "regs",
        "shape",
        "threads",
        "why_no_digits",
    )

    def __init__(
        self,
        shape: Sequence[int],
        threads: int,
        owner: Array,
        register: Array,
        why: str,
        base: Fragment | None = None,
    ) -> None:
        import numpy as np

        self.shape = tuple(shape)
        self.threads = threads
        self.why_no_digits: str | None = why
        self._owner = np.broadcast_to(owner, (len(owner), *self.shape)).reshape(len(owner), -1)
        self._register = np.broadcast_to(register, self.shape).ravel()
        self.regs = int(self._register.max(initial=0)) + 1 if base is None else base.regs
        self._base = base
        self._inverse = self._inverted()
        self.formulas: tuple[Formula | None, Formula | None] = (None, None)

    def _inverted(self) -> tuple[Array, Array]:
        """(flat element, replica) of every (thread * regs + reg); -1: nothing there."""
        import numpy as np

        element = np.full(self.threads * self.regs, -1)
        replica = np.full(self.threads, -1)
        for rep in range(len(self._owner) - 1, -1, -1):
            place = self._owner[rep] * self.regs + self._register
            if len(np.unique(place)) != place.size:
                raise InternalError(f"two elements in one register: {self!r}")
            element[place] = np.arange(place.size)
            replica[self._owner[rep]] = rep
        return element, replica

    @staticmethod
    def reshaped(base: Fragment, shape: Sequence[int], why: str) -> FragmentTable:
        """`base` seen with another row-major shape."""
        import numpy as np

        owner = base.owner_table().reshape(base.replication, *shape)
        grid = np.indices(base.shape, sparse=True)
        register = np.broadcast_to(np.asarray(base.reg_at(grid)), base.shape).reshape(tuple(shape))
        return FragmentTable(shape, base.threads, owner, register, why, base)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def replication(self) -> int:
        return len(self._owner)

    @property
    def is_replicated(self) -> bool:
        return len(self._owner) > 1

    @property
    def is_exact(self) -> bool:
        return bool((self._inverse[0] >= 0).all())

    def thread_at(self, coords: Sequence[Any], rep: Any = 0) -> Any:
        flat = dg.flatten(coords, self.shape)
        if self._base is not None:
            return self._base.thread_at(dg.unflatten(flat, self._base.shape), rep)
        if self.formulas[0] is not None and isinstance(flat, Expr):
            return self.formulas[0](coords, rep)
        return lookup(self._owner.ravel(), rep * prod(self.shape) + flat)

    def reg_at(self, coords: Sequence[Any]) -> Any:
        flat = dg.flatten(coords, self.shape)
        if self._base is not None:
            return self._base.reg_at(dg.unflatten(flat, self._base.shape))
        if self.formulas[1] is not None and isinstance(flat, Expr):
            return self.formulas[1](coords)
        return lookup(self._register, flat)

    def coords_at(self, thread: Any, reg: Any) -> tuple[Any, ...]:
        if self._base is not None:
            flat = dg.flatten(self._base.coords_at(thread, reg), self._base.shape)
        else:
            flat = lookup(self._inverse[0], thread * self.regs + reg)
        return dg.unflatten(flat, self.shape)

    def valid_at(self, thread: Any, reg: Any) -> Any:
        if self._base is not None:
            return self._base.valid_at(thread, reg)
        return lookup(self._inverse[0], thread * self.regs + reg) >= 0

    def replica_at(self, thread: Any) -> Any:
        return (
            self._base.replica_at(thread)
            if self._base is not None
            else lookup(self._inverse[1], thread)
        )

    def thread(self, coords: Sequence[Any], rep: Any = 0) -> Expr:
        return as_expr(self.thread_at(coords, rep))

    def reg(self, coords: Sequence[Any]) -> Expr:
        return as_expr(self.reg_at(coords))

    def coords(self, thread: Any, reg: Any) -> tuple[Expr, ...]:
        return tuple(as_expr(x) for x in self.coords_at(thread, reg))

    def replica(self, thread: Any) -> Expr:
        return as_expr(self.replica_at(thread))

    def valid(self, thread: Any, reg: Any) -> Expr | None:
        if self._base is not None:
            return self._base.valid(thread, reg)
        return None if self.is_exact else as_expr(self.valid_at(thread, reg))

    def owner_table(self) -> Array:
        """thread[replica, *coords]."""
        return self._owner.reshape(len(self._owner), *self.shape)

    def contains(self, other: Any) -> bool:
        """See `Fragment.contains`."""
        if self.shape != other.shape or self.threads != other.threads:
            return False
        return bool((holders(self) | ~holders(other)).all())

    def compatible(self, other: Any) -> bool:
        return self.contains(other) and other.contains(self)

    def _key(self) -> tuple[Any, ...]:
        return self.shape, self.threads, self._owner.tobytes(), self._register.tobytes()

    def content(self) -> bytes:
        """The whole table, for the cache key: equal for equal tables."""
        arrays = (self._owner.astype("<i8"), self._register.astype("<i8"))
        head = repr((self.shape, self.threads, self.regs)).encode()
        return b"".join((head, *(a.tobytes() for a in arrays)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FragmentTable) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        size = f"{list(self.shape)}, threads={self.threads}, regs={self.regs}"
        return f"FragmentTable({size}: {self.why_no_digits})"


class LayoutTable:
    """A memory layout as a table: address[*coords]."""

    __slots__ = ("_addresses", "_formula", "shape", "size", "why_no_digits")

    def __init__(
        self,
        shape: Sequence[int],
        addresses: Array,
        why: str,
        formula: Formula | None = None,
        size: int | None = None,
    ) -> None:
        self.shape = tuple(shape)
        self._addresses = addresses.ravel()
        self.size = int(self._addresses.max(initial=-1)) + 1 if size is None else size
        self.why_no_digits: str | None = why
        self._formula = formula

    @staticmethod
    def reshaped(base: Layout, shape: Sequence[int], why: str) -> LayoutTable:
        import numpy as np

        addresses = np.broadcast_to(
            base.address_at(np.indices(base.shape, sparse=True)), base.shape
        )

        def formula(coords: Sequence[Any]) -> Any:
            return base.address_at(dg.unflatten(dg.flatten(coords, shape), base.shape))

        return LayoutTable(shape, addresses, why, formula, base.size)

    def prepend(self, extent: int) -> LayoutTable:
        """`extent` such tiles one after the other."""
        import numpy as np

        slots = np.arange(extent)[:, None] * self.size + self._addresses
        return LayoutTable(
            (extent, *self.shape),
            slots,
            str(self.why_no_digits),
            lambda at: at[0] * self.size + self.address_at(at[1:]),
            self.size * extent,
        )

    def permute(self, dims: Sequence[int]) -> LayoutTable:
        """Dimension k of the result is dimension `dims[k]` of this one."""
        turned = self._addresses.reshape(self.shape).transpose(dims)
        back = [list(dims).index(d) for d in range(self.ndim)]
        return LayoutTable(
            turned.shape,
            turned,
            str(self.why_no_digits),
            lambda at: self.address_at([at[b] for b in back]),
            self.size,
        )

    def reshape(self, shape: Sequence[int]) -> LayoutTable:
        """The same memory seen with another shape (row-major)."""
        return LayoutTable(
            shape,
            self._addresses,
            str(self.why_no_digits),
            lambda at: self.address_at(dg.unflatten(dg.flatten(at, shape), self.shape)),
            self.size,
        )

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def is_linear(self) -> bool:
        return False

    @property
    def strides(self) -> tuple[int, ...] | None:
        return None

    def address_at(self, coords: Sequence[Any]) -> Any:
        flat = dg.flatten(coords, self.shape)
        if self._formula is not None and isinstance(flat, Expr):
            return self._formula(coords)
        return lookup(self._addresses, flat)

    def address(self, coords: Sequence[Any]) -> Expr:
        return as_expr(self.address_at(coords))

    def vector_width(self, dim: int = -1) -> int:
        """The longest aligned power-of-two run, by looking."""
        import numpy as np

        rows = np.moveaxis(self._addresses.reshape(self.shape), dim, -1)
        width = 1
        while rows.shape[-1] % (2 * width) == 0:
            runs = rows.reshape(*rows.shape[:-1], -1, 2 * width)
            if (runs[..., 0] % (2 * width)).any() or (np.diff(runs, axis=-1) != 1).any():
                break
            width *= 2
        return width

    def is_one_to_one(self) -> bool:
        import numpy as np

        return len(np.unique(self._addresses)) == self._addresses.size

    def _key(self) -> tuple[Any, ...]:
        return self.shape, self.size, self._addresses.tobytes()

    def content(self) -> bytes:
        """The whole table, for the cache key: equal for equal tables."""
        return repr((self.shape, self.size)).encode() + self._addresses.astype("<i8").tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LayoutTable) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"LayoutTable({list(self.shape)}, size={self.size}: {self.why_no_digits})"


def holders(f: Fragment | FragmentTable) -> Array:
    """held[flat element, thread]: does the thread hold the element?"""
    import numpy as np

    table = f.owner_table().reshape(f.replication, -1)
    held = np.zeros((table.shape[1], f.threads), dtype=bool)
    for owner in table:
        held[np.arange(table.shape[1]), owner] = True
    return held
