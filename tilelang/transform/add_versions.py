# SPDX-License-Identifier: Apache-2.0
"""TILE → TILE (CUDA): a second version of a kernel for well-aligned arguments.

In: a kernel on tensors whose rows have a length or stride that only the call knows. Out: that
kernel once more, for the calls in which every row starts on a 16-byte boundary; the host picks.

    with launch(grid) as bx: …      →     with launch(grid, {"when": N % 8 == 0, …}) as bx: …
                                          with launch(grid) as bx: …       (when it is not)

`split_host_device` drops the version if it came out the same, and gives the one that is not taken
an empty grid.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilelang.arith import Facts
from tilelang.ir import (
    Alloc,
    Bind,
    Buffer,
    Expr,
    For,
    Launch,
    PrimFunc,
    Stmt,
    Var,
    all_of,
    buffers_used,
    const,
    flatten,
    is_const,
    seq,
    substitute,
    walk,
)

from .manager import PassContext
from .scope import function_facts

_BYTES = 16  # the widest access of sm_80 and sm_90, and what cp.async and TMA ask of rows


def run(func: PrimFunc, ctx: PassContext) -> PrimFunc:
    facts = function_facts(func, ctx)
    out: list[Stmt] = []
    for s in flatten(func.body):
        if type(s) is Launch:
            conds = _conditions(s, func, facts)
            if conds:
                out.append(_version(s, conds))
        out.append(s)
    return func.with_body(seq(out))


def _conditions(s: Launch, func: PrimFunc, facts: Facts) -> list[Expr]:
    """What makes the rows of all tensors aligned; none if nothing would, or it is known already."""
    params = {p for p in func.params if isinstance(p, Buffer)}
    needed: dict[Expr, int] = {}
    for b in buffers_used(s.body):
        if b in params and b.dtype.bits >= 8:
            elements = max(_BYTES // b.dtype.bytes, 1)
            for e in _row_steps(b):
                needed[e] = max(needed.get(e, 1), elements)
    out = []
    for e, n in needed.items():
        if facts.divisible(e, n):
            continue
        if type(e) is not Var:
            return []  # a constant that does not divide, or an expression that says little
        out.append(e % n == const(0, e.dtype))
    return out


def _row_steps(b: Buffer) -> list[Expr]:
    """The extents or strides that a row's start is a multiple of."""
    rows = [not is_const(n, 1) for n in b.shape[:-1]]
    if b.strides is not None:
        return [s for s, several in zip(b.strides, rows, strict=False) if several]
    return [b.shape[-1]] if any(rows) else []


def _version(s: Launch, conds: list[Expr]) -> Launch:
    """The launch with fresh names and buffers, under its conditions."""
    mapping: dict[Any, Any] = {}
    x: Any
    for x in walk(s.body):
        if type(x) in (Bind, For):
            mapping[x.var] = Var(x.var.name, x.var.dtype)
        elif type(x) is Alloc:
            mapping[x.buffer] = _copied(x.buffer, mapping)
    notes = {k: _renamed(v, mapping) for k, v in s.annotations.items()}
    notes["when"] = all_of(conds)
    body = substitute(s.body, mapping)
    return Launch(s.grid, s.threads, s.block_vars, s.thread_vars, body, notes, s.span)


def _copied(b: Buffer, mapping: Mapping[Any, Any]) -> Buffer:
    view = mapping.get(b.view_of, b.view_of) if b.view_of is not None else None
    return Buffer(b.name, b.shape, b.dtype, b.scope, b.strides, view, b.span, b.data)


def _renamed(v: Any, mapping: Mapping[Any, Any]) -> Any:
    """An annotation with its buffers replaced."""
    if isinstance(v, Mapping):
        return {mapping.get(k, k): _renamed(x, mapping) for k, x in v.items()}
    if isinstance(v, (tuple, list)):
        return type(v)(_renamed(x, mapping) for x in v)
    if isinstance(v, (Buffer, Var)):
        return mapping.get(v, v)
    return v


__all__ = ["run"]
