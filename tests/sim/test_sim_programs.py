# SPDX-License-Identifier: Apache-2.0
"""Programs of the language with what orders blocks, and with it taken out: faults on the user's
lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import SimulatorError

N, SPLIT = 64, 4


def lines_with(mark: str) -> set[int]:
    text = Path(__file__).read_text(encoding="utf-8").split("\n")
    return {n for n, line in enumerate(text, 1) if line.endswith(f"# {mark}")}


def split_k(order: str) -> Any:
    """Partial sums of several blocks; the last of the column waits for the others' flags."""

    @T.prim_func
    def main(
        A: T.Tensor((SPLIT, N), "float32"),
        Partial: T.Tensor((SPLIT, N), "float32"),
        Flags: T.Tensor((SPLIT,), "int32"),
        B: T.Tensor((N,), "float32"),
    ):
        with T.Kernel(SPLIT, threads=N) as bx:
            t = T.get_thread_binding()
            Partial[bx, t] = A[bx, t] * 2.0  # partial
            T.sync_threads()
            if t == 0:
                T.atomic_store(Flags[bx], 1, memory_order=order)
            if bx == SPLIT - 1:
                if t == 0:
                    for i in T.serial(SPLIT):
                        seen = T.alloc_var("int32")
                        seen = 0
                        while seen == 0:
                            seen = T.atomic_load(Flags[i], memory_order="acquire")
                T.sync_threads()
                total = T.alloc_var("float32")
                total = 0.0
                for i in T.serial(SPLIT):
                    total = total + Partial[i, t]  # total
                B[t] = total

    return main


def two_phases(sync: bool) -> Any:
    @T.prim_func
    def main(A: T.Tensor((4, N), "float32"), B: T.Tensor((4, N), "float32")):
        with T.Kernel(4, threads=N) as bx:
            t = T.get_thread_binding()
            A[bx, t] = A[bx, t] + 1.0  # first
            if sync:
                T.sync_grid()
            B[bx, t] = A[(bx + 1) % 4, t]  # second

    return main


def overlapping(width: int) -> Any:
    """Each block writes its tile of B, and with a larger width the neighbour's first column too."""

    @T.prim_func
    def main(A: T.Tensor((4 * N,), "float32"), B: T.Tensor((4 * N + 1,), "float32")):
        with T.Kernel(4, threads=32) as bx:
            for i in T.Parallel(width):
                B[bx * N + i] = A[bx * N] + i  # tile

    return main


def run(func: Any, *arrays: Any) -> None:
    tilelang.compile(func, target="cuda-sim -arch=sm_90a")(*arrays)


def fault(func: Any, *arrays: Any) -> SimulatorError:
    with pytest.raises(SimulatorError) as caught:
        run(func, *arrays)
    return caught.value


def test_blocks_that_wait_for_flags() -> None:
    a = np.random.default_rng(0).random((SPLIT, N), np.float32)
    arrays = (a, np.zeros_like(a), np.zeros(SPLIT, np.int32), np.zeros(N, np.float32))
    run(split_k("release"), *arrays)
    np.testing.assert_allclose(arrays[3], 2 * a.sum(0), rtol=1e-6)


def test_flags_that_order_nothing() -> None:
    a = np.ones((SPLIT, N), np.float32)
    arrays = (a, np.zeros_like(a), np.zeros(SPLIT, np.int32), np.zeros(N, np.float32))
    error = fault(split_k("relaxed"), *arrays)
    assert error.kind == "race"
    assert "Partial+" in error.message
    assert error.span is not None
    assert error.span.line in lines_with("total")
    (wrote,) = lines_with("partial")
    assert f"test_sim_programs.py:{wrote}" in error.message


def test_a_barrier_of_the_grid() -> None:
    a, b = np.arange(4 * N, dtype=np.float32).reshape(4, N), np.zeros((4, N), np.float32)
    want = np.roll(a + 1, -1, 0)
    run(two_phases(True), a, b)
    assert (b == want).all()


def test_a_missing_barrier_of_the_grid() -> None:
    error = fault(two_phases(False), np.zeros((4, N), np.float32), np.zeros((4, N), np.float32))
    assert error.kind == "race"
    assert "data race between blocks on A+" in error.message
    for mark in ("first", "second"):
        (line,) = lines_with(mark)
        assert f"test_sim_programs.py:{line}" in error.message


def test_tiles_that_overlap() -> None:
    a, b = np.zeros(4 * N, np.float32), np.zeros(4 * N + 1, np.float32)
    run(overlapping(N), a, b)
    error = fault(overlapping(N + 1), a, b)
    (line,) = lines_with("tile")
    assert error.kind == "race"
    assert f"between blocks on B+{4 * N + 2}" in error.message  # of 64.0 the first two bytes are 0
    assert error.message.count(f"test_sim_programs.py:{line}") == 2


def accumulates(workspace: bool) -> Any:
    """Adds to an output, or to a workspace, that nothing has set."""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        W = T.alloc_global((N,), "float32")
        with T.Kernel(1, threads=N):
            for i in T.Parallel(N):
                if workspace:
                    B[i] = W[i] + A[i]  # adds
                else:
                    B[i] = B[i] + A[i]  # adds

    return main


@pytest.mark.parametrize("workspace", [False, True])
def test_memory_that_the_program_allocates_has_no_value(workspace: bool) -> None:
    kernel = tilelang.compile(accumulates(workspace), out_idx=[1], target="cuda-sim -arch=sm_80")
    with pytest.raises(SimulatorError) as caught:
        kernel(np.ones(N, np.float32))
    assert caught.value.kind == "uninitialised"
    assert caught.value.span is not None
    assert caught.value.span.line in lines_with("adds")
    if not workspace:  # the caller's own array has values
        kernel(np.ones(N, np.float32), np.zeros(N, np.float32))


def test_a_workspace_that_another_kernel_has_set() -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        W = T.alloc_global((N,), "float32")
        with T.Kernel(1, threads=N):
            for i in T.Parallel(N):
                W[i] = A[i] * 2.0
        with T.Kernel(2, threads=N):
            for i in T.Parallel(N // 2):
                B[T.get_block_binding() * (N // 2) + i] = W[N - 1 - i]

    kernel = tilelang.compile(main, out_idx=[1], target="cuda-sim -arch=sm_80")
    a = np.arange(N, dtype=np.float32)
    for _ in range(2):
        assert (kernel(a) == np.tile(2 * a[::-1][: N // 2], 2)).all()
