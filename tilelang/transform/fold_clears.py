# SPDX-License-Identifier: Apache-2.0
"""A tile that is cleared and then multiplied into: the product overwrites it.

In: TILE stage. Out: the same, in which `T.clear(C)` before a gemm into C, with nothing between that
touches C, has become `clear_accum=True` of the gemm. wgmma has a form that ignores the old
accumulators, so that nothing has to write zeros into them.

    T.clear(C); T.copy(A, S); T.gemm(S, B, C)  ->  T.copy(A, S); T.gemm(S, B, C, clear_accum=True)
"""

from __future__ import annotations

from typing import Any

from tilelang.ir import (
    Buffer,
    PrimFunc,
    Rewriter,
    Seq,
    Stmt,
    TileStmt,
    as_expr,
    const,
    effects,
    is_const,
    seq,
)
from tilelang.tileop.gemm import Gemm

from .manager import PassContext

__all__ = ["run"]

REACH = 8
"""How many statements back a clear is looked for, so that the pass is linear in the program."""


def run(func: PrimFunc, ctx: PassContext) -> PrimFunc:
    return func.with_body(_Folder().visit(func.body))


class _Folder(Rewriter):
    def visit_Seq(self, s: Seq) -> Stmt:
        stmts: list[Any] = [self.visit(x) for x in s.stmts]
        for n, x in enumerate(stmts):
            if type(x) is TileStmt and x.op.name == "gemm" and x.op.clears is False:  # type: ignore[attr-defined]
                at = _cleared(stmts, n, x.op.c)  # type: ignore[attr-defined]
                if at is not None:
                    g: Any = x.op
                    op = Gemm(g.a, g.b, g.c, g.trans_a, g.trans_b, g.policy, const(True))
                    stmts[at], stmts[n] = seq(), TileStmt(op, x.annotations, x.span)
        return seq(stmts, span=s.span)


def _cleared(stmts: list[Any], n: int, c: Any) -> int | None:
    """The statement that clears all of `c` for statement `n`."""
    buffer: Buffer = c.buffer
    for at in range(n - 1, max(n - 1 - REACH, -1), -1):
        x = stmts[at]
        if type(x) is TileStmt and x.op.name == "fill" and x.op.dst.buffer is buffer:  # type: ignore[attr-defined]
            whole = x.op.dst.is_whole and c.is_whole  # type: ignore[attr-defined]
            return at if whole and is_const(as_expr(x.op.value), 0) else None  # type: ignore[attr-defined]
        e = effects(x)
        if e.opaque or e.barrier or e.touches(buffer):
            return None
    return None
