# SPDX-License-Identifier: Apache-2.0
"""What happens lane by lane in a vectorized loop: the analysis behind `vectorize_loops`.

In: the body of a loop and its variable. Out: straight statements without `Bind`s; for an
expression, its step from lane to lane; for a condition, whether it is the same in all lanes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilelang.arith import Facts
from tilelang.ir import (
    GE,
    GT,
    LE,
    LT,
    And,
    Bind,
    Buffer,
    Const,
    Evaluate,
    Expr,
    For,
    If,
    IfThenElse,
    Load,
    Not,
    Or,
    Rewriter,
    Seq,
    Stmt,
    Store,
    Var,
    const,
    flatten,
    is_const,
    mentions,
    rebuild,
    seq,
    substitute,
    walk,
)
from tilelang.ir.expr import Compare

from .scope import is_pure
from .summary import statements


class NotStraight(Exception):
    """The body cannot be taken apart into independent statements; the text says why."""


# ---------------------------------------------------------------------------- straight statements


def straight(body: Stmt) -> list[Stmt]:
    """The statements of a body with its `Bind`s written out: Stores, Evaluates, and Ifs of such."""
    written = {x.buffer.root() for x in statements(body) if type(x) is Store}
    return _straight(flatten(body), written, {})


def from_zero(loop: For) -> tuple[Var, list[Stmt]]:
    """A variable that counts the lanes from 0, and the straight statements of the loop in it."""
    stmts = straight(loop.body)
    if type(loop.start) is Const and loop.start.value == 0:
        return loop.var, stmts
    lane = Var(loop.var.name, loop.var.dtype)
    return lane, [substitute(s, {loop.var: loop.start + lane}) for s in stmts]


def _straight(
    stmts: Sequence[Stmt], written: set[Buffer], values: Mapping[Var, Expr]
) -> list[Stmt]:
    values = dict(values)
    out: list[Stmt] = []
    s: Any
    for s in stmts:
        t = type(s)
        if t is Bind:
            value = substitute(s.value, values)
            if not is_pure(value):
                raise NotStraight(f"{s.var.name} is the result of a call with an effect")
            if any(type(x) is Load and x.buffer.root() in written for x in walk(value)):
                raise NotStraight(f"{s.var.name} reads what the loop writes")
            values[s.var] = value
        elif t is If:
            then = _straight(flatten(s.then), written, values)
            orelse = _straight(flatten(s.orelse), written, values)
            cond = substitute(s.cond, values)
            out.append(If(cond, seq(then), seq(orelse) if orelse else None, s.span))
        elif t in (Store, Evaluate):
            out.append(substitute(s, values))
        elif t is Seq:
            out += _straight(s.stmts, written, values)
        else:
            raise NotStraight(f"the body has a {t.__name__}")
    return out


def conditions(stmts: list[Stmt]) -> list[Expr]:
    """The comparisons that guard something, in order."""
    out: dict[Expr, None] = {}

    def parts(e: Expr) -> None:
        if type(e) in (And, Or):
            parts(e.a)  # type: ignore[attr-defined]
            parts(e.b)  # type: ignore[attr-defined]
        elif type(e) is Not:
            parts(e.a)
        else:
            out[e] = None

    for s in stmts:
        for x in walk(s):
            if type(x) in (If, IfThenElse):
                parts(x.cond)  # type: ignore[attr-defined]
    return list(out)


# ---------------------------------------------------------------------------- lanes


class Lanes:
    """Questions about expressions in which `var` counts the lanes, 0 <= var < width."""

    def __init__(self, facts: Facts, var: Var, width: Any) -> None:
        self.facts = facts.child()
        self.facts.bind(var, const(0, var.dtype), width)
        self.var = var
        self.width = width

    def depends(self, e: Expr) -> bool:
        """Does the lane occur in `e`?"""
        return self.var in mentions(e)

    def step(self, e: Expr) -> int | None:
        """By how much `e` grows from lane to lane; None if not by a constant."""
        if not self.depends(e):
            return 0
        if not e.dtype.is_int or e.dtype.lanes != 1:
            return None
        terms = self.facts.linear(e).terms
        if any(a is not self.var and self.depends(a) for a in terms):
            return None
        return terms.get(self.var, 0)

    def at(self, e: Expr, lane: Any = 0) -> Expr:
        """`e` in one lane, simplified."""
        return self.facts.simplify(substitute(e, {self.var: const(lane, self.var.dtype)}))

    def contiguous(self, b: Buffer, indices: Sequence[Expr]) -> bool:
        """Do the lanes access neighbours in the last dimension?"""
        if not indices or any(i.dtype.lanes != 1 for i in indices):
            return False
        if b.view_of is not None and b.root().strides is not None:
            return False  # what is a row in the view may be in pieces
        if b.strides is not None and not is_const(b.strides[-1], 1):
            return False
        return self.step(indices[-1]) == 1 and all(self.step(i) == 0 for i in indices[:-1])

    def uniform(self, cond: Expr) -> bool:
        """Is the condition the same in all lanes (width is a constant)?"""
        if not self.depends(cond):
            return True
        t = type(cond)
        if t in (And, Or):
            return self.uniform(cond.a) and self.uniform(cond.b)  # type: ignore[attr-defined]
        if t is Not:
            return self.uniform(cond.a)  # type: ignore[attr-defined]
        if self.facts.decide(cond) is not None:
            return True
        return issubclass(t, Compare) and self._one_sign(cond)

    def _one_sign(self, cond: Any) -> bool:
        """k · var + rest stays on one side of 0: with rest ≡ r (mod m) if r + k · lanes < m."""
        if type(cond) not in _LESS or not cond.a.dtype.is_int:
            return False
        swapped, offset = _LESS[type(cond)]
        a, b = (cond.b, cond.a) if swapped else (cond.a, cond.b)
        if self.step(a) is None or self.step(b) is None:
            return False
        difference = self.facts.linear(a).minus(self.facts.linear(b)).shifted(offset)
        k = difference.terms.get(self.var, 0)
        m, r = self.facts.residue(difference.without(self.var))
        reach = k * (int(self.width) - 1)
        return k == 0 or (m > 0 and 0 <= r + reach < m)

    def threshold(self, cond: Any) -> tuple[Expr, bool] | None:
        """(p, below): the condition holds exactly in lanes < p (below) or >= p."""
        if type(cond) not in _LESS or not cond.a.dtype.is_int or cond.a.dtype.lanes != 1:
            return None
        swapped, offset = _LESS[type(cond)]
        a, b = (cond.b, cond.a) if swapped else (cond.a, cond.b)
        if self.step(a) is None or self.step(b) is None:
            return None
        k = self.facts.linear(a).minus(self.facts.linear(b)).terms.get(self.var, 0)
        gap = self.at(b) - self.at(a) - offset  # lane · k < gap
        if k == 1:
            return gap, True
        return (1 - gap, False) if k == -1 else None


# comparison -> (swap the sides, what to add to a - b) so that it reads a - b + offset < 0
_LESS: dict[type, tuple[bool, int]] = {
    LT: (False, 0),
    LE: (False, -1),
    GT: (True, 0),
    GE: (True, -1),
}


class Known(Rewriter):
    """Replaces conditions whose value is known, and drops the branches that are never taken."""

    def __init__(self, values: Mapping[Expr, bool]) -> None:
        super().__init__()
        self.values = values

    def visit(self, n: Any) -> Any:
        if isinstance(n, Expr):
            hit = self.memo.get(n)
            if hit is None:
                known = self.values.get(n)
                hit = const(known) if known is not None else rebuild(n, self.visit)
                self.memo[n] = hit
            return hit
        out = n.map_children(self.visit)
        if type(out) is If and type(out.cond) is Const:
            return (out.then if out.cond.value else out.orelse) or seq()
        return out
