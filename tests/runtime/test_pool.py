# SPDX-License-Identifier: Apache-2.0
"""Blocks on several threads: each runs once, fails and adds as on one; forks, nesting, exit."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
import threading
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import TileError
from tilelang.runtime import pool
from tilelang.target.cpu import cpu_threads

TARGETS = ["llvm", "c"]
TASK = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
BLOCKS, WORK = 96, 4096
pytestmark = pytest.mark.skipif(os.name != "posix", reason="the pool uses POSIX threads")


@pytest.fixture(autouse=True)
def four_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_CPU_THREADS", "4")
    pool.wait()


def parallel(task: Any, begin: int, end: int, work: int = 10**6, threads: int = 4) -> int | None:
    """The native function itself; `task` is a Python function of a range."""
    native = TASK(lambda args, first, last: task(first, last))
    address = ctypes.cast(native, ctypes.c_void_p).value
    message: int | None = pool._KIND(pool._cell[0])(address, None, begin, end, work, threads)
    return message


# ------------------------------------------------------------------------------ the function


@pytest.mark.parametrize(("begin", "end"), [(0, 1), (0, 7), (5, 1000), (-3, 3), (4, 4)])
def test_every_block_runs_once(begin: int, end: int) -> None:
    seen: list[int] = []
    assert parallel(lambda first, last: seen.extend(range(first, last)), begin, end) is None
    assert sorted(seen) == list(range(begin, end))


def test_several_threads_take_part() -> None:
    seen: set[int] = set()

    caller, met = threading.get_native_id(), threading.Event()

    def task(first: int, last: int) -> None:
        seen.add(threading.get_native_id())
        if caller in seen and len(seen) > 1:
            met.set()
        met.wait(60)  # nobody takes a second part before the caller and another have one

    parallel(task, 0, 32)
    assert caller in seen
    assert 1 < len(seen) <= 4


def test_parts_are_no_smaller_than_asked() -> None:
    sizes: list[int] = []
    parallel(lambda first, last: sizes.append(last - first), 0, 50, work=500)
    assert sorted(sizes) == [10, 20, 20]


def test_the_message_is_that_of_the_first_block_that_failed() -> None:
    def task(first: int, last: int) -> int | None:
        return next((b + 1 for b in range(first, last) if b in (3, 7, 60)), None)

    assert {parallel(task, 0, 64) for _ in range(20)} == {4}


def test_a_call_from_within_a_block_runs_on_its_thread() -> None:
    inner: list[tuple[int, int]] = []

    def task(first: int, last: int) -> None:
        own = threading.get_native_id()
        parallel(lambda a, b: inner.append((own, threading.get_native_id())), 0, 8)

    parallel(task, 0, 16)
    assert inner
    assert all(outer == here for outer, here in inner)


# ------------------------------------------------------------------------------ kernels


def blocks(n: int = BLOCKS) -> Any:
    """Every block adds to its own row and, atomically, to one sum; block `bad` fails."""

    @T.prim_func
    def main(A: T.Tensor((n, WORK), "int32"), S: T.Tensor((1,), "int32"), bad: T.int32):
        with T.Kernel(n, threads=1) as b:
            for i in T.serial(WORK):
                A[b, i] = A[b, i] + b + i
            T.device_assert(b < bad, "a block that is bad")
            for i in T.serial(64):
                T.atomic_add(S[0], 1)

    return main


def noise() -> Any:
    """Every block prints a line."""

    @T.prim_func
    def main(A: T.Tensor((64, WORK), "int32")):
        with T.Kernel(64, threads=1) as b:
            for i in T.serial(WORK):
                A[b, i] = A[b, i] + b
            T.print(A[b, 7], msg="row")

    return main


def expected() -> np.ndarray:
    return np.add.outer(np.arange(BLOCKS), np.arange(WORK)).astype(np.int32)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("backend", ["tvm_ffi", "ctypes"])
def test_a_kernel_on_several_threads(target: str, backend: str) -> None:
    kernel = tilelang.compile(blocks(), target=target, execution_backend=backend)
    assert "tl_pool" in kernel.get_kernel_source()
    a, s = np.zeros((BLOCKS, WORK), np.int32), np.zeros(1, np.int32)
    for _ in range(3):
        kernel(a, s, BLOCKS)
    np.testing.assert_array_equal(a, 3 * expected())
    assert s[0] == 3 * 64 * BLOCKS


@pytest.mark.parametrize("target", TARGETS)
def test_an_assertion_fails_as_on_one_thread(target: str) -> None:
    kernel = tilelang.compile(blocks(), target=target)
    a, s = np.zeros((BLOCKS, WORK), np.int32), np.zeros(1, np.int32)
    with pytest.raises(TileError, match="a block that is bad"):
        kernel(a, s, 5)
    np.testing.assert_array_equal(a[:6], expected()[:6])  # all blocks up to the bad one ran
    kernel(a, s, BLOCKS)  # and the pool is free again


def test_a_small_grid_has_no_code_for_threads() -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(2, threads=32) as b:
            for i in T.Parallel(32):
                A[b * 32 + i] = A[b * 32 + i] + 1

    for target in TARGETS:
        assert "tl_pool" not in tilelang.compile(main, target=target).get_kernel_source()


def test_one_thread_is_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    words = (ctypes.c_uint64 * 2)()
    monkeypatch.setenv("TILELANG_CPU_THREADS", "1")
    pool.attach(ctypes.addressof(words))
    assert list(words) == [0, 0]
    monkeypatch.setenv("TILELANG_CPU_THREADS", "3")
    pool.attach(ctypes.addressof(words))
    assert words[0] != 0
    assert words[1] == 3
    monkeypatch.delenv("TILELANG_CPU_THREADS")
    assert cpu_threads() >= 1


def test_blocks_that_write_parts_of_a_byte_stay_on_one_thread() -> None:
    @T.prim_func
    def main(A: T.Tensor((4096 * 7,), "int8"), B: T.Tensor((4096 * 7,), "int4")):
        with T.Kernel(4096, threads=1) as b:
            for i in T.serial(7):
                B[b * 7 + i] = T.cast(A[b * 7 + i], "int4")

    assert "tl_pool" not in tilelang.compile(main, target="llvm").get_kernel_source()


@pytest.mark.parametrize("target", TARGETS)
def test_python_threads_call_at_the_same_time(target: str) -> None:
    kernel = tilelang.compile(blocks(), target=target)
    results = []

    def caller() -> None:
        a, s = np.zeros((BLOCKS, WORK), np.int32), np.zeros(1, np.int32)
        for _ in range(20):
            kernel(a, s, BLOCKS)
        results.append((a, int(s[0])))

    threads = [threading.Thread(target=caller) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 4
    for a, s in results:
        np.testing.assert_array_equal(a, 20 * expected())
        assert s == 20 * 64 * BLOCKS


# ------------------------------------------------------------------------------ processes

PROGRAM = """
    import os, sys
    import numpy as np
    sys.path.insert(0, {folder!r})
    import tilelang
    from test_pool import BLOCKS, WORK, blocks, expected
    kernel = tilelang.compile(blocks(), target="llvm")
    {wait}

    def run():
        a, s = np.zeros((BLOCKS, WORK), np.int32), np.zeros(1, np.int32)
        kernel(a, s, BLOCKS)
        return bool((a == expected()).all()) and s[0] == 64 * BLOCKS
"""


def run_program(body: str, wait: bool = True) -> str:
    folder = os.path.dirname(os.path.abspath(__file__))
    text = textwrap.dedent(PROGRAM).format(
        folder=folder, wait="tilelang.runtime.pool.wait()" if wait else ""
    )
    text += textwrap.dedent(body)
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_fork_makes_its_own_pool_and_the_process_ends() -> None:
    out = run_program("""
        assert run()
        for _ in range(3):
            pid = os.fork()
            if pid == 0:
                ok = run() and run()
                child = os.fork()
                if child == 0:
                    os._exit(0 if run() else 3)
                ok = ok and os.waitpid(child, 0)[1] == 0
                os._exit(0 if ok else 3)
            assert os.waitpid(pid, 0)[1] == 0
        assert run()
        print("fine")
    """)
    assert out == "fine\n"


def test_kernels_run_on_their_thread_until_the_pool_is_there() -> None:
    out = run_program(
        """
        from tilelang.runtime import pool
        assert run()
        if os.fork() == 0:  # waits for what was begun
            os._exit(0 if pool._cell[0] != pool._first_address and run() else 3)
        assert os.wait()[1] == 0
        assert run()
        print("fine")
    """,
        wait=False,
    )
    assert out == "fine\n"


def test_lines_that_blocks_print_are_whole() -> None:
    out = run_program("""
        from test_pool import noise
        noisy = tilelang.compile(noise(), target="llvm")
        assert "tl_pool" in noisy.get_kernel_source()
        noisy(np.zeros((64, WORK), np.int32))
    """)
    lines = out.splitlines()
    assert len(lines) == 64
    assert all("row" in line for line in lines)
    assert len(set(lines)) == 64
