# SPDX-License-Identifier: Apache-2.0
"""Loops as users write them: `T.serial`, `T.unroll`, `T.vectorized`, `T.Parallel`, `T.Pipelined`, …

A `T.` function makes a `LoopSpec`, which says what the loop is; the rewritten `for` statement asks
it to `open` (variables, statements before the body) and to `close` (the IR statement around the
body).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilelang.errors import LanguageError, OptionError, TypeMismatchError
from tilelang.ir import (
    Break,
    Const,
    Expr,
    For,
    If,
    Stmt,
    Var,
    as_expr,
    binary,
    cast,
    ceildiv,
    const,
    const_int,
    if_then_else,
    maximum,
    minimum,
    promote,
)
from tilelang.ir import Parallel as ParallelStmt
from tilelang.ir.expr import Sub

from .hints import access_width, known_notes, no_effect
from .trace import Trace, current
from .values import bound, plain, scalar

if TYPE_CHECKING:
    from tilelang.errors import Span


@dataclass
class LoopSpec:
    """One `for` header. kind as in `ir.For`, or parallel, grid, persistent."""

    kind: str
    extents: tuple[Expr, ...]
    start: Expr | None = None
    step: Expr | None = None
    annotations: dict[str, Any] = field(default_factory=dict)
    word: str = "T.serial"

    @property
    def region(self) -> str:
        return "parallel" if self.kind == "parallel" else "for"

    def open(
        self, t: Trace, names: Sequence[str]
    ) -> tuple[Any, Callable[[Stmt, Span | None], Stmt]]:
        """(what the loop's target gets, how to wrap the body). Called inside the loop's block."""
        if self.kind == "parallel":
            return self._open_parallel(names)
        if self.kind == "grid":
            return self._open_grid(names)
        if self.kind == "persistent":
            return self._open_persistent(t, names)
        return self._open_for(t, names)

    def _names(self, names: Sequence[str]) -> list[str]:
        n = len(self.extents)
        return list(names) if len(names) == n else [f"{names[0]}_{i}" for i in range(n)]

    def _open_parallel(self, names: Sequence[str]) -> tuple[Any, Callable[..., Stmt]]:
        loop = tuple(Var(n, e.dtype) for n, e in zip(self._names(names), self.extents, strict=True))
        return loop, lambda body, span: ParallelStmt(
            loop, self.extents, body, self.annotations, span
        )

    def _open_grid(self, names: Sequence[str]) -> tuple[Any, Callable[..., Stmt]]:
        loop = tuple(Var(n, e.dtype) for n, e in zip(self._names(names), self.extents, strict=True))

        def close(body: Stmt, span: Span | None) -> Stmt:
            for v, e in reversed(list(zip(loop, self.extents, strict=True))):
                body = For(v, const(0, e.dtype), e, body, "serial", {}, span)
            return body

        return loop, close

    def _open_for(self, t: Trace, names: Sequence[str]) -> tuple[Any, Callable[..., Stmt]]:
        (extent,) = self.extents
        start = self.start if self.start is not None else const(0, extent.dtype)
        stepped = self.step is not None and const_int(self.step) != 1
        var = Var(f"{names[0]}_step" if stepped else names[0], extent.dtype)
        begin = const(0, extent.dtype) if stepped else start

        def close(body: Stmt, span: Span | None) -> Stmt:
            return For(var, begin, extent, body, self.kind, self.annotations, span)

        if not stepped or self.step is None:
            return var, close
        return bound(t, names[0], start + var * self.step), close

    def _open_persistent(self, t: Trace, names: Sequence[str]) -> tuple[Any, Callable[..., Stmt]]:
        """Waves of tiles: block `index` takes tiles index, index + wave_size, …; within a tile id
        the last dimension runs in groups of `group_size`, so that neighbours share operands in the
        L2."""
        a = self.annotations
        total: Any = const(1)
        for e in self.extents:
            total = total * e
        wave = Var("wave", total.dtype)
        tile = t.bind("tile_id", a["index"] + wave * a["wave_size"])
        t.emit(If(tile >= total, Break(t.span()), None, t.span()))
        values = _tile_coordinates(tile, self.extents, a["group_size"])
        coords = tuple(bound(t, n, v) for n, v in zip(self._names(names), values, strict=True))
        waves = ceildiv(total, as_expr(a["wave_size"]))

        def close(body: Stmt, span: Span | None) -> Stmt:
            return For(wave, const(0, wave.dtype), waves, body, "serial", {}, span)

        return coords, close


def _tile_coordinates(tile: Expr, domain: tuple[Expr, ...], group_size: int) -> list[Expr]:
    """Coordinates of a tile id. The last dimension is cut into groups (the last one may be
    smaller); inside a group the id runs over the group first, then over the dimensions before
    it."""
    *outer, last = domain
    rest: Any = const(1)
    for e in outer:
        rest = rest * e
    per_group = rest * group_size
    group = tile // per_group
    first = group * group_size
    width = (last - first) if group_size != 1 else const(1)
    width = minimum(width, group_size)
    inside = tile % per_group
    coords: list[Expr] = []
    position = inside // width
    for e in reversed(outer):
        coords.append(position % e)
        position = position // e
    return [*reversed(coords), first + inside % width]


def integer(t: Trace, value: Any, what: str) -> Expr:
    """A loop bound: an integer expression."""
    e = scalar(t, plain(value), what)
    if e.dtype.is_bool or not e.dtype.is_int:
        raise t.error(
            f"{what} must be an integer, got {e} ({e.dtype})",
            "TL0210",
            "cast it or use //",
            TypeMismatchError,
        )
    return e


def spec(
    word: str,
    kind: str,
    start: Any,
    stop: Any,
    step: Any = None,
    annotations: Mapping[str, Any] | None = None,
) -> LoopSpec:
    """A loop over start, start + step, … below stop (above it for a negative step)."""
    t = current(word)
    if stop is None:
        start, stop = 0, start
    lo, hi = integer(t, start, f"{word}: start"), integer(t, stop, f"{word}: stop")
    if lo.dtype is not hi.dtype:
        lo, hi = _common(lo, hi)
    extra = dict(annotations or {})
    if step is None or const_int(plain(step)) == 1:
        extent = binary(Sub, hi, lo)
        return LoopSpec(kind, (_not_negative(extent),), lo, None, extra, word)
    by = integer(t, step, f"{word}: step")
    n = const_int(by)
    if n == 0:
        raise t.error(
            f"{word}: step must be non-zero",
            "TL0571",
            "use a positive or a negative step",
            OptionError,
        )
    by = as_expr(n, hi.dtype) if n is not None else by
    up, down = ceildiv(hi - lo, by), ceildiv(lo - hi, -by)
    count = if_then_else(by > 0, up, down) if n is None else (up if n > 0 else down)
    return LoopSpec(kind, (_not_negative(count),), lo, by, extra, word)


def _common(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    to = promote(a.dtype, b.dtype)
    return cast(a, to), cast(b, to)


def _not_negative(e: Any) -> Expr:
    """A constant extent below 0 is an empty loop; a symbolic one is tested by the loop itself."""
    e = as_expr(e)
    return maximum(e, 0) if type(e) is Const else e


def extents_of(word: str, values: Sequence[Any]) -> tuple[Expr, ...]:
    t = current(word)
    if len(values) == 1 and isinstance(values[0], (tuple, list)):
        values = tuple(values[0])
    if not values:
        raise t.error(
            f"{word} needs at least one extent", "TL0572", f"e.g. {word}(n, m)", OptionError
        )
    return tuple(_not_negative(integer(t, v, f"{word}: extent")) for v in values)


# ------------------------------------------------------------------------------------ T.* names


def serial(
    start: Any, stop: Any = None, step: Any = None, *, annotations: Mapping[str, Any] | None = None
) -> LoopSpec:
    """`for i in T.serial(n)`: one iteration after the other."""
    notes = known_notes("T.serial", annotations, ("reassociate",))
    return spec("T.serial", "serial", start, stop, step, notes)


def unroll(
    start: Any,
    stop: Any = None,
    step: Any = None,
    *,
    explicit: bool = False,
    unroll_factor: int | None = None,
    annotations: Mapping[str, Any] | None = None,
) -> LoopSpec:
    """A loop that the device compiler unrolls; `explicit`: we do it (constant extent);
    `unroll_factor`: by so many. annotations: the same options by name, which then count."""
    extra = known_notes("T.unroll", annotations, ("explicit", "unroll_factor", "reassociate"))
    explicit = bool(extra.pop("explicit", explicit))
    unroll_factor = extra.pop("unroll_factor", unroll_factor)
    if explicit and unroll_factor is not None:
        raise current("T.unroll").error(
            "T.unroll: explicit=True and unroll_factor contradict each other",
            "TL0573",
            "give one of them",
            OptionError,
        )
    if explicit:
        extra["explicit"] = True
    if unroll_factor is not None:
        extra["unroll_factor"] = int(unroll_factor)
    loop = spec("T.unroll", "unroll", start, stop, step, extra)
    if explicit and const_int(loop.extents[0]) is None:
        raise current("T.unroll").error(
            f"T.unroll: explicit=True needs a constant extent, got {loop.extents[0]}",
            "TL0574",
            "drop explicit=True, or make the bound a Python number",
            OptionError,
        )
    return loop


def vectorized(
    start: Any, stop: Any = None, *, annotations: Mapping[str, Any] | None = None
) -> LoopSpec:
    """An innermost loop that becomes one vector access where that is legal, a plain loop
    elsewhere.
    """
    notes = known_notes("T.vectorized", annotations, ("reassociate",))
    return spec("T.vectorized", "vectorized", start, stop, None, notes)


_PARALLEL_OPTIONS = (
    "coalesced_width",
    "loop_layout",
    "parallel_loop_layout",
    "prefer_async",
    "parallel_prefer_async",
)


def Parallel(
    *extents: Any,
    coalesced_width: int | None = None,
    loop_layout: Any = None,
    prefer_async: bool | None = None,
    annotations: Mapping[str, Any] | None = None,
) -> LoopSpec:
    """`for i, j in T.Parallel(m, n)`: each element once, in any order, spread over the threads.

    coalesced_width, prefer_async: accepted, without an effect. annotations: the same options by
    name, which then count.
    """
    t, notes = current("T.Parallel"), known_notes("T.Parallel", annotations, _PARALLEL_OPTIONS)
    access_width(t, "T.Parallel", notes.get("coalesced_width", coalesced_width))
    if notes.get("prefer_async", notes.get("parallel_prefer_async", prefer_async)):
        no_effect("T.Parallel: prefer_async", "T.copy in a T.Pipelined loop is asynchronous")
    layout = notes.get("loop_layout", notes.get("parallel_loop_layout", loop_layout))
    extra = {} if layout is None else {"loop_layout": layout}
    return LoopSpec("parallel", extents_of("T.Parallel", extents), None, None, extra, "T.Parallel")


def Pipelined(
    start: Any,
    stop: Any = None,
    num_stages: int = 0,
    order: Sequence[int] | None = None,
    stage: Sequence[int] | None = None,
    sync: Any = None,
    group: Any = None,
    annotations: Mapping[str, Any] | None = None,
) -> LoopSpec:
    """A loop whose copies run ahead of its computation by up to `num_stages` iterations.

    order, stage: one entry per statement of the body: its place, and how many iterations later than
    stage 0 it runs. group: lists of statement numbers; then the entries are for these groups.
    """
    t = current("T.Pipelined")
    stages = const_int(plain(num_stages))
    if stages is None or stages < 0:
        raise t.error(
            f"T.Pipelined: num_stages must be a constant >= 0, got {num_stages}",
            "TL0575",
            "e.g. num_stages=2",
            OptionError,
        )
    if (order is None) != (stage is None):
        raise t.error(
            "T.Pipelined: order and stage belong together",
            "TL0576",
            "give both or neither",
            OptionError,
        )
    if order is not None and stage is not None and len(order) != len(stage):
        raise t.error(
            f"T.Pipelined: order has {len(order)} entries but stage has {len(stage)}",
            "TL0577",
            "one entry of each per statement of the loop's body",
            OptionError,
        )
    if sync:
        raise t.error(
            "T.Pipelined: `sync` is not supported: waits are placed by the compiler",
            "TL0578",
            "leave it out",
            OptionError,
        )
    known_notes("T.Pipelined", annotations)
    if not stages and order is None:
        return spec("T.Pipelined", "serial", start, stop)
    depth = max(stages, max(stage, default=0) + 1 if stage is not None and not stages else stages)
    extra: dict[str, Any] = {"num_stages": depth}
    for key, value in (("order", order), ("stage", stage), ("group", group)):
        if value is not None:
            extra[key] = _frozen(value)
    return spec("T.Pipelined", "pipelined", start, stop, None, extra)


def _frozen(value: Any) -> Any:
    return tuple(_frozen(v) for v in value) if isinstance(value, (list, tuple)) else value


def Persistent(domain: Sequence[Any], wave_size: Any, index: Any, group_size: int = 8) -> LoopSpec:
    """`for bx, by in T.Persistent([m, n], num_blocks, block_id)`: each block takes tile after
    tile.
    """
    t = current("T.Persistent")
    size = integer(t, wave_size, "T.Persistent: wave_size")
    first = integer(t, index, "T.Persistent: index")
    extra = {"wave_size": size, "index": first, "group_size": int(plain(group_size))}
    return LoopSpec(
        "persistent", extents_of("T.Persistent", list(domain)), None, None, extra, "T.Persistent"
    )


def grid(*extents: Any) -> LoopSpec:
    """Nested serial loops."""
    return LoopSpec("grid", extents_of("T.grid", extents), None, None, {}, "T.grid")


def loop_break() -> None:
    """`break`, as a call."""
    t = current("T.loop_break")
    region = next((r for r in t.own_regions() if r.is_loop), None)
    if region is None or region.kind == "python":
        raise t.error(
            "T.loop_break() is not inside a run-time loop", "TL0178", "use `break`", LanguageError
        )
    region.left = True
    t.emit(Break(t.span()))


__all__ = [
    "LoopSpec",
    "Parallel",
    "Persistent",
    "Pipelined",
    "grid",
    "loop_break",
    "serial",
    "unroll",
    "vectorized",
]
