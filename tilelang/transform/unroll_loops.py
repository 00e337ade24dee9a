# SPDX-License-Identifier: Apache-2.0
"""LOOP → LOOP: expands loops in the compiler.

In: `unroll` loops of constant extent. Out: their bodies in a row, where the user asked for it
(`explicit`) and, on a CPU, where the result is small: an index into a local array must be a
constant for the array to live in registers. Other `unroll` loops stay: C++ compilers expand them.

    for i in unroll(2): acc[i] = 0      →      acc[0] = 0;  acc[1] = 0
"""

from __future__ import annotations

from tilelang.ir import (
    For,
    PrimFunc,
    Stmt,
    const,
    const_int,
    refresh,
    seq,
    substitute,
    walk,
)
from tilelang.ir.stmt import Break, Continue

from .manager import PassContext
from .summary import StmtRewriter, statements

_MOST_NODES = 4096  # statements and expressions that an expansion on a CPU may have


def run(func: PrimFunc, ctx: PassContext) -> PrimFunc:
    return func.with_body(_Unroll(ctx).visit(func.body))


class _Unroll(StmtRewriter):
    def __init__(self, ctx: PassContext) -> None:
        super().__init__()
        self.ctx = ctx

    def visit_For(self, s: For) -> Stmt:
        extent = const_int(s.extent)
        if s.kind != "unroll" or extent is None:
            return s
        explicit = bool(s.annotations.get("explicit"))
        if not explicit and (self.ctx.target.is_cuda or self.size(s) * extent > _MOST_NODES):
            return s
        if any(type(x) in (Break, Continue) for x in statements(s.body)):
            return For(s.var, s.start, s.extent, s.body, "serial", {}, s.span)
        return expanded(s, extent)

    def size(self, s: For) -> int:
        return sum(1 for _ in walk(s.body))


def expanded(s: For, extent: int) -> Stmt:
    """The body once per trip; binders are fresh in every copy."""
    copies = []
    for i in range(extent):
        body = s.body if i == 0 else refresh(s.body)
        copies.append(substitute(body, {s.var: s.start + const(i, s.var.dtype)}))
    return seq(copies, span=s.span)


__all__ = ["expanded", "run"]
