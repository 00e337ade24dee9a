# SPDX-License-Identifier: Apache-2.0
"""`T.use_swizzle`: the order in which a 2-D grid's blocks walk their tiles.

In: TILE stage, `Launch.annotations["swizzle"] = (panel, order)`. Out: the block variables renamed
from the linear block index, so that consecutive blocks form panels whose operands fit the L2 cache.

order="row": panels of `panel` rows (blockIdx.y); inside one, rows advance first, and every other
panel is walked backwards, so that neighbours in time are neighbours in space. order="column"
exchanges the roles of x and y."""

from __future__ import annotations

from typing import Any

from tilelang.ir import (
    Assume,
    Bind,
    Builder,
    Expr,
    Launch,
    PrimFunc,
    Stmt,
    Var,
    const,
    minimum,
    select,
    seq,
    substitute,
)

from .manager import PassContext

__all__ = ["run"]


def run(func: PrimFunc, ctx: PassContext) -> PrimFunc:
    def visit(s: Stmt) -> Stmt:
        if type(s) is Launch:
            return _rasterized(s)
        return s.map_children(lambda c: visit(c) if isinstance(c, Stmt) else c)

    return func.with_body(visit(func.body))


def _rasterized(s: Launch) -> Stmt:
    swizzle = s.annotations.get("swizzle")
    annotations = {k: v for k, v in s.annotations.items() if k != "swizzle"}
    if swizzle is None or len(s.grid) != 2 or int(swizzle[0]) <= 1:
        return Launch(s.grid, s.threads, s.block_vars, s.thread_vars, s.body, annotations, s.span)
    panel, order = int(swizzle[0]), swizzle[1]
    x, y = s.block_vars
    b = Builder(s.span)
    linear = b.bind("block", x + y * s.grid[0])
    names: dict[Any, Any] = {}
    inner, outer = (x, y) if order == "row" else (y, x)
    extent = dict(zip(s.block_vars, s.grid, strict=True))
    fast, slow = _walk(b, linear, panel, extent[inner], extent[outer])
    for old, value in ((inner, fast), (outer, slow)):
        new = names[old] = Var(old.name, old.dtype)
        b.emit(Bind(new, value, s.span), Assume(new >= const(0)), Assume(new < extent[old]))
    body = seq(b.finish(), substitute(s.body, names))
    return Launch(s.grid, s.threads, s.block_vars, s.thread_vars, body, annotations, s.span)


def _walk(b: Builder, linear: Expr, panel: int, inner: Expr, outer: Expr) -> tuple[Expr, Expr]:
    """(position along `inner`, position along `outer`) of the linear block index."""
    per_panel = inner * panel
    which = b.bind("panel", linear // per_panel)
    inside = b.bind("in_panel", linear - which * per_panel)
    first = which * panel
    height = b.bind("height", minimum(const(panel), outer - first))  # the last panel may be lower
    along = b.bind("along", inside // height)
    return select(which % 2 == 1, inner - 1 - along, along), first + inside % height
