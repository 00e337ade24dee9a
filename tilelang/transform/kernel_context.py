# SPDX-License-Identifier: Apache-2.0
"""What lowerings may know inside one kernel: its threads and the ranges of its variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilelang.ir import Expr, Launch, PrimFunc, Var, const
from tilelang.tileop.base import LowerContext
from tilelang.utils import prod

from .scope import function_facts

if TYPE_CHECKING:
    from .manager import PassContext


def linear_thread(launch: Launch) -> Expr:
    """x + extent_x * (y + extent_y * z) over the thread variables that have more than one value."""
    out: Expr = const(0)
    stride = 1
    for v, n in zip(launch.thread_vars, launch.threads, strict=False):
        if n > 1:
            out = out + v * stride
        stride *= n
    return out


def kernel_context(
    launch: Launch, func: PrimFunc, ctx: PassContext, tid: Expr | None = None
) -> LowerContext:
    """A context at the top of the kernel; the facts know the block and thread variables.

    tid: the variable that names the linear thread index where a pass has bound one.
    """
    facts = function_facts(func, ctx)
    if "when" in launch.annotations:  # a version for some calls
        facts.assume(launch.annotations["when"])
    for v, extent in zip(launch.block_vars, launch.grid, strict=False):
        facts.bind(v, 0, extent)
    for v, n in zip(launch.thread_vars, launch.threads, strict=False):  # none outside of a kernel
        facts.bind(v, 0, n)
    threads = prod(launch.threads)
    if tid is None:
        tid = linear_thread(launch)
    elif type(tid) is Var:
        facts.bind(tid, 0, threads)
    return LowerContext(
        target=ctx.target,
        options=ctx.options,
        tid=tid,
        threads=threads,
        facts=facts,
        safe_values=launch.annotations.get("safe_values", {}),
        layouts=dict(launch.annotations.get("layouts", {})),
        annotations=launch.annotations,
        notes=ctx.notes,
    )
