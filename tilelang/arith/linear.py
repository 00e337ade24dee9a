# SPDX-License-Identifier: Apache-2.0
"""Integer sums: `const + sum(coefficient * atom)`, the form in which arithmetic is compared.

In: nothing but atoms (expressions that are not sums) and Python ints. Out: `Linear`, immutable,
with exact integer arithmetic. How an expression becomes one is `arith.normal`.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tilelang.ir import Expr

_NO_TERMS: dict[Expr, int] = {}


class Linear:
    """`const + sum(k * atom)`. No coefficient is 0. Atoms are compared by identity (`is`)."""

    __slots__ = ("const", "terms")

    def __init__(self, const: int = 0, terms: dict[Expr, int] | None = None) -> None:
        self.const = const
        self.terms: dict[Expr, int] = _NO_TERMS if terms is None else terms

    @property
    def is_const(self) -> bool:
        return not self.terms

    def key(self) -> tuple[int, frozenset[tuple[Expr, int]]]:
        """A dictionary key: equal for equal sums."""
        return self.const, frozenset(self.terms.items())

    def same(self, other: Linear) -> bool:
        return self.const == other.const and not self.minus(other).terms

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """self + factor * other."""
        if not other.terms:
            return self.shifted(factor * other.const)
        if not self.terms and factor == 1:
            return other.shifted(self.const)
        terms = self.terms.copy()
        for atom, k in other.terms.items():
            total = terms.get(atom, 0) + factor * k
            if total:
                terms[atom] = total
            else:
                terms.pop(atom, None)
        return Linear(self.const + factor * other.const, terms)

    def minus(self, other: Linear) -> Linear:
        return self.plus(other, -1)

    def shifted(self, offset: int) -> Linear:
        return self if offset == 0 else Linear(self.const + offset, self.terms)

    def scaled(self, factor: int) -> Linear:
        if factor == 1:
            return self
        if factor == 0:
            return Linear()
        return Linear(self.const * factor, {a: k * factor for a, k in self.terms.items()})

    def divided(self, divisor: int) -> Linear:
        """Coefficients and constant floor-divided; exact where the divisor divides them."""
        terms = {a: k // divisor for a, k in self.terms.items()}
        return Linear(self.const // divisor, terms)

    def without(self, atom: Expr) -> Linear:
        """This sum without its term in `atom`."""
        terms = self.terms.copy()
        terms.pop(atom, None)
        return Linear(self.const, terms)

    def split(self, keep: Callable[[Expr, int], bool]) -> tuple[Linear, Linear]:
        """(the terms for which `keep` holds, the other terms and the constant)."""
        kept = {a: k for a, k in self.terms.items() if keep(a, k)}
        rest = {a: k for a, k in self.terms.items() if a not in kept}
        return Linear(0, kept), Linear(self.const, rest)

    def content(self) -> int:
        """The gcd of the coefficients; 0 for a constant."""
        return gcd(*self.terms.values())

    def __repr__(self) -> str:
        return " + ".join([*(f"{k}*({a})" for a, k in self.terms.items()), str(self.const)])


def atom(e: Expr) -> Linear:
    """The sum that is just `e`."""
    return Linear(0, {e: 1})


def total(parts: Iterable[Linear]) -> Linear:
    out = Linear()
    for p in parts:
        out = out.plus(p)
    return out


def replaced(s: Linear, mapping: Mapping[Expr, Linear]) -> Linear:
    """`s` with some atoms replaced by sums."""
    out = Linear(s.const, {a: k for a, k in s.terms.items() if a not in mapping})
    for a, k in s.terms.items():
        if a in mapping:
            out = out.plus(mapping[a], k)
    return out
