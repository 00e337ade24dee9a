# SPDX-License-Identifier: Apache-2.0
"""When the consumers of a ring issue, wait and release: by effects alone.

In: the consumers' statements of one iteration, and which of them read which slots. Out: their order
(what starts an iteration may be issued beside the end of the one before), the waits for gemms with
exact distances, and the places where slots are released.

    for k: gemm1(Q, K[k], S); softmax(S, P); O *= …; gemm2(P, V[k], O)
->  gemm1(0); wait(0); softmax; …                                       # prologue
    for k: gemm1(k + 1); gemm2(k); wait(1); softmax(S); wait(0); P = …; O *= …
    gemm2(last); wait(0)                                                # epilogue

Here gemm2(k) runs beside softmax(k + 1). A gemm stays in flight until a statement touches its
accumulators or changes its operands. It stays over the back edge of the loop only if no statement
of the body does: ptxas gives up asynchrony where accumulators are written while groups from an
earlier iteration are in flight (its messages C7514 and C7515).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tilelang.ir import Bind, Buffer, Effects, Stmt, TileStmt, effects, free_vars, walk

__all__ = ["Point", "Schedule", "Section", "is_gemm", "plan_schedule"]


@dataclass
class Point:
    """A place between two statements. wait: at most so many groups may stay unfinished; `done` are
    the accumulators that may be touched then. release: (channel, iterations back) whose slots have
    been read."""

    wait: int | None = None
    done: list[Buffer] = field(default_factory=list)
    release: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Section:
    """order: (statement, is it the next iteration's). points: one before each of them, and one at
    the end."""

    order: tuple[tuple[int, bool], ...]
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Schedule:
    """steady: an iteration. prologue: what of iteration 0 comes before the first; epilogue: what of
    the last one comes after it; both empty where nothing is issued ahead. unfinished: gemms may be
    in flight after the loop. last: (channel, iterations back) to release when they are done."""

    prologue: Section | None
    steady: Section
    epilogue: Section | None
    unfinished: bool
    last: tuple[tuple[int, int], ...]


def plan_schedule(
    stmts: Sequence[Stmt], readers: Sequence[frozenset[int]], stages: int
) -> Schedule:
    """readers: for each channel the statements that read its slots, of which there are `stages`."""
    all_effects = [effects(s) for s in stmts]
    for head in dict.fromkeys((_head(stmts, all_effects), 0)):
        simulation = _Simulation(stmts, all_effects, readers, head)
        found = simulation.run()
        if simulation.most_slots <= stages:
            return found
    return _Simulation(stmts, all_effects, readers, 0, asynchronous=False).run()


def _head(stmts: Sequence[Stmt], all_effects: Sequence[Effects]) -> int:
    """How many statements at the start can be issued in the iteration before: a gemm, and what
    makes its accumulators. The rest must have another gemm, behind the accumulators' last use: the
    head then stands before it."""
    first = next((n for n, s in enumerate(stmts) if is_gemm(s)), None)
    if first is None or not any(is_gemm(s) for s in stmts[first + 1 :]):
        return 0
    c = stmts[first].op.c.buffer  # type: ignore[attr-defined]
    head, rest = all_effects[: first + 1], all_effects[first + 1 :]
    if any(e.opaque or e.barrier for e in head):
        return 0
    if any(w.buffer.root() is not c.root() for e in head for w in e.writes):
        return 0
    if _carried(stmts[: first + 1], head, c):
        return 0
    written = {w.buffer.root() for e in rest for w in e.writes}
    if any(r.buffer.root() in written for e in head for r in e.reads if r.buffer is not c):
        return 0
    cut = _next_gemm(stmts, _last_use(all_effects, c) + 1)
    bound = {x.var for s in stmts[:cut] for x in walk(s) if type(x) is Bind}
    if cut == len(stmts) or any(v in bound for s in stmts[cut:] for v in free_vars(s)):
        return 0  # a value named before the cut is not there in the iteration after it
    return first + 1


def _next_gemm(stmts: Sequence[Stmt], start: int) -> int:
    """The first gemm from there on; their number without one."""
    return next((n for n in range(start, len(stmts)) if is_gemm(stmts[n])), len(stmts))


def _carried(stmts: Sequence[Stmt], head: Sequence[Effects], c: Buffer) -> bool:
    """Do the accumulators come from the iteration before? Not if the gemm clears them, or
    something in the head writes all of them without reading them."""
    gemm = stmts[-1].op  # type: ignore[attr-defined]
    if gemm.clears is True:
        return False
    makers = [e for e in head[:-1] if any(w.buffer is c for w in e.writes)]
    return not makers or any(r.buffer is c for e in makers for r in e.reads)


def _last_use(all_effects: Sequence[Effects], c: Buffer) -> int:
    """The last statement that touches these accumulators."""
    return max(n for n, e in enumerate(all_effects) if e.touches(c))


def is_gemm(s: Any) -> bool:
    return type(s) is TileStmt and s.op.name == "gemm"


@dataclass
class _Gemm:
    """A gemm in flight. back: iterations since its own; before: issued in an earlier one."""

    op: Any
    stmt: int
    back: int
    before: bool = False


class _Simulation:
    """Runs iterations until what is open at the start of one repeats. asynchronous: gemms may stay
    in flight; else each is waited for at once."""

    def __init__(
        self,
        stmts: Sequence[Stmt],
        all_effects: Sequence[Effects],
        readers: Sequence[frozenset[int]],
        head: int,
        asynchronous: bool = True,
    ) -> None:
        self.stmts, self.effects, self.readers = stmts, all_effects, readers
        self.head, self.asynchronous = head, asynchronous
        self.crosses = not any(self._disturbs(s) for s in range(len(stmts)))
        self.flight: list[_Gemm] = []
        self.open: dict[tuple[int, int], set[int]] = {}  # (channel, back): readers still to come
        self.most_slots = 1

    def _disturbs(self, s: int) -> bool:
        """Does a statement that is no gemm touch registers of one?"""
        if is_gemm(self.stmts[s]):
            return False
        ops = [x.op for x in self.stmts if is_gemm(x)]  # type: ignore[attr-defined]
        return any(self.effects[s].touches(op.c.buffer) or self._changes(s, op) for op in ops)

    def run(self) -> Schedule:
        n, cut = len(self.stmts), self.head
        if self.head:
            c = self.stmts[self.head - 1].op.c.buffer  # type: ignore[attr-defined]
            cut = _next_gemm(self.stmts, _last_use(self.effects, c) + 1)
        ahead = [(s, True) for s in range(cut)] if self.head else []
        rest = [(s, False) for s in range(cut if self.head else 0, n)]
        prologue = self._section(ahead) if self.head else None
        start: Any = None
        self._age()
        while start != self._state():
            start = self._state()
            steady = self._section([*ahead[: self.head], *rest, *ahead[self.head :]])
            left = list(self.open)
            self._age()
        if not self.head:
            return Schedule(
                None, steady, None, bool(self.flight), tuple(at for at in left if at[1] >= 0)
            )
        epilogue = self._section(rest)
        return Schedule(prologue, steady, epilogue, False, tuple(self.open))

    def _section(self, order: Sequence[tuple[int, bool]]) -> Section:
        points = tuple(Point() for _ in range(len(order) + 1))
        for point, (s, ahead) in zip(points, order, strict=False):
            self._settle(point, [n for n, g in enumerate(self.flight) if self._conflict(s, g)])
            self._execute(s, ahead)
        stays = self.crosses and not self.head
        hit = [n for n, g in enumerate(self.flight) if g.before or not stays]
        self._settle(points[-1], hit)
        return Section(tuple(order), points)

    def _state(self) -> Any:
        flight = [(g.stmt, g.back) for g in self.flight]
        return flight, {key: frozenset(left) for key, left in self.open.items()}

    def _age(self) -> None:
        """The next iteration begins."""
        for g in self.flight:
            g.back, g.before = g.back + 1, True
        self.open = {(channel, back + 1): left for (channel, back), left in self.open.items()}

    def _conflict(self, s: int, g: _Gemm) -> bool:
        """Must the gemm be finished before the statement? Gemms add to one accumulator in order."""
        e, op = self.effects[s], g.op
        if e.opaque or e.barrier or self._changes(s, op):
            return True
        if not is_gemm(self.stmts[s]):
            return e.touches(op.c.buffer)
        other = self.stmts[s].op  # type: ignore[attr-defined]
        adds = other.c.buffer is op.c.buffer and other.a.buffer is not op.c.buffer
        return e.touches(op.c.buffer) and not adds

    def _changes(self, s: int, op: Any) -> bool:
        operands = {op.a.buffer.root(), op.b.buffer.root()}
        return any(w.buffer.root() in operands for w in self.effects[s].writes)

    def _settle(self, point: Point, hit: Sequence[int]) -> None:
        """Waits for the last gemm of `hit` (and those before it), and releases what is read."""
        count = hit[-1] + 1 if hit else 0
        if not self.asynchronous:
            count = len(self.flight)
        if count:
            done, self.flight = self.flight[:count], self.flight[count:]
            point.wait = len(self.flight)
            unfinished = {g.op.c.buffer for g in self.flight}
            finished = dict.fromkeys(g.op.c.buffer for g in done)
            point.done = [c for c in finished if c not in unfinished]
        for channel, back in list(self.open):
            reading = any(g.stmt in self.readers[channel] and g.back == back for g in self.flight)
            if not self.open[channel, back] and not reading:
                point.release.append((channel, back))
                del self.open[channel, back]

    def _execute(self, s: int, ahead: bool) -> None:
        back = -1 if ahead else 0
        for channel, readers in enumerate(self.readers):
            if s in readers:
                self.open.setdefault((channel, back), set(readers)).discard(s)
                held = sum(c == channel for c, _ in self.open)
                self.most_slots = max(self.most_slots, held)
        if is_gemm(self.stmts[s]):
            self.flight.append(_Gemm(self.stmts[s].op, s, back))  # type: ignore[attr-defined]
