# SPDX-License-Identifier: Apache-2.0
"""`T.gemm`: the product of two tiles added to a third."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tilelang.errors import ScopeError, ShapeError, TypeMismatchError
from tilelang.ir import (
    Const,
    Effects,
    Expr,
    Region,
    TileOp,
    const_int,
    expr_effects,
    node,
    read,
    write,
)
from tilelang.tileop.base import Lowering, imported
from tilelang.tileop.checks import CheckContext, describe, differ, scope_name
from tilelang.tileop.cpu import not_on_cpu, not_on_cuda
from tilelang.tileop.regions import region_reads
from tilelang.tileop.simt import SIMT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tilelang.ir import Buffer

__all__ = ["Gemm"]


def _not_double(op: Any, ctx: Any) -> str | None:
    return not_on_cpu(op, ctx) or (None if op.a.dtype.bits == 64 else "it is not float64")


@node
class Gemm(TileOp):
    """`T.gemm(a, b, c)`: c += op(a) · op(b), or c = op(a) · op(b) where `clear_accum` is true.

    The matrices are the last two dimensions; leading ones are 1. trans_a: a is [K, M]. trans_b: b
    is [N, K]. Products are summed in float32 (float64 for float64, integers exactly) and rounded to
    c's dtype. policy: how warps divide c (0 square, 1 all along M, 2 all along N).
    """

    a: Region
    b: Region
    c: Region
    trans_a: bool
    trans_b: bool
    policy: int
    clear_accum: Expr

    name: ClassVar[str] = "gemm"  # type: ignore[misc]
    LOWERINGS: ClassVar[tuple[Lowering, ...]] = (
        imported("cpu", "gemm.cpu:CPU", not_on_cuda),
        imported("wgmma", "gemm.wgmma:WGMMA", not_on_cpu),
        imported("mma", "gemm.mma:MMA", not_on_cpu),
        imported("mma_double", "gemm.mma_double:MMA_DOUBLE", _not_double),
        SIMT,
    )

    @property
    def m(self) -> Expr:
        return self.c.extents[-2]

    @property
    def n(self) -> Expr:
        return self.c.extents[-1]

    @property
    def k(self) -> Expr:
        return self.a.extents[-2] if self.trans_a else self.a.extents[-1]

    @property
    def static_sizes(self) -> tuple[int, int, int] | None:
        """(m, n, k) as numbers; None if one is symbolic."""
        m, n, k = (const_int(e) for e in (self.m, self.n, self.k))
        return None if m is None or n is None or k is None else (m, n, k)

    @property
    def clears(self) -> bool | None:
        """Is the accumulator overwritten? None: only the run knows."""
        return bool(self.clear_accum.value) if type(self.clear_accum) is Const else None

    def check(self, ctx: CheckContext) -> None:
        for field, region in self._operands():
            self._check_rank(ctx, field, region)
        self._check_sizes(ctx)
        self._check_scopes(ctx)
        self._check_dtypes(ctx)

    def _operands(self) -> tuple[tuple[str, Region], ...]:
        return (("a", self.a), ("b", self.b), ("c", self.c))

    def _check_rank(self, ctx: CheckContext, field: str, region: Region) -> None:
        extents = region.extents
        if len(extents) >= 2 and all(type(e) is Const and e.value == 1 for e in extents[:-2]):
            return
        what = (
            "one dimension" if len(extents) < 2 else f"the shape [{', '.join(map(str, extents))}]"
        )
        raise ShapeError(
            f"T.gemm: {field.upper()} must be a matrix, but it has {what}",
            code="TL0323",
            span=ctx.span,
            marks=ctx.marks(field),
            notes=[describe(region)],
            help="all dimensions but the last two must be 1: index them, e.g. A[stage, :, :]",
        )

    def _check_sizes(self, ctx: CheckContext) -> None:
        a, b = self.a.extents[-2:], self.b.extents[-2:]
        (k_a, m_a) = a if self.trans_a else (a[1], a[0])
        (n_b, k_b) = b if self.trans_b else (b[1], b[0])
        for dim, first, second, x, y in (
            ("K", "a", "b", k_a, k_b), ("M", "a", "c", m_a, self.m), ("N", "b", "c", n_b, self.n),
        ):  # fmt: skip
            if differ(x, y):
                p, q = first.upper(), second.upper()
                p_region, q_region = getattr(self, first), getattr(self, second)
                raise ShapeError(
                    f"T.gemm: {p} has {dim} = {x} but {q} has {dim} = {y}",
                    code="TL0324",
                    span=ctx.span,
                    marks=ctx.marks(first, second),
                    notes=[describe(p_region), describe(q_region)],
                    help=f"allocate {q_region.buffer.name} as ({self._wanted(second)})"
                    + self._transpose_hint(dim, x),
                )

    def _wanted(self, field: str) -> str:
        """The shape of an operand that would fit the others."""
        if field == "c":
            a, b = self.a.extents[-2:], self.b.extents[-2:]
            return f"{a[1] if self.trans_a else a[0]}, {b[0] if self.trans_b else b[1]}"
        n = self.b.extents[-2] if self.trans_b else self.b.extents[-1]
        return f"{n}, {self.k}" if self.trans_b else f"{self.k}, {n}"

    def _transpose_hint(self, dim: str, x: Expr) -> str:
        b = self.b.extents[-2:]
        other = b[1] if not self.trans_b else b[0]
        if dim == "K" and not differ(x, other):
            return f", or pass transpose_B={not self.trans_b}"
        return ""

    def _check_scopes(self, ctx: CheckContext) -> None:
        for field, region in self._operands():
            b = region.buffer
            if b.is_shared or b.is_fragment or b.is_local:
                continue
            raise ScopeError(
                f"T.gemm works on shared and fragment buffers, but {field.upper()} is "
                f"{scope_name(b)}",
                code="TL0423",
                span=ctx.span,
                marks=ctx.marks(field),
                notes=[describe(region)],
                help=f"T.copy {b.name} to a shared buffer and pass that",
            )

    def _check_dtypes(self, ctx: CheckContext) -> None:
        a, b, c = self.a.dtype, self.b.dtype, self.c.dtype
        both_fp8 = all(t.is_float and t.bits == 8 for t in (a, b))
        if a is not b and not both_fp8:
            raise TypeMismatchError(
                f"T.gemm: A is {a} but B is {b}",
                code="TL0221",
                span=ctx.span,
                marks=ctx.marks("a", "b"),
                notes=[describe(self.a), describe(self.b)],
                help="T.copy one of them to a buffer of the other's dtype: a copy converts",
            )
        if a.is_float != c.is_float or a.is_bool or c.is_bool or a.is_handle or c.is_handle:
            raise TypeMismatchError(
                f"T.gemm: products of {a} cannot be accumulated in {c}",
                code="TL0222",
                span=ctx.span,
                marks=ctx.marks("c"),
                notes=[describe(self.a), describe(self.c)],
                help=f"allocate {self.c.buffer.name} as {'float32' if a.is_float else 'int32'}",
            )

    def effects(self) -> Effects:
        accesses = [read(self.a), read(self.b)]
        if self.clears is not True:
            accesses.append(read(self.c))
        accesses.append(write(self.c))
        reads = expr_effects(self.clear_accum) | region_reads(self.a, self.b, self.c)
        return reads | Effects(tuple(accesses))

    def reference(
        self, env: Mapping[Buffer, Any], safe: Mapping[Buffer, Any] | None = None
    ) -> None:
        """Multiplies in `env`. All offsets and extents and `clear_accum` are constants by now."""
        from tilelang.tileop import numeric

        a, b, c = (numeric.matrix(env[r.buffer], r) for _, r in self._operands())
        a = a.T if self.trans_a else a
        b = b.T if self.trans_b else b
        old = None if numeric.value(self.clear_accum) else c
        out = numeric.matmul(a, self.a.dtype, b, self.b.dtype, old, self.c.dtype)
        numeric.write_box(env[self.c.buffer], self.c, out.reshape(numeric.ints(self.c.extents)))
