# SPDX-License-Identifier: Apache-2.0
"""Faults planted in the compiler (`compiler_faults.py`): each is noticed.

In: small kernels with a result that numpy knows, and the faults as `monkeypatch`es.
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
from tests.compiler_faults import FAULTS
from tilelang.errors import TileError
from tilelang.ir import Buffer, PrimFunc
from tilelang.testing import kernels as zoo

Array = np.ndarray[Any, Any]

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


def start_value(m: int = 64, n: int = 64, k: int = 64) -> PrimFunc:
    """A product that is added to what a fill gave."""

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "float16"),
        B: T.Tensor((k, n), "float16"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((m, k), "float16")
            B_s = T.alloc_shared((k, n), "float16")
            out = T.alloc_fragment((m, n), "float32")
            T.copy(A, A_s)
            T.copy(B, B_s)
            T.fill(out, 500)
            T.gemm(A_s, B_s, out)
            T.copy(out, C)

    return main


def divided(n: int = 40) -> PrimFunc:
    """Quotients, rounded down, of negative numbers."""

    @T.prim_func
    def main(A: T.Tensor((n,), "int32"), C: T.Tensor((n,), "int32")):
        with T.Kernel(1):
            for i in T.serial(n):
                C[i] = A[i] // 3

    return main


def counted(n: int = 60) -> PrimFunc:
    """How often each value is there, counted in shared memory."""

    @T.prim_func
    def main(A: T.Tensor((n,), "int32"), C: T.Tensor((10,), "int32")):
        with T.Kernel(1, threads=32):
            counts = T.alloc_shared((10,), "int32")
            T.clear(counts)
            for i in T.Parallel(n):
                T.atomic_add(counts[A[i] + 10], 1)
            T.copy(counts, C)

    return main


def turned(m: int = 7, n: int = 9) -> PrimFunc:
    """The elements of a tile from its other end."""

    @T.prim_func
    def main(A: T.Tensor((m, n), "float32"), C: T.Tensor((m, n), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((m, n), "float32")
            T.copy(A, tile)
            for i, j in T.Parallel(m, n):
                C[i, j] = tile[m - 1 - i, n - 1 - j] + tile[i, j]

    return main


def differences(n: int = 50) -> PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(1):
            for i in T.serial(n):
                C[i] = A[i] - (A[(i + 1) % n] - A[(i + 2) % n])

    return main


def thirds(n: int = 50) -> PrimFunc:
    """A copy of numbers that half precision does not hold."""

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((n,), "float32")
            other = T.alloc_shared((n,), "float32")
            for i in T.Parallel(n):
                tile[i] = A[i] * 10001.0
            T.copy(tile, other)
            T.copy(other, C)

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
    "hopper_store": (
        lambda: zoo.matmul(256, 256, 128, 128, 128, 64, stages=2, out="float16"),
        HOPPER,
        matmul,
    ),
    "hopper_start": (start_value, HOPPER, lambda a, b: matmul(a, b) + 500),
    "cpu_copies": (thirds, CPU, lambda a: a * np.float32(10001)),
    "c_division": (divided, "c", lambda a: a // 3),
    "cpu_histogram": (counted, CPU, lambda a: np.bincount(a + 10, minlength=10)),
    "cpu_row_maxima": (lambda: zoo.reductions(20, 48, "max"), CPU, lambda a: a.max(1)),
    "cpu_turned": (turned, CPU, lambda a: a[::-1, ::-1] + a),
    "c_differences": (differences, "c", lambda a: a - np.roll(a, -1) + np.roll(a, -2)),
    "cpu_grouped": (lambda: zoo.matmul(256, 256, 64, 32, 32, 32), CPU, matmul),
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
