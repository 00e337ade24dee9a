# SPDX-License-Identifier: Apache-2.0
"""Warp collectives on a CPU: an exchange through memory, with a cut where the lanes meet.

In: the body of a kernel with calls of shuffles, votes and matches. Out: the same with none left:
each is a store by every thread, a `sync_warp` (where `serialize_threads` cuts its loops over the
threads), and loads. And `distribute`: a condition that differs from thread to thread, around such a
cut, becomes a condition on each of the parts between the cuts.

    v = T.shfl_xor(x, 1)       →      X[tid] = x;  sync_warp;  v = X[tid ^ 1]
    if tx < 32: A; sync_warp; B  →    c = tx < 32; if c: A;  sync_warp;  if c: B
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.errors import TargetError
from tilelang.ir import (
    INTRINSICS,
    Alloc,
    And,
    Bind,
    Buffer,
    Call,
    DType,
    Evaluate,
    Expr,
    For,
    If,
    Load,
    Scope,
    Stmt,
    Store,
    Var,
    call,
    cast,
    const,
    flatten,
    if_then_else,
    logical_not,
    rebuild,
    select,
    seq,
    walk,
)

WARP = 32
_WORD = DType("uint32")
CUTS = frozenset({"sync_warp", "named_barrier_sync"})


def is_cut(s: Stmt) -> bool:
    """Do the lanes of a warp, or some of the block's threads, meet here?"""
    return type(s) is Evaluate and type(s.value) is Call and s.value.op in CUTS


def has_cut(s: Stmt | None) -> bool:
    return s is not None and any(isinstance(x, Stmt) and is_cut(x) for x in walk(s))


def has_collective(body: Stmt) -> bool:
    return any(
        type(x) is Call and (INTRINSICS[x.op].collective or x.op in CUTS) for x in walk(body)
    )


class Exchange:
    """tid: the calling thread among the `count` of the block."""

    def __init__(self, tid: Expr, count: int) -> None:
        self.tid, self.count = tid, count
        self.lane, self.warp = tid % WARP, tid // WARP

    def run(self, body: Stmt) -> Stmt:
        """Calls inside of statements get a name first."""
        out: list[Stmt] = []
        for s in flatten(body):
            if type(s) is Bind and type(s.value) is Call and self.known(s.value):
                out += self.expand(s)
                continue
            if not is_cut(s):
                s = self.hoisted(s, out)
            out.append(s.map_children(lambda c: self.run(c) if isinstance(c, Stmt) else c))
        return seq(out)

    def known(self, e: Call) -> bool:
        return e.op in _EXPANSIONS

    def hoisted(self, s: Stmt, out: list[Stmt]) -> Stmt:
        """The statement with its own calls replaced by names that are bound in `out`."""

        def go(e: Expr) -> Expr:
            if not any(type(x) is Call and self.known(x) for x in walk(e)):
                return e
            new: Any = rebuild(e, go)
            if type(new) is not Call or not self.known(new):
                return new
            var = Var("lanes", new.dtype)
            out.extend(self.expand(Bind(var, new, s.span)))
            return var

        return s.map_children(lambda c: go(c) if isinstance(c, Expr) else c)

    def expand(self, s: Bind) -> list[Stmt]:
        e: Any = s.value
        return _EXPANSIONS[e.op](self, s, e)

    # ------------------------------------------------------------------------------ exchanges

    def posted(self, value: Expr, span: Any) -> tuple[Buffer, list[Stmt]]:
        """Every thread leaves a value for the others."""
        buffer = Buffer("exchanged", (const(self.count),), value.dtype, Scope.SHARED)
        return buffer, [
            Alloc(buffer, {}, span), Store(buffer, (self.tid,), value, span), _cut(span),
        ]  # fmt: skip

    def shuffle(self, s: Bind, e: Any) -> list[Stmt]:
        """A source outside of the segment, or of the block, leaves the value as it is."""
        buffer, out = self.posted(e.args[0], s.span)
        by, width = (cast(a, "int32") for a in e.args[1:])
        inner = self.lane % width
        if e.op == "shfl_idx":
            source = by & (width - 1)
        elif e.op == "shfl_xor":
            source = inner ^ by
        else:
            source = inner - by if e.op == "shfl_up" else inner + by
        place = self.tid - inner + source
        inside = And(And(source >= 0, source < width), place < self.count)
        value = Load(buffer, (if_then_else(inside, place, self.tid),))
        return [*out, Bind(s.var, value, s.span)]

    def uniform(self, s: Bind, e: Any) -> list[Stmt]:
        buffer, out = self.posted(e.args[0], s.span)
        return [*out, Bind(s.var, Load(buffer, (self.tid - self.lane,)), s.span)]

    def votes(self, predicate: Expr, span: Any) -> tuple[Expr, list[Stmt]]:
        """A word per warp, to which those who come add their bits."""
        words = Buffer("votes", (const(-(-self.count // WARP)),), _WORD, Scope.SHARED)
        bit = cast(predicate, _WORD) << cast(self.lane, _WORD)
        place = call("address_of", [Load(words, (self.warp,))])
        return Load(words, (self.warp,)), [
            Alloc(words, {}, span),
            Store(words, (self.warp,), const(0, _WORD), span),
            _cut(span),
            Evaluate(call("atomic_or", [place, bit], _WORD), span),
            _cut(span),
        ]

    def ballot(self, s: Bind, e: Any) -> list[Stmt]:
        word, out = self.votes(e.args[0], s.span)
        return [*out, Bind(s.var, word, s.span)]

    def elect(self, s: Bind, e: Any) -> list[Stmt]:
        """The lowest lane that comes."""
        word, out = self.votes(const(True, "bool"), s.span)
        present = Var("present", _WORD)
        lowest = present & (const(0, _WORD) - present)
        own = const(1, _WORD) << cast(self.lane, _WORD)
        return [*out, Bind(present, word, s.span), Bind(s.var, lowest == own, s.span)]

    def match(self, s: Bind, e: Any) -> list[Stmt]:
        word, out = self.votes(const(True, "bool"), s.span)
        buffer, posting = self.posted(e.args[0], s.span)
        present, own = Var("present", _WORD), Var("own", e.args[0].dtype)
        found = Buffer("found", (const(1),), _WORD, Scope.VAR)
        zero = const(0)
        other = Var("other", DType("int32"))
        bit = const(1, _WORD) << cast(other, _WORD)
        place = self.tid - self.lane + other
        alike = And(
            (present & bit) != const(0, _WORD),
            Load(buffer, (if_then_else(place < self.count, place, self.tid),)) == own,
        )
        step = Store(
            found, (zero,), Load(found, (zero,)) | select(alike, bit, const(0, _WORD)), s.span
        )
        return [
            *out, *posting, Bind(present, word, s.span),
            Bind(own, Load(buffer, (self.tid,)), s.span),
            Alloc(found, {}, s.span), Store(found, (zero,), const(0, _WORD), s.span),
            For(other, zero, const(WARP), step, "serial", {}, s.span),
            Bind(s.var, Load(found, (zero,)), s.span),
        ]  # fmt: skip


def _cut(span: Any) -> Stmt:
    return Evaluate(call("sync_warp", [const(0xFFFFFFFF, _WORD)]), span)


_EXPANSIONS: dict[str, Callable[[Exchange, Bind, Any], list[Stmt]]] = {
    **dict.fromkeys(("shfl_idx", "shfl_xor", "shfl_up", "shfl_down"), Exchange.shuffle),
    "warp_uniform": Exchange.uniform,
    "ballot": Exchange.ballot,
    "elect_one": Exchange.elect,
    "match_any": Exchange.match,
}


# ---------------------------------------------------------------------- conditions around a cut


def distribute(body: Stmt, differs: Callable[[Expr], bool]) -> Stmt:
    """Conditions that differ from thread to thread go inside, to the parts between the cuts."""
    out: list[Stmt] = []
    for s in flatten(body):
        if type(s) is If and has_cut(s) and differs(s.cond):
            out += _both(s, None)
        else:
            out.append(
                s.map_children(lambda c: distribute(c, differs) if isinstance(c, Stmt) else c)
            )
    return seq(out)


def _both(s: If, under: Expr | None) -> list[Stmt]:
    """Both branches, under names for their conditions."""
    yes = Var("taken", DType("bool"))
    out: list[Stmt] = [Bind(yes, _where(under, s.cond), s.span), *_guarded(s.then, yes)]
    if s.orelse is None:
        return out
    no = Var("other", DType("bool"))
    out.insert(1, Bind(no, _where(under, logical_not(yes)), s.span))
    return out + _guarded(s.orelse, no)


def _where(under: Expr | None, e: Expr) -> Expr:
    """`e` where the threads come; elsewhere false, or 0."""
    if under is None:
        return e
    return And(under, e) if e.dtype.is_bool else if_then_else(under, e, cast(const(0), e.dtype))


def _guarded(body: Stmt | None, cond: Expr) -> list[Stmt]:
    """The statements of a branch. What they bind is seen by those after the next cut too."""
    out: list[Stmt] = []
    run: list[Stmt] = []

    def close() -> None:
        if run:
            out.append(If(cond, seq(list(run)), None, run[0].span))
            run.clear()

    for s in flatten(body):
        if not (has_cut(s) or type(s) in (Bind, Alloc)):
            run.append(s)
            continue
        close()
        if type(s) is Alloc or is_cut(s):
            out.append(s)
        elif type(s) is Bind:
            out.append(Bind(s.var, _where(cond, s.value), s.span))
        elif type(s) is If:
            out += _both(s, cond)
        elif type(s) is For:
            inner = seq(_guarded(s.body, cond))
            out.append(For(s.var, s.start, s.extent, inner, s.kind, s.annotations, s.span))
        else:
            raise TargetError(
                "on a CPU the lanes of a warp cannot meet in a while loop that only some threads "
                "enter",
                code="TL0640",
                span=s.span,
                help="move the loop out of the condition, or make it T.serial with a fixed extent",
            )
    close()
    return out
