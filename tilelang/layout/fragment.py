# SPDX-License-Identifier: Apache-2.0
"""`Fragment`: a tile held in the registers of many threads.

Logical coordinates -> (thread, register), perhaps with several threads holding the same element
(replicas). Digits of the coordinates go to the thread axis or to the register axis. An extent that
is not a product of its digits is padded: `valid` says which (thread, register) pairs hold an
element.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

from tilelang.errors import InternalError
from tilelang.ir import all_of, as_expr, is_const

from . import digits as dg
from . import owners
from .digits import Digit, Replica

if TYPE_CHECKING:
    import numpy as np

    from tilelang.ir import Expr

    from .table import FragmentTable


class Fragment:
    """See the module docstring. Immutable; equal maps with equal digits are equal and hash alike.

    threads: how many threads it spans, replicas and idle ones included. replicas: (extent, thread
    stride).
    """

    __slots__ = ("__dict__", "reg_digits", "replicas", "shape", "thread_digits", "threads")

    def __init__(
        self,
        shape: Sequence[int],
        threads: int,
        thread_digits: Sequence[tuple[int, int, int, int]] = (),
        reg_digits: Sequence[tuple[int, int, int, int]] = (),
        replicas: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.shape = tuple(int(s) for s in shape)
        self.threads = int(threads)
        self.thread_digits = dg.normal(Digit(*d) for d in thread_digits)
        self.reg_digits = dg.normal(Digit(*d) for d in reg_digits)
        self.replicas = dg.normal_replicas(replicas)
        self._check()

    def _check(self) -> None:
        dg.padded_extents((*self.thread_digits, *self.reg_digits), self.shape)
        at = 1
        for stride, extent, _ in self.thread_axis:
            if stride < at or stride % at:
                raise InternalError(f"thread digits overlap: {self!r}")
            at = stride * extent
        if at > self.threads:
            raise InternalError(f"thread digits reach thread {at - 1} of {self.threads}: {self!r}")
        at = 1
        for d in self.reg_digits:
            if d.stride != at:
                raise InternalError(f"register digits leave a gap or overlap: {self!r}")
            at = d.axis_end

    # -------------------------------------------------------------------------------------- facts

    @cached_property
    def thread_axis(self) -> tuple[tuple[int, int, Digit | None], ...]:
        """(stride, extent, digit or None for a replica), by stride."""
        axis: list[tuple[int, int, Digit | None]] = [
            (d.stride, d.extent, d) for d in self.thread_digits
        ]
        axis += [(r.stride, r.extent, None) for r in self.replicas]
        return tuple(sorted(axis, key=lambda a: a[0]))

    @cached_property
    def padded(self) -> tuple[int, ...]:
        """The shape rounded up to what the digits cover."""
        return dg.padded_extents((*self.thread_digits, *self.reg_digits), self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @cached_property
    def regs(self) -> int:
        """Registers (elements) per thread."""
        return prod(d.extent for d in self.reg_digits)

    @property
    def is_replicated(self) -> bool:
        """Does some element live in more than one thread?"""
        return bool(self.replicas)

    @property
    def replication(self) -> int:
        """In how many threads each element lives."""
        return prod(r.extent for r in self.replicas)

    @property
    def why_no_digits(self) -> str | None:
        """None: this form is digits (a `FragmentTable` gives its reason)."""
        return None

    # -------------------------------------------------------------------------------- the mapping

    def thread_at(self, coords: Sequence[Any], rep: Any = 0) -> Any:
        """The owning thread; on ints, numpy arrays or expressions."""
        total = dg.contribution(self.thread_digits, coords, self.shape)
        at = 1
        for r in self.replicas:
            if not (isinstance(rep, int) and rep == 0):
                total = total + dg.digit(rep, at, r.extent, r is self.replicas[-1]) * r.stride
            at *= r.extent
        return total

    def reg_at(self, coords: Sequence[Any]) -> Any:
        """The register in the owning thread."""
        return dg.contribution(self.reg_digits, coords, self.shape)

    def coords_at(self, thread: Any, reg: Any) -> tuple[Any, ...]:
        """The element that (thread, reg) holds: the inverse. Outside `valid`, coordinates may
        exceed the shape.
        """
        parts: list[list[tuple[int, Any]]] = [[] for _ in self.shape]
        for stride, extent, d in self.thread_axis:
            if d is not None:
                parts[d.dim].append(
                    (d.div, dg.digit(thread, stride, extent, stride * extent >= self.threads))
                )
        for d in self.reg_digits:
            parts[d.dim].append((d.div, dg.digit(reg, d.stride, d.extent, d.axis_end >= self.regs)))
        out: list[Any] = []
        for found in parts:
            total: Any = 0
            for div, value in sorted(found, key=lambda p: -p[0]):
                total = total + value * div
            out.append(total)
        return tuple(out)

    def replica_at(self, thread: Any) -> Any:
        total: Any = 0
        at = 1
        for r in self.replicas:
            total = (
                total
                + dg.digit(thread, r.stride, r.extent, r.extent * r.stride >= self.threads) * at
            )
            at *= r.extent
        return total

    def thread(self, coords: Sequence[Any], rep: Any = 0) -> Expr:
        """The thread that holds `coords` (as replica number `rep`)."""
        return as_expr(self.thread_at(coords, rep))

    def reg(self, coords: Sequence[Any]) -> Expr:
        """The register that holds `coords`, the same in each replica."""
        return as_expr(self.reg_at(coords))

    def coords(self, thread: Any, reg: Any) -> tuple[Expr, ...]:
        """What (thread, reg) holds, where `valid`. 0 <= thread < threads, 0 <= reg < regs."""
        return tuple(as_expr(x) for x in self.coords_at(thread, reg))

    def replica(self, thread: Any) -> Expr:
        """Which replica `thread` holds; the one with 0 is the one to write from."""
        return as_expr(self.replica_at(thread))

    def valid(self, thread: Any, reg: Any) -> Expr | None:
        """Does (thread, reg) hold an element? None if it always does."""
        if self.is_exact:
            return None
        out = all_of(self._conditions(thread, reg))
        return None if is_const(out, True) else out

    @cached_property
    def is_exact(self) -> bool:
        """Does every (thread, register) pair hold an element?"""
        return self.padded == self.shape and not self._gaps

    @cached_property
    def _gaps(self) -> tuple[tuple[int, int], ...]:
        """(modulus, used): threads t with t % modulus >= used hold nothing."""
        out: list[tuple[int, int]] = []
        at = 1
        for stride, extent, _ in self.thread_axis:
            if stride > at:
                out.append((stride, at))
            at = stride * extent
        if self.threads > at:
            out.append((self.threads, at))
        return tuple(out)

    def _conditions(self, thread: Any, reg: Any) -> list[Any]:
        out: list[Any] = []
        for modulus, used in self._gaps:
            t = thread if modulus >= self.threads else thread % modulus
            out.append(t < used)
        coords = self.coords_at(thread, reg)
        out += [x < s for x, s, p in zip(coords, self.shape, self.padded, strict=True) if p != s]
        return out

    def valid_at(self, thread: Any, reg: Any) -> Any:
        """`valid` on ints or numpy arrays; True where always valid."""
        out: Any = True
        for c in self._conditions(thread, reg):
            out = out & c
        return out

    # ------------------------------------------------------------------------------- constructors

    @staticmethod
    def row_major_vector(shape: Sequence[int], threads: int, vector: int = 1) -> Fragment:
        """The default: runs of `vector` elements dealt to the threads in turn, in row-major order.

        Threads left over hold replicas. See `layout.deal`.
        """
        from .deal import row_major_vector

        return row_major_vector(shape, threads, vector)

    @staticmethod
    def replicated(shape: Sequence[int], threads: int) -> Fragment:
        """Every thread holds everything, in row-major order."""
        regs = [Digit(d, 1, int(s), prod(shape[d + 1 :])) for d, s in enumerate(shape)]
        return Fragment(shape, threads, (), regs, [Replica(threads, 1)])

    # --------------------------------------------------------------------------------- derivation

    def reduce(self, dim: int, keepdim: bool = False) -> Fragment:
        """The layout of a reduction's result: threads that differed in `dim` become replicas."""
        gone = [d for d in self.thread_digits if d.dim == dim]
        replicas = [*self.replicas, *(Replica(d.extent, d.stride) for d in gone)]
        threads = [d for d in self.thread_digits if d.dim != dim]
        regs = _compacted([d for d in self.reg_digits if d.dim != dim])
        if keepdim:
            shape = tuple(1 if d == dim else s for d, s in enumerate(self.shape))
            return Fragment(shape, self.threads, threads, regs, replicas)
        shape = self.shape[:dim] + self.shape[dim + 1 :]

        def lower(d: Digit) -> Digit:
            return d._replace(dim=d.dim - (d.dim > dim))

        return Fragment(
            shape, self.threads, [lower(d) for d in threads], [lower(d) for d in regs], replicas
        )

    def expand(self, dim: int, extent: int) -> Fragment:
        """A new dimension, all of it held by the thread that held the element."""

        def raised(d: Digit) -> Digit:
            return d._replace(dim=d.dim + (d.dim >= dim))

        regs = [raised(d)._replace(stride=d.stride * extent) for d in self.reg_digits]
        return Fragment(
            (*self.shape[:dim], extent, *self.shape[dim:]),
            self.threads,
            [raised(d) for d in self.thread_digits],
            [Digit(dim, 1, extent, 1), *regs],
            self.replicas,
        )

    def permute(self, dims: Sequence[int]) -> Fragment:
        """Dimension k of the result is dimension `dims[k]` of this one; nothing moves."""
        new = {old: k for k, old in enumerate(dims)}
        return Fragment(
            [self.shape[d] for d in dims],
            self.threads,
            [d._replace(dim=new[d.dim]) for d in self.thread_digits],
            [d._replace(dim=new[d.dim]) for d in self.reg_digits],
            self.replicas,
        )

    def project(self, dims: Sequence[int]) -> Fragment:
        """The layout over some of the dimensions, the others reduced away."""
        out = self
        for d in sorted(set(range(self.ndim)) - set(dims), reverse=True):
            out = out.reduce(d)
        return out

    def repeat(self, dim: int, times: int) -> Fragment:
        """`times` copies of this tile side by side along `dim`, each in further registers."""
        if self.padded[dim] != self.shape[dim]:
            raise InternalError(f"a ragged dimension cannot be repeated: {self!r}")
        shape = tuple(s * times if d == dim else s for d, s in enumerate(self.shape))
        regs = [*self.reg_digits, Digit(dim, self.shape[dim], times, self.regs)]
        return Fragment(shape, self.threads, self.thread_digits, regs, self.replicas)

    def spread(self, dim: int, times: int) -> Fragment:
        """`times` copies side by side along `dim`, each in further threads."""
        if self.padded[dim] != self.shape[dim]:
            raise InternalError(f"a ragged dimension cannot be spread: {self!r}")
        shape = tuple(s * times if d == dim else s for d, s in enumerate(self.shape))
        threads = [*self.thread_digits, Digit(dim, self.shape[dim], times, self.threads)]
        return Fragment(shape, self.threads * times, threads, self.reg_digits, self.replicas)

    def slice(self, dim: int, start: int, extent: int) -> tuple[Fragment, int] | None:
        """(layout of [start, start + extent) along `dim`, its first register); None if threads
        would be left out.
        """
        regs: list[Digit] = []
        offset = 0
        for d in self.reg_digits:
            if d.dim != dim or d.div < extent:
                regs.append(
                    d if d.dim != dim or d.end <= extent else d._replace(extent=-(-extent // d.div))
                )
            if d.dim == dim:
                offset += start // d.div % d.extent * d.stride
        cut = [d for d in self.thread_digits if d.dim == dim and d.end > extent]
        inner = max([1, *(d.end for d in self.thread_digits if d.dim == dim)])
        if cut or extent % inner or start % extent or _holes(regs):
            return None
        shape = tuple(extent if k == dim else s for k, s in enumerate(self.shape))
        return Fragment(shape, self.threads, self.thread_digits, regs, self.replicas), offset

    def reshape(self, shape: Sequence[int]) -> Fragment | FragmentTable:
        """The same registers seen with another shape (row-major); a table where radices do not
        nest.
        """
        from .table import FragmentTable

        if prod(shape) != prod(self.shape):
            raise InternalError(f"cannot reshape {self.shape} to {tuple(shape)}")
        if self.padded[1:] == self.shape[1:]:
            flat = [prod(self.shape[d + 1 :]) for d in range(self.ndim)]
            threads = dg.split_flat(
                [d._replace(div=d.div * flat[d.dim]) for d in self.thread_digits], shape
            )
            regs = dg.split_flat(
                [d._replace(div=d.div * flat[d.dim]) for d in self.reg_digits], shape
            )
            if threads is not None and regs is not None:
                return Fragment(shape, self.threads, threads, regs, self.replicas)
            reason = f"the digits of {self.shape} do not nest with the extents of {tuple(shape)}"
        else:
            reason = f"an inner dimension of {self.shape} is padded to {self.padded}"
        return FragmentTable.reshaped(self, shape, reason)

    # --------------------------------------------------------------------------------- comparison

    def _key(self) -> tuple[Any, ...]:
        return self.shape, self.threads, self.thread_digits, self.reg_digits, self.replicas

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fragment) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def compatible(self, other: Any) -> bool:
        """Do the same threads hold each element (registers may differ)?"""
        return self.contains(other) and other.contains(self)

    def contains(self, other: Any) -> bool:
        """Does every thread that holds an element in `other` hold it here too? Then reading needs
        no exchange.
        """
        if self.shape != other.shape or self.threads != other.threads:
            return False
        if isinstance(other, Fragment):
            known = owners.contains(self, other)
            if known is not None:
                return known
        from .table import holders

        return bool((holders(self) | ~holders(other)).all())

    def owner_table(self) -> np.ndarray[Any, Any]:
        """thread[replica, *coords] as a numpy array."""
        import numpy as np

        grid = np.indices((self.replication, *self.shape), sparse=True)
        table = self.thread_at(grid[1:], grid[0])
        return np.broadcast_to(np.asarray(table), (self.replication, *self.shape))

    def __repr__(self) -> str:
        regs = prod(d.extent for d in self.reg_digits)
        text = f"Fragment({list(self.shape)}, threads={self.threads}, regs={regs}"
        text += f", thread={[tuple(d) for d in self.thread_digits]}"
        text += f", reg={[tuple(d) for d in self.reg_digits]}"
        return text + (f", replicas={[tuple(r) for r in self.replicas]})" if self.replicas else ")")


def _compacted(digits: Sequence[Digit]) -> list[Digit]:
    """Strides renumbered so that the digits leave no holes, order kept."""
    out: list[Digit] = []
    at = 1
    for d in sorted(digits, key=lambda d: d.stride):
        out.append(d._replace(stride=at))
        at *= d.extent
    return out


def _holes(digits: Sequence[Digit]) -> bool:
    at = 1
    for d in sorted(digits, key=lambda d: d.stride):
        if d.stride != at:
            return True
        at = d.axis_end
    return False
