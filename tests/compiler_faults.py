# SPDX-License-Identifier: Apache-2.0
"""Faults planted in the compiler's passes, as `monkeypatch`es of it, and the kernel that each must
break (of `test_compiler_mutations.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tilelang.codegen import cfamily
from tilelang.ir import Buffer, Builder, Call, For, If, cast, const
from tilelang.layout import mma_c
from tilelang.tileop import reduce_cpu, reduce_shuffle
from tilelang.tileop.copy import cp_async
from tilelang.tileop.copy import cpu as copy_cpu
from tilelang.tileop.gemm import cpu as gemm_cpu
from tilelang.tileop.gemm import mma, wgmma
from tilelang.transform import (
    flatten_buffers,
    fold_clears,
    fuse_loops,
    group_blocks,
    guard_bounds,
    insert_syncs,
    merge_shared,
    rasterize_blocks,
    relax_atomics,
    role_ring,
    role_schedule,
    store_epilogue,
    unroll_loops,
    vectorize_cpu,
    vectorize_cuda,
)
from tilelang.transform.ring import Item, Ring, Slots

__all__ = ["FAULTS", "Mutation"]

Mutation = Callable[[pytest.MonkeyPatch], None]

FAULTS: dict[str, tuple[str, Mutation]] = {}


def fault(kernel: str) -> Callable[[Mutation], Mutation]:
    """Registers a change of the compiler and the kernel that it must break."""

    def register(change: Mutation) -> Mutation:
        FAULTS[change.__name__] = kernel, change
        return change

    return register


@fault("matmul_plain")
def no_barriers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(insert_syncs, "run", lambda func, ctx: func)


@fault("matmul_plain")
def barriers_ignore_the_back_edge(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(insert_syncs._Inserter, "loop", lambda self, body: self.body(body))


@fault("matmul")
def a_ring_of_one_slot_less(patch: pytest.MonkeyPatch) -> None:
    slots = Ring._slots

    def fewer(self: Ring, resized: dict[Buffer, Buffer]) -> Any:
        out = {}
        for b, (_, count, lead) in slots(self, resized).items():
            resized[b] = Buffer(b.name, (count - 1, *b.shape), b.dtype, b.scope)
            out[b] = (resized[b], count - 1, lead)
        return out

    patch.setattr(Ring, "_slots", fewer)


@fault("matmul")
def a_wait_for_one_copy_less(patch: pytest.MonkeyPatch) -> None:
    pending = Ring._pending

    def later(self: Ring, item: Item, commits: int) -> int | None:
        need = pending(self, item, commits)
        return None if need is None else need + 1

    patch.setattr(Ring, "_pending", later)


@fault("matmul_plain")
def no_bounds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(guard_bounds._Guard, "in_bounds", lambda self, b, indices, facts: const(True))


@fault("softmax")
def zero_instead_of_the_safe_value(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        guard_bounds._Guard, "safe_value", lambda self, b, load: const(0.0, str(load.dtype))
    )


@fault("matmul")
def no_bounds_of_asynchronous_copies(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cp_async, "in_bounds", lambda buffer, index, ctx: const(True))


@fault("softmax")
def wide_accesses_anywhere(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(vectorize_cuda._Group, "aligned", lambda self, b, indices, count: True)


@fault("matmul")
def wide_accesses_begin_one_group_late(patch: pytest.MonkeyPatch) -> None:
    run_of = vectorize_cuda._Group.run_of
    patch.setattr(
        vectorize_cuda._Group,
        "run_of",
        lambda self, indices, first, count: run_of(self, indices, first + count, count),
    )


@fault("matmul")
def one_operand_without_its_swizzle(patch: pytest.MonkeyPatch) -> None:
    """The copies swizzle B, the matrix loads do not."""
    visit = flatten_buffers._Flattener.visit
    offset = flatten_buffers._Flattener.scalar_offset
    inside: list[bool] = []

    def visited(self: Any, n: Any) -> Any:
        load = type(n) is Call and n.op == "ldmatrix"
        if load:
            inside.append(True)
            self.memo.clear()
        out = visit(self, n)
        if load:
            inside.pop()
            self.memo.clear()
        return out

    def plain(self: Any, b: Buffer, indices: Any) -> Any:
        if inside and b.name == "B_shared":
            return self.linear(b, indices)
        return offset(self, b, indices)

    patch.setattr(flatten_buffers._Flattener, "visit", visited)
    patch.setattr(flatten_buffers._Flattener, "scalar_offset", plain)


def _calls(patch: pytest.MonkeyPatch, change: Callable[[str, list[Any]], list[Any] | None]) -> None:
    """Changes the arguments of the intrinsics that lowerings call; None: no call at all."""
    call = Builder.call

    def changed(self: Builder, op: str, *args: Any) -> None:
        new = change(op, list(args))
        if new is not None:
            call(self, op, *new)

    patch.setattr(Builder, "call", changed)


@fault("matmul")
def matrices_loaded_the_other_way_round(patch: pytest.MonkeyPatch) -> None:
    _calls(patch, lambda op, a: [a[0], 1 - a[1], *a[2:]] if op == "ldmatrix" else a)


@fault("matmul")
def the_next_step_overwrites_this_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(mma._Emitter, "_a_base", lambda self, ki: const(0))


@fault("matmul")
def warps_of_the_result_swapped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(mma, "mma_c", lambda m, n, wm, wn: mma_c(m, n, wm * wn, 1))


@fault("products")
def accumulators_are_not_cleared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(mma, "as_expr", lambda clear: const(False))


@fault("row_sums")
def a_reduction_misses_its_last_exchange(patch: pytest.MonkeyPatch) -> None:
    exchange = reduce_shuffle._exchange

    def all_but_the_first(op: Any, b: Any, acc: Any, regs: int, mask: int) -> None:
        if mask > 1:
            exchange(op, b, acc, regs, mask)

    patch.setattr(reduce_shuffle, "_exchange", all_but_the_first)


@fault("row_maxima")
def a_maximum_starts_from_zero(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reduce_shuffle, "identity", lambda kind, dtype: const(0.0, str(dtype)))


@fault("column_sums")
def warps_do_not_wait_for_each_other(patch: pytest.MonkeyPatch) -> None:
    _calls(patch, lambda op, a: None if op == "sync_threads" else a)


@fault("column_sums")
def every_column_is_reduced_into_the_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reduce_shuffle, "_dst_coords", lambda op, kept: [const(0)] * len(op.dst.extents))


@fault("matmul")
def shared_buffers_overlap(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(merge_shared, "_may_share", lambda a, b, fences: True)


@fault("panels")
def panels_walk_the_wrong_way(patch: pytest.MonkeyPatch) -> None:
    walk = rasterize_blocks._walk
    patch.setattr(rasterize_blocks, "_walk", lambda *args: walk(*args)[::-1])


@fault("hopper")
def producers_expect_half_of_the_bytes(patch: pytest.MonkeyPatch) -> None:
    tile_bytes = role_ring.tile_bytes
    patch.setattr(role_ring, "tile_bytes", lambda op: tile_bytes(op) // 2)


@fault("hopper")
def the_phases_of_a_ring_are_turned(patch: pytest.MonkeyPatch) -> None:
    parity = role_ring.RoleRing._parity
    patch.setattr(role_ring.RoleRing, "_parity", lambda self, k: parity(self, k) ^ 1)


@fault("hopper")
def slots_are_released_while_they_are_read(patch: pytest.MonkeyPatch) -> None:
    _calls(patch, lambda op, a: [a[0] + 1] if op == "wgmma_wait" else a)


@fault("hopper_plain")
def nothing_is_fenced_for_the_async_proxy(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(insert_syncs._Inserter, "fence", lambda self, s: None)


@fault("hopper_attention")
def products_are_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(role_schedule._Simulation, "_conflict", lambda self, s, g: False)


@fault("hopper_attention")
def operands_change_under_a_product(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(role_schedule._Simulation, "_changes", lambda self, s, op: False)
    touches = role_schedule._Simulation._conflict
    patch.setattr(
        role_schedule._Simulation,
        "_conflict",
        lambda self, s, g: touches(self, s, g) and g.op.a.buffer.is_shared,
    )


@fault("hopper_attention")
def the_last_product_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(role_ring.RoleRing, "_finish", lambda *args: None)
    section = role_schedule._Simulation._section

    def shorter(self: Any, order: Any) -> Any:
        return section(self, order if order[0][1] else order[:-1])

    patch.setattr(role_schedule._Simulation, "_section", shorter)


@fault("cpu_softmax")
def the_rest_of_a_vector_loop_is_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(vectorize_cpu._Strip, "scalar", lambda self, stmts, at: None)


@fault("cpu_matmul")
def products_forget_the_steps_before(patch: pytest.MonkeyPatch) -> None:
    def zero(self: Any, i: Any, j: Any, lanes: int) -> Any:
        return gemm_cpu._wide(const(0, self.plan.dtype), lanes)

    patch.setattr(gemm_cpu._Panels, "_start", zero)


@fault("cpu_strided")
def strides_of_the_user_are_ignored(patch: pytest.MonkeyPatch) -> None:
    def row_major(self: Any, b: Buffer, dtype: Any) -> list[Any]:
        out: list[Any] = [const(1, dtype)]
        for extent in reversed(b.shape[1:]):
            out.insert(0, out[0] * extent)
        return out

    patch.setattr(flatten_buffers._Flattener, "strides", row_major)


@fault("cpu_unrolled")
def unrolling_drops_a_trip(patch: pytest.MonkeyPatch) -> None:
    expanded = unroll_loops.expanded
    patch.setattr(unroll_loops, "expanded", lambda s, extent: expanded(s, extent - 1))


# ---------------------------------------------------------------------------- dropped calls


def dropped(kernel: str, op: str) -> None:
    """A fault: the printed kernel does not call `op`."""

    def change(patch: pytest.MonkeyPatch) -> None:
        evaluate = cfamily.CFamily.s_Evaluate

        def silent(self: Any, s: Any) -> None:
            if type(s.value) is not Call or s.value.op != op:
                evaluate(self, s)

        patch.setattr(cfamily.CFamily, "s_Evaluate", silent)

    change.__name__ = f"no_{op}"
    fault(kernel)(change)


_CALLS = {
    "column_sums": ("sync_threads",),
    "matmul": ("cp_async_wait", "cp_async_commit"),
    "hopper": ("fence_mbar_init", "mbar_expect_tx", "mbar_arrive", "mbar_wait", "wgmma_commit"),
    "hopper_plain": ("fence_proxy_async",),
    "hopper_attention": ("wgmma_fence",),
    "hopper_store": ("tma_store_wait",),
}
for _kernel, _op in [(k, op) for k, ops in _CALLS.items() for op in ops]:
    dropped(_kernel, _op)


# ---------------------------------------------------------------------------- slots and steps


@fault("hopper")
def every_step_uses_the_first_slot(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(role_ring.RoleRing, "_slot", lambda self, step: step * 0)


@fault("matmul")
def slots_are_used_again_too_soon(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Slots, "slot", lambda self, count: self.at % const(count - 1, self.at.dtype))


@fault("hopper")
def every_step_multiplies_the_first_part(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(wgmma.Operand, "k_offset", lambda self, step: step * 0)


@fault("hopper")
def every_warpgroup_multiplies_the_first_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(wgmma.Operand, "outer_offset", lambda self, at: at * 0)


@fault("hopper_plain")
def products_are_read_before_they_are_done(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(wgmma, "wait_for", lambda b, pending, accumulators: None)


@fault("hopper_store")
def chunks_of_the_result_overwrite_the_first(patch: pytest.MonkeyPatch) -> None:
    chunk = store_epilogue._chunk_copy
    patch.setattr(
        store_epilogue, "_chunk_copy", lambda op, stage, c, width: chunk(op, stage, 0, width)
    )


# ---------------------------------------------------------------------- guards, casts and signs


@fault("matmul_plain")
def the_last_element_is_outside(patch: pytest.MonkeyPatch) -> None:
    in_bounds = guard_bounds._Guard.in_bounds
    patch.setattr(
        guard_bounds._Guard,
        "in_bounds",
        lambda self, b, at, facts: in_bounds(self, b, [i + 1 for i in at], facts),
    )


@fault("matmul_plain")
def one_element_more_is_inside(patch: pytest.MonkeyPatch) -> None:
    in_bounds = guard_bounds._Guard.in_bounds

    def wider(self: Any, b: Buffer, at: Any, facts: Any) -> Any:
        more = Buffer(b.name, (b.shape[0] + 1, *b.shape[1:]), b.dtype, b.scope)
        return in_bounds(self, more, at, facts)

    patch.setattr(guard_bounds._Guard, "in_bounds", wider)


@fault("matmul_plain")
def a_guard_is_lost_where_a_loop_is_left(patch: pytest.MonkeyPatch) -> None:
    def bare(loop: For) -> Any:
        body = loop.body
        if type(body) is not If or body.orelse is not None:
            return loop
        return For(
            loop.var, loop.start, loop.extent, body.then, loop.kind, loop.annotations, loop.span
        )

    patch.setattr(guard_bounds, "_hoisted", bare)


@fault("cpu_copies")
def copies_round_to_half_precision(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(copy_cpu, "cast", lambda value, dtype: cast(cast(value, "float16"), dtype))


@fault("c_division")
def negative_quotients_are_rounded_towards_zero(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cfamily.CFamily, "_truncates_alike", lambda self, e: True)


@fault("c_differences")
def differences_lose_their_parentheses(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cfamily.CFamily, "_operand", lambda self, parent, e, prec: self.expr(e, 0))


# ---------------------------------------------------------------------------- values


@fault("hopper_start")
def a_start_value_is_taken_for_zero(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fold_clears, "is_const", lambda e, value: True)


@fault("cpu_histogram")
def updates_forget_what_was_there(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(relax_atomics._UPDATES, "atomic_add", lambda old, x: x)


@fault("cpu_row_maxima")
def a_maximum_of_a_row_starts_from_zero(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reduce_cpu, "identity", lambda kind, dtype: const(0.0, str(dtype)))


@fault("cpu_turned")
def loops_are_one_whatever_they_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fuse_loops._Fuse, "forward_only", lambda self, first, second: True)


@fault("cpu_grouped")
def blocks_of_a_group_share_their_tiles(patch: pytest.MonkeyPatch) -> None:
    at = group_blocks._Parts._at

    def first(self: Any, b: Buffer) -> Any:
        found = at(self, b)
        return None if found is None else const(0)

    patch.setattr(group_blocks._Parts, "_at", first)
