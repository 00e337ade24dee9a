# SPDX-License-Identifier: Apache-2.0
"""Which `Parallel` nests may be executed for all their elements at once.

In: a nest. Out: yes or no; "no" costs time only, as the elements are then visited one by one. Yes
needs that no element can see what another writes: a buffer that is written is read only at the very
element that is written, and different elements write different places.
"""

from __future__ import annotations

from typing import Any

from tilelang.ir import (
    INTRINSICS,
    Bind,
    Call,
    Const,
    Evaluate,
    Expr,
    For,
    If,
    Load,
    Parallel,
    Seq,
    Stmt,
    Store,
    Var,
    free_vars,
    walk,
)  # fmt: skip

__all__ = ["is_simple"]

_STATEMENTS = (Seq, Bind, Store, If, For, Evaluate)


def is_simple(nest: Parallel) -> bool:
    """May index arrays stand for the variables?"""
    own = set(nest.vars)
    writes: dict[Any, list[Store]] = {}
    x: Any
    for x in walk(nest.body):
        t = type(x)
        if isinstance(x, Stmt) and t not in _STATEMENTS:
            return False
        if t is Evaluate or (t is Call and INTRINSICS[x.op].effect != "pure"):
            return False
        if t is For and (own | _bound(nest)) & set(free_vars(x.start) + free_vars(x.extent)):
            return False
        if t is For and any(type(y) is Load for e in (x.start, x.extent) for y in walk(e)):
            return False
        if t is Store:
            writes.setdefault(x.buffer.root(), []).append(x)
    return all(_elementwise(nest, own, root, stores) for root, stores in writes.items())


def _bound(nest: Parallel) -> set[Var]:
    return {x.var for x in walk(nest.body) if type(x) is Bind}


def _elementwise(nest: Parallel, own: set[Var], root: Any, stores: list[Store]) -> bool:
    first = stores[0]
    if first.buffer.is_local or not _injective(first.indices, nest):
        return False
    loads: list[Any] = [x for x in walk(nest.body) if type(x) is Load]
    touched = [x for x in loads if x.buffer.root() is root]
    return all(
        x.buffer is first.buffer and _same(x.indices, first.indices) for x in (*touched, *stores)
    )


def _same(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> bool:
    return len(a) == len(b) and all(_same_expr(x, y) for x, y in zip(a, b, strict=True))


def _same_expr(a: Expr, b: Expr) -> bool:
    """Structural equality, for nodes of different sessions as well."""
    if a is b:
        return True
    if type(a) is not type(b) or a.dtype is not b.dtype or type(a) is Var:
        return False
    if type(a) is Const:
        return bool(a.value == b.value)  # type: ignore[attr-defined]
    if getattr(a, "buffer", None) is not getattr(b, "buffer", None) or getattr(
        a, "op", None
    ) != getattr(b, "op", None):
        return False
    return len(a.children) == len(b.children) and all(
        _same_expr(x, y) for x, y in zip(a.children, b.children, strict=True)
    )


def _injective(indices: tuple[Expr, ...], nest: Parallel) -> bool:
    """Does every variable move a dimension of its own, alone? (`i`, `i + c`; not for 1)"""
    left = {
        v
        for v, e in zip(nest.vars, nest.extents, strict=True)
        if not (type(e) is Const and e.value == 1)
    }
    bound = _bound(nest)
    for i in indices:
        moved = [v for v in free_vars(i) if v in left or v in bound]
        if len(moved) == 1 and moved[0] in left and _is_shift(i, moved[0]):
            left.discard(moved[0])
    return not left


def _is_shift(e: Expr, v: Var) -> bool:
    if e is v:
        return True
    if type(e).__name__ in ("Add", "Sub"):
        a, b = e.children
        rest, part = (b, a) if v in free_vars(a) else (a, b)
        if v in free_vars(rest) or any(type(x) is Load for x in walk(rest)):
            return False
        return (part is a or type(e).__name__ == "Add") and _is_shift(part, v)
    return False
