# SPDX-License-Identifier: Apache-2.0
"""TILE → TILE (CPU): operands of a gemm that need converting or transposing are packed first.

gemm(A, B, C, trans_b=True)     →      B_packed = alloc(K, N); pack(B, B_packed)
                                       gemm(A, B_packed, C)
"""

from __future__ import annotations

from tilelang.ir import PrimFunc, Rewriter, Seq, Stmt, TileStmt, seq
from tilelang.tileop.gemm.pack import packed

from .manager import PassContext

__all__ = ["run"]


def run(func: PrimFunc, ctx: PassContext) -> PrimFunc:
    return func.with_body(_Packer().visit(func.body))


class _Packer(Rewriter):
    def visit_Seq(self, s: Seq) -> Stmt:
        return seq(s.stmts, span=s.span)

    def visit_TileStmt(self, s: TileStmt) -> Stmt:
        return seq(packed(s)) if s.op.name == "gemm" else s
