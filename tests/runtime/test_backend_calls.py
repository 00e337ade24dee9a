# SPDX-License-Identifier: Apache-2.0
"""Outputs, keywords, threads and forks on every backend."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import ArgumentTypeError, ToolchainError

torch = pytest.importorskip("torch")
BACKENDS = ("tvm_ffi", "ctypes", "cython", "torch")
TARGETS = ("llvm", "c")
ALL = [(b, t) for b in BACKENDS for t in TARGETS]
n = T.dynamic("n")


@T.prim_func
def several(
    P: T.Tensor((2, n), "int32"),
    A: T.Tensor((n,), "float32"),
    s: T.float32,
    Q: T.Tensor((n,), "float32"),
):
    with T.Kernel(T.ceildiv(n, 16), threads=32) as bx:
        for i in T.Parallel(16):
            Q[bx * 16 + i] = A[bx * 16 + i] * s
            P[0, bx * 16 + i] = T.cast(A[bx * 16 + i], "int32")
            P[1, bx * 16 + i] = 7


@T.prim_func
def add(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
    with T.Kernel(T.ceildiv(n, 16), threads=32) as bx:
        for i in T.Parallel(16):
            B[bx * 16 + i] += A[bx * 16 + i]


def eager(backend: str, target: str) -> Any:
    @tilelang.jit(target=target, execution_backend=backend)
    def both(A, B, block: int = 16):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        B: T.Tensor((N,), "float32")
        C = T.empty((N,), "float32")
        D = T.empty((N, 2), "int32")
        with T.Kernel(T.ceildiv(N, block), threads=32) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i]
                D[bx * block + i, 0] = 1
                D[bx * block + i, 1] = 2
        return C, D

    return both


def of(kind: str) -> Callable[[Any], Any]:
    return np.asarray if kind == "numpy" else torch.from_numpy


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize(("backend", "target"), ALL)
def test_several_outputs_in_the_order_of_out_idx(backend: str, target: str, kind: str) -> None:
    kernel = tilelang.compile(several, out_idx=[3, 0], target=target, execution_backend=backend)
    make = of(kind)
    for size in (5, 32, 0):
        a = np.arange(size, dtype=np.float32)
        for result in (
            kernel(make(a), 2.0), kernel(make(a), s=2.0), kernel(s=2, A=make(a)),
            kernel(A=make(a), s=2.0),
        ):  # fmt: skip
            assert type(result) is list
            q, p = result
            assert type(q) is type(p) is type(make(a))
            np.testing.assert_array_equal(np.asarray(q), a * 2)
            np.testing.assert_array_equal(np.asarray(p), [a, np.full(size, 7)])
        p, q = np.zeros((2, size), np.int32), np.zeros(size, np.float32)
        assert kernel(make(p), make(a), 3.0, make(q)) is None
        assert kernel(make(p), make(a), 3.0, Q=make(q)) is None
        assert kernel(Q=make(q), P=make(p), s=3, A=make(a)) is None
        np.testing.assert_array_equal(q, a * 3)
    for named, near in (({"a": 1}, "A"), ({"q": 1}, "Q"), ({"S": 1}, "s"), ({"P ": 1}, "P")):
        with pytest.raises(ArgumentTypeError) as caught:
            kernel(make(a), 2.0, **named)
        assert caught.value.message == f"kernel several: there is no parameter {next(iter(named))}"
        if near in "As":
            with pytest.raises(ArgumentTypeError, match=f"did you mean '{near}'"):
                kernel(**named)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize(("backend", "target"), ALL)
def test_eager_functions(backend: str, target: str, kind: str) -> None:
    both, make = eager(backend, target), of(kind)
    for size in (5, 32):
        a = np.arange(size, dtype=np.float32)
        for result in (
            both(make(a), make(a)),
            both(B=make(a), A=make(a)),
            both(make(a), B=make(a)),
        ):
            c, d = result
            assert type(c) is type(make(a))
            np.testing.assert_array_equal(np.asarray(c), a + a)
            np.testing.assert_array_equal(np.asarray(d), [[1, 2]] * size)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_result_is_of_the_first_tensors_framework(backend: str) -> None:
    kernel = tilelang.compile(several, out_idx=[0, 3], target="llvm", execution_backend=backend)
    a = np.arange(4, dtype=np.float32)
    for x, cls in ((a, np.ndarray), (torch.from_numpy(a), torch.Tensor), (a, np.ndarray)):
        assert [type(y) for y in kernel(x, 2.0)] == [cls, cls]
    given = torch.zeros(2, 4, dtype=torch.int32), np.zeros(4, np.float32)
    assert kernel(given[0], a, 2.0, given[1]) is None  # frameworks may be mixed
    np.testing.assert_array_equal(given[1], a * 2)


# ------------------------------------------------------------------------------------ threads


@pytest.mark.parametrize(("backend", "target"), ALL)
def test_threads_compile_and_call(backend: str, target: str) -> None:
    """Eight threads start at once: they compile kernels of their own and one that they share."""
    wrong: list[Any] = []
    start = threading.Barrier(8)

    def work(mine: int) -> None:
        start.wait()
        try:
            for turn in range(3):
                size = 8 + (mine % 3)
                a = np.arange(size, dtype=np.float32) + turn
                for make in (np.asarray, torch.from_numpy):
                    c, _ = shared(make(a), make(a))
                    if not np.array_equal(np.asarray(c), a + a):
                        wrong.append((mine, turn, c))
        except BaseException as error:
            wrong.append(error)

    shared = eager(backend, target)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


@pytest.mark.parametrize("backend", ["tvm_ffi", "cython", "torch"])
def test_other_threads_run_during_a_kernel(backend: str) -> None:
    """The interpreter's lock is free meanwhile (ctypes frees it by itself)."""

    @T.prim_func
    def slow(A: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=1):
            for _ in T.serial(200_000_000):
                A[0] = A[0] * 3 + 1

    kernel = tilelang.compile(slow, target="llvm", execution_backend=backend)
    a = torch.zeros(1, dtype=torch.int32)
    ticks: list[bool] = []
    done = threading.Event()

    def tick() -> None:
        while not done.wait(0.001):
            ticks.append(True)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        before = len(ticks)
        kernel(a)
        during = len(ticks) - before
    finally:
        done.set()
        thread.join()
    assert during > 3


# ------------------------------------------------------------------------------------ forks


def _in_child(work: Callable[[], None], timeout: float = 60) -> None:
    """Runs `work` in a forked child; fails with what it raised, or if it does not end."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)

    def child() -> None:
        try:
            work()
            send.send("")
        except BaseException as error:
            send.send(repr(error))
        os._exit(0)  # what the parent is to do at its exit is not for us

    process = context.Process(target=child)
    process.start()
    try:
        assert receive.poll(timeout), "the child hangs"
        assert receive.recv() == ""
    finally:
        if process.is_alive():
            process.join(5)
        if process.is_alive():
            os.kill(process.pid or 0, signal.SIGKILL)
        process.join()


@pytest.mark.parametrize(("backend", "target"), ALL)
def test_forks(backend: str, target: str) -> None:
    """The parent compiles and calls; its child calls that kernel, and compiles others."""
    kernel = tilelang.compile(several, out_idx=[3, 0], target=target, execution_backend=backend)
    a = np.arange(20, dtype=np.float32)

    def check(run: Any) -> None:
        for make in (np.asarray, torch.from_numpy):
            for _ in range(2):
                np.testing.assert_array_equal(np.asarray(run(make(a), 2.0)[0]), a * 2)

    def in_child() -> None:
        check(kernel)
        other = tilelang.compile(add, target=target, execution_backend=backend)
        b = torch.ones(20)
        other(torch.from_numpy(a), b)
        np.testing.assert_array_equal(b.numpy(), a + 1)
        check(tilelang.compile(several, out_idx=[3, 0], target=target, execution_backend=backend))

    check(kernel)
    _in_child(in_child)
    check(kernel)


# ------------------------------------------------------------------------------------ the cache


@pytest.mark.parametrize(("backend", "target"), ALL)
def test_from_the_disk(
    backend: str, target: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lowered or compiled again: what the backend made itself is in the entry, too."""
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    a = np.arange(20, dtype=np.float32)

    def kernel() -> Any:
        tilelang.cache.clear_memory()
        return tilelang.compile(several, out_idx=[3, 0], target=target, execution_backend=backend)

    first = kernel()
    for module, name in (
        ("tilelang.jit.kernel", "lower"), ("tilelang.runtime.llvm_jit", "compile_module"),
        ("tilelang.runtime.cc", "subprocess"), ("tilelang.jit.adapter.cython", "compile_library"),
    ):  # fmt: skip
        monkeypatch.setattr(import_module(module), name, None)
    again = kernel()
    assert again is not first
    for make in (np.asarray, torch.from_numpy):
        np.testing.assert_array_equal(np.asarray(again(make(a), 2.0)[0]), a * 2)


# ------------------------------------------------------------------------------------ failures


@T.prim_func
def checked(A: T.Tensor((n,), "int32"), C: T.Tensor((n,), "int32")):
    with T.Kernel(1, threads=1):
        for i in T.serial(n):
            C[i] += 1
            T.device_assert(A[i] >= 0, "negative")


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize(("backend", "target"), ALL)
def test_a_kernel_that_fails_ran_once(backend: str, target: str, kind: str) -> None:
    kernel, make = tilelang.compile(checked, target=target, execution_backend=backend), of(kind)
    good, bad = np.ones(3, np.int32), np.array([1, -1, 1], np.int32)
    for a in (good, bad, bad, good):
        c = np.zeros(3, np.int32)
        if a is good:
            kernel(make(a), make(c))
            assert c.tolist() == [1, 1, 1]
            continue
        with pytest.raises(ToolchainError) as caught:
            kernel(make(a), make(c))
        assert caught.value.message.startswith("kernel checked: assertion failed: negative (")
        assert c.tolist() == [1, 1, 0]
