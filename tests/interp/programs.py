# SPDX-License-Identifier: Apache-2.0
"""What the tests of the executors share: a kernel from a body, inputs for the zoo, its stages."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilelang.config import Options
from tilelang.ir import Buffer, Const, Launch, PrimFunc, Stmt, Var, const, own_copy
from tilelang.target import Target
from tilelang.transform import PIPELINE, PassContext, run_passes

# What the dynamic sizes of the zoo's kernels are here.
SIZES = {"M": 33, "N": 40, "K": 37}
# Passes after which the form of the program is another one.
STAGES = (
    "plan_pipeline", "specialize_warps", "infer_layouts", "lower_tile_ops", "vectorize_loops",
    "flatten_buffers", "split_host_device",
)  # fmt: skip


def kernel(
    body: Stmt,
    *params: Buffer | Var,
    threads: int = 32,
    tid: Var | None = None,
    grid: int = 1,
    stage: str = "TILE",
) -> PrimFunc:
    """One launch of `body`."""
    thread_vars = (Var("tx") if tid is None else tid, Var("ty"), Var("tz"))
    launch = Launch((const(grid),), (threads, 1, 1), (Var("bx"),), thread_vars, body)
    return PrimFunc("f", params, launch, attrs={"stage": stage})


def inputs(func: PrimFunc, seed: int = 0) -> list[Any]:
    """Small numbers for every parameter, so that results are exact."""
    rng = np.random.default_rng(seed)
    return [
        _array(p, rng) if isinstance(p, Buffer) else (2.5 if p.dtype.is_float else 3)
        for p in func.params
    ]


def _array(b: Buffer, rng: Any) -> Any:
    shape = tuple(e.value if type(e) is Const else SIZES.get(e.name, 24) for e in b.shape)  # type: ignore[attr-defined]
    low = 0 if b.dtype.kind == "uint" else -3
    array = rng.integers(low, 4, shape).astype(b.dtype.as_numpy())
    return np.ascontiguousarray(array.T).T if b.strides is not None else array


def stages(func: PrimFunc, target: str, options: Options | None = None) -> dict[str, Any]:
    """The function after each pass that gives it another form."""
    seen: dict[str, Any] = {}
    ctx = PassContext(Target(target), options or Options())
    run_passes(own_copy(func), ctx, PIPELINE, lambda name, f: seen.update({name: f}))
    return {name: f for name, f in seen.items() if name in STAGES}
