# SPDX-License-Identifier: Apache-2.0
"""Which signed additions and multiplications may overflow, and so must be spelled to wrap.

The IR's integers wrap; C's signed ones must not overflow, and compilers use that: `x + 1 > x` is
true for NVRTC, `x * 3 / 3` is x. Indices do not overflow in a program that is right, and there the
freedom is welcome; data may. So arithmetic on values that come from memory, from a float or from
other bits is printed in the unsigned type:

    C[i] = A[i] * 31 + 7    →    C[i] = (int)((unsigned int)A[i] * 31u + 7u);

In: expressions in the order of the program. Out: `may_wrap(e)`.
"""

from __future__ import annotations

from typing import Any

from tilelang.ir import (
    Add,
    BitAnd,
    Call,
    Cast,
    Const,
    Expr,
    FloorMod,
    Load,
    Mul,
    Scope,
    Sub,
    TruncMod,
    Var,
)

__all__ = ["WRAPPING", "Wrapping"]

WRAPPING = (Add, Sub, Mul)
_MIN_BITS = 32  # narrower types are computed as int and cast back
_SOURCES = frozenset(
    {
        "reinterpret",
        "call_extern",
        "atomic_add",
        "atomic_max",
        "atomic_min",
        "atomic_or",
        "atomic_load",
        "ballot",
        "match_any",
    }
)
_SMALL = frozenset({"popcount", "clz"})


class Wrapping:
    """Follows data through one function."""

    def __init__(self) -> None:
        self._vars: set[Var] = set()
        self._data: dict[Expr, bool] = {}
        self._bits: dict[Expr, int] = {}

    def bind(self, var: Var, value: Expr) -> None:
        """Takes note of a variable that is given a value."""
        if self.is_data(value):
            self._vars.add(var)

    def may_wrap(self, e: Expr) -> bool:
        """Is `e` a signed sum, difference or product of data that its type may not hold?"""
        t = e.dtype
        if type(e) not in WRAPPING or t.kind != "int" or t.bits < _MIN_BITS or t.lanes > 1:
            return False
        return self.is_data(e) and self._needs(e) >= t.bits

    def is_data(self, e: Expr) -> bool:
        """Does the value of `e`, an integer, depend on data?"""
        hit = self._data.get(e)
        if hit is None:
            hit = self._data[e] = self._is_data(e)
        return hit

    def _is_data(self, e: Any) -> bool:
        kind = type(e)
        if kind is Var:
            return e in self._vars
        if (
            kind is Load
        ):  # a counter of the user's own (T.alloc_var) is an index until it is multiplied
            return e.dtype.is_int and e.dtype.bits >= _MIN_BITS and e.buffer.scope != Scope.VAR
        if kind is Cast:
            return e.a.dtype.is_float or self.is_data(e.a)
        if kind is Call and (e.op in _SOURCES or e.op in _SMALL):
            return e.op in _SOURCES
        if kind is Mul and any(type(x) is Load for x in (e.a, e.b)):
            return True
        return any(self.is_data(c) for c in e.children)

    def _needs(self, e: Any) -> int:
        """Bits of magnitude that `e` may need, as far as that is evident."""
        hit = self._bits.get(e)
        if hit is None:
            hit = self._bits[e] = self._magnitude(e)
        return hit

    def _magnitude(self, e: Any) -> int:
        kind = type(e)
        full = e.dtype.bits
        if kind is Const:
            return abs(int(e.value)).bit_length()
        if kind is Mul:
            return self._needs(e.a) + self._needs(e.b)
        if kind in (Add, Sub):
            return max(self._needs(e.a), self._needs(e.b)) + 1
        if kind is Cast and (e.a.dtype.is_int or e.a.dtype.is_bool):
            return min(full, self._needs(e.a))
        if kind in (BitAnd, FloorMod, TruncMod) and type(e.b) is Const:
            return abs(int(e.b.value)).bit_length()
        return int(full)
