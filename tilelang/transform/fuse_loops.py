# SPDX-License-Identifier: Apache-2.0
"""LOOP → LOOP (CPU): loops over the same elements become one, while the elements are in registers.

In: a loop or nest per statement that the user wrote. Out: neighbours that walk the same range and
share data are merged, where no element passes backwards from one to the other:

    for i: x[i] = A[b, i]                          top[0] = -inf
    top[0] = -inf                           →      for i: x[i] = A[b, i]
    for i: top[0] = max(top[0], x[i])                     top[0] = max(top[0], x[i])

What stands between two loops goes before or after them. Only loops over elements are merged: those
whose innermost loops are `vectorized`.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any, TypeGuard

from tilelang.arith import Facts
from tilelang.ir import (
    Buffer,
    Expr,
    For,
    Launch,
    PrimFunc,
    Seq,
    Stmt,
    Var,
    const_int,
    mentions,
    seq,
    substitute,
)

from .loop_accesses import Accesses, Info, aliased
from .manager import PassContext
from .scope import ScopedRewriter

_REACH = 12  # statements that are looked back over
_MOST_LEAVES = 24  # stores in one merged loop: its operands should stay in registers


def run(func: PrimFunc, ctx: PassContext) -> PrimFunc:
    return func.with_body(_Fuse(func, ctx).stmt(func.body) or seq())


class _Fuse(ScopedRewriter):
    def __init__(self, func: PrimFunc, ctx: PassContext) -> None:
        super().__init__(func, ctx)
        self.func = func
        self.accesses = Accesses(frozenset())

    def launch(self, s: Launch) -> Stmt | None:
        self.accesses = Accesses(aliased(self.func, self.ctx, s))
        return super().launch(s)

    def sequence(self, s: Seq) -> Stmt | None:
        merged = self.merged(list(s.stmts))
        return super().sequence(s if len(merged) == len(s.stmts) else Seq(tuple(merged), s.span))

    # ------------------------------------------------------------------------------ what to merge

    def merged(self, stmts: list[Stmt]) -> list[Stmt]:
        out: list[Stmt] = []
        for s in stmts:
            if not (self.over_elements(s) and self.joined(out, s)):
                out.append(s)
        return out

    def over_elements(self, s: Any) -> TypeGuard[For]:
        """A loop whose innermost loops are all vectorized."""
        if type(s) is not For or s.kind not in ("vectorized", "serial"):
            return False
        info = self.accesses.of(s)
        if info.rigid:
            return False
        if s.kind == "vectorized":
            return len(info.loops) == 1
        return all(x.kind == "vectorized" or len(self.accesses.of(x).loops) > 1 for x in info.loops)

    def joined(self, out: list[Stmt], s: For) -> bool:
        """Merges `s` into an earlier loop of `out`, if there is one."""
        for k in range(len(out) - 1, max(-1, len(out) - 1 - _REACH), -1):
            first: Any = out[k]
            if self.accesses.of(first).rigid:
                return False
            if not (self.over_elements(first) and self.alike(first, s)):
                continue
            between = self.around(out[k + 1 :], first, s)
            if between is not None and self.forward_only(first, s):
                before, after = between
                one = _one(first, s)
                out[k:] = before
                if not self.joined(out, one):  # it shares more than its parts did
                    out.append(one)
                out += after
                return True
        return False

    def alike(self, a: For, b: For) -> bool:
        """The same range, and a reason to walk it once."""
        if a.kind != b.kind or a.extent is not b.extent or const_int(a.start - b.start) != 0:
            return False
        x, y = self.accesses.of(a), self.accesses.of(b)
        notes = {**a.annotations, **b.annotations}
        return (
            not notes.keys() - {"reassociate"}
            and all(
                s.annotations == notes or not self.accumulates(s, i) for s, i in ((a, x), (b, y))
            )
            and x.leaves + y.leaves <= _MOST_LEAVES
            and bool((x.reads | x.writes) & (y.reads | y.writes))
        )

    def accumulates(self, s: For, info: Info) -> bool:
        """Is one element written in every trip?"""
        return any(
            written and not any(s.var in mentions(i) for i in indices)
            for (_, indices), written in info.places.items()
        )

    # ------------------------------------------------------------------------------ whether it may

    def around(
        self, between: list[Stmt], first: Stmt, second: Stmt
    ) -> tuple[list[Stmt], list[Stmt]] | None:
        """What stands between two loops, as what goes before and what goes after both."""
        before: list[Stmt] = []
        after: list[Stmt] = []
        free = self.accesses.independent
        for x in between:
            if free(x, first) and all(free(x, y) for y in after):
                before.append(x)
            elif free(x, second):
                after.append(x)
            else:
                return None
        return before, after

    def forward_only(self, first: For, second: For) -> bool:
        """Does no trip of `first` meet an earlier trip of `second` at an element that one of them
        writes? (It would then come after it.)"""
        x, y = self.accesses.of(first), self.accesses.of(second)
        shared = (x.writes & (y.reads | y.writes)) | (y.writes & x.reads)
        if not shared:
            return True
        ahead = Var("ahead", first.var.dtype)
        earlier = Var(second.var.name, second.var.dtype)
        later = {first.var: earlier + ahead + 1}
        facts = self.facts.child()
        facts.bind(earlier, second.start, second.extent)
        facts.bind_nonneg(ahead)
        for loop in (*x.loops[1:], *y.loops[1:]):
            facts.bind(loop.var, loop.start, loop.extent)
        storage = self.accesses.storage
        ranges = {loop.var for loop in (*x.loops, *y.loops)}
        unknown = (x.bound | y.bound) - ranges
        theirs = [
            (b, tuple(substitute(i, {second.var: earlier}) for i in indices), w)
            for (b, indices), w in y.places.items()
            if storage(b) in shared
        ]
        for (b, indices), written in x.places.items():
            if storage(b) in shared:
                moved = tuple(substitute(i, later) for i in indices)
                for other, at, w in theirs:
                    if (
                        (written or w)
                        and storage(b) == storage(other)
                        and (b is not other or not _apart(facts, moved, at, unknown))
                    ):
                        return False
        return True


def _apart(facts: Facts, a: tuple[Expr, ...], b: tuple[Expr, ...], unknown: Set[Var]) -> bool:
    """Do the two index tuples differ in some dimension? unknown: variables that differ from trip
    to trip."""
    for i, j in zip(a, b, strict=True):
        parts = mentions(i) | mentions(j)
        if i.dtype.lanes != 1 or j.dtype.lanes != 1 or parts & unknown:
            continue
        if any(type(x) is Buffer for x in parts):  # memory changes
            continue
        low, high = facts.bounds(i - j)
        if (low is not None and low > 0) or (high is not None and high < 0):
            return True
    return False


def _one(first: For, second: For) -> For:
    same = {second.var: first.var}
    return For(
        first.var,
        first.start,
        first.extent,
        seq(first.body, substitute(second.body, same)),
        first.kind,
        {**first.annotations, **second.annotations},
        first.span,
    )


__all__ = ["run"]
