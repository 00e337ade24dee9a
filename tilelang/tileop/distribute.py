# SPDX-License-Identifier: Apache-2.0
"""How the points of a `Parallel` nest are shared out among the threads of a block.

In: the nest, a `LoopPlan` (chosen by layout inference), the calling thread. Out: loops over the
thread's registers in which every loop variable is an expression of (thread, register).

    for i, j in T.Parallel(16, 64): F[i, j] = A[i, j]         F: 128 threads x 8 registers
    ->  for v in T.vectorized(8): F_regs[v] = A[tid // 8, tid % 8 * 8 + v]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilelang.ir import Add, Const, Expr, Parallel, Sub, Var, all_of, const, free_vars, logical_and

if TYPE_CHECKING:
    from tilelang.ir import Builder
    from tilelang.layout import Fragment

    from .base import LowerContext

__all__ = ["LoopPlan", "distribute", "solve"]


@dataclass(frozen=True)
class LoopPlan:
    """layout: the distribution of an anchor space. index: what each anchor dimension equals, as an
    expression of loop variables (v, or v + offset) or of values from outside the nest.
    vector: registers that are consecutive in the last loop variable."""

    layout: Fragment
    index: tuple[Expr, ...]
    vector: int = 1

    def __repr__(self) -> str:
        index = ", ".join(map(str, self.index))
        return f"LoopPlan({self.layout!r}, index=({index}), vector={self.vector})"


def solve(e: Expr, loop_vars: Sequence[Var]) -> tuple[Var, Expr] | None:
    """(v, offset) if `e` is v + offset with one loop variable v, not in offset."""

    def is_loop(x: Expr) -> bool:
        return any(x is v for v in loop_vars)

    def free(x: Expr) -> bool:
        return not any(is_loop(v) for v in free_vars(x))

    if type(e) is Var and is_loop(e):
        return e, const(0, e.dtype)
    node: Any = e
    if type(e) is Add:
        for x, y in ((node.a, node.b), (node.b, node.a)):
            inner = solve(x, loop_vars)
            if inner is not None and free(y):
                return inner[0], inner[1] + y
    if type(e) is Sub and free(node.b):
        inner = solve(node.a, loop_vars)
        if inner is not None:
            return inner[0], inner[1] - node.b
    return None


def distribute(
    b: Builder,
    ctx: LowerContext,
    p: Parallel,
    plan: LoopPlan | None,
    once: bool,
    body: Callable[[dict[Var, Expr]], None],
) -> None:
    """Emits the loops; `body` writes the statements for one point, given the loop variables'
    values.

    once: the body touches memory that several threads see, so of several threads that hold the same
    point only one may execute it.
    """
    if plan is None:
        _dynamic(b, ctx, p, body)
    else:
        _planned(b, ctx, p, plan, once, body)


def _planned(
    b: Builder,
    ctx: LowerContext,
    p: Parallel,
    plan: LoopPlan,
    once: bool,
    body: Callable[[dict[Var, Expr]], None],
) -> None:
    layout = plan.layout
    outer = layout.regs // plan.vector
    with ExitStack() as stack:
        stack.enter_context(ctx.scope())
        r = stack.enter_context(b.for_("r", outer, kind="unroll"))
        _bind(ctx, r, outer)
        v = stack.enter_context(b.for_("v", plan.vector, kind="vectorized"))
        _bind(ctx, v, plan.vector)
        reg = r * plan.vector + v
        coords = [ctx.facts.simplify(c) for c in layout.coords(ctx.tid, reg)]
        values, guards = _solve_all(ctx, p, plan, coords)
        guards += _ownership(ctx, layout, reg, once)
        stack.enter_context(b.if_(ctx.facts.simplify(all_of(guards))))
        for var, extent in zip(p.vars, p.extents, strict=True):
            if var not in values:
                values[var] = stack.enter_context(b.for_(var.name, extent))
                _bind(ctx, values[var], extent)
        body(values)


def _bind(ctx: LowerContext, var: Expr, extent: Any) -> None:
    if type(var) is Var:
        ctx.facts.bind(var, 0, extent)


def _solve_all(
    ctx: LowerContext, p: Parallel, plan: LoopPlan, coords: list[Expr]
) -> tuple[dict[Var, Expr], list[Expr]]:
    """Values of the loop variables from the anchor's coordinates, and the conditions for a point to
    exist."""
    values: dict[Var, Expr] = {}
    guards: list[Expr] = []
    extents = dict(zip(p.vars, p.extents, strict=True))
    for e, c, size in zip(plan.index, coords, plan.layout.shape, strict=True):
        found = solve(e, p.vars)
        if found is None or found[0] in values:
            e = e if found is None else values[found[0]] + found[1]
            guards.append(c == e)
            continue
        var, offset = found
        value = ctx.facts.simplify(c - offset)
        values[var] = value
        if type(offset) is Const and offset.value == 0:
            if not (type(extents[var]) is Const and extents[var].value == size):  # type: ignore[attr-defined]
                guards.append(value < extents[var])
        else:
            guards.append(logical_and(value >= const(0, value.dtype), value < extents[var]))
    return values, guards


def _ownership(ctx: LowerContext, layout: Fragment, reg: Expr, once: bool) -> list[Expr]:
    out: list[Expr] = []
    valid = layout.valid(ctx.tid, reg)
    if valid is not None:
        out.append(valid)
    if once and layout.is_replicated:
        out.append(layout.replica(ctx.tid) == const(0))
    return out


def _dynamic(
    b: Builder, ctx: LowerContext, p: Parallel, body: Callable[[dict[Var, Expr]], None]
) -> None:
    """Extents known only at run time: the flattened domain, round-robin over threads."""
    total: Expr = const(1)
    for extent in p.extents:
        total = total * extent
    trips = (total + (ctx.threads - 1)) // ctx.threads
    with ctx.scope(), b.for_("it", trips) as it:
        _bind(ctx, it, trips)
        flat = it * ctx.threads + ctx.tid
        guard = flat < total if ctx.threads > 1 else const(True)
        with b.if_(guard):
            values: dict[Var, Expr] = {}
            rest: Expr = flat
            for n in range(len(p.vars) - 1, 0, -1):
                values[p.vars[n]] = rest % p.extents[n]
                rest = rest // p.extents[n]
            values[p.vars[0]] = rest
            body(values)
