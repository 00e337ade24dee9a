# SPDX-License-Identifier: Apache-2.0
"""LOOP → LOOP (CPU): atomic updates of a block's own memory are plain ones.

In: a kernel whose blocks are each executed by one thread. Out: what only that thread can see is
updated without a lock, and may be a vector; atomics of global memory, and those whose old value is
wanted, stay.

    atomic_add(address_of(h[x[i]]), 1)      →      h[x[i]] = h[x[i]] + 1
"""

from __future__ import annotations

from typing import Any

from tilelang.ir import (
    Add,
    BitOr,
    Call,
    Evaluate,
    Load,
    PrimFunc,
    Stmt,
    Store,
    binary,
    maximum,
    minimum,
)

from .manager import PassContext
from .summary import StmtRewriter

_UPDATES: dict[str, Any] = {
    "atomic_add": lambda old, x: binary(Add, old, x),
    "atomic_or": lambda old, x: binary(BitOr, old, x),
    "atomic_max": maximum,
    "atomic_min": minimum,
}


def run(func: PrimFunc, ctx: PassContext) -> PrimFunc:
    return func.with_body(_Relax().visit(func.body))


class _Relax(StmtRewriter):
    def visit_Evaluate(self, s: Evaluate) -> Stmt:
        e = s.value
        update = _UPDATES.get(e.op) if type(e) is Call else None
        if update is None:
            return s
        target, value = e.args[0], e.args[1]  # type: ignore[attr-defined]
        if type(target) is not Call or target.op != "address_of" or value.dtype.lanes > 1:
            return s
        place = target.args[0]
        if (
            type(place) is not Load
            or place.buffer.is_global
            or place.buffer.root().is_global
            or place.dtype is not value.dtype
        ):
            return s
        return Store(place.buffer, place.indices, update(place, value), s.span)


__all__ = ["run"]
