# SPDX-License-Identifier: Apache-2.0
"""What the `T.` functions compute: on the oracle, the CPU and a simulated GPU, against numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import LanguageError
from tilelang.interp import tile
from tilelang.ir import PrimFunc

ORACLE, CPU, SIM = "oracle", "llvm", "cuda-sim -arch=sm_80"
EVERYWHERE = pytest.mark.parametrize("where", [ORACLE, CPU, SIM])
WITH_THREADS = pytest.mark.parametrize("where", [ORACLE, SIM])
RNG = np.random.default_rng


def run(where: str, func: PrimFunc, *args: Any) -> None:
    if where == ORACLE:
        tile.run(func, *args)
    else:
        tilelang.compile(func, target=where)(*args)


UNARY: dict[str, Callable[[Any], Any]] = {
    **{n: getattr(np, n) for n in ("exp", "exp2", "log", "log2", "log10", "log1p", "sqrt", "abs")},
    **{n: getattr(np, n) for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{n: getattr(np, n) for n in ("floor", "ceil", "trunc")},
    "exp10": lambda x: 10**x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "erf": np.vectorize(math.erf),
    "round": lambda x: np.floor(x + 0.5),
    "nearbyint": np.rint,
}
TOLERANCE = {"float16": (6e-3, 1e-3), "float32": (4e-6, 1e-6), "float64": (2e-12, 1e-13)}


@EVERYWHERE
@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_unary(where: str, dtype: str) -> None:
    count = len(UNARY)

    @T.prim_func
    def unary(A: T.Tensor((32,), dtype), B: T.Tensor((count, 32), dtype)):
        with T.Kernel(1, threads=32):
            for n, name in enumerate(UNARY):
                for i in T.Parallel(32):
                    B[n, i] = getattr(T, name)(A[i])

    a = np.linspace(0.05, 0.95, 32).astype(dtype)
    b = np.zeros((count, 32), dtype)
    run(where, unary, a, b)
    rtol, atol = TOLERANCE[dtype]
    for got, (name, want) in zip(b, UNARY.items(), strict=True):
        expected = want(a.astype(np.float64))
        np.testing.assert_allclose(got.astype(np.float64), expected, rtol, atol, err_msg=name)


@EVERYWHERE
def test_binary(where: str) -> None:
    @T.prim_func
    def binary(
        A: T.Tensor((32,), "float32"),
        B: T.Tensor((32,), "float32"),
        C: T.Tensor((10, 32), "float32"),
        P: T.Tensor((3, 32), "bool"),
    ):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                C[0, i] = T.pow(A[i], B[i])
                C[1, i] = T.fmod(A[i], B[i])
                C[2, i] = T.copysign(A[i], -B[i])
                C[3, i] = T.atan2(A[i], B[i])
                C[4, i] = T.fma(A[i], B[i], 1.0)
                C[5, i] = T.max(A[i], B[i], 0.5)
                C[6, i] = T.min(A[i], B[i])
                C[7, i] = T.clamp(A[i], 0.2, 0.8)
                C[8, i] = T.ieee_add(A[i], B[i], "rn")
                C[9, i] = T.__exp(A[i])
                P[0, i] = T.isnan(A[i])
                P[1, i] = T.isinf(A[i])
                P[2, i] = T.isfinite(A[i])

    a = np.linspace(0.1, 3, 32).astype(np.float32)
    b = np.linspace(2, 0.31, 32).astype(np.float32)
    c, p = np.zeros((10, 32), np.float32), np.zeros((3, 32), bool)
    run(where, binary, a, b, c, p)
    want = [
        a**b, np.fmod(a, b), -a, np.arctan2(a, b), a * b + 1, np.maximum(np.maximum(a, b), 0.5),
        np.minimum(a, b), np.clip(a, 0.2, 0.8), a + b, np.exp(a),
    ]  # fmt: skip
    np.testing.assert_allclose(c, want, rtol=4e-6, atol=2e-6)
    assert not p[:2].any()
    assert p[2].all()


@EVERYWHERE
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
def test_integers(where: str, dtype: str) -> None:
    @T.prim_func
    def integers(
        A: T.Tensor((32,), dtype), B: T.Tensor((32,), dtype), C: T.Tensor((12, 32), dtype)
    ):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                a, b = A[i], B[i]
                C[0, i] = a + b
                C[1, i] = a - b
                C[2, i] = a * b
                C[3, i] = a // b
                C[4, i] = a % b
                C[5, i] = a & b
                C[6, i] = a | b
                C[7, i] = a ^ b
                C[8, i] = ~a
                C[9, i] = T.truncdiv(a, b)
                C[10, i] = T.max(a, b)
                C[11, i] = a >> 1

    signed = dtype[0] == "i"
    a = RNG(0).integers(-100 if signed else 0, 100, 32).astype(dtype)
    b = RNG(1).integers(1, 9, 32).astype(dtype)
    if signed:
        b[::2] *= -1
    c = np.zeros((12, 32), dtype)
    run(where, integers, a, b, c)
    quotient = np.trunc(a.astype(np.float64) / b.astype(np.float64)).astype(dtype)
    with np.errstate(all="ignore"):
        want = [a + b, a - b, a * b, a // b, a % b, a & b, a | b, a ^ b, ~a, quotient]
    np.testing.assert_array_equal(c, [*want, np.maximum(a, b), a >> 1])


@EVERYWHERE
def test_bits_and_vectors(where: str) -> None:
    @T.prim_func
    def bits(
        A: T.Tensor((32,), "uint32"), C: T.Tensor((3, 32), "int32"), V: T.Tensor((3,), "float32")
    ):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                C[0, i] = T.popcount(A[i])
                C[1, i] = T.clz(A[i])
                C[2, i] = T.cast(T.shift_left(A[i], 3) >> 3, "int32")
            pair = T.float32x2(2, 3) * T.float32x2(5, 7)
            V[0] = T.extract_lane(pair, 0)
            V[1] = T.extract_lane(pair, 1)
            V[2] = T.extract_lane(T.add2(pair, pair), 1)

    a = RNG(0).integers(1, 2**29, 32).astype(np.uint32)
    c, v = np.zeros((3, 32), np.int32), np.zeros(3, np.float32)
    run(where, bits, a, c, v)
    np.testing.assert_array_equal(c[0], [int(x).bit_count() for x in a])
    np.testing.assert_array_equal(c[1], [32 - int(x).bit_length() for x in a])
    np.testing.assert_array_equal(c[2], a)
    assert v.tolist() == [10, 21, 42]


@EVERYWHERE
def test_strided_tensors(where: str) -> None:
    m, s = T.dynamic("m, s")

    @T.prim_func
    def strided(
        A: T.StridedTensor((m, 8), (s, 1), "float32"),
        B: T.Tensor((m, 8), "float32"),
        C: T.StridedTensor((8,), (2,), "float32"),
    ):
        with T.Kernel(m, threads=32) as row:
            for j in T.Parallel(8):
                B[row, j] = A[row, j] + C[j]

    x, c = np.arange(160, dtype=np.float32).reshape(10, 16), np.arange(16, dtype=np.float32)
    b = np.zeros((10, 8), np.float32)
    run(where, strided, x[:, :8], b, c[::2])
    np.testing.assert_array_equal(b, x[:, :8] + c[::2])


def test_pointers() -> None:
    @T.prim_func
    def pointers(p: T.ptr, Table: T.Tensor((2,), "int64"), B: T.Tensor((2, 8), "float32")):
        with T.Kernel(2, threads=32) as row:
            A = T.make_tensor(Table[row], (8,), "float32")
            C = T.make_tensor(p, (8,), "float32")
            for j in T.Parallel(8):
                B[row, j] = A[j] * 2 + C[j]

    x, c = RNG(0).random((2, 8), np.float32), RNG(1).random(8, np.float32)
    b = np.zeros((2, 8), np.float32)
    run(CPU, pointers, c.ctypes.data, np.array([r.ctypes.data for r in x]), b)
    np.testing.assert_array_equal(b, x * 2 + c)


@EVERYWHERE
def test_views(where: str) -> None:
    @T.prim_func
    def views(
        A: T.Tensor((4, 16), "float32"),
        B: T.Tensor((8, 8), "int32"),
        C: T.Tensor((8, 8), "float32"),
    ):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((4, 16), "float32")
            F = T.alloc_fragment((4, 16), "float32")
            T.copy(A, S)
            T.copy(S, F)
            V = T.view(S, (8, 8), "int32")
            W = T.reshape(F, (8, 8))
            for i, j in T.Parallel(8, 8):
                B[i, j] = V[i, j] + 1
            for i, j in T.Parallel(8, 8):
                W[i, j] = W[i, j] + 1
            T.copy(W, C)

    a = RNG(0).random((4, 16), np.float32)
    b, c = np.zeros((8, 8), np.int32), np.zeros((8, 8), np.float32)
    run(where, views, a, b, c)
    np.testing.assert_array_equal(b, a.view(np.int32).reshape(8, 8) + 1)
    np.testing.assert_array_equal(c, a.reshape(8, 8) + 1)


@EVERYWHERE
def test_atomics(where: str) -> None:
    @T.prim_func
    def atomics(
        A: T.Tensor((64,), "int32"),
        B: T.Tensor((4,), "int32"),
        C: T.Tensor((8,), "float32"),
        D: T.Tensor((64,), "int32"),
    ):
        with T.Kernel(2, threads=32) as bx:
            ones = T.alloc_fragment((8,), "float32")
            T.fill(ones, 1.5)
            for i in T.Parallel(32):
                T.atomic_add(B[0], A[bx * 32 + i])
                T.atomic_max(B[1], A[bx * 32 + i])
                T.atomic_min(B[2], A[bx * 32 + i])
                D[bx * 32 + i] = T.atomic_add(B[3], 1, return_prev=True)
            T.atomic_add(C, ones)

    a = RNG(0).integers(-50, 50, 64).astype(np.int32)
    b, c, d = np.zeros(4, np.int32), np.zeros(8, np.float32), np.zeros(64, np.int32)
    run(where, atomics, a, b, c, d)
    assert b.tolist() == [a.sum(), max(0, a.max()), min(0, a.min()), 64]
    assert sorted(d) == list(range(64))
    assert (c == 3).all()


@WITH_THREADS
def test_warps(where: str) -> None:
    @T.prim_func
    def warps(A: T.Tensor((32,), "int32"), B: T.Tensor((9, 32), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            v = A[tx]
            B[0, tx] = T.shfl_sync(v, 3)
            B[1, tx] = T.shfl_xor(v, 1)
            B[2, tx] = T.shfl_up(v, 1)
            B[3, tx] = T.warp_reduce_sum(v)
            B[4, tx] = T.warp_reduce_max(v)
            B[5, tx] = T.any_sync(v > 40)
            B[6, tx] = T.all_sync(v > -1)
            B[7, tx] = T.cast(T.ballot_sync(v > 20), "int32")
            B[8, tx] = T.get_lane_idx() + T.get_warp_idx()

    a, b = RNG(0).permutation(32).astype(np.int32), np.zeros((9, 32), np.int32)
    run(where, warps, a, b)
    lanes = np.arange(32)
    votes = sum(1 << i for i in lanes if a[i] > 20)
    np.testing.assert_array_equal(b[0], a[3])
    np.testing.assert_array_equal(b[1], a[lanes ^ 1])
    np.testing.assert_array_equal(b[2][1:], a[:-1])
    assert [set(row) for row in b[3:7]] == [{a.sum()}, {31}, {0}, {1}]
    assert set(b[7].view(np.uint32)) == {votes}
    np.testing.assert_array_equal(b[8], lanes)


@WITH_THREADS
def test_threads_of_two_dimensions_and_early_return(where: str) -> None:
    @T.prim_func
    def threads(A: T.Tensor((4, 8), "int32")):
        with T.Kernel(1, threads=(8, 4)):
            tx, ty = T.get_thread_binding(0), T.get_thread_binding(1)
            if tx >= 6:
                T.thread_return()
            A[ty, tx] = ty * 10 + tx

    a = np.zeros((4, 8), np.int32)
    run(where, threads, a)
    np.testing.assert_array_equal(
        a, [[y * 10 + x if x < 6 else 0 for x in range(8)] for y in range(4)]
    )


@EVERYWHERE
def test_a_fold_into_a_fragment(where: str) -> None:
    @T.prim_func
    def fold(A: T.Tensor((16, 32), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((16, 32), "float32")
            total = T.alloc_fragment((16,), "float32")
            T.copy(A, x)
            T.clear(total)
            for i, j in T.Parallel(16, 32):
                total[i] += x[i, j]
            T.copy(total, B)

    a, b = RNG(0).integers(0, 9, (16, 32)).astype(np.float32), np.zeros(16, np.float32)
    run(where, fold, a, b)
    np.testing.assert_array_equal(b, a.sum(1))


@EVERYWHERE
def test_safe_value_dp4a_and_grid(where: str) -> None:
    @T.prim_func
    def several(
        A: T.Tensor((10,), "float32"),
        B: T.Tensor((16,), "float32"),
        X: T.Tensor((4,), "int8"),
        C: T.Tensor((1,), "int32"),
        G: T.Tensor((2, 3, 4), "int32"),
    ):
        with T.Kernel(1, threads=1):
            T.annotate_safe_value({A: 7})
            S = T.alloc_shared((16,), "float32")
            T.copy(A[0], S)
            T.copy(S, B)
            T.dp4a(X[0], X[0], C[0])
        with T.Kernel(4, 3, 2, threads=1) as (bx, by, bz):
            G[bz, by, bx] = bz * 100 + by * 10 + bx

    a, b, c = RNG(0).random(10, np.float32), np.zeros(16, np.float32), np.array([5], np.int32)
    g = np.zeros((2, 3, 4), np.int32)
    run(where, several, a, b, np.array([1, -2, 3, 100], np.int8), c, g)
    np.testing.assert_array_equal(b, [*a, *[7] * 6])
    assert c[0] == 5 + 1 + 4 + 9 + 10000
    assert g[1, 2, 3] == 123


@pytest.mark.parametrize("where", [ORACLE, SIM])
@pytest.mark.parametrize("dtype", ["bool", "float8_e4m3fn", "float8_e5m2", "bfloat16", "int8"])
def test_narrow_dtypes(where: str, dtype: str) -> None:
    @T.prim_func
    def narrow(A: T.Tensor((32,), dtype), B: T.Tensor((32,), "float32"), C: T.Tensor((32,), dtype)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                B[i] = T.cast(A[i], "float32")
                C[i] = B[i] * 1

    kind = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    a = RNG(0).integers(0, 2 if dtype == "bool" else 16, 32).astype(kind)
    b, c = np.zeros(32, np.float32), np.zeros(32, kind)
    run(where, narrow, a, b, c)
    np.testing.assert_array_equal(b, a.astype(np.float32))
    np.testing.assert_array_equal(c, a)


def test_scalars() -> None:
    @T.prim_func
    def scalars(
        A: T.Tensor((4,), "float64"), x: T.float64, f: T.float32, n: T.int64, b: T.bool, u: T.uint8
    ):
        with T.Kernel(1, threads=1):
            A[0] = x
            A[1] = T.cast(n, "float64")
            A[2] = T.if_then_else(b, T.cast(f, "float64"), 0.0)
            A[3] = T.cast(u, "float64")

    for where in (ORACLE, CPU, SIM):
        a = np.zeros(4)
        run(where, scalars, a, 1.25, 2.5, 1 << 40, True, 200)
        assert a.tolist() == [1.25, 2.0**40, 2.5, 200]


def test_imported_source() -> None:
    @T.prim_func
    def extern(A: T.Tensor((8,), "int32")):
        T.import_source("__device__ int twice(int x) { return 2 * x; }")
        with T.Kernel(1, threads=8):
            tx = T.get_thread_binding()
            A[tx] = T.call_extern("int32", "twice", tx)

    a = np.zeros(8, np.int32)
    run(SIM, extern, a)
    assert a.tolist() == [2 * i for i in range(8)]


def test_a_function_without_a_kernel_runs_on_a_cpu() -> None:
    @T.prim_func
    def plain(A: T.Tensor((8,), "int32")):
        for i in T.serial(8):
            A[i] = i * i

    a = np.zeros(8, np.int32)
    run(CPU, plain, a)
    assert a.tolist() == [i * i for i in range(8)]


@EVERYWHERE
@pytest.mark.parametrize("op", ["sum", "max", "min"])
def test_reducers(where: str, op: str) -> None:
    @T.prim_func
    def reducers(A: T.Tensor((16, 32), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            old = T.alloc_reducer((32,), "float32", op, replication="all")
            new = T.alloc_reducer((32,), "float32", op)
            out = T.alloc_fragment((32,), "float32")
            T.reducer_init(old)
            T.reducer_init(new, 0)
            for i, j in T.Parallel(16, 32):
                if op == "sum":
                    old[j] += A[i, j]
                elif op == "max":
                    old[j] = T.max(old[j], A[i, j])
                else:
                    old[j] = T.min(old[j], A[i, j])
                T.reducer_update(new[j], A[i, j])
            T.finalize_reducer(old)
            T.finalize_reducer(new, out)
            for j in T.Parallel(32):
                B[j] = old[j] + out[j]

    a, b = RNG(0).integers(-9, 9, (16, 32)).astype(np.float32), np.zeros(32, np.float32)
    run(where, reducers, a, b)
    fold = {"sum": np.sum, "max": np.max, "min": np.min}[op]
    np.testing.assert_array_equal(b, fold(a, 0) + fold(a, 0, initial=0))


@EVERYWHERE
def test_scans(where: str) -> None:
    @T.prim_func
    def scans(
        A: T.Tensor((8, 16), "float32"),
        B: T.Tensor((4, 8, 16), "float32"),
        L: T.Tensor((16,), "int32"),
    ):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((8, 16), "float32")
            D = T.alloc_shared((8, 16), "float32")
            F = T.alloc_fragment((8, 16), "float32")
            one = T.alloc_shared((16,), "int32")
            T.copy(A, S)
            T.cumsum(S, D, dim=1)
            T.copy(D, B[0, :, :])
            T.cumsum(S, D, dim=0, reverse=True)
            T.copy(D, B[1, :, :])
            T.copy(A, F)
            T.cumsum(F, dim=1)
            T.copy(F, B[2, :, :])
            T.cummax(S, dim=1)
            T.copy(S, B[3, :, :])
            T.copy(L, one)
            T.cumsum(one)
            T.copy(one, L)

    a = RNG(0).integers(-9, 9, (8, 16)).astype(np.float32)
    b, line = np.zeros((4, 8, 16), np.float32), np.arange(16, dtype=np.int32)
    run(where, scans, a, b, line)
    np.testing.assert_array_equal(b[0], a.cumsum(1))
    np.testing.assert_array_equal(b[1], a[::-1].cumsum(0)[::-1])
    np.testing.assert_array_equal(b[2], a.cumsum(1))
    np.testing.assert_array_equal(b[3], np.maximum.accumulate(a, 1))
    np.testing.assert_array_equal(line, np.arange(16).cumsum())


@EVERYWHERE
def test_any_and_all(where: str) -> None:
    @T.prim_func
    def questions(A: T.Tensor((4, 8), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=1):
            B[0] = T.any_of(A)
            B[1] = T.all_of(A)
            B[2] = T.any_of(A[0, 0:8])
            B[3] = T.all_of(A[1, 0:8])

    a, b = np.zeros((4, 8), np.int32), np.full(4, 9, np.int32)
    a[1] = 3
    run(where, questions, a, b)
    assert b.tolist() == [1, 0, 0, 1]


@pytest.mark.parametrize("target", ["llvm", "cuda-sim"])
def test_a_tensor_made_of_the_data_of_another_is_a_view(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 3, 5), "float32"), B: T.Tensor((4, 3, 5), "float32")):
        with T.Kernel(1, threads=32):
            flat_a = T.Tensor((4, 15), "float32", A.data)
            flat_b = T.Tensor((4, 15), dtype="float32", data=B.data)
            tile = T.alloc_fragment((4, 15), "float32")
            T.copy(flat_a, tile)
            for i, j in T.Parallel(4, 15):
                tile[i, j] += 1.0
            T.copy(tile, flat_b)

    a = np.arange(60, dtype=np.float32).reshape(4, 3, 5)
    b = np.zeros_like(a)
    tilelang.compile(main, target=target)(a, b)
    np.testing.assert_array_equal(b, a + 1)


def test_data_that_is_no_buffers_is_refused() -> None:
    with pytest.raises(LanguageError, match=r"data must be `X\.data`") as caught:

        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1):
                T.Tensor((2, 2), "float32", A)

    assert "T.reshape(X, shape)" in str(caught.value)
