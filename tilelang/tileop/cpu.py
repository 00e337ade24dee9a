# SPDX-License-Identifier: Apache-2.0
"""Element loops on a CPU.

In: extents and a function that writes the body for one index tuple, or a user's `Parallel`. Out:
LOOP-stage loops of the one thread, the innermost marked `vectorized` (which `vectorize_loops` turns
into vector accesses where they are provable, and into a serial loop elsewhere).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from tilelang.ir import Builder, Expr, For, Parallel, const, is_const, substitute

if TYPE_CHECKING:
    from tilelang.ir import Stmt

__all__ = ["emit_loops", "lower_parallel", "not_on_cpu", "not_on_cuda"]

_NAMES = "ijkl"


def not_on_cuda(op: Any, ctx: Any) -> str | None:
    """`why_not` of a lowering for CPUs."""
    return "the target is CUDA" if ctx.target.is_cuda else None


def not_on_cpu(op: Any, ctx: Any) -> str | None:
    """`why_not` of a lowering for threads."""
    return "the target is a CPU" if ctx.target.is_cpu else None


def emit_loops(
    b: Builder,
    extents: Sequence[Any],
    body: Callable[[tuple[Expr, ...]], None],
    kind: str = "vectorized",
) -> None:
    """Calls `body` in a nest over `extents`: it writes to `b`, for one index tuple, in any order.

    kind: of the innermost loop.
    """
    with ExitStack() as stack:
        loops = []
        for n, extent in enumerate(extents):
            name = _NAMES[n] if n < len(_NAMES) else f"i{n}"
            last = n == len(extents) - 1
            loops.append(stack.enter_context(b.for_(name, extent, kind=kind if last else "serial")))
        body(tuple(loops))


def lower_parallel(stmt: Parallel) -> Stmt:
    """A `Parallel` nest (its body is LOOP-stage already) as loops, the last variable innermost. One
    trip is no loop."""
    once = {
        v: const(0, v.dtype) for v, n in zip(stmt.vars, stmt.extents, strict=True) if is_const(n, 1)
    }
    out = substitute(stmt.body, once) if once else stmt.body
    kind = "vectorized"
    for var, extent in zip(reversed(stmt.vars), reversed(stmt.extents), strict=True):
        if var in once:
            continue
        out = For(var, const(0, extent.dtype), extent, out, kind, {}, stmt.span)
        kind = "serial"
    return out
