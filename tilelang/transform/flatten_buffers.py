# SPDX-License-Identifier: Apache-2.0
"""LOOP → FLAT: every access gets one index, an offset in elements of its buffer's storage.

In: logical, multi-dimensional accesses; shared buffers whose `Alloc` carries a layout. Out: one
index per access; local and shared buffers are new 1-D buffers of their real size; a global buffer
keeps its identity (it is a parameter), its strides applied.

    C[i, j] = S[i, j]                  C[i * 1024 + j] = S[layout(i, j)]

An offset is int32 where the whole tensor provably has fewer than 2^31 elements, else int64: the
multiplications by strides are then 64 bits wide, the indices themselves are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilelang.errors import InternalError
from tilelang.ir import (
    Alloc,
    Broadcast,
    Buffer,
    Const,
    Expr,
    Load,
    PrimFunc,
    Ramp,
    Rewriter,
    Stmt,
    Store,
    cast,
    const,
    is_const,
    seq,
)
from tilelang.ir.dtype import INT32, INT64, DType

from .manager import PassContext
from .summary import statements

_LIMIT = 2**31


def run(func: PrimFunc, ctx: PassContext) -> PrimFunc:
    flattener = _Flattener(func, ctx)
    return func.with_body(flattener.visit(func.body)).with_attr("stage", "FLAT")


class _Flattener(Rewriter):
    """Rewrites allocations and accesses. `layouts` and `flat` are by root buffer."""

    def __init__(self, func: PrimFunc, ctx: PassContext) -> None:
        super().__init__()
        self.ctx = ctx
        self.flat: dict[Buffer, Buffer] = {}
        self.layouts: dict[Buffer, Any] = {}
        for x in statements(func.body):
            if type(x) is Alloc and x.annotations.get("layout") is not None:
                self.layouts[x.buffer] = x.annotations["layout"]

    # ------------------------------------------------------------------------------ handlers

    def visit_Alloc(self, s: Alloc) -> Stmt:
        if s.buffer.view_of is not None and self.flat_of(s.buffer) is self.flat_of(s.buffer.root()):
            return seq()  # accesses go to the root itself
        kept = {k: v for k, v in s.annotations.items() if k != "layout"}
        layout = s.annotations.get("layout")
        swizzle = getattr(layout, "swizzle", None)  # a table has none, nor what lies row by row
        if swizzle is not None:  # hardware swizzles addresses
            kept["align"] = swizzle.period * s.buffer.dtype.bits // 8
        return Alloc(self.flat_of(s.buffer), kept, s.span)

    def visit_Load(self, e: Load) -> Expr:
        return Load(self.flat_of(e.buffer), (self.offset(e.buffer, e.indices),))

    def visit_Store(self, s: Store) -> Stmt:
        return Store(self.flat_of(s.buffer), (self.offset(s.buffer, s.indices),), s.value, s.span)

    # ------------------------------------------------------------------------------ buffers

    def flat_of(self, b: Buffer) -> Buffer:
        hit = self.flat.get(b)
        if hit is None:
            hit = self.flat[b] = self.new_flat(b)
        return hit

    def new_flat(self, b: Buffer) -> Buffer:
        if b.view_of is not None:
            root = self.flat_of(b.root())
            if b.dtype is b.root().dtype:
                return root
            size = _product(b.shape) if b.root().is_global else const(self.view_size(b, root))
            return Buffer(b.name, (size,), b.dtype, b.scope, None, root, b.span)
        if b.is_global:
            return b
        layout = self.layouts.get(b)
        size = const(layout.size) if layout is not None else _product(b.shape)
        if b.ndim == 1 and b.shape[0] is size and b.strides is None:
            return b
        return Buffer(b.name, (size,), b.dtype, b.scope, None, None, b.span, b.data)

    def view_size(self, view: Buffer, root: Buffer) -> int:
        """Elements of the view's dtype that the root's storage holds."""
        (size,) = root.shape
        if type(size) is not Const:
            raise InternalError(f"the storage behind {view.name} has no constant size")
        return (
            int(size.value)
            * root.dtype.bits
            * root.dtype.lanes
            // (view.dtype.bits * view.dtype.lanes)
        )

    # ------------------------------------------------------------------------------ offsets

    def offset(self, b: Buffer, indices: Sequence[Expr]) -> Expr:
        """The offset of an element in the storage of `b`'s root, in elements of `b`'s dtype."""
        if not indices:
            return const(0)
        if b.strides is None and len(indices) != b.ndim:
            raise InternalError(
                f"{b.name} is {b.ndim}-dimensional but is accessed with {len(indices)} indices"
            )
        last, lanes = indices[-1], 1
        ramp = last if type(last) is Ramp else None
        if ramp is not None:
            indices, lanes = (*indices[:-1], ramp.base), ramp.lanes
        elif last.dtype.lanes > 1 and type(last) is not Broadcast:
            return self.gather(b, indices)
        base = self.scalar_offset(b, indices)
        if ramp is None:
            return base
        step = self.lane_step(b, ramp)
        return Ramp(base, cast(step, base.dtype), lanes)

    def scalar_offset(self, b: Buffer, indices: Sequence[Expr]) -> Expr:
        root = b.root()
        if b in self.layouts:
            return self.layouts[b].address(tuple(indices))
        linear = self.linear(b, indices)
        if b is root or (root not in self.layouts and root.strides is None):
            return linear
        return self.through_root(b, root, linear)

    def through_root(self, b: Buffer, root: Buffer, linear: Expr) -> Expr:
        """A view of what is not row-major: row-major in the view, unravelled in the root."""
        ratio = b.dtype.bits * b.dtype.lanes, root.dtype.bits * root.dtype.lanes
        if ratio[0] > ratio[1] and ratio[0] % ratio[1] == 0:  # wide view: its first root element
            n = ratio[0] // ratio[1]
            layout = self.layouts.get(root)
            if layout is None or layout.vector_width() % n:
                raise InternalError(
                    f"an element of view {b.name} is {n} of {root.name}, which may lie apart"
                )
            return self.unravel(root, linear * n) // n
        if ratio[1] % ratio[0]:
            raise InternalError(f"view {b.name} of {root.name}: element sizes do not divide")
        n = ratio[1] // ratio[0]
        return self.unravel(root, linear // n) * n + linear % n

    def unravel(self, root: Buffer, linear: Expr) -> Expr:
        coords: list[Expr] = []
        for extent in reversed(root.shape):
            coords.append(linear % extent)
            linear = linear // extent
        place = tuple(reversed(coords))
        if root in self.layouts:
            return self.layouts[root].address(place)
        return self.linear(root, place)

    def linear(self, b: Buffer, indices: Sequence[Expr]) -> Expr:
        dtype = self.offset_dtype(b)
        total: Expr = const(0, dtype)
        for i, n, s in zip(indices, b.shape, self.strides(b, dtype), strict=True):
            if not is_const(n, 1):  # the only index in bounds is 0
                total = total + cast(i, dtype) * s
        return total

    def strides(self, b: Buffer, dtype: DType) -> list[Expr]:
        """Strides in `dtype`: each product of dimensions is formed in that width."""
        if b.strides is not None:
            return [cast(s, dtype) for s in b.strides]
        out: list[Expr] = []
        acc: Expr = const(1, dtype)
        for extent in reversed(b.shape):
            out.append(acc)
            acc = acc * cast(extent, dtype)
        return out[::-1]

    def offset_dtype(self, b: Buffer) -> DType:
        if not b.root().is_global:
            return INT32
        if self.ctx.options.index_bits == 64:
            return INT64
        dims = b.static_shape
        if dims is None:
            return INT64
        strides = [s.value if type(s) is Const else None for s in b.effective_strides()]
        if None in strides:
            return INT64
        reach = sum(
            (n - 1) * abs(s) for n, s in zip(dims, strides, strict=True) if n > 0 and s is not None
        )
        return INT32 if reach < _LIMIT else INT64

    def lane_step(self, b: Buffer, ramp: Ramp) -> Expr:
        """Elements between two lanes: the ramp's stride times the last dimension's."""
        layout = self.layouts.get(b)
        if layout is not None:
            run = layout.vector_width()
            if not (
                type(ramp.stride) is Const and ramp.stride.value == 1 and run % ramp.lanes == 0
            ):
                raise InternalError(
                    f"{ramp.lanes} lanes of {b.name} at once, but its layout has runs of {run}"
                )
            return const(1)
        if b.strides is not None:
            return ramp.stride * cast(b.strides[-1], ramp.stride.dtype)
        return ramp.stride

    def gather(self, b: Buffer, indices: Sequence[Expr]) -> Expr:
        """A vector of unrelated indices (last dimension)."""
        lanes = indices[-1].dtype.lanes
        if b in self.layouts or b.root() in self.layouts:
            raise InternalError(f"a gather from {b.name}, which has a layout, was vectorised")
        dtype = self.offset_dtype(b)
        base = self.linear(b, (*indices[:-1], const(0, dtype)))
        stride = self.strides(b, dtype)[-1]
        last = cast(indices[-1], dtype.with_lanes(lanes)) * stride
        return last + Broadcast(base, lanes)


def _product(dims: Sequence[Expr]) -> Expr:
    out: Expr = const(1)
    for d in dims:
        out = out * d
    return out


__all__ = ["run"]
