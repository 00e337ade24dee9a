# SPDX-License-Identifier: Apache-2.0
"""LOOP → LOOP (CPU): a kernel with barriers of the whole grid becomes one of a single block.

In: a launch whose body has no threads any more but `sync_grid`. Out: a launch of one block, whose
body has loops over the blocks there were, cut at the barriers; what a block keeps across a cut (its
shared memory too) gets one element per block. Blocks are then not spread over the cores.
"""

from __future__ import annotations

from tilelang.errors import TargetError
from tilelang.ir import (
    Alloc,
    Expr,
    For,
    Launch,
    Stmt,
    While,
    const,
    const_int,
    flatten,
    substitute,
    walk,
)

from .fission import Fission, is_grid_barrier

__all__ = ["one_block"]


def one_block(s: Launch) -> Launch:
    if not any(isinstance(x, Stmt) and is_grid_barrier(x) for x in walk(s.body)):
        return s
    blocks = [(v, _extent(s, e)) for v, e in zip(s.block_vars, s.grid, strict=True)]
    body = substitute(s.body, {v: const(0, v.dtype) for v, n in blocks if n == 1})
    body = _GridFission([(v, n) for v, n in blocks if n != 1]).run(body)
    grid = tuple(const(min(n, 1), e.dtype) for (_, n), e in zip(blocks, s.grid, strict=True))
    return Launch(grid, s.threads, s.block_vars, s.thread_vars, body, s.annotations, s.span)


def _extent(s: Launch, e: Expr) -> int:
    n = const_int(e)
    if n is None:
        raise TargetError(
            f"T.sync_grid in a grid of {e} blocks: on a CPU it needs a size known at compile time",
            code="TL0641",
            span=s.span,
            help="launch a fixed number of blocks that share the work with T.Persistent",
        )
    return n


class _GridFission(Fission):
    """Every statement is a block's own, and so is all memory but the global one."""

    who = "blocks of the grid"

    def run(self, body: Stmt) -> Stmt:
        self.buffers = {
            x.buffer.root() for x in walk(body) if type(x) is Alloc and not x.buffer.is_global
        }
        return self.cut(body)

    def is_barrier(self, s: Stmt) -> bool:
        return is_grid_barrier(s)

    def whole(self, s: Stmt) -> bool:
        if not any(isinstance(x, Stmt) and is_grid_barrier(x) for x in walk(s)):
            return True
        if any(self.differs(c) for c in s.children if isinstance(c, Expr)):
            return True
        parts = [p for c in s.children if isinstance(c, Stmt) for p in flatten(c)]
        return type(s) in (For, While) and any(self.jumps(p) for p in parts)
