# SPDX-License-Identifier: Apache-2.0
"""The passes, in order: from what the user wrote to what code generators print.

In: a `PrimFunc` at TILE stage. Out: a `HostProgram` of `Kernel`s at DEVICE stage.

`PIPELINE` is the one list for all targets. A pass `verb_noun` is the module of that name with
`run(func, ctx)`; it is imported when it first runs, so that `import tilelang` stays fast.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from tilelang.errors import InternalError
from tilelang.ir import HostProgram, PrimFunc, own_copy, session

from .manager import Pass, PassContext, run_passes

__all__ = ["PIPELINE", "Pass", "PassContext", "lower_to_program", "run_passes"]


def _on_cuda(ctx: PassContext) -> bool:
    return ctx.target.is_cuda


def _on_cpu(ctx: PassContext) -> bool:
    return ctx.target.is_cpu


def _has_wgmma(ctx: PassContext) -> bool:
    return ctx.target.has_wgmma


def _warp_specialized(ctx: PassContext) -> bool:
    return ctx.target.has_wgmma and ctx.options.warp_specialize


def _run(module: str) -> Callable[[Any, PassContext], Any]:
    def run(func: Any, ctx: PassContext) -> Any:
        return import_module(f"tilelang.transform.{module}").run(func, ctx)

    return run


def _row(
    name: str, when: Callable[[PassContext], bool] | None = None, establishes: str | None = None
) -> Pass:
    run = _run(name)
    return (
        Pass(name, run, establishes=establishes)
        if when is None
        else Pass(name, run, when, establishes)
    )


PIPELINE: tuple[Pass, ...] = (
    _row("check_kernel"),
    _row("add_versions", _on_cuda),
    _row("rasterize_blocks", _on_cuda),
    _row("fold_clears", _has_wgmma),
    _row("specialize_warps", _warp_specialized),
    _row("init_barriers"),
    _row("plan_pipeline"),
    _row("pack_operands", _on_cpu),
    _row("group_blocks", _on_cpu),
    _row("infer_layouts", _on_cuda),
    _row("insert_syncs"),
    _row("lower_tile_ops", establishes="LOOP"),
    _row("serialize_threads", _on_cpu),
    _row("relax_atomics", _on_cpu),
    _row("fuse_loops", _on_cpu),
    _row("contract_tiles", _on_cpu),
    _row("guard_bounds"),
    _row("vectorize_loops"),
    _row("unroll_loops"),
    _row("flatten_buffers", establishes="FLAT"),
    _row("merge_shared", _on_cuda),
    _row("simplify_func"),
    _row("split_host_device", establishes="DEVICE"),
)


def lower_to_program(
    func: PrimFunc, ctx: PassContext, observe: Callable[[str, Any], None] | None = None
) -> HostProgram:
    """Runs the whole PIPELINE; `observe(pass name, result)` sees what each pass gave."""
    with session():
        out: Any = run_passes(own_copy(func), ctx, PIPELINE, observe)
        if not isinstance(out, HostProgram):
            raise InternalError(f"the pipeline of {func.name} did not end in a HostProgram")
        return out
