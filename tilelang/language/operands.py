# SPDX-License-Identifier: Apache-2.0
"""Operands of tile operations: whatever the user wrote, as a `Region`.

A buffer means all of it, a slice is the slice, an element `A[i, j]` is the origin of a tile whose
extents come from the other operand (aligned on the right, missing dimensions being 1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilelang.arith import Facts
from tilelang.errors import ShapeError, TypeMismatchError
from tilelang.ir import Buffer, Const, Expr, Load, Region, TileOp, TileStmt, const
from tilelang.tileop import CheckContext
from tilelang.tileop.regions import nearness

from .trace import Trace
from .values import VarRef


def region(t: Trace, value: Any, what: str, extents: tuple[Expr, ...] | None = None) -> Region:
    """`value` as a region. extents: of the other operand, for an origin."""
    if isinstance(value, Buffer):
        return value.whole()
    if isinstance(value, Region):
        return value
    if isinstance(value, VarRef):
        return value.region()
    if isinstance(value, Load):
        return _tile_at(t, value, what, extents)
    raise t.error(
        f"{what} must be a buffer, a slice of one or an element, got {value!r} "
        f"({type(value).__name__})",
        "TL0212",
        "e.g. A, A[0:n, :] or A[i, j]; a name that was assigned A[i] holds its value, not its "
        "place",
        TypeMismatchError,
    )


def with_known_extents(r: Region) -> Region:
    """A[n : n + 16] has 16 elements, whatever n is."""
    if all(type(e) is Const for e in r.extents):
        return r
    facts = Facts()
    return Region(r.buffer, r.offsets, tuple(map(facts.simplify, r.extents)))


def _tile_at(t: Trace, load: Load, what: str, extents: tuple[Expr, ...] | None) -> Region:
    n = len(load.indices)
    if extents is None:
        return Region(load.buffer, load.indices, tuple(const(1) for _ in range(n)))
    extra = len(extents) - n
    if extra > 0:
        if any(not (type(e) is Const and e.value == 1) for e in extents[:extra]):
            raise t.error(
                f"{what}: `{load.buffer.name}` has {n} dimension(s), fewer than the tile that is "
                "put there "
                f"[{', '.join(map(str, extents))}]",
                "TL0305",
                "slice the other operand",
                ShapeError,
            )
        extents = extents[extra:]
    return Region(
        load.buffer, load.indices, (*(const(1) for _ in range(n - len(extents))), *extents)
    )


def narrowed(near: Region, far: Region) -> tuple[Region, Region]:
    """Both sides of a copy, `far` being a slice that the user wrote out: where that is certainly
    shorter than the nearer side, only so much of the nearer side is meant. (Where it may be longer
    the nearer side says how much; see `tileop.regions.pair`. So it does beside `:`, which clips a
    tile at the end of a global tensor.)"""
    if nearness(near.buffer) <= nearness(far.buffer):
        return near, far
    n, f = near.squeezed(), far.squeezed()
    if len(n) != len(f):
        both = min(len(near.extents), len(far.extents))
        n = tuple(range(len(near.extents) - both, len(near.extents)))
        f = tuple(range(len(far.extents) - both, len(far.extents)))
    facts = Facts()
    have, want = list(near.extents), list(far.extents)
    for i, j in zip(n, f, strict=True):
        if far.buffer.is_global and _is_full(far, j):
            continue
        length, extent = facts.simplify(want[j]), have[i]
        if type(length) is Const and type(extent) is Const and length.value < extent.value:
            if type(want[j]) is Const and length.value == 1:
                continue  # repeated
            have[i] = want[j] = length
    return _resized(near, have), _resized(far, want)


def _resized(r: Region, extents: list[Expr]) -> Region:
    same = all(a is b for a, b in zip(extents, r.extents, strict=True))
    return r if same else Region(r.buffer, r.offsets, tuple(extents))


def _is_full(r: Region, dim: int) -> bool:
    """Is it `:`, or the same in numbers?"""
    o, e, n = r.offsets[dim], r.extents[dim], r.buffer.shape[dim]
    same = e is n or (type(e) is Const and type(n) is Const and e.value == n.value)
    return type(o) is Const and o.value == 0 and same


def is_place(value: Any) -> bool:
    """Does `value` name memory (rather than a number)?"""
    return isinstance(value, (Buffer, Region, Load, VarRef))


def emit_op(
    t: Trace, op: TileOp, fields: Sequence[str], annotations: Mapping[str, Any] | None = None
) -> None:
    """Checks and emits a tile operation. fields: its fields in the order of the call's
    arguments.
    """
    if t.parallel_region() is not None:
        raise t.error(
            f"T.{op.name} inside T.Parallel: only elementwise statements are allowed there",
            "TL0164",
            "move it out of the loop, or make the loop T.serial",
        )
    span, spans = t.span(), t.argument_spans(fields)
    if not t.symbolic:
        op.check(CheckContext(None, span, spans))  # type: ignore[attr-defined]
    t.emit(TileStmt(op, {**(annotations or {}), "spans": spans}, span))
