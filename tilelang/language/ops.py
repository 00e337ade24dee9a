# SPDX-License-Identifier: Apache-2.0
"""Tile operations: `T.copy`, `T.fill`, `T.clear`, `T.gemm`, `T.transpose`.

Thin: operands become regions, options are checked by name, the op of `tilelang.tileop` is emitted.
What an op means, checks and needs is in `tileop`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from tilelang.errors import OptionError, ShapeError, TypeMismatchError
from tilelang.ir import Const, Load, Region, as_bool
from tilelang.tileop import Copy, Fill, Gemm

from .hints import access_width, known_notes, no_effect
from .operands import emit_op, narrowed, region, with_known_extents
from .trace import Trace, current
from .values import VarRef, plain, scalar, store

_EVICTION = ("evict_normal", "evict_first", "evict_last")
_INSTRUCTIONS = ("tma", "cp_async", "sync")
_COPY_OPTIONS = (
    "coalesced_width",
    "disable_tma",
    "eviction_policy",
    "prefer_instruction",
    "loop_layout",
    "parallel_loop_layout",
)
_TMA_WHERE_IT_PAYS = "TMA is used wherever it pays; kernel.show('why') says where, and why not"


class GemmWarpPolicy(IntEnum):
    """How the warps of a block share a matrix product: over both dimensions, rows only, columns
    only.
    """

    Square = 0
    FullRow = 1
    FullCol = 2


def copy(
    src: Any,
    dst: Any,
    *,
    coalesced_width: int | None = None,
    disable_tma: bool = False,
    eviction_policy: str | int | None = None,
    prefer_instruction: str | None = None,
    annotations: Mapping[str, Any] | None = None,
    loop_layout: Any = None,
) -> None:
    """dst[...] = src[...], with conversion. Outside of a global tensor reads give 0 and writes are
    dropped.

    prefer_instruction: "cp_async" and "sync" keep the copy off the bulk engine, "sync" also off
    cp.async. coalesced_width, eviction_policy: accepted, without an effect. annotations: the same
    options by name, which then count.
    """
    t = current("T.copy")
    notes = known_notes("T.copy", annotations, _COPY_OPTIONS)
    policy = eviction(t, "T.copy", notes.get("eviction_policy", eviction_policy))
    wanted = notes.get("prefer_instruction", prefer_instruction)
    prefer = _one_of(t, "T.copy: prefer_instruction", wanted, _INSTRUCTIONS)
    if prefer == "tma":
        no_effect("T.copy: prefer_instruction='tma'", _TMA_WHERE_IT_PAYS)
    width = access_width(t, "T.copy", notes.get("coalesced_width", coalesced_width))
    no_tma = bool(notes.get("disable_tma", disable_tma))
    if _both_scalars(src, dst):
        to = dst.region() if isinstance(dst, VarRef) else dst
        at = to.offsets if isinstance(to, Region) else to.indices
        store(t, to.buffer, at, src)
        return
    a, b = copy_operands(t, src, dst)
    layout = notes.get("loop_layout", notes.get("parallel_loop_layout", loop_layout))
    emit_op(t, Copy(a, b, width, no_tma, policy, prefer, layout), ("src", "dst"))


def eviction(t: Trace, what: str, policy: Any) -> str | None:
    """`eviction_policy`: what the L2 should keep."""
    name = _one_of(t, f"{what}: eviction_policy", policy, _EVICTION)
    if name not in (None, "evict_normal"):
        no_effect(f"{what}: eviction_policy={name!r}", "every access has the normal cache policy")
    return name


def _one_of(t: Trace, what: str, value: Any, allowed: tuple[str, ...]) -> str | None:
    if value is None:
        return None
    if isinstance(value, int) and 0 <= value < len(allowed):
        return allowed[value]
    if value not in allowed:
        raise t.error(
            f"{what}: unknown value {value!r}",
            "TL0530",
            f"one of {', '.join(allowed)}",
            OptionError,
        )
    return str(value)


def _both_scalars(src: Any, dst: Any) -> bool:
    return isinstance(src, (Load, VarRef)) and isinstance(dst, (Load, VarRef))


def copy_operands(t: Trace, src: Any, dst: Any) -> tuple[Region, Region]:
    """Both operands as regions; an origin takes the other's extents, a slice keeps its own."""
    if isinstance(src, Load):
        b = region(t, dst, "T.copy: dst")
        return region(t, src, "T.copy: src", b.extents), b
    a = region(t, src, "T.copy: src")
    b = region(t, dst, "T.copy: dst", a.extents)
    if isinstance(src, Region):
        b, a = narrowed(b, a)
    if isinstance(dst, Region):
        a, b = narrowed(a, b)
    return a, b


def fill(dst: Any, value: Any) -> None:
    """dst[...] = value."""
    t = current("T.fill")
    if isinstance(dst, VarRef):
        store(t, dst.buffer, dst.indices, value)
        return
    where = region(t, dst, "T.fill: dst")
    e = scalar(t, plain(value), "T.fill: value", where.dtype)
    if e.dtype.lanes not in (1, where.dtype.lanes):
        raise t.error(
            f"T.fill: the value has {e.dtype.lanes} lanes, an element of `{where.buffer.name}` is "
            f"{where.dtype}",
            "TL0248",
            "give one value",
            TypeMismatchError,
        )
    emit_op(t, Fill(where, e), ("dst", "value"))


def clear(dst: Any) -> None:
    """dst[...] = 0."""
    t = current("T.clear")
    where = region(t, dst, "T.clear: dst")
    zero: Any = False if where.dtype.is_bool else 0.0 if where.dtype.is_float else 0
    if isinstance(dst, VarRef):
        store(t, dst.buffer, dst.indices, zero)
        return
    emit_op(t, Fill(where, scalar(t, zero, "T.clear", where.dtype)), ("dst", "value"))


def gemm(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy | int = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    k_pack: int = 1,
    mbar: Any = None,
    annotations: Mapping[str, Any] | None = None,
    *,
    wg_wait: int = 0,
) -> None:
    """C += op(A) · op(B) on the last two dimensions of each; complete when it returns."""
    t = current("T.gemm")
    if plain(wg_wait) != 0:
        no_effect("T.gemm: wg_wait", "T.gemm is complete when it returns; use T.wgmma_gemm")
    if mbar is not None:
        raise t.error(
            "T.gemm: mbar is for tensor memory (sm_100), which is not supported",
            "TL0531",
            "leave it out",
            OptionError,
        )
    if k_pack not in (1, 2):
        raise t.error(
            f"T.gemm: k_pack must be 1 or 2, got {k_pack}",
            "TL0532",
            "leave it out (it has no effect on CUDA)",
            OptionError,
        )
    if int(policy) not in (0, 1, 2):
        raise t.error(
            f"T.gemm: unknown policy {policy!r}",
            "TL0533",
            "T.GemmWarpPolicy.Square, .FullRow or .FullCol",
            OptionError,
        )
    a, b, c = (
        with_known_extents(region(t, x, f"T.gemm: {n}")) for n, x in (("A", A), ("B", B), ("C", C))
    )
    clears = as_bool(scalar(t, plain(clear_accum), "T.gemm: clear_accum"))
    op = Gemm(a, b, c, bool(transpose_A), bool(transpose_B), int(policy), clears)
    known_notes("T.gemm", annotations)
    emit_op(t, op, ("a", "b", "c"))


def transpose(src: Any, dst: Any) -> None:
    """dst[j, i] = src[i, j]."""
    from .loops import Parallel
    from .protocol import Protocol

    t = current("T.transpose")
    a, b = region(t, src, "T.transpose: src"), region(t, dst, "T.transpose: dst")
    if len(a.extents) != 2 or len(b.extents) != 2:
        raise t.error(
            "T.transpose: both operands must be matrices",
            "TL0309",
            "slice two dimensions",
            ShapeError,
        )
    if any(
        type(x) is Const and type(y) is Const and x.value != y.value
        for x, y in zip(a.extents, reversed(b.extents), strict=True)
    ):
        raise t.error(
            f"T.transpose: the transpose of `{a!r}` is not of the shape of `{b!r}`",
            "TL0310",
            "exchange the dimensions of one",
            ShapeError,
        )
    for i, j in Protocol(t).loop(Parallel(*a.extents), ("i", "j"), True, (), False):
        store(t, b.buffer, (b.offsets[0] + j, b.offsets[1] + i), a[i, j])


__all__ = ["GemmWarpPolicy", "clear", "copy", "fill", "gemm", "transpose"]
