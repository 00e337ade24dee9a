# SPDX-License-Identifier: Apache-2.0
"""Accesses of one register's width, raw cp.async, and reductions in TVM's spelling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang.language as T
from tilelang.errors import LanguageError, OptionError, ScopeError, ShapeError, TypeMismatchError

from .everywhere import compiles, everywhere, run

THREADS = 32


def through(bits: int, dtype: str) -> Any:
    """Global to shared to global, by words; the last threads' loads and stores are switched off."""
    n = bits // (8 * np.dtype(dtype).itemsize)
    load, store = getattr(T, f"ldg{bits}"), getattr(T, f"stg{bits}")
    put, get = getattr(T, f"sts{min(bits, 128)}"), getattr(T, f"lds{min(bits, 128)}")

    @T.prim_func
    def main(A: T.Tensor((THREADS, n), dtype), B: T.Tensor((2, THREADS, n), dtype)):
        with T.Kernel(1, threads=THREADS):
            tx = T.get_thread_binding()
            S = T.alloc_shared((THREADS, n), dtype)
            value = load(A[tx, 0], pred=tx < 20)
            store(B[0, tx, 0], value, pred=tx != 3)
            if bits <= 128:
                put(S[tx, 0], value)
                T.sync_threads()
                store(B[1, tx, 0], get(S[THREADS - 1 - tx, 0]))

    return main


WIDTHS = [(32, "float32"), (64, "float32"), (128, "float16"), (256, "float32"), (128, "int8")]


@everywhere
@pytest.mark.parametrize(("bits", "dtype"), [*WIDTHS, (32, "int16"), (64, "float64")])
def test_words(where: str, bits: int, dtype: str) -> None:
    n = bits // (8 * np.dtype(dtype).itemsize)
    a = np.random.default_rng(0).integers(-99, 99, (THREADS, n)).astype(dtype)
    b = np.full((2, THREADS, n), 7, dtype)
    run(where, through(bits, dtype), a, b)
    want = np.where(np.arange(THREADS)[:, None] < 20, a, 0).astype(dtype)
    if bits <= 128:
        np.testing.assert_array_equal(b[1], want[::-1])
    want[3] = 7
    np.testing.assert_array_equal(b[0], want)


def raw_copies(size: int) -> Any:
    n = size // 4

    @T.prim_func
    def main(A: T.Tensor((THREADS, n), "int32"), B: T.Tensor((THREADS, n), "int32")):
        with T.Kernel(1, threads=THREADS):
            tx = T.get_thread_binding()
            S = T.alloc_shared((THREADS, n), "int32")
            T.ptx_cp_async(T.access_ptr(S[tx, 0], "w"), T.access_ptr(A[tx, 0], "r"), size, tx != 5)
            T.ptx_commit_group()
            T.ptx_wait_group(0)
            T.sync_threads()
            for i in T.serial(n):
                B[tx, i] = S[THREADS - 1 - tx, i] + T.__ldg(A[0, i])

    return main


@everywhere
@pytest.mark.parametrize("size", [4, 8, 16])
def test_raw_cp_async(where: str, size: int) -> None:
    a = np.random.default_rng(1).integers(-99, 99, (THREADS, size // 4)).astype(np.int32)
    b = np.zeros_like(a)
    run(where, raw_copies(size), a, b)
    want = a.copy()
    want[5] = 0
    np.testing.assert_array_equal(b, want[::-1] + a[0])


def gemv(n: int, k: int, threads: tuple[int, int], op: str) -> Any:
    """Each row of the block sums a column's products over the other thread index."""
    tn, tk = threads
    combine = {"sum": lambda x, y: x + y, "max": lambda x, y: T.max(x, y)}[op]
    neutral = T.float32(0.0) if op == "sum" else T.float32(-1e30)

    @T.prim_func
    def main(
        A: T.Tensor((k,), "float32"), B: T.Tensor((n, k), "float32"), C: T.Tensor((n,), "float32")
    ):
        with T.Kernel(T.ceildiv(n, tn), threads=threads) as bn:
            row, lane = T.get_thread_binding(0), T.get_thread_binding(1)
            acc = T.alloc_local((1,), "float32")
            total = T.alloc_local((1,), "float32")
            acc[0] = neutral
            for ko in T.serial(T.ceildiv(k, tk)):
                if op == "sum":
                    acc[0] += A[ko * tk + lane] * B[bn * tn + row, ko * tk + lane]
                else:
                    if ko * tk + lane < k:
                        acc[0] = T.max(acc[0], B[bn * tn + row, ko * tk + lane])
            with T.attr(
                T.comm_reducer(combine, [neutral]),
                "reduce_scope",
                T.reinterpret(T.uint64(0), dtype="handle"),
            ):
                T.evaluate(
                    T.tvm_thread_allreduce(
                        T.uint32(1), acc[0], True, total[0], lane, dtype="handle"
                    )
                )
            C[bn * tn + row] = total[0]

    return main


@everywhere
@pytest.mark.parametrize("threads", [(4, 32), (8, 6), (1, 128)])
@pytest.mark.parametrize("op", ["sum", "max"])
def test_all_reduce(where: str, threads: tuple[int, int], op: str) -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-9, 9, s).astype(np.float32) for s in ((100,), (24, 100)))
    c = np.zeros(24, np.float32)
    run(where, gemv(24, 100, threads, op), a, b, c)
    np.testing.assert_array_equal(c, b @ a if op == "sum" else b.max(1))


def lanes_of_a_warp(width: int) -> Any:
    @T.prim_func
    def main(A: T.Tensor((4, width), "int32"), B: T.Tensor((4, width), "int32")):
        with T.Kernel(1, threads=(width, 4)):
            tx, ty = T.get_thread_binding(0), T.get_thread_binding(1)
            out = T.alloc_var("int32")
            with T.attr(T.comm_reducer(lambda x, y: x + y, [0]), "reduce_scope", 0):
                T.tvm_thread_allreduce(1, A[ty, tx], tx != 1, out, tx)
            B[ty, tx] = out

    return main


@everywhere
@pytest.mark.parametrize("width", [8, 32, 12])
def test_all_reduce_of_neighbours(where: str, width: int) -> None:
    a = np.random.default_rng(3).integers(-9, 9, (4, width)).astype(np.int32)
    b = np.zeros_like(a)
    run(where, lanes_of_a_warp(width), a, b)
    want = a.sum(1, keepdims=True) - a[:, 1:2]
    np.testing.assert_array_equal(b, np.broadcast_to(want, a.shape))


@everywhere
def test_script_expressions(where: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 6), "float32"), B: T.Tensor((4, 6), "float32")):
        with T.Kernel(1, threads=24):
            tx = T.get_thread_binding()
            i, j = T.index_to_coordinates(tx, [4, 6])
            assert T.linear_index(2, 3, 6) == 15
            pair = T.Shuffle([T.float32x2(A[i, j], 5.0), A[i, 0]], [2, 0])
            value = T.call_intrin("float32", "tir.exp2", T.extract_lane(pair, 1))
            B[i, j] = value + T.extract_lane(pair, 0)

    a = np.random.default_rng(4).integers(-5, 5, (4, 6)).astype(np.float32)
    b = np.zeros_like(a)
    run(where, main, a, b)
    np.testing.assert_allclose(b, np.exp2(a) + a[:, :1], rtol=1e-6)


def test_cuda_compiles_them() -> None:
    for bits, dtype in WIDTHS:
        compiles(through(bits, dtype))
    assert "tl::cp_async<16>" in compiles(raw_copies(16))
    compiles(gemv(24, 100, (4, 32), "sum"))
    compiles(lanes_of_a_warp(8))


def test_refusals() -> None:
    def refused(call: str, kind: type[Exception], text: str) -> None:
        with pytest.raises(kind, match=text):

            @T.prim_func
            def main(A: T.Tensor((64,), "float32")):
                with T.Kernel(1, threads=32):
                    S = T.alloc_shared((64,), "float32")
                    H = T.alloc_shared((64,), "float64")
                    eval(call, {"T": T, "A": A, "S": S, "H": H, "bx": 1})

    refused("T.ldg32(S[0])", ScopeError, "shared")
    refused("T.sts32(A[0], 1)", ScopeError, "global")
    refused("T.lds32(H[0])", ShapeError, "no whole number of float64")
    refused("T.stg128(A[0], T.float32(1))", ShapeError, "a value of 32 bits")
    refused("T.ldg32(3)", TypeMismatchError, "needs a buffer element")
    refused("T.ptx_cp_async(S[0], A[0], 12)", OptionError, "12 bytes")
    refused("T.ptx_cp_async(A[0], S[0], 16)", ScopeError, "from global to shared")
    refused("T.tvm_thread_allreduce(1, A[0], True, S[0], bx)", LanguageError, "reduce_scope")
    refused("T.attr(A, 'pragma_unroll', 1)", OptionError, "pragma_unroll")
    refused("T.call_intrin('float32', 'tir.nothing', 1)", OptionError, "no function")
