# SPDX-License-Identifier: Apache-2.0
"""LowerCustomDatatypes: no operation on formats that the CPU does not compute in.

A float of 8 bits or fewer is what its table row makes of it: the CPU has no such arithmetic. Every
operation on one is done on float32 and rounded back, which is what the dtype's own semantics are
(`ir.fold`), so that only conversions are left for the printer.

    a + b                →   cast(cast(a, "float32") + cast(b, "float32"), "float8_e5m2")
    a < b                →   cast(a, "float32") < cast(b, "float32")
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilelang.ir import Call, Cast, DType, Expr, Kernel, Rewriter, walk
from tilelang.ir.expr import Binary, Compare
from tilelang.target import Target

# Calls whose meaning is in their bits, or that only move a value.
_MOVES = frozenset({"reinterpret", "make_vector", "extract_lane", "call_extern", "print"})


def run(func: Any, target_host: Target) -> Any:
    if not isinstance(func, Kernel) or not any(map(_computes, walk(func.body))):
        return func
    return replace(func, body=_InFloat().visit(func.body))


def _is_custom(dtype: DType) -> bool:
    return dtype.kind == "float" and dtype.bits <= 8


def _computes(n: Any) -> bool:
    if issubclass(type(n), (Binary, Compare)):
        return _is_custom(n.a.dtype)
    return type(n) is Call and n.op not in _MOVES and _is_custom(n.dtype)


def _wide(e: Expr) -> Expr:
    if not _is_custom(e.dtype):
        return e
    lanes = e.dtype.lanes
    return Cast(e, DType("float32" if lanes == 1 else f"float32x{lanes}"))


class _InFloat(Rewriter):
    """Nodes are made as they stand: what is folded here has been folded before."""

    def visit(self, n: Any) -> Any:
        if not isinstance(n, Expr):
            return n.map_children(self.visit)
        hit = self.memo.get(n)
        if hit is None:
            new = n.map_children(self.visit)
            hit = self.memo[n] = self._lowered(new) if _computes(new) else new
        return hit

    def _lowered(self, n: Any) -> Expr:
        kind: Any = type(n)
        if issubclass(kind, Compare):
            compared: Expr = kind(_wide(n.a), _wide(n.b))
            return compared
        if issubclass(kind, Binary):
            return Cast(kind(_wide(n.a), _wide(n.b)), n.dtype)
        args = tuple(_wide(a) for a in n.args)
        lanes = n.dtype.lanes
        result = DType("float32" if lanes == 1 else f"float32x{lanes}")
        return Cast(Call(n.op, args, result), n.dtype)
