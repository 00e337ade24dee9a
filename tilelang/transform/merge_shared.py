# SPDX-License-Identifier: Apache-2.0
"""FLAT (CUDA): places every shared buffer of a kernel in one arena.

In: `Alloc`s of shared buffers and barriers. Out: the same with `annotations={"offset": bytes}`, and
`Launch.annotations["dynamic_smem"]`, the arena's size. More than the target has is a ResourceError
that lists the buffers.

    A = alloc (4096,) shared            A = alloc …, {"offset": 0}
    …A…; sync_threads()            →    …A…; sync_threads()
    C = alloc (4096,) shared            C = alloc …, {"offset": 0}     (A is dead: same place)

Two buffers share a place only if no top-level statement of the kernel may use both, and a barrier
of the whole block (after a wait for the first one's asynchronous copies) separates them. Where that
saves a quarter of the arena, or is needed to fit, the barrier is inserted.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

from tilelang.errors import InternalError, Note, ResourceError
from tilelang.ir import (
    Alloc,
    Buffer,
    Call,
    Const,
    Evaluate,
    Launch,
    PrimFunc,
    Scope,
    Stmt,
    call,
    flatten,
    is_const,
    seq,
)
from tilelang.utils import align_up

from .manager import PassContext
from .summary import StmtRewriter, Summary, statements, summary

_ALIGN = 16  # of cp.async and ldmatrix rows (PTX ISA); more where an Alloc says "align"
_BARRIER_ALIGN = 8  # an mbarrier object (PTX ISA, mbarrier)
_WORTH = 0.75  # a barrier is inserted only for an arena at most this much of the old one


def run(func: PrimFunc, ctx: PassContext) -> PrimFunc:
    stmts = [_merge(s, ctx) if type(s) is Launch else s for s in flatten(func.body)]
    return func.with_body(seq(stmts))


@dataclass
class _Item:
    """A buffer to place. first, last: the top-level statements that may use it."""

    buffer: Buffer
    bytes: int
    align: int
    first: int
    last: int
    units: set[str] = field(default_factory=set)
    offset: int = -1


def _merge(launch: Launch, ctx: PassContext) -> Launch:
    top = flatten(launch.body)
    found = [summary(s) for s in top]
    items = _items(found)
    if not items:
        return launch
    reuse = ctx.options.shared_memory_reuse
    total = _place(items, _existing(top)) if reuse else _place(items, None)
    cuts: set[int] = set()
    if reuse and not any(s.returns for s in found):  # every thread reaches every statement
        total, cuts = _with_cuts(items, top, total, ctx)
    if total > ctx.target.max_smem:
        raise _too_much(items, total, ctx, launch)
    if cuts:
        ctx.note(f"shared memory: {len(cuts)} barrier(s) inserted so that buffers share an address")
        top = _insert(top, cuts, any("cp_async_commit" in s.calls for s in found))
    offsets = {i.buffer: i.offset for i in items}
    body = _Annotate(offsets).visit(seq(top))
    return replace_launch(launch, body, {**launch.annotations, "dynamic_smem": total})


def replace_launch(s: Launch, body: Stmt, annotations: dict[str, Any]) -> Launch:
    return Launch(s.grid, s.threads, s.block_vars, s.thread_vars, body, annotations, s.span)


# ---------------------------------------------------------------------------------- liveness


def _is_placed(b: Buffer) -> bool:
    return (b.is_shared or b.scope == Scope.BARRIER) and b.view_of is None


def _items(found: list[Summary]) -> list[_Item]:
    """The shared buffers in order of allocation, with the range of statements that may use each."""
    items: dict[Buffer, _Item] = {}
    for s in found:
        for x in s.allocs:
            if _is_placed(x.buffer):
                b = x.buffer
                barrier = b.scope == Scope.BARRIER
                align = int(x.annotations.get("align", _BARRIER_ALIGN if barrier else _ALIGN))
                items[b] = _Item(b, _bytes(b), align, -1, -1)
    for n, s in enumerate(found):
        for b in s.roots:
            item = items.get(b)
            if item is not None:
                item.first = n if item.first < 0 else item.first
                item.last = n
        for b, unit in s.units:
            if b in items:
                items[b].units.add(unit)
    for item in items.values():
        if item.buffer.scope == Scope.BARRIER:  # an mbarrier's state outlives what we see of it
            item.first, item.last = 0, len(found)
    return [i for i in items.values() if i.first >= 0 or i.buffer.scope == Scope.BARRIER]


def _bytes(b: Buffer) -> int:
    (size,) = b.shape
    if type(size) is not Const:
        raise InternalError(f"shared buffer {b.name} has no constant size")
    bits = 64 if b.scope == Scope.BARRIER else b.dtype.bits * b.dtype.lanes
    return (int(size.value) * bits + 7) // 8


@dataclass
class _Fences:
    """Which top-level statements are barriers of the whole block, and which wait for all cp.async
    groups. free: units whose accesses end with the statement that makes them. anywhere: a wait and
    a barrier may be inserted before any statement."""

    barriers: list[int]
    waits: list[int]
    free: set[str]
    anywhere: bool = False

    def separates(self, a: _Item, b: _Item) -> bool:
        """May `b` (used later) lie where `a` was?"""
        if a.units - {"cp_async"} - self.free or "tma" in b.units:
            # Reads by the asynchronous proxy end where their own waits say, and a generic access
            # before a TMA write needs a proxy fence: such places are not reused.
            return False
        if self.anywhere:
            return a.last < b.first
        lo = a.last
        if "cp_async" in a.units:
            lo = _after(self.waits, lo, b.first)
        return _after(self.barriers, lo, b.first) < b.first


def _after(places: list[int], lo: int, otherwise: int) -> int:
    """The first of the places (in order) beyond `lo`."""
    n = bisect_right(places, lo)
    return places[n] if n < len(places) else otherwise


def _existing(top: list[Stmt]) -> _Fences:
    barriers = [n for n, s in enumerate(top) if _is_call(s, "sync_threads")]
    waits = [n for n, s in enumerate(top) if _is_call(s, "cp_async_wait", 0)]
    return _Fences(barriers, waits, _free(top))


def _free(top: list[Stmt]) -> set[str]:
    """wgmmas are done with their operands if each statement waits for those that it issues."""
    return {"generic"} | ({"wgmma"} if all(map(_waits_for_wgmma, top)) else set())


def _waits_for_wgmma(s: Stmt) -> bool:
    """Is the last commit in the text of `s` followed by a wait for all groups?"""
    open_ = False
    for x in statements(s):
        if _is_call(x, "wgmma_commit"):
            open_ = True
        elif _is_call(x, "wgmma_wait", 0):
            open_ = False
    return not open_


def _is_call(s: Stmt, op: str, *args: int) -> bool:
    return (
        type(s) is Evaluate
        and type(s.value) is Call
        and s.value.op == op
        and all(is_const(x, v) for x, v in zip(s.value.args, args, strict=False))
    )


def _with_cuts(
    items: list[_Item], top: list[Stmt], total: int, ctx: PassContext
) -> tuple[int, set[int]]:
    """The arena and the statements before which a barrier is inserted, if that pays."""
    smaller = _place(items, _Fences([], [], _free(top), anywhere=True))
    if smaller > total * _WORTH and total <= ctx.target.max_smem:
        return _place(items, _existing(top)), set()
    return smaller, _needed_cuts(items, _existing(top))


def _needed_cuts(items: list[_Item], existing: _Fences) -> set[int]:
    """Before the first use of a buffer that lies where another was, with no barrier between."""
    return {
        b.first
        for a in items
        for b in items
        if a.last < b.first and _overlap(a, b) and not existing.separates(a, b)
    }


def _overlap(a: _Item, b: _Item) -> bool:
    return a.offset < b.offset + b.bytes and b.offset < a.offset + a.bytes


def _insert(top: list[Stmt], cuts: set[int], copies: bool) -> list[Stmt]:
    out: list[Stmt] = []
    for n, s in enumerate(top):
        if n in cuts:
            if copies:
                out.append(Evaluate(call("cp_async_wait", [0])))
            out.append(Evaluate(call("sync_threads")))
        out.append(s)
    return out


# ---------------------------------------------------------------------------------- placement


def _place(items: list[_Item], fences: _Fences | None) -> int:
    """Offsets, the largest buffer first, each at the lowest free place; the arena's bytes."""
    placed: list[_Item] = []
    for item in sorted(items, key=lambda i: (-i.bytes, i.first)):
        rivals = sorted(
            (p for p in placed if fences is None or not _may_share(p, item, fences)),
            key=lambda p: p.offset,
        )
        at = 0
        for r in rivals:
            if at + item.bytes <= r.offset:
                break
            at = max(at, align_up(r.offset + r.bytes, item.align))
        item.offset = at
        placed.append(item)
    return max((i.offset + i.bytes for i in items), default=0)


def _may_share(a: _Item, b: _Item, fences: _Fences) -> bool:
    if a.last < b.first:
        return fences.separates(a, b)
    return b.last < a.first and fences.separates(b, a)


def _too_much(items: list[_Item], total: int, ctx: PassContext, launch: Launch) -> ResourceError:
    limit = ctx.target.max_smem
    notes = [
        Note(f"{i.buffer.name}: {i.buffer.dtype}, {i.bytes} bytes", i.buffer.span, "allocated")
        for i in sorted(items, key=lambda i: -i.bytes)
    ]
    return ResourceError(
        f"the kernel needs {total} bytes of shared memory, but {ctx.target.arch_name} has {limit}"
        " per block",
        code="TL0710",
        span=launch.span,
        notes=notes,
        help="use smaller tiles, fewer pipeline stages or a narrower dtype",
    )


class _Annotate(StmtRewriter):
    def __init__(self, offsets: dict[Buffer, int]) -> None:
        super().__init__()
        self.offsets = offsets

    def visit_Alloc(self, s: Alloc) -> Stmt:
        if s.buffer not in self.offsets:
            return seq() if _is_placed(s.buffer) else s  # a shared buffer that nothing uses
        return Alloc(s.buffer, {**s.annotations, "offset": self.offsets[s.buffer]}, s.span)


__all__ = ["run"]
