# SPDX-License-Identifier: Apache-2.0
"""mbarriers are initialised once, by one thread, before any thread uses them.

In: TILE stage, `Alloc`s of barrier scope with `annotations={"arrive_count": (n, …)}` at the top of
a kernel. Out: the same, and behind the last of them the initialisation, its fence, and a barrier.

    bar = T.alloc_barrier([1, 1])   ->   bar = …; if tx == 0: mbar_init(bar[0], 1);
    mbar_init(bar[1], 1); fence
                                         sync_threads()
"""

from __future__ import annotations

from tilelang.errors import ScopeError, TargetError
from tilelang.ir import (
    Alloc,
    Builder,
    Launch,
    PrimFunc,
    Scope,
    Stmt,
    address_of,
    all_of,
    flatten,
    seq,
    walk,
)
from tilelang.utils import prod

from .manager import PassContext

__all__ = ["run"]


def run(func: PrimFunc, ctx: PassContext) -> PrimFunc:
    def visit(s: Stmt) -> Stmt:
        if type(s) is Launch:
            return _kernel(s, ctx)
        return s.map_children(lambda c: visit(c) if isinstance(c, Stmt) else c)

    return func.with_body(visit(func.body))


def _kernel(s: Launch, ctx: PassContext) -> Stmt:
    barriers = [x for x in walk(s.body) if type(x) is Alloc and x.buffer.scope == Scope.BARRIER]
    if not barriers:
        return s
    top = flatten(s.body)
    for x in barriers:
        if not ctx.target.has_mbarrier:
            raise TargetError(
                f"T.alloc_barrier() requires sm_90 (Hopper) or later, the target is {ctx.target}",
                code="TL0650",
                span=x.span,
                help="compile for a Hopper target, or use T.sync_threads",
            )
        if not any(x is y for y in top):
            raise ScopeError(
                f"barrier {x.buffer.name} is allocated inside a loop, a branch or a warp role",
                code="TL0450",
                span=x.span,
                help="allocate barriers at the top of the kernel",
            )
    last = max(n for n, x in enumerate(top) if any(x is y for y in barriers))
    body = seq(top[: last + 1], _init(s, barriers), top[last + 1 :], span=s.body.span)
    return Launch(s.grid, s.threads, s.block_vars, s.thread_vars, body, s.annotations, s.span)


def _init(s: Launch, barriers: list[Alloc]) -> Stmt:
    b = Builder(s.span)
    first = all_of(v == 0 for v, n in zip(s.thread_vars, s.threads, strict=True) if n > 1)
    with b.if_(first):
        for x in barriers:
            for i, count in enumerate(x.annotations["arrive_count"]):
                b.call("mbar_init", address_of(x.buffer, i), count)
        b.call("fence_mbar_init")
    clusters = prod(s.annotations.get("cluster_dims", (1,))) > 1  # peers may use them too
    b.call("cluster_sync" if clusters else "sync_threads")
    return b.finish()
