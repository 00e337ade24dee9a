# SPDX-License-Identifier: Apache-2.0
"""What every tile operation offers, and how one of its lowerings is chosen.

An op owns its facts: `check()` (user errors), `effects()` (what it touches), `reference()` (its
meaning in numpy) and `lowerings`. Each lowering says `why_not` it cannot be used here (None: it
can), what it costs, which layouts it needs, and emits LOOP-stage code. The cheapest that fits wins;
order breaks ties. One lowering of every op is plain SIMT loops and is always legal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tilelang.errors import InternalError, TargetError
from tilelang.ir import TileOp

if TYPE_CHECKING:
    from tilelang.config import Options
    from tilelang.ir import Buffer, Builder, Expr, TensorMap
    from tilelang.target import Target


@dataclass
class LowerContext:
    """What a lowering may ask about the place it lowers for.

    tid: index of the calling thread among the `threads` that take part (0 <= tid < threads); on a
    CPU threads is 1 and tid is the constant 0. layouts: of fragment and shared buffers, as
    inferred. facts: an `arith.Facts` with the ranges of all variables in scope. safe_values: what
    an out-of-bounds read of a global buffer gives (default 0). barrier: emits a barrier of exactly
    these `threads` (the whole block, or a named one inside a warp role). registers: fragment -> its
    per-thread register array once its Alloc has been lowered. tensor_maps: TMA descriptors that the
    kernel needs. in_flight: accumulators of asynchronous gemms emitted so far. warpgroup: index of
    the thread's warpgroup, computed once per role."""

    target: Target
    options: Options
    tid: Expr
    threads: int
    facts: Any
    layouts: dict[Buffer, Any] = field(default_factory=dict)
    registers: dict[Buffer, Buffer] = field(default_factory=dict)
    safe_values: Mapping[Buffer, Expr] = field(default_factory=dict)
    annotations: Mapping[str, Any] = field(default_factory=dict)
    barrier: Callable[[Builder], None] = lambda b: b.call("sync_threads")
    notes: list[str] = field(default_factory=list)
    tensor_maps: list[TensorMap] = field(default_factory=list)
    in_flight: list[Buffer] = field(default_factory=list)
    warpgroup: Expr | None = None

    @contextmanager
    def scope(self) -> Iterator[Any]:
        """A scope of facts (given to the caller): what is learnt in it is forgotten at its end."""
        outer = self.facts
        self.facts = outer.child()
        try:
            yield self.facts
        finally:
            self.facts = outer


@dataclass(frozen=True)
class Lowering:
    """One way to lower an op. All callables take (op, ctx).

    cost: cycles (see `cost.py`); the cheapest legal lowering is taken.
    layouts: buffer -> layout that this lowering needs (hard constraints for inference).
    planned_by: the pass that alone may choose it, because it needs more than the op (a wait, a
    barrier): `select` takes it where that pass pinned it.
    emit: (op, ctx, builder) appends LOOP-stage statements.
    """

    name: str
    why_not: Callable[[Any, LowerContext], str | None]
    cost: Callable[[Any, LowerContext], float]
    emit: Callable[[Any, LowerContext, Builder], None]
    layouts: Callable[[Any, LowerContext], Mapping[Buffer, Any]] = lambda op, ctx: {}
    planned_by: str = ""


def imported(
    name: str,
    place: str,
    unless: Callable[[Any, Any], str | None],
    planned_by: str = "",
) -> Lowering:
    """The lowering at `place` ("module:NAME" of this package), imported when it is first asked
    about an op for which `unless` gives no reason against it: to write kernels needs none, and to
    compile for one kind of target needs none of the others."""

    @cache
    def low() -> Lowering:
        module, attribute = place.split(":")
        found: Lowering = getattr(import_module(f"{__package__}.{module}"), attribute)
        return found

    return Lowering(
        name,
        lambda op, ctx: unless(op, ctx) or low().why_not(op, ctx),
        lambda op, ctx: low().cost(op, ctx),
        lambda op, ctx, b: low().emit(op, ctx, b),
        lambda op, ctx: low().layouts(op, ctx),
        planned_by,
    )


@dataclass(frozen=True)
class Choice:
    """The lowering taken, and why each other one was not."""

    lowering: Lowering
    reasons: Mapping[str, str]

    def text(self) -> str:
        rest = "; ".join(f"not {n}: {r}" for n, r in self.reasons.items())
        return self.lowering.name + (f" ({rest})" if rest else "")


def _may_fall_back(op: TileOp, ctx: LowerContext, pinned: str, reason: str | None) -> None:
    """A lowering that the user asked for by name is not possible: is another one as good?"""
    asked = ctx.annotations.get("asked")
    if asked is None:
        raise InternalError(f"{op.name}: lowering {pinned!r} was planned but is refused: {reason}")
    if not (ctx.target.is_cpu or ctx.annotations.get("fallback")):
        raise TargetError(
            f"{asked} is not possible here: {reason}",
            code="TL0634",
            help=f"use T.{op.name}, which takes another way where it must",
        )


def select(
    lowerings: Sequence[Lowering], op: TileOp, ctx: LowerContext, pinned: str | None = None
) -> Choice:
    """The cheapest legal lowering, or the pinned one: chosen by an earlier pass, which asked
    `why_not`, or by the user (`annotations["asked"]`)."""
    reasons: dict[str, str] = {}
    best: tuple[float, Lowering] | None = None
    for low in lowerings:
        reason = low.why_not(op, ctx)
        if reason is not None:
            reasons[low.name] = reason
        elif low.name == pinned:
            return Choice(low, reasons)
        elif low.planned_by:
            reasons[low.name] = f"only {low.planned_by} plans it"
        else:
            cost = low.cost(op, ctx)
            if best is None or cost < best[0]:
                if best is not None:
                    reasons[best[1].name] = f"costs {best[0]:g}, {low.name} {cost:g}"
                best = (cost, low)
            else:
                reasons[low.name] = f"costs {cost:g}, {best[1].name} {best[0]:g}"
    if pinned is not None:
        _may_fall_back(op, ctx, pinned, reasons.get(pinned))
    if best is None:
        raise InternalError(f"{op.name} has no legal lowering: {reasons}")
    return Choice(best[1], reasons)
