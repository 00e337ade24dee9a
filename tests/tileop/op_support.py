# SPDX-License-Identifier: Apache-2.0
"""What the tests of tile ops share: making buffers, running an op by its reference or lowered."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilelang.config import Options
from tilelang.interp import thread
from tilelang.ir import (
    Alloc,
    Buffer,
    Builder,
    DType,
    PrimFunc,
    Scope,
    TileStmt,
    const,
    seq,
    substitute,
)
from tilelang.target import Target
from tilelang.testing.compare import random_array
from tilelang.tileop import Copy, LowerContext, select

FLOATS = ("float64", "float32", "float16", "bfloat16")
INTS = ("int32", "int8", "uint8")


def shared(name: str, shape: tuple[int, ...], dtype: str = "float32") -> Buffer:
    return Buffer(name, shape, dtype, Scope.SHARED)


def fragment(name: str, shape: tuple[int, ...], dtype: str = "float32") -> Buffer:
    return Buffer(name, shape, dtype, Scope.FRAGMENT)


def values(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    return random_array(np.random.default_rng(seed), shape, DType(dtype))


def reference(op: Any, *arrays: tuple[Buffer, Any]) -> None:
    """Runs an op on arrays, in place."""
    op.reference(dict(arrays))


def cpu_context(mcpu: str = "x86-64-v4") -> LowerContext:
    return LowerContext(Target({"kind": "llvm", "mcpu": mcpu}), Options(), const(0), 1, None)


def run_on_cpu(op: Any, buffers: list[Buffer], arrays: list[Any], mcpu: str = "x86-64-v4") -> None:
    """Runs the op's CPU lowering on private copies of the buffers; the arrays change in place."""
    args = [Buffer(f"arg_{b.name}", b.shape, b.dtype) for b in buffers]
    private = {b: Buffer(b.name, b.shape, b.dtype, Scope.LOCAL) for b in buffers}
    ctx = cpu_context(mcpu)

    def lowered(any_op: Any) -> Any:
        b = Builder()
        select(any_op.LOWERINGS, any_op, ctx).lowering.emit(any_op, ctx, b)
        return b.finish()

    load = [lowered(Copy(a.whole(), b.whole())) for a, b in zip(args, buffers, strict=True)]
    store = [lowered(Copy(b.whole(), a.whole())) for a, b in zip(args, buffers, strict=True)]
    body = seq([Alloc(b) for b in buffers], load, lowered(op), store)
    thread.run(PrimFunc("op", tuple(args), substitute(body, private)), *arrays)


def by_oracle(op: Any, buffers: list[Buffer], arrays: list[Any]) -> None:
    """Runs the op as a statement of a TILE-stage function on global copies."""
    args = [Buffer(f"arg_{b.name}", b.shape, b.dtype) for b in buffers]
    load = [TileStmt(Copy(a.whole(), b.whole())) for a, b in zip(args, buffers, strict=True)]
    store = [TileStmt(Copy(b.whole(), a.whole())) for a, b in zip(args, buffers, strict=True)]
    body = seq([Alloc(b) for b in buffers], load, TileStmt(op), store)
    thread.run(PrimFunc("op", tuple(args), body), *arrays)
