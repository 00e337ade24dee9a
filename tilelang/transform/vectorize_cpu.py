# SPDX-License-Identifier: Apache-2.0
"""Vectorized loops for a CPU: strip-mined to the lanes of its vectors, with a remainder.

In: a `For(kind="vectorized")` of any extent. Out: vector statements, then what is left over:

    for v in vectorized(n):                 for u in serial(n // 16): C[Ramp(i + u * 16, 1, 16)] = …
        if i + v < N:                  →    for r in serial(n % 16): …
            C[i + v] = exp(A[i + v])        where n is min(n, N - i): the guard became the bound

A guard that holds up to (or from) some lane splits the loop there, so that ragged edges stay
vectors. `acc[0] = acc[0] + f(v)` becomes vectors of partial results and one horizontal reduction:
for integers, minima and maxima always, for float sums where the loop says {"reassociate": True}.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from operator import is_
from typing import Any

from tilelang.arith import Facts
from tilelang.ir import (
    GT,
    INTRINSICS,
    LT,
    Add,
    BitAnd,
    BitOr,
    BitXor,
    Broadcast,
    Buffer,
    Builder,
    Call,
    Cast,
    DType,
    Evaluate,
    Expr,
    For,
    If,
    IfThenElse,
    Load,
    Max,
    Min,
    Ramp,
    Rewriter,
    Select,
    Stmt,
    Store,
    Var,
    call,
    cast,
    const,
    const_int,
    flatten,
    logical_not,
    maximum,
    mentions,
    minimum,
    refresh,
    seq,
    substitute,
    walk,
)

from .distribution import distribution
from .lanes import Known, Lanes, NotStraight, conditions, from_zero
from .manager import PassContext
from .scope import is_pure
from .summary import statements

_STRAIGHT_LINE = 4  # vectors that are written out instead of looped over
_MOST_SPLITS = 4
_PARTIALS = 4  # independent accumulators hide the latency of an addition (4 cycles on current CPUs)
_FOLDS = (Add, Min, Max, BitAnd, BitOr, BitXor)
_SHORT = {"abs", "max_nan", "min_nan", "fma", "sqrt", "reinterpret"}  # calls of few instructions
_NO_VECTOR_FORM = {"address_of", "make_vector", "extract_lane"}


def vectorize(loop: For, facts: Facts, ctx: PassContext) -> Stmt:
    plain = For(loop.var, loop.start, loop.extent, loop.body, "serial", loop.annotations, loop.span)
    extent = const_int(loop.extent)
    if extent is not None and extent < 2:
        return plain
    try:
        lane, stmts = from_zero(loop)
        in_order = distribution(stmts, lane, loop.extent, facts)
    except NotStraight as why:
        ctx.note(f"loop over {loop.var.name} is not vectorised: {why}")
        return plain
    make = _Vectors(loop, lane, in_order, facts, ctx)
    try:
        return make.vectors(stmts)
    except NotStraight as why:
        ctx.note(f"loop over {loop.var.name} is not vectorised as a whole: {why}")
        return plain if len(stmts) < 2 else seq([make.one(s) for s in stmts])


class _Vectors:
    """Statements of a loop, which may be executed one after the other, each for all lanes."""

    def __init__(
        self, loop: For, lane: Var, in_order: set[Stmt], facts: Facts, ctx: PassContext
    ) -> None:
        self.loop, self.lane, self.in_order = loop, lane, in_order
        self.facts, self.ctx = facts, ctx

    def vectors(self, stmts: list[Stmt]) -> Stmt:
        """All in one loop. Raises NotStraight."""
        loop, lane = self.loop, self.lane
        extent = const_int(loop.extent)
        whole = Lanes(self.facts, lane, loop.extent)
        free = bool(loop.annotations.get("reassociate"))
        in_order = self.in_order.intersection(x for s in stmts for x in statements(s))
        reductions = _reductions(stmts, in_order, whole, free)
        lanes = self.ctx.target.vector_bits // _widest(stmts)
        if extent is not None:
            lanes = min(lanes, 1 << (extent.bit_length() - 1))
        b = Builder(loop.span)
        moved = _hoisted(stmts, whole, b)
        reductions = _again({moved[s]: r for s, r in reductions.items()})
        stmts = [moved[s] for s in stmts]
        strip = _Strip(b, lane, lanes, self.facts, reductions)
        strip.split(stmts, const(0, lane.dtype), loop.extent, 0)
        return b.finish()

    def one(self, s: Stmt) -> Stmt:
        """A loop of its own."""
        try:
            return refresh(self.vectors([s]))
        except NotStraight:
            loop, lane = self.loop, Var(self.lane.name, self.lane.dtype)
            body = substitute(s, {self.lane: lane})
            start = const(0, lane.dtype)
            return For(lane, start, loop.extent, body, "serial", loop.annotations, loop.span)


def _widest(stmts: list[Stmt]) -> int:
    """Bits of the widest value that a statement computes (indices are not done lane by lane)."""
    widest = 8

    def go(e: Expr) -> None:
        nonlocal widest
        if not e.dtype.is_bool and not e.dtype.is_handle:
            widest = max(widest, e.dtype.bits * e.dtype.lanes)
        if type(e) is not Load:
            for c in e.children:
                go(c)

    for s in stmts:
        for x in walk(s):
            if type(x) is Store:
                widest = max(widest, x.buffer.dtype.bits * x.buffer.dtype.lanes)
                go(x.value)
            elif type(x) is If:
                go(x.cond)
    return widest


# ---------------------------------------------------------------------------- what lanes share


def _hoisted(stmts: list[Stmt], lanes: Lanes, b: Builder) -> dict[Stmt, Stmt]:
    """The statements with what is the same in all lanes computed before the loop: a row's scale,
    the inverse of its root."""
    written = {x.buffer.root() for s in stmts for x in statements(s) if type(x) is Store}
    same: dict[Expr, Expr] = {}
    if not any(type(x) is Evaluate for s in stmts for x in statements(s)):
        for s in stmts:
            if type(s) is Store:
                _shared(s.value, lanes, written, same)
    for e in same:
        same[e] = b.bind("same", e)
    replace = _Replace(same)
    return {
        s: Store(s.buffer, s.indices, replace.visit(s.value), s.span)
        if same and type(s) is Store
        else s
        for s in stmts
    }


def _shared(e: Expr, lanes: Lanes, written: Set[Buffer], out: dict[Expr, Expr]) -> None:
    """Finds the largest parts of `e` that cost something, are the same in all lanes, and may be
    computed at once."""
    if lanes.depends(e):
        if type(e) is not Load:
            for c in e.children:
                _shared(c, lanes, written, out)
        return
    found = mentions(e)
    reads = {x.root() for x in found if type(x) is Buffer}
    costs = reads or any(type(x) is str for x in found)
    if (
        costs
        and e.dtype.is_float
        and e.dtype.lanes == 1
        and not reads & written
        and is_pure(e)
        and harmless(e, lanes.facts)
    ):
        out[e] = e


class _Replace(Rewriter):
    def __init__(self, values: Mapping[Any, Expr]) -> None:
        super().__init__()
        self.memo = dict(values)


# ---------------------------------------------------------------------------- reductions


@dataclass(frozen=True)
class _Reduction:
    """`target = combine(target, term)` in every lane. op: a class of expressions or an intrinsic's
    name."""

    store: Store
    op: Any
    term: Expr

    def combine(self, a: Expr, b: Expr) -> Expr:
        if isinstance(self.op, str):
            return call(self.op, [a, b], a.dtype)
        return self.op(a, b)

    def combine_number(self, a: Expr, b: Expr) -> Expr:
        """The same where `a` is no NaN and either sign of a zero will do: one instruction for a
        minimum or maximum, which takes three where both may be NaN."""
        better = {Max: GT, Min: LT}.get(self.op)
        if better is None or not a.dtype.is_float or a.dtype.bits < 32:
            return self.combine(a, b)
        return Select(better(b, a), b, a)


def _reductions(
    stmts: list[Stmt], in_order: set[Stmt], lanes: Lanes, reassociate: bool
) -> dict[Stmt, _Reduction]:
    """The statements that must run in order, all of which must be reductions."""
    out: dict[Stmt, _Reduction] = {}
    for s in in_order:
        if not any(s is x for x in stmts):
            raise NotStraight("a conditional statement depends on the lane before")
        r = _reduction(s)
        if r is None or any(lanes.step(i) != 0 for i in r.store.indices):
            raise NotStraight("a statement depends on the lane before")
        if r.op is Add and s.buffer.dtype.is_float and not reassociate:  # type: ignore[attr-defined]
            raise NotStraight("a sum of floats keeps its order")
        out[s] = r
    return out


def _reduction(s: Stmt) -> _Reduction | None:
    if type(s) is not Store:
        return None
    e = s.value
    if type(e) in _FOLDS:
        op, parts = type(e), (e.a, e.b)  # type: ignore[attr-defined]
    elif type(e) is Call and e.op in ("max_nan", "min_nan"):
        op, parts = e.op, (e.args[0], e.args[1])  # type: ignore[assignment]
    else:
        return None
    for target, term in (parts, parts[::-1]):
        if (
            type(target) is Load
            and target.buffer is s.buffer
            and all(map(is_, target.indices, s.indices))
            and not any(type(x) is Load and x.buffer.root() is s.buffer.root() for x in walk(term))
        ):
            return _Reduction(s, op, term)
    return None


# ---------------------------------------------------------------------------- strips


class _Strip:
    """Emits the statements for lanes [lo, hi) of the loop variable."""

    def __init__(
        self, b: Builder, var: Var, lanes: int, facts: Facts, reductions: dict[Stmt, _Reduction]
    ) -> None:
        self.b, self.var, self.lanes, self.facts = b, var, lanes, facts.child()
        self.reductions = reductions

    # ------------------------------------------------------------------------------ guards

    def split(self, stmts: list[Stmt], lo: Expr, hi: Expr, depth: int) -> None:
        """Cuts [lo, hi) where a guard changes its value."""
        found = self.splitting(stmts, lo, hi) if depth < _MOST_SPLITS else None
        if found is None:
            self.range(stmts, lo, hi)
            return
        cond, at, below = found
        edge = maximum(lo, minimum(hi, cast(minimum(at, cast(hi, at.dtype)), lo.dtype)))
        edge = self.bind("edge", edge)
        for first, last, value in ((lo, edge, below), (edge, hi, not below)):
            known = Known({cond: value})
            new, moved = [], {}
            for s in stmts:
                for x in flatten(known.visit(s)):
                    new.append(x)
                    if s in self.reductions:
                        moved[x] = self.reductions[s]
            outer = self.reductions
            self.reductions = _again(moved)
            if new:
                self.split(new, first, last, depth + 1)
            self.reductions = outer

    def splitting(self, stmts: list[Stmt], lo: Expr, hi: Expr) -> tuple[Expr, Expr, bool] | None:
        """A condition that differs among the lanes of a vector, and the lane where it changes."""
        whole = Lanes(self.facts, self.var, hi)
        one = self.vector_lanes(lo)
        for cond in conditions(stmts):
            if not whole.depends(cond) or any(type(x) is Load for x in walk(cond)):
                continue
            if one.uniform(substitute(cond, {self.var: one.base + one.var})):
                continue
            at = whole.threshold(cond)
            if at is not None:
                return cond, at[0], at[1]
        return None

    def vector_lanes(self, lo: Expr) -> _Based:
        """The lanes of a vector at lo + u * lanes, for any u."""
        u = Var("u", self.var.dtype)
        facts = self.facts.child()
        facts.bind_nonneg(u)
        lane = Var("l", self.var.dtype)
        return _Based(facts, lane, const(self.lanes, lane.dtype), lo + u * self.lanes)

    # ------------------------------------------------------------------------------ ranges

    def bind(self, name: str, value: Expr) -> Expr:
        simple = self.facts.simplify(value)
        var = self.b.bind(name, simple)
        if type(var) is Var and var is not simple:
            self.facts.define(var, simple)
        return var

    def range(self, stmts: list[Stmt], lo: Expr, hi: Expr) -> None:
        count = self.facts.simplify(hi - lo)
        n = const_int(count)
        before, inside, after = self.partials(stmts, n)
        self.b.emit(before)
        if n is not None:
            self.constant(stmts, inside, lo, n)
        else:
            self.dynamic(stmts, inside, lo, count)
        self.b.emit(after)

    def parts(self, stmts: list[Stmt], n: int | None) -> int:
        """How many vectors of partial results each reduction has: what takes long to compute hides
        the latency of adding it by itself."""
        if not self.reductions or not (n is None or n >= _PARTIALS * self.lanes):
            return 1
        calls = {x.op for s in stmts for x in walk(s) if type(x) is Call}
        return _PARTIALS if len(stmts) <= _PARTIALS and calls <= _SHORT else 1

    def constant(self, stmts: list[Stmt], inside: Any, lo: Expr, n: int) -> None:
        at = 0
        for parts in (self.parts(stmts, n), 1):
            vectors = (n - at) // (self.lanes * parts)
            if vectors * parts > _STRAIGHT_LINE:
                self.loop(stmts, inside, lo + at, const(vectors, lo.dtype), parts)
            else:
                for u in range(vectors * parts):
                    self.vector(stmts, inside, lo + (at + u * self.lanes), self.lanes, u % parts)
            at += vectors * self.lanes * parts
        while at < n:
            width = 1 if self.reductions else 1 << ((n - at).bit_length() - 1)
            self.vector(stmts, inside, lo + at, width)
            at += width

    def dynamic(self, stmts: list[Stmt], inside: Any, lo: Expr, count: Expr) -> None:
        done: Expr = const(0, lo.dtype)
        for parts in dict.fromkeys((self.parts(stmts, None), 1)):
            step = self.lanes * parts
            vectors = self.bind("vectors", (count - done) // step)
            self.loop(stmts, inside, lo + done, vectors, parts)
            done = done + vectors * step
        with self.b.for_("r", self.facts.simplify(count - done)) as r:
            self.scalar(stmts, lo + done + r)

    def loop(self, stmts: list[Stmt], inside: Any, lo: Expr, trips: Expr, parts: int = 1) -> None:
        """`trips` times `parts` vectors."""
        with self.b.for_("u", trips) as u:
            outer, self.facts = self.facts, self.facts.child()
            if type(u) is Var:
                self.facts.bind(u, const(0, u.dtype), trips)
            for p in range(parts):
                self.vector(stmts, inside, lo + (u * parts + p) * self.lanes, self.lanes, p)
            self.facts = outer

    def scalar(self, stmts: list[Stmt], at: Expr) -> None:
        for s in stmts:
            self.b.emit(substitute(s, {self.var: at}))

    def vector(self, stmts: list[Stmt], inside: Any, base: Expr, width: int, part: int = 0) -> None:
        """One vector of every statement."""
        if width == 1:
            self.scalar(stmts, base)
            return
        lane = Var("l", self.var.dtype)
        writer = _Vector(self.b, _Based(self.facts, lane, const(width, lane.dtype), base))
        for s in stmts:
            partial = inside.get(s)
            if partial is not None:
                term = writer.wide(substitute(self.reductions[s].term, {self.var: writer.point}))
                at = _span(width, part * self.lanes)
                value = self.reductions[s].combine_number(Load(partial, (at,)), term)
                self.b.emit(Store(partial, (at,), value, s.span))
            else:
                writer.stmt(substitute(s, {self.var: writer.point}))

    # ------------------------------------------------------------------------------ partial results

    def partials(self, stmts: list[Stmt], n: int | None) -> tuple[Stmt, dict[Stmt, Buffer], Stmt]:
        """Statements that set up and combine the vectors of partial results."""
        before, after = Builder(self.b.span), Builder(self.b.span)
        inside: dict[Stmt, Buffer] = {}
        parts = self.parts(stmts, n)
        for s in stmts:
            r = self.reductions.get(s)
            if r is None or (n is not None and n < self.lanes):
                continue
            dtype = r.store.buffer.dtype
            partial = inside[s] = before.alloc("partial", (self.lanes * parts,), dtype)
            start = Broadcast(_identity(r.op, dtype), self.lanes)
            for p in range(parts):
                before.store(partial, (_span(self.lanes, p * self.lanes),), start)
            self.combined(after, r, partial, parts)
        return before.finish(), inside, after.finish()

    def combined(self, b: Builder, r: _Reduction, partial: Buffer, parts: int) -> None:
        """target = combine(target, all partial results)."""
        whole: Expr = Load(partial, (_span(self.lanes),))
        for p in range(1, parts):
            upper = Load(partial, (_span(self.lanes, p * self.lanes),))
            whole = r.combine_number(whole, upper)
        zero = {self.var: const(0, self.var.dtype)}  # the target is the same in all lanes
        indices = tuple(substitute(i, zero) for i in r.store.indices)
        target = Load(r.store.buffer, indices)
        name = _HORIZONTAL.get(r.op)
        if name is not None:
            value = r.combine(target, call(name, [whole], partial.dtype))
            b.emit(Store(r.store.buffer, indices, value, r.store.span))
            return
        width = self.lanes
        while width > 1:  # fold the upper half onto the lower one
            b.emit(Store(partial, (_span(width),), whole))
            width //= 2
            upper = Load(partial, (_span(width, width),))
            whole = r.combine(Load(partial, (_span(width),)), upper)
        b.emit(Store(r.store.buffer, indices, r.combine(target, whole), r.store.span))


_HORIZONTAL: dict[Any, str] = {Add: "reduce_lanes_add", Max: "reduce_lanes_max"}


def _again(moved: dict[Stmt, _Reduction]) -> dict[Stmt, _Reduction]:
    """Reductions found again in statements whose guards were resolved."""
    out: dict[Stmt, _Reduction] = {}
    for s in moved:
        r = _reduction(s)
        if r is None:
            raise NotStraight("a guarded reduction")
        out[s] = r
    return out


def _identity(op: Any, dtype: DType) -> Expr:
    """What changes nothing when combined."""
    if op in (Add, BitOr, BitXor):
        return const(0, dtype)
    if op is BitAnd:
        return const(True if dtype.is_bool else -1, dtype)
    low = op is Max or op == "max_nan"
    if dtype.is_float:
        return const(float("-inf") if low else float("inf"), dtype)
    if dtype.kind == "uint":
        return const(0 if low else 2**dtype.bits - 1, dtype)
    return const(-(2 ** (dtype.bits - 1)) if low else 2 ** (dtype.bits - 1) - 1, dtype)


def _span(lanes: int, first: int = 0) -> Expr:
    return const(first) if lanes == 1 else Ramp(const(first), const(1), lanes)


# ---------------------------------------------------------------------------- vectors


class _Based(Lanes):
    """The lanes of one vector: the loop variable is base + var."""

    def __init__(self, facts: Facts, var: Var, width: Expr, base: Expr) -> None:
        super().__init__(facts, var, width)
        self.base = base


class _Vector:
    """Writes statements for all lanes of one vector at once."""

    def __init__(self, b: Builder, lanes: _Based) -> None:
        self.b = b
        self.lanes = lanes
        self.width = int(const_int(lanes.width) or 1)
        self.point = lanes.base + lanes.var
        self.memo: dict[Expr, Expr] = {}

    def stmt(self, s: Stmt) -> None:
        if type(s) is If:
            if not self.lanes.uniform(s.cond):
                raise NotStraight(f"`{s.cond}` differs from lane to lane")
            cond = self.lanes.at(s.cond)
            for taken, body in ((cond, s.then), (logical_not(cond), s.orelse)):
                with self.b.if_(taken):
                    for x in flatten(body):
                        self.stmt(x)
        elif type(s) is Store:
            if s.buffer.dtype.lanes > 1 or not self.lanes.contiguous(s.buffer, s.indices):
                raise NotStraight(f"the elements of {s.buffer.name} are not neighbours")
            self.b.emit(Store(s.buffer, self.run_of(s.indices), self.wide(s.value), s.span))
        else:
            raise NotStraight(f"the body has a {type(s).__name__}")

    def run_of(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        *outer, last = [self.lanes.at(i) for i in indices]
        return (*outer, Ramp(last, const(1, last.dtype), self.width))

    def wide(self, e: Expr) -> Expr:
        """`e` as a vector."""
        out = self.expr(e)
        return out if out.dtype.lanes == self.width else Broadcast(out, self.width)

    def expr(self, e: Expr) -> Expr:
        """`e` as a vector, or as a scalar where all lanes are equal."""
        if not self.lanes.depends(e):
            return e
        hit = self.memo.get(e)
        if hit is None:
            hit = self.memo[e] = self.lane_by_lane(e)
        return hit

    def lane_by_lane(self, e: Any) -> Expr:
        t = type(e)
        if e.dtype.lanes > 1:
            raise NotStraight(f"`{e}` is a vector already")
        if t is Load:
            return self.load(e)
        step = self.lanes.step(e)
        if step is not None:
            base = self.lanes.at(e)
            return Ramp(base, const(step, base.dtype), self.width) if step else base
        if t is IfThenElse:
            return self.choice(e)
        if t is Select:
            a, b = self.wide(e.a), self.wide(e.b)
            cond = self.expr(e.cond)
            return Select(cond, a, b)
        if t is Cast:
            return Cast(self.wide(e.a), e.to.with_lanes(self.width))
        if t is Call:
            if INTRINSICS[e.op].effect != "pure" or e.op in _NO_VECTOR_FORM:
                raise NotStraight(f"{e.op} has no vector form")
            args = tuple(self.wide(a) for a in e.args)
            return Call(e.op, args, e.dtype.with_lanes(self.width))
        return t(*(self.wide(c) for c in e.children))

    def load(self, e: Load) -> Expr:
        if all(self.lanes.step(i) == 0 for i in e.indices):
            return Load(e.buffer, tuple(self.lanes.at(i) for i in e.indices))
        if e.buffer.dtype.lanes > 1 or not self.lanes.contiguous(e.buffer, e.indices):
            raise NotStraight(f"the elements of {e.buffer.name} are not neighbours")
        return Load(e.buffer, self.run_of(e.indices))

    def choice(self, e: IfThenElse) -> Expr:
        if self.lanes.uniform(e.cond):
            return IfThenElse(self.lanes.at(e.cond), self.wide(e.a), self.wide(e.b))
        if not (harmless(e.a, self.lanes.facts) and harmless(e.b, self.lanes.facts)):
            raise NotStraight(f"`{e.cond}` guards a load and differs from lane to lane")
        return Select(self.wide(e.cond), self.wide(e.a), self.wide(e.b))


def harmless(e: Expr, facts: Facts) -> bool:
    """May `e` be evaluated where it is not needed?"""
    return all(
        type(x) is not Load
        or all(
            facts.prove(i >= 0) and facts.prove(i < n)
            for i, n in zip(x.indices, x.buffer.shape, strict=True)
        )
        for x in walk(e)
    )


__all__ = ["vectorize"]
