# SPDX-License-Identifier: Apache-2.0
"""`Facts`: what is known about variables at one place of the program, and what follows from it.

In: ranges (`bind`), definitions (`define`), conditions that hold (`assume`). Out: bounds, residues,
proofs and simpler expressions. Every answer is certain: "not proved" is None or False, never a
guess. Answers are memoised per scope; `child()` opens a scope that knows more.

Use inside an `ir.session()` (atoms are compared by identity). Signed 32- and 64-bit arithmetic is
index arithmetic and assumed not to wrap; other dtypes are only bounded. Conditions on memory (a
`Load`) are not kept, because the memory may change.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any

from tilelang.ir import Var, as_expr, mentions, rebuild
from tilelang.ir.node import session_memo

from . import assume as asserting
from . import normal, prove, ranges, simplify
from .interval import EVERYTHING, Interval, intersect
from .linear import Linear, atom

if TYPE_CHECKING:
    from tilelang.ir import DType, Expr

Residue = tuple[int, int]
DEEPEST_BRANCH = 3


class Facts:
    """One scope of knowledge. See the module docstring."""

    def __init__(self, parent: Facts | None = None) -> None:
        self.intervals: dict[Expr, Interval] = dict(parent.intervals) if parent else {}
        self.residues: dict[Expr, Residue] = dict(parent.residues) if parent else {}
        self.inequalities: dict[Expr, tuple[Linear, ...]] = (
            dict(parent.inequalities) if parent else {}
        )
        self.definitions: dict[Expr, Expr] = dict(parent.definitions) if parent else {}
        self.truths: dict[Expr, bool] = dict(parent.truths) if parent else {}
        self.ranks: dict[Expr, int] = parent.ranks if parent else {}
        self.costs: dict[Expr, int] = parent.costs if parent else session_memo("costs")
        self.unequal: tuple[Linear, ...] = parent.unequal if parent else ()
        self.nesting = 0
        self.linear_memo: dict[Expr, Linear] = {}
        self.interval_memo: dict[Expr, Interval] = {}
        self.residue_memo: dict[Expr, Residue] = {}
        self.simple_memo: dict[Expr, Expr] = {}
        self.chain_memo: dict[Expr, Expr] = {}
        self.inside_memo: dict[Expr, Expr] = {}
        self.expand_memo: dict[Expr, Expr] = {}
        self.proof_memo: dict[Any, bool] = {}
        self.branches: dict[Expr, Facts] = {}

    def forget(self) -> None:
        """New knowledge makes better answers possible."""
        for memo in (
            self.linear_memo,
            self.interval_memo,
            self.residue_memo,
            self.simple_memo,
            self.chain_memo,
            self.inside_memo,
            self.expand_memo,
            self.proof_memo,
            self.branches,
        ):
            memo.clear()

    def _learn_about(self, var: Expr | None) -> None:
        """A fact about a variable that was never asked about leaves the answers as they are."""
        if var is None or var in self.linear_memo:
            self.forget()
        else:
            self.branches.clear()

    # ----------------------------------------------------------------------------------- learning

    def child(self) -> Facts:
        """A scope that starts with these facts; later facts of this one are not seen there."""
        return Facts(self)

    def bind(self, var: Expr, lo: Any, extent: Any) -> None:
        """lo <= var < lo + extent. That `var` has a value also says that extent >= 1."""
        low, size = as_expr(lo, var.dtype), as_expr(extent, var.dtype)
        start = self.linear(low)
        span = self.linear(size)
        self._learn_about(var if start.is_const and span.is_const else None)
        x = atom(var)
        asserting.nonnegative(self, x.minus(start))
        asserting.nonnegative(self, start.plus(span).shifted(-1).minus(x))
        if not (start.is_const and span.is_const):
            asserting.nonnegative(self, span.shifted(-1))
            self.forget()  # also what was asked on the way, of facts half recorded

    def bind_nonneg(self, var: Expr) -> None:
        """var >= 0: a dimension of a tensor."""
        self.forget()
        asserting.nonnegative(self, atom(var))

    def define(self, var: Var, value: Expr) -> None:
        """var == value (a `Bind`). Proofs look through it; `simplify` never copies the value."""
        if not (value.dtype.is_int or value.dtype.is_bool) or value.dtype.lanes != 1:
            return
        interval, residue = self.interval(self.linear(value)), self.modular(value)
        closed = self.expanded(value)
        self._learn_about(var)
        self.intervals[var] = intersect(self.intervals.get(var, EVERYTHING), interval)
        if residue[0] != 1:
            self.residues[var] = residue
        if asserting.is_stable(closed):
            self.definitions[var] = closed

    def assume(self, cond: Expr) -> None:
        """`cond` holds here."""
        asserting.assume(self, cond, True)
        self.forget()
        if self.unequal:
            asserting.sharpen(self)
            self.forget()

    # ------------------------------------------------------------------------------------- asking

    def bounds(self, e: Any) -> Interval:
        """(lowest, highest) value of an integer expression, inclusive; None = unbounded."""
        x = as_expr(e)
        if not ((x.dtype.is_int or x.dtype.is_bool) and x.dtype.lanes == 1):
            return EVERYTHING
        out = self.interval(self.linear(x))
        wide = self.expanded(x)
        return out if wide is x else intersect(out, self.interval(self.linear(wide)))

    def modular(self, e: Any) -> Residue:
        """(m, r): e is r modulo m. m == 1: nothing known; m == 0: e is exactly r."""
        x = as_expr(e)
        m, r = self.residue(self.linear(x))
        wide = self.expanded(x)
        if wide is not x:
            m2, r2 = self.residue(self.linear(wide))
            m, r = ranges.both(m, r, m2, r2)
        return m, r

    def divisible(self, e: Any, n: int) -> bool:
        """Is `e` certainly a multiple of `n`?"""
        m, r = self.modular(e)
        return m % n == 0 and r % n == 0

    def prove(self, cond: Any) -> bool:
        """True only if `cond` certainly holds."""
        return self.decide(cond) is True

    def decide(self, cond: Any) -> bool | None:
        """True or False where certain, else None."""
        return prove.decide(self, as_expr(cond))

    def equal(self, a: Any, b: Any) -> bool:
        """Are the two integer expressions certainly equal?"""
        x, y = as_expr(a), as_expr(b)
        if x is y or prove.zero(self, self.linear(x).minus(self.linear(y))):
            return True
        wide_x, wide_y = self.expanded(x), self.expanded(y)
        if wide_x is x and wide_y is y:
            return False
        return prove.zero(self, self.linear(wide_x).minus(self.linear(wide_y)))

    def simplify(self, e: Expr) -> Expr:
        """An expression of the same dtype and value (under these facts) that costs no more."""
        return simplify.simplify(self, e)

    # --------------------------------------------------------------- used by the modules of arith

    def linear(self, e: Expr) -> Linear:
        return self.linear_memo.get(e) or normal.linear(self, e)

    def expression(self, s: Linear, dtype: DType) -> Expr | None:
        return normal.expression(self, s, dtype)

    def factors(self, e: Expr) -> list[Expr]:
        return normal.factors(e)

    def simplify_inside(self, e: Expr) -> Expr:
        return simplify.inside(self, e)

    def rank(self, e: Expr) -> int:
        """The order in which atoms were first met: a canonical order of terms."""
        return self.ranks.setdefault(e, len(self.ranks))

    def meet(self, s: Linear) -> None:
        """Ranks the terms of a sum, as writing it out would."""
        if len(s.terms) > 1:
            for a in s.terms:
                self.rank(a)

    def product_of(self, parts: list[Expr]) -> Linear:
        out = Linear(1)
        for p in parts:
            out = normal.product(self, out, atom(p), p.dtype)
        return out

    def product(self, a: Linear, b: Linear, dtype: DType) -> Linear:
        return normal.product(self, a, b, dtype)

    def interval(self, s: Linear) -> Interval:
        """Bounds of a sum, term by term."""
        lo: int | None = s.const
        hi: int | None = s.const
        for a, k in s.terms.items():
            low, high = self.interval_memo.get(a) or self.atom_interval(a)
            if k < 0:
                low, high = high, low
            lo = None if lo is None or low is None else lo + k * low
            hi = None if hi is None or high is None else hi + k * high
        return lo, hi

    def atom_interval(self, a: Expr) -> Interval:
        hit = self.interval_memo.get(a)
        if hit is None:
            self.interval_memo[a] = self.intervals.get(a, EVERYTHING)  # ends a cycle of questions
            hit = intersect(self.intervals.get(a, EVERYTHING), ranges.interval(self, a))
            self.interval_memo[a] = hit
        return hit

    def residue(self, s: Linear) -> Residue:
        """(m, r) of a sum: m is the gcd of the terms' moduli."""
        m, r = 0, s.const
        for a, k in s.terms.items():
            ma, ra = self.atom_residue(a)
            m, r = gcd(m, k * ma), r + k * ra
            if m == 1:
                return 1, 0
        return (m, r % m) if m else (0, r)

    def divides(self, n: int, a: Expr, k: int) -> bool:
        """Is the term k * a certainly a multiple of `n`?"""
        if k % n == 0:
            return True
        m, r = self.atom_residue(a)
        return k * m % n == 0 and k * r % n == 0

    def atom_residue(self, a: Expr) -> Residue:
        hit = self.residue_memo.get(a)
        if hit is None:
            known = self.residues.get(a, (1, 0))
            self.residue_memo[a] = known
            hit = self.residue_memo[a] = ranges.both(*known, *ranges.residue(self, a))
        return hit

    def nonnegative(self, s: Linear) -> bool:
        return prove.nonnegative(self, s)

    def positive(self, s: Linear) -> bool:
        return prove.nonnegative(self, s.shifted(-1))

    def expanded(self, e: Expr) -> Expr:
        """`e` with defined variables replaced by their values (for proofs)."""
        if not self.definitions or self.definitions.keys().isdisjoint(mentions(e)):
            return e
        hit = self.expand_memo.get(e)
        if hit is None:
            known = self.definitions.get(e)
            hit = rebuild(e, self.expanded) if known is None else known
            self.expand_memo[e] = hit
        return hit

    def under(self, cond: Expr) -> Facts:
        """The scope in which `cond` also holds, kept for the next question."""
        hit = self.branches.get(cond)
        if hit is None:
            hit = self.branches[cond] = self.child()
            hit.nesting = self.nesting + 1
            hit.assume(cond)
        return hit

    def branch(self, cond: Expr) -> Facts:
        """`under(cond)`, but this scope itself where conditions nest deeply: an expression that is
        used below many of them would be looked at once for each combination.
        """
        if self.nesting >= DEEPEST_BRANCH or not asserting.is_stable(cond):
            return self
        return self.under(cond)
