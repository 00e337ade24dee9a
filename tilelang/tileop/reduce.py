# SPDX-License-Identifier: Apache-2.0
"""`T.reduce_sum`, `T.reduce_max`, …: one dimension of a region folded into one value per row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tilelang.errors import ScopeError, ShapeError, TypeMismatchError
from tilelang.ir import DType, Effects, Region, TileOp, const, node, read, write

from .base import Lowering, imported
from .checks import CheckContext, describe, differ, scope_name, shape_text
from .cpu import not_on_cpu, not_on_cuda
from .regions import region_reads
from .simt import SIMT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tilelang.ir import Buffer, Expr

KINDS = ("sum", "max", "min", "absmax", "abssum", "bitand", "bitor", "bitxor")


@node
class Reduce(TileOp):
    """`T.reduce_<kind>(src, dst, dim)`: dst[…] = fold of src[…, :, …] over `dim`.

    The shape of dst is that of src without `dim`, or with 1 there. clear=False folds into the old
    value of dst. Values are converted to dst's dtype first; narrow floats are summed in float32 and
    rounded once. max, min and absmax ignore NaN unless nan_propagate is set. Over no elements the
    result is the neutral element.
    """

    src: Region
    dst: Region
    kind: str
    dim: int
    clear: bool = True
    nan_propagate: bool = False
    slots: int = 0
    """Leading dimensions of src that are the slot of a ring, and none of `dim`'s."""

    LOWERINGS: ClassVar[tuple[Lowering, ...]] = (
        imported("cpu", "reduce_cpu:CPU", not_on_cuda),
        imported("shuffle", "reduce_shuffle:SHUFFLE", not_on_cpu),
        SIMT,
    )

    name: ClassVar[str] = "reduce"  # type: ignore[misc]

    def in_slot(self) -> Reduce:
        """The same fold of a slot: the first dimension of src is not one of `dim`'s."""
        return Reduce(
            self.src, self.dst, self.kind, self.dim, self.clear, self.nan_propagate, self.slots + 1
        )

    @property
    def axis(self) -> int:
        """The reduced dimension, counted from the left."""
        return self.slots + self.dim % (len(self.src.extents) - self.slots)

    @property
    def kept(self) -> tuple[Expr, ...]:
        """The extents that stay."""
        return tuple(self.src.extents[d] for d in self.kept_dims)

    @property
    def kept_dims(self) -> tuple[int, ...]:
        """The dimensions of src that stay."""
        return tuple(d for d in range(self.slots, len(self.src.extents)) if d != self.axis)

    @property
    def dst_dims(self) -> tuple[int, ...]:
        """The dimension of dst that each kept dimension of src becomes."""
        rank = len(self.src.extents) - self.slots
        if len(self.dst.extents) == rank:
            return tuple(d - self.slots for d in self.kept_dims)
        return tuple(range(rank - 1))

    @property
    def acc_dtype(self) -> DType:
        """What the fold is computed in."""
        dtype = self.dst.dtype
        if dtype.is_bool and self.kind in ("sum", "abssum"):
            return DType("int32")
        return DType("float32") if dtype.is_float and dtype.bits < 32 else dtype

    def check(self, ctx: CheckContext) -> None:
        self._check_shape(ctx)
        self._check_scopes(ctx)
        if self.kind.startswith("bit"):
            for field, region in (("src", self.src), ("dst", self.dst)):
                if region.dtype.is_float:
                    raise TypeMismatchError(
                        f"T.reduce_{self.kind} needs integers, but {region.buffer.name} is "
                        f"{region.dtype}",
                        code="TL0220",
                        span=ctx.span,
                        marks=ctx.marks(field),
                        notes=[describe(region)],
                        help="reinterpret the values as integers of the same width first",
                    )

    def _check_shape(self, ctx: CheckContext) -> None:
        rank = len(self.src.extents)
        if not -rank <= self.dim < rank:
            raise ShapeError(
                f"T.reduce_{self.kind}: dim = {self.dim} is not a dimension of "
                f"{self.src.buffer.name}, which has {rank}",
                code="TL0321",
                span=ctx.span,
                marks=ctx.marks("src", "dim"),
                notes=[describe(self.src)],
                help=f"choose a dim from {-rank} to {rank - 1}",
            )
        e = self.src.extents
        one = const(1)
        dropped, as_one = self.kept, (*e[: self.axis], one, *e[self.axis + 1 :])
        got = self.dst.extents
        if not any(_fits(got, want) for want in (dropped or (one,), as_one)):
            raise ShapeError(
                f"T.reduce_{self.kind}: the result of reducing [{shape_text(e)}] over dim "
                f"{self.dim} does not fit an output of shape [{shape_text(got)}]",
                code="TL0322",
                span=ctx.span,
                marks=ctx.marks("src", "dst"),
                notes=[describe(self.src), describe(self.dst)],
                help=f"allocate {self.dst.buffer.name} as ({_tuple_text(dropped)}) or "
                f"({_tuple_text(as_one)})",
            )

    def _check_scopes(self, ctx: CheckContext) -> None:
        for field, region in (("src", self.src), ("dst", self.dst)):
            b = region.buffer
            if not (b.is_fragment or b.is_shared or b.is_local):
                raise ScopeError(
                    f"T.reduce_{self.kind} works on fragment, shared and local buffers, but "
                    f"{b.name} is {scope_name(b)}",
                    code="TL0422",
                    span=ctx.span,
                    marks=ctx.marks(field),
                    notes=[describe(region)],
                    help=f"T.copy {b.name} to a fragment and reduce that",
                )

        if self.src.buffer.is_fragment and self.dst.buffer.is_local:
            raise ScopeError(
                f"T.reduce_{self.kind}: no thread has all of fragment {self.src.buffer.name}: it "
                f"cannot be reduced into {self.dst.buffer.name}, which is private to each thread",
                code="TL0427",
                span=ctx.span,
                marks=ctx.marks("src", "dst"),
                notes=[describe(self.src), describe(self.dst)],
                help=f"allocate {self.dst.buffer.name} with T.alloc_fragment",
            )

    def effects(self) -> Effects:
        accesses = [read(self.src)]
        if not self.clear:
            accesses.append(read(self.dst))
        accesses.append(write(self.dst))
        return region_reads(self.src, self.dst) | Effects(tuple(accesses))

    def reference(
        self, env: Mapping[Buffer, Any], safe: Mapping[Buffer, Any] | None = None
    ) -> None:
        """Folds in `env`. All offsets and extents are constants by now."""
        from . import numeric

        x = numeric.read_box(env[self.src.buffer], self.src)
        y = numeric.fold_axis(
            numeric.cast_array(x, self.src.dtype, self.acc_dtype),
            self.acc_dtype,
            self.kind,
            self.axis,
            self.nan_propagate,
        )
        shape = numeric.ints(self.dst.extents)
        y = y.reshape(shape)
        if not self.clear:
            old = numeric.read_box(env[self.dst.buffer], self.dst)
            old = numeric.cast_array(old, self.dst.dtype, self.acc_dtype)
            y = numeric.combine(old, y, self.kind, self.nan_propagate)
        y = numeric.cast_array(y, self.acc_dtype, self.dst.dtype)
        numeric.write_box(env[self.dst.buffer], self.dst, y)


def _fits(got: tuple[Expr, ...], want: tuple[Expr, ...]) -> bool:
    return len(got) == len(want) and not any(differ(g, w) for g, w in zip(got, want, strict=True))


def _tuple_text(extents: tuple[Expr, ...]) -> str:
    return ", ".join(map(str, extents)) + ("," if len(extents) == 1 else "")
