# SPDX-License-Identifier: Apache-2.0
"""The plain form of each tile op: `Parallel` nests over its elements.

In: one op. Out: TILE-stage statements that mean the same and hold no tile op. This is the lowering
that is correct for every shape, dtype and scope; layout inference then sees one kind of statement.

    T.copy(A[0:16, 0:8], F)   ->   for i, j in T.Parallel(16, 8): F[i, j] = A[i, j]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilelang.ir import (
    Add,
    Alloc,
    BitAnd,
    BitOr,
    BitXor,
    Buffer,
    Const,
    Expr,
    For,
    If,
    Load,
    Parallel,
    Region,
    Rewriter,
    Scope,
    Stmt,
    Store,
    Var,
    as_expr,
    binary,
    call,
    cast,
    const,
    maximum,
    minimum,
    select,
    seq,
)

from .regions import points

if TYPE_CHECKING:
    from .copy import Copy
    from .fill import Fill
    from .gemm import Gemm
    from .reduce import Reduce

_NAMES = ("i", "j", "k", "l", "m", "n")


def loop_vars(count: int) -> tuple[Var, ...]:
    return tuple(Var(_NAMES[d] if d < len(_NAMES) else f"i{d}") for d in range(count))


def _at(r: Region, dims: list[int], coords: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Indices of the point `coords` of a region whose dimensions `dims` the loops walk."""
    index = list(r.offsets)
    for dim, c in zip(dims, coords, strict=True):
        index[dim] = binary(Add, r.offsets[dim], c)
    return tuple(index)


def _single(body: Stmt, span: Any) -> Stmt:
    """One element: a loop of one trip, so that one thread (or each replica) owns it."""
    return Parallel((Var("i"),), (const(1),), body, {}, span)


def expand_copy(op: Copy, span: Any = None) -> Stmt:
    p = op.pairing
    coords = loop_vars(len(p.extents))
    value = cast(Load(op.src.buffer, points(op.src, p.src, coords)), op.dst.buffer.dtype)
    body = Store(op.dst.buffer, points(op.dst, p.dst, coords), value, span)
    if not coords:
        return _single(body, span)
    hints = {} if op.loop_layout is None else {"loop_layout": op.loop_layout}
    return Parallel(coords, p.extents, body, hints, span)


def expand_staged_store(op: Copy, stage: Buffer, span: Any = None) -> Stmt:
    """Fragment -> shared -> global: the second step writes whole 16-byte rows where the fragment's
    threads hold only pieces of them. `stage` has the extents of the copy and the destination's
    dtype."""
    p = op.pairing
    first, second = loop_vars(len(p.extents)), loop_vars(len(p.extents))
    value = cast(Load(op.src.buffer, points(op.src, p.src, first)), stage.dtype)
    into = Parallel(first, p.extents, Store(stage, first, value, span), {}, span)
    out = Store(op.dst.buffer, points(op.dst, p.dst, second), Load(stage, second), span)
    return seq(Alloc(stage, {}, span), into, Parallel(second, p.extents, out, {}, span))


def expand_fill(op: Fill, span: Any = None) -> Stmt:
    dims = list(op.dst.squeezed())
    coords = loop_vars(len(dims))
    body = Store(
        op.dst.buffer, _at(op.dst, dims, coords), cast(op.value, op.dst.buffer.dtype), span
    )
    if not dims:
        return _single(body, span)
    return Parallel(coords, tuple(op.dst.extents[n] for n in dims), body, {}, span)


def expand_gemm(op: Gemm, span: Any = None) -> Stmt:
    """A serial k loop of rank-1 updates: threads own elements of C, so k stays outermost."""
    i, j, k = Var("i"), Var("j"), Var("k")
    m, n = op.c.extents[-2:]
    depth = op.a.extents[-2] if op.trans_a else op.a.extents[-1]
    a = _at(op.a, [len(op.a.extents) - 2, len(op.a.extents) - 1], (k, i) if op.trans_a else (i, k))
    b = _at(op.b, [len(op.b.extents) - 2, len(op.b.extents) - 1], (j, k) if op.trans_b else (k, j))
    c = _at(op.c, [len(op.c.extents) - 2, len(op.c.extents) - 1], (i, j))
    acc = op.c.buffer.dtype
    old = Load(op.c.buffer, c)
    product = binary(Add, old, cast(Load(op.a.buffer, a), acc) * cast(Load(op.b.buffer, b), acc))
    update = Parallel((i, j), (m, n), Store(op.c.buffer, c, product, span), {}, span)
    body: Stmt = For(k, const(0), depth, update, "serial", {}, span)
    clear = as_expr(op.clear_accum)
    if type(clear) is Const and not clear.value:
        return body
    zero = Parallel((i, j), (m, n), Store(op.c.buffer, c, const(0, acc), span), {}, span)
    return seq(zero if type(clear) is Const else If(clear, zero, None, span), body, span=span)


def combine(kind: str, a: Expr, b: Expr, nan_propagate: bool = False) -> Expr:
    """One step of a reduction: `a` is the accumulator, `b` a value already mapped by
    `reduce_input`."""
    if kind in ("sum", "abssum"):
        return binary(Add, a, b)
    if kind in ("max", "absmax"):
        return (
            call("max_nan", (a, b), a.dtype)
            if nan_propagate and a.dtype.is_float
            else maximum(a, b)
        )
    if kind == "min":
        return (
            call("min_nan", (a, b), a.dtype)
            if nan_propagate and a.dtype.is_float
            else minimum(a, b)
        )
    return binary({"bitand": BitAnd, "bitor": BitOr, "bitxor": BitXor}[kind], a, b)


def reduce_input(kind: str, x: Expr) -> Expr:
    """|x| for the absolute reductions (unsigned values are their own), else x."""
    if not kind.startswith("abs") or not x.dtype.is_signed:
        return x
    if x.dtype.is_float:
        return call("abs", (x,), x.dtype)
    return select(x < const(0, x.dtype), -x, x)


def identity(kind: str, dtype: Any) -> Const:
    """The neutral element of a reduction in `dtype`."""
    if kind in ("sum", "abssum", "bitor", "bitxor", "absmax"):
        return const(0, dtype)
    if kind == "bitand":
        return const(-1, dtype) if not dtype.is_bool else const(True, dtype)
    if dtype.is_float:
        return const(float("-inf") if kind == "max" else float("inf"), dtype)
    signed = dtype.kind == "int"
    lo, hi = (-(1 << (dtype.bits - 1)) if signed else 0), (1 << (dtype.bits - signed)) - 1
    return const(lo if kind == "max" else hi, dtype)


def expand_reduce(op: Reduce, span: Any = None) -> Stmt:
    """Each owner of a result element walks the reduced dimension."""
    kept = op.kept_dims
    coords = loop_vars(len(kept))
    r = Var("r")
    dtype = op.acc_dtype
    dst_index = _at(op.dst, list(op.dst_dims), coords)
    # the accumulator is private to the thread: the result may be shared or replicated memory
    acc = Buffer("acc", (1,), dtype, Scope.LOCAL)
    zero = (const(0),)
    start = identity(op.kind, dtype) if op.clear else cast(Load(op.dst.buffer, dst_index), dtype)
    value = cast(Load(op.src.buffer, _at(op.src, [*kept, op.axis], (*coords, r))), dtype)
    step = combine(op.kind, Load(acc, zero), reduce_input(op.kind, value), op.nan_propagate)
    body = seq(
        Alloc(acc),
        Store(acc, zero, start, span),
        For(r, const(0), op.src.extents[op.axis], Store(acc, zero, step, span), "serial", {}, span),
        Store(op.dst.buffer, dst_index, cast(Load(acc, zero), op.dst.buffer.dtype), span),
        span=span,
    )
    if not coords:
        return _single(body, span)
    return Parallel(coords, op.kept, body, {}, span)


class _Serial(Rewriter):
    """Nests as loops of the calling thread, unrolled: registers need constant indices."""

    def visit_Parallel(self, s: Parallel) -> Stmt:
        out, kind = s.body, "vectorized"
        for var, extent in zip(reversed(s.vars), reversed(s.extents), strict=True):
            out = For(var, const(0, extent.dtype), extent, out, kind, {}, s.span)
            kind = "unroll" if type(extent) is Const else "serial"
        return out


def is_private(op: Any) -> bool:
    """Does the op work on memory that each thread has for itself? Then each does all of it."""
    return any(type(x) is Region and x.buffer.is_local for x in op.children)


def expand(op: Any, span: Any = None) -> Stmt:
    """The plain form of any op."""
    plain = _EXPAND[op.name](op, span)
    out: Stmt = _Serial().visit(plain) if is_private(op) else plain
    return out


_EXPAND: dict[str, Callable[[Any, Any], Stmt]] = {
    "copy": expand_copy,
    "fill": expand_fill,
    "gemm": expand_gemm,
    "reduce": expand_reduce,
}

__all__ = ["combine", "expand", "identity", "is_private", "reduce_input"]
