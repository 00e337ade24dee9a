# SPDX-License-Identifier: Apache-2.0
"""Faults planted in the compiler's passes: each is noticed.

In: small kernels with a result that numpy knows, and changes of the compiler as `monkeypatch`es.
A fault is noticed if the result differs, if the simulator objects, or if the verifier does. The
kernels without a fault pass, so what is noticed is the fault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import TileError
from tilelang.ir import Buffer, Builder, Call, PrimFunc, const
from tilelang.layout import mma_c
from tilelang.testing import kernels as zoo
from tilelang.tileop import reduce_shuffle
from tilelang.tileop.copy import cp_async
from tilelang.tileop.gemm import cpu as gemm_cpu
from tilelang.tileop.gemm import mma
from tilelang.transform import (
    flatten_buffers,
    guard_bounds,
    insert_syncs,
    merge_shared,
    rasterize_blocks,
    role_ring,
    role_schedule,
    unroll_loops,
    vectorize_cpu,
    vectorize_cuda,
)
from tilelang.transform.ring import Item, Ring

Array = np.ndarray[Any, Any]
Mutation = Callable[[pytest.MonkeyPatch], None]

AMPERE, HOPPER, CPU = "cuda-sim -arch=sm_80", "cuda-sim -arch=sm_90a", "llvm"

# ---------------------------------------------------------------------------------- kernels


def products_start_again(m: int = 32, n: int = 32, k: int = 32) -> PrimFunc:
    """The product of the last pair: each one clears what the one before has left."""

    @T.prim_func
    def main(
        A: T.Tensor((2, m, k), "float16"),
        B: T.Tensor((2, k, n), "float16"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(1, threads=64):
            A_s = T.alloc_shared((m, k), "float16")
            B_s = T.alloc_shared((k, n), "float16")
            out = T.alloc_fragment((m, n), "float32")
            for i in T.serial(2):
                T.copy(A[i, :, :], A_s)
                T.copy(B[i, :, :], B_s)
                T.gemm(A_s, B_s, out, clear_accum=True)
            T.copy(out, C)

    return main


def panels(m: int = 96, n: int = 160) -> PrimFunc:
    """A copy whose blocks walk in panels."""

    @T.prim_func
    def main(A: T.Tensor((m, n), "float32"), C: T.Tensor((m, n), "float32")):
        with T.Kernel(n // 32, m // 32, threads=32) as (bx, by):
            T.use_swizzle(2)
            tile = T.alloc_fragment((32, 32), "float32")
            T.copy(A[by * 32, bx * 32], tile)
            T.copy(tile, C[by * 32, bx * 32])

    return main


def unrolled(n: int = 40) -> PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((n,), "int32"), C: T.Tensor((n,), "int32")):
        with T.Kernel(1):
            for i in T.serial(n):
                C[i] = 0
                for j in T.unroll(4):
                    C[i] += A[i] * (j + 1)

    return main


def matmul(a: Array, b: Array) -> Array:
    return a.astype(np.float32) @ b.astype(np.float32)


def attention(q: Array, k: Array, v: Array) -> Array:
    q, k, v = (x.astype(np.float32)[0, :, 0] for x in (q, k, v))
    return (softmax(q @ k.T / np.sqrt(q.shape[-1])) @ v)[None, :, None]


def softmax(a: Array) -> Array:
    e = np.exp(a - a.max(1, keepdims=True))
    return np.asarray(e / e.sum(1, keepdims=True))


KERNELS: dict[str, tuple[Callable[[], PrimFunc], str, Callable[..., Any]]] = {
    "matmul": (lambda: zoo.matmul(96, 136, 200, 32, 64, 32, stages=3), AMPERE, matmul),
    "matmul_plain": (lambda: zoo.matmul(45, 70, 50, 32, 32, 32, stages=0), AMPERE, matmul),
    "hopper": (lambda: zoo.matmul(128, 128, 256, 128, 128, 64, stages=2), HOPPER, matmul),
    "hopper_plain": (lambda: zoo.matmul(64, 64, 128, 64, 64, 64, stages=0), HOPPER, matmul),
    "hopper_attention": (
        lambda: zoo.attention(heads=1, seq=192, dim=64, causal=False, bM=64, bN=64),
        HOPPER,
        attention,
    ),
    "products": (products_start_again, AMPERE, lambda a, b: matmul(a[1], b[1])),
    "softmax": (lambda: zoo.softmax(6, 45), AMPERE, softmax),
    "row_sums": (lambda: zoo.reductions(20, 48), AMPERE, lambda a: a.sum(1)),
    "row_maxima": (lambda: zoo.reductions(20, 48, "max"), AMPERE, lambda a: a.max(1)),
    "column_sums": (lambda: zoo.reductions(64, 16, dim=0), AMPERE, lambda a: a.sum(0)),
    "panels": (panels, AMPERE, lambda a: a),
    "cpu_matmul": (lambda: zoo.matmul(45, 70, 50), CPU, matmul),
    "cpu_softmax": (lambda: zoo.softmax(6, 45), CPU, softmax),
    "cpu_strided": (zoo.transpose_strided, CPU, lambda a: a),
    "cpu_unrolled": (unrolled, CPU, lambda a: a * 10),
}

_SLACK = 4096  # elements after each array that a fault may write


def passes(name: str) -> bool:
    """Compiles and runs the kernel: is the result numpy's, and nothing else written?"""
    make, target, reference = KERNELS[name]
    func = make()
    rng = np.random.default_rng(0)
    whole, args = [], []
    for p in func.params:
        assert isinstance(p, Buffer)
        shape = [int(s) for s in p.shape]
        size = int(np.prod(shape))
        memory = rng.integers(-9, -2, size + _SLACK).astype(p.dtype.as_numpy())
        array = memory[:size].reshape(shape)
        whole.append(memory)
        args.append(array if p.strides is None else memory[:size].reshape(shape[::-1]).T)
    slack = whole[-1][-_SLACK:].copy()
    want = np.asarray(reference(*args[:-1]))
    tilelang.compile(func, target=target)(*args)
    close = np.allclose(args[-1].astype(np.float64), want.astype(np.float64), 1e-3, 1e-3)
    return close and np.array_equal(whole[-1][-_SLACK:], slack)


# ---------------------------------------------------------------------------------- faults

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


# ---------------------------------------------------------------------------------- tests


@pytest.fixture(autouse=True)
def nothing_is_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of a kernel does not know that the compiler has been changed."""
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")


@pytest.mark.parametrize("name", KERNELS)
def test_the_kernels_pass_without_a_fault(name: str) -> None:
    assert passes(name)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, change = FAULTS[name]
    change(monkeypatch)
    try:
        noticed = not passes(kernel)
    except TileError:
        noticed = True
    assert noticed, f"{kernel} still passes"
