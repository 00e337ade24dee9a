# SPDX-License-Identifier: Apache-2.0
"""Buffers, memory scopes and regions.

A `Buffer` is an identity (never looked up by name): a shape in elements, a dtype, a scope, and for
global tensors optional strides. `A[i, j]` with scalars is a `Load`; with any slice it is a
`Region`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .dtype import DType
from .expr import Add, Const, Expr, Load, Sub, as_expr, binary, call, cast, const
from .node import Node, node

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Scope:
    """Scope names (plain strings, as users write them)."""

    GLOBAL = "global"
    SHARED = "shared.dyn"
    SHARED_STATIC = "shared"
    FRAGMENT = "local.fragment"
    LOCAL = "local"
    VAR = "local.var"
    BARRIER = "shared.barrier"
    REDUCER = "local.reducer"


class ScopeName(str):
    """The scope of a buffer. Programs written for TVM's buffers call it."""

    __slots__ = ()

    def __call__(self) -> str:
        return self


class Buffer:
    """A named, typed piece of memory.

    shape: extents in elements, outermost first. strides: elements, or None for row-major.
    view_of: the buffer whose storage this one reinterprets (T.view, T.reshape), or None.
    """

    __slots__ = ("data", "dtype", "name", "scope", "shape", "span", "strides", "view_of")

    def __init__(
        self,
        name: str,
        shape: Sequence[Any],
        dtype: Any,
        scope: str = Scope.GLOBAL,
        strides: Sequence[Any] | None = None,
        view_of: Buffer | None = None,
        span: Any = None,
        data: Expr | None = None,
    ) -> None:
        self.name = name
        self.shape: tuple[Expr, ...] = tuple(as_expr(s) for s in shape)
        self.dtype = DType(dtype)
        self.scope = ScopeName(scope)
        self.strides: tuple[Expr, ...] | None = (
            None if strides is None else tuple(as_expr(s) for s in strides)
        )
        self.view_of = view_of
        self.span = span
        self.data = data  # a raw pointer expression (T.make_tensor), or None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def is_global(self) -> bool:
        return self.scope == Scope.GLOBAL

    @property
    def is_shared(self) -> bool:
        return self.scope in (Scope.SHARED, Scope.SHARED_STATIC)

    @property
    def is_fragment(self) -> bool:
        return self.scope == Scope.FRAGMENT

    @property
    def is_local(self) -> bool:
        """Private to one thread (T.alloc_local, T.alloc_var)."""
        return self.scope in (Scope.LOCAL, Scope.VAR)

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        """The shape as ints, or None if any extent is symbolic."""
        dims = [s.value if type(s) is Const else None for s in self.shape]
        return None if None in dims else tuple(dims)  # type: ignore[arg-type]

    def root(self) -> Buffer:
        """The buffer that owns the storage."""
        b = self
        while b.view_of is not None:
            b = b.view_of
        return b

    def effective_strides(self) -> tuple[Expr, ...]:
        """Strides in elements; row-major where none were given."""
        if self.strides is not None:
            return self.strides
        out: list[Expr] = []
        acc: Expr = const(1)
        for s in reversed(self.shape):
            out.append(acc)
            acc = acc * s
        return tuple(reversed(out))

    def element(self, at: Any, base: Sequence[Any] = ()) -> Load:
        """The element `at` places after the first one (after that at `base`), row-major."""
        place = as_expr(at)
        if base:
            place = place + self._linear(base)
        out: list[Expr] = []
        for extent in reversed(self.shape[1:]):
            out.append(place % extent)
            place = place // extent
        return Load(self, (place, *reversed(out)) if self.shape else ())

    def _linear(self, indices: Sequence[Any]) -> Expr:
        total: Expr = const(0)
        for i, extent in zip(indices, self.shape, strict=True):
            total = total * extent + as_expr(i)
        return total

    def access_ptr(self, access_mask: str | int = "rw", *, offset: Any = 0) -> Expr:
        """A pointer to the element `offset` places after the first one, as an argument of an extern
        call; the callee is taken to read and write all of the buffer, whatever `access_mask`
        says."""
        return call("address_of", [self.element(offset)])

    def whole(self) -> Region:
        return Region(self, tuple(const(0) for _ in self.shape), self.shape)

    def _indices(self, key: Any) -> list[Any]:
        items = list(key) if isinstance(key, tuple) else [key]
        if Ellipsis in [i for i in items if i is Ellipsis]:
            at = next(n for n, i in enumerate(items) if i is Ellipsis)
            items[at : at + 1] = [slice(None)] * (self.ndim - len(items) + 1)
        return items

    def __getitem__(self, key: Any) -> Load | Region:
        """Element load, or region if any index is a slice. Constant negative indices wrap."""
        items = self._indices(key)
        if len(items) != self.ndim:
            shape = ", ".join(str(s) for s in self.shape)
            raise IndexError(
                f"buffer {self.name} is {self.ndim}-dimensional (shape [{shape}]),"
                f" but {len(items)} index(es) were given"
            )
        if not any(isinstance(i, slice) for i in items):
            return Load(self, tuple(self._index(i, d) for d, i in enumerate(items)))
        offsets: list[Expr] = []
        extents: list[Expr] = []
        for d, i in enumerate(items):
            lo, extent = (
                self._slice(i, d) if isinstance(i, slice) else (self._index(i, d), const(1))
            )
            offsets.append(lo)
            extents.append(extent)
        return Region(self, tuple(offsets), tuple(extents))

    def _index(self, i: Any, dim: int) -> Expr:
        e = as_expr(i)
        if not (e.dtype.is_int or e.dtype.is_bool):
            raise TypeError(f"an index of buffer {self.name} must be an integer, got {i!r}")
        e = cast(e, "int32") if e.dtype.is_bool else e
        return self._wrap(e, dim)

    def _wrap(self, i: Expr, dim: int) -> Expr:
        if type(i) is Const and i.dtype.is_int and i.value < 0:
            return binary(Add, self.shape[dim], i)
        return i

    def _slice(self, s: slice, dim: int) -> tuple[Expr, Expr]:
        if s.step is not None and s.step != 1:
            raise ValueError(
                f"slicing buffer {self.name} with a step is not supported;"
                " loop over the elements instead"
            )
        lo = const(0) if s.start is None else self._index(s.start, dim)
        hi = self.shape[dim] if s.stop is None else self._index(s.stop, dim)
        return lo, binary(Sub, hi, lo)

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(f"buffer {self.name} cannot be iterated over; index it")

    def __bool__(self) -> bool:
        raise TypeError(
            f"buffer `{self.name}` cannot be used as a condition directly; index an element"
        )

    def __repr__(self) -> str:
        return f"{self.name}: {self.scope} {self.dtype}[{', '.join(map(str, self.shape))}]"


@node
class Region(Node):
    """A box of a buffer: per dimension an offset and an extent, in elements."""

    buffer: Buffer
    offsets: tuple[Expr, ...]
    extents: tuple[Expr, ...]

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype

    @property
    def is_whole(self) -> bool:
        """Does it cover the buffer, as written (offset 0, extent = shape)?"""
        return all(type(o) is Const and o.value == 0 for o in self.offsets) and all(
            e is s or (type(e) is Const and type(s) is Const and e.value == s.value)
            for e, s in zip(self.extents, self.buffer.shape, strict=True)
        )

    def squeezed(self) -> tuple[int, ...]:
        """The dimensions whose extent is not the constant 1."""
        return tuple(
            d for d, e in enumerate(self.extents) if not (type(e) is Const and e.value == 1)
        )

    def __getitem__(self, key: Any) -> Load | Region:
        """A region of a region (same rank)."""
        inner = Buffer(self.buffer.name, self.extents, self.buffer.dtype, self.buffer.scope)[key]
        if isinstance(inner, Load):
            return Load(
                self.buffer, tuple(o + i for o, i in zip(self.offsets, inner.indices, strict=True))
            )
        return Region(
            self.buffer,
            tuple(o + i for o, i in zip(self.offsets, inner.offsets, strict=True)),
            inner.extents,
        )

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(f"region {self!r} cannot be iterated over; index it")

    def __tl_expr__(self) -> Expr:
        """The value of a one-element region."""
        if self.squeezed():
            raise TypeError(
                f"region {self!r} has more than one element and cannot be used as a scalar"
            )
        return Load(self.buffer, self.offsets)

    def __repr__(self) -> str:
        parts = [
            str(o) if type(e) is Const and e.value == 1 else f"{o}:{o + e}"
            for o, e in zip(self.offsets, self.extents, strict=True)
        ]
        return f"{self.buffer.name}[{', '.join(parts)}]"
