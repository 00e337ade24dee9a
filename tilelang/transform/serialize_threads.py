# SPDX-License-Identifier: Apache-2.0
"""LOOP → LOOP (CPU): what single threads of a block do becomes loops over the threads.

In: a kernel whose statements mention its thread variables. Out: none are left; statements that
differ from thread to thread stand in loops, cut at barriers and at what the block does once;
private values that live across a cut get one element per thread.

    x[0] = tx * 2                       for t in serial(64): x[t, 0] = t * 2
    T.sync_threads()             →
    C[tx] = x[0]                        for t in serial(64): C[t] = x[t, 0]
"""

from __future__ import annotations

from tilelang.ir import Launch, PrimFunc, const, flatten, seq, substitute

from .fission import Fission
from .lane_exchange import has_collective
from .manager import PassContext
from .serialize_blocks import one_block
from .summary import summary


def run(func: PrimFunc, ctx: PassContext) -> PrimFunc:
    stmts = [one_block(_serialized(s)) if type(s) is Launch else s for s in flatten(func.body)]
    return func.with_body(seq(stmts))


def _serialized(s: Launch) -> Launch:
    used = summary(s.body).used
    every = has_collective(s.body)  # what lanes exchange depends on who they are
    named = zip(s.thread_vars, s.threads, strict=False)
    threads = [(v, n) for v, n in named if every or v in used]
    if not (threads or every):
        return s
    alone = {v: const(0, v.dtype) for v, n in threads if n == 1}
    body = substitute(s.body, alone)
    threads = [(v, n) for v, n in threads if n > 1]
    if threads or every:
        body = Fission(threads).run(body)
    return Launch(s.grid, s.threads, s.block_vars, s.thread_vars, body, s.annotations, s.span)
