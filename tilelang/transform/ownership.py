# SPDX-License-Identifier: Apache-2.0
"""Does a thread hold, in its own registers, the fragment element that a loop iteration touches?

Decided exactly, by enumerating (thread, register) with numpy: at most a few tens of thousands of
points, less than a millisecond, and no rule to get wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilelang.ir import (
    Add,
    Const,
    Expr,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mul,
    Parallel,
    Sub,
    Var,
    const_int,
)
from tilelang.tileop.distribute import LoopPlan, solve

if TYPE_CHECKING:
    from tilelang.layout import Fragment

__all__ = ["held_by_all", "holds", "same_owner"]


class Unknown(Exception):
    """An index that numpy cannot follow (it reads memory, or a value from outside the nest)."""


def holds(p: Parallel, plan: LoopPlan, layout: Fragment, indices: Sequence[Expr]) -> bool:
    """Does every iteration's thread own element `indices` of a fragment with this layout?"""
    if any(const_int(e) is None for e in p.extents):
        return False
    try:
        env, mask = _points(p, plan)
        at = [_evaluate(e, env) for e in indices]
    except Unknown:
        return False
    return layout.threads == plan.layout.threads and _found(layout, env["tid"], at, mask)


def same_owner(a: Fragment, b: Fragment) -> bool:
    """Can each thread find in its own registers, under `b`, every element it holds under `a`?"""
    if a.shape != b.shape or a.threads != b.threads:
        return False
    tid, reg = _axes(a)
    coords = a.coords_at(tid, reg)
    return _found(b, tid, coords, a.valid_at(tid, reg))


def held_by_all(layout: Fragment, indices: Sequence[Expr]) -> bool:
    """Does every thread hold the element `indices`, whatever those that are no constants are?"""
    import numpy as np

    at: list[Any] = []
    for d, (e, size) in enumerate(zip(indices, layout.shape, strict=True)):
        every = np.arange(size, dtype=np.int64).reshape((-1,) + (1,) * (d + 1))
        at.append(every if (value := const_int(e)) is None else value)
    return _found(layout, np.arange(layout.threads, dtype=np.int64), at, True)


def _axes(layout: Fragment) -> tuple[Any, Any]:
    import numpy as np

    return np.arange(layout.threads, dtype=np.int64)[:, None], np.arange(
        layout.regs, dtype=np.int64
    )[None, :]


def _found(layout: Fragment, tid: Any, at: Sequence[Any], mask: Any) -> bool:
    """Where `mask` holds: does thread `tid` hold element `at` under `layout`?"""
    import numpy as np

    good = mask
    for c, x in zip(layout.coords_at(tid, layout.reg_at(at)), at, strict=True):
        good = good & (c == x)
    return bool(np.all(good | np.logical_not(mask)))


def _points(p: Parallel, plan: LoopPlan) -> tuple[dict[Any, Any], Any]:
    """Values of the loop variables (and of the outside expressions that anchor dimensions
    equal)."""
    import numpy as np

    tid, reg = _axes(plan.layout)
    coords = plan.layout.coords_at(tid, reg)
    mask = plan.layout.valid_at(tid, reg) & (tid >= 0)
    extents = {v: const_int(e) for v, e in zip(p.vars, p.extents, strict=True)}
    env: dict[Any, Any] = {}
    for e, c in zip(plan.index, coords, strict=True):
        found = solve(e, p.vars)
        if found is None:
            if type(e) is Const:
                mask = mask & (c == e.value)
            else:
                env[e] = c
        elif found[0] not in env and type(found[1]) is Const:
            value = c - found[1].value
            env[found[0]] = value
            mask = mask & (value >= 0) & (value < extents[found[0]])
        else:
            raise Unknown
    serial = [v for v in p.vars if v not in env]
    for n, v in enumerate(serial):
        extent = extents[v]
        if extent is None:
            raise Unknown
        axis = np.arange(extent, dtype=np.int64)
        env[v] = axis.reshape((-1,) + (1,) * (n + 2))
    env["tid"] = tid
    return env, mask


_OPS: Mapping[type, Any] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
}


def _evaluate(e: Any, env: Mapping[Any, Any]) -> Any:
    import numpy as np

    if e in env:
        return env[e]
    t = type(e)
    if t is Const:
        return e.value
    op = _OPS.get(t)
    if op is not None:
        return op(_evaluate(e.a, env), _evaluate(e.b, env))
    if t is Min or t is Max:
        f = np.minimum if t is Min else np.maximum
        return f(_evaluate(e.a, env), _evaluate(e.b, env))
    raise Unknown(str(e) if t is not Var else e.name)
