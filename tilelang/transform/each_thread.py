# SPDX-License-Identifier: Apache-2.0
"""TILE → TILE (CPU): atomic updates that every thread makes, though none differs from the others.

In: the body of a kernel. Out: the same, where an atomic statement outside of `T.Parallel` names the
thread that makes it, so that `serialize_threads` executes it once per thread, as a GPU does (any
other statement that is the same for all threads has the same effect when it is executed once).

    T.atomic_add(C[0], 1)     →     if tx >= 0: T.atomic_add(C[0], 1)
"""

from __future__ import annotations

from typing import Any

from tilelang.ir import (
    GE,
    And,
    Bind,
    Evaluate,
    Expr,
    If,
    IfThenElse,
    Launch,
    Parallel,
    Stmt,
    Store,
    TileStmt,
    cast,
    const,
    updates_once_per_thread,
)

__all__ = ["named"]


def named(launch: Launch) -> Stmt:
    """The body, with every thread's atomic updates under a condition that names the thread."""
    pairs = zip(launch.thread_vars, launch.threads, strict=False)
    always: Expr | None = None
    for v, n in pairs:
        if n > 1:
            here = GE(v, const(0, v.dtype))
            always = here if always is None else And(always, here)
    return launch.body if always is None else _statement(launch.body, always)


def _statement(s: Stmt, always: Expr) -> Stmt:
    if type(s) in (Parallel, TileStmt):
        return s
    if type(s) in (Evaluate, Store, Bind):
        if not updates_once_per_thread(s):
            return s
        if type(s) is not Bind:
            return If(always, s, None, s.span)
        value = IfThenElse(always, s.value, cast(const(0), s.value.dtype))
        return Bind(s.var, value, s.span)
    out: Any = s.map_children(lambda c: _statement(c, always) if isinstance(c, Stmt) else c)
    return out
