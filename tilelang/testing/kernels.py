# SPDX-License-Identifier: Apache-2.0
"""A zoo of small kernels for tests of passes: each function returns a `PrimFunc` at TILE stage.

Sizes are small and mostly ragged, so that guards and padding are exercised. `ZOO` lists all of them
with their default arguments.
"""
# mypy: ignore-errors
# (a kernel is captured, not called: its annotations are values and its stores are no assignments)

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import tilelang.language as T

if TYPE_CHECKING:
    from tilelang.ir import PrimFunc


def add(n: int = 1000, block: int = 256, dtype: str = "float32") -> PrimFunc:
    """C = A + B, element by element, straight from global memory."""

    @T.prim_func
    def add(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block), threads=128) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i]

    return add


def add_tiles(
    m: int = 70, n: int = 50, bm: int = 32, bn: int = 32, dtype: str = "float16"
) -> PrimFunc:
    """C = A + B through shared memory and fragments."""

    @T.prim_func
    def add_tiles(
        A: T.Tensor((m, n), dtype), B: T.Tensor((m, n), dtype), C: T.Tensor((m, n), dtype)
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=64) as (bx, by):
            A_shared = T.alloc_shared((bm, bn), dtype)
            B_local = T.alloc_fragment((bm, bn), dtype)
            T.copy(A[by * bm, bx * bn], A_shared)
            T.copy(B[by * bm, bx * bn], B_local)
            for i, j in T.Parallel(bm, bn):
                B_local[i, j] = B_local[i, j] + A_shared[i, j]
            T.copy(B_local, C[by * bm, bx * bn])

    return add_tiles


def matmul(
    M: int = 96,
    N: int = 80,
    K: int = 72,
    bM: int = 32,
    bN: int = 32,
    bK: int = 32,
    stages: int = 2,
    dtype: str = "float16",
    accum: str = "float32",
    out: str = "float32",
    threads: int = 128,
    trans_A: bool = False,
    trans_B: bool = False,
) -> PrimFunc:
    """C = op(A) · op(B)."""
    a_shape, b_shape = (K, M) if trans_A else (M, K), (N, K) if trans_B else (K, N)
    a_tile, b_tile = (bK, bM) if trans_A else (bM, bK), (bN, bK) if trans_B else (bK, bN)

    @T.prim_func
    def matmul(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((M, N), out)):
        with T.Kernel(T.ceildiv(N, bN), T.ceildiv(M, bM), threads=threads) as (bx, by):
            A_shared = T.alloc_shared(a_tile, dtype)
            B_shared = T.alloc_shared(b_tile, dtype)
            C_local = T.alloc_fragment((bM, bN), accum)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, bK), num_stages=stages):
                if trans_A:
                    T.copy(A[k * bK, by * bM], A_shared)
                else:
                    T.copy(A[by * bM, k * bK], A_shared)
                if trans_B:
                    T.copy(B[bx * bN, k * bK], B_shared)
                else:
                    T.copy(B[k * bK, bx * bN], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_A=trans_A, transpose_B=trans_B)
            T.copy(C_local, C[by * bM, bx * bN])

    return matmul


def matmul_bias_relu(
    M: int = 77,
    N: int = 100,
    K: int = 104,
    bM: int = 32,
    bN: int = 32,
    bK: int = 32,
    stages: int = 2,
    dtype: str = "float16",
) -> PrimFunc:
    """C = max(A · B + bias, 0)."""

    @T.prim_func
    def matmul_bias_relu(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        bias: T.Tensor((N,), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, bN), T.ceildiv(M, bM), threads=128) as (bx, by):
            A_shared = T.alloc_shared((bM, bK), dtype)
            B_shared = T.alloc_shared((bK, bN), dtype)
            bias_local = T.alloc_fragment((bN,), dtype)
            C_local = T.alloc_fragment((bM, bN), "float32")
            T.clear(C_local)
            T.copy(bias[bx * bN], bias_local)
            for k in T.Pipelined(T.ceildiv(K, bK), num_stages=stages):
                T.copy(A[by * bM, k * bK], A_shared)
                T.copy(B[k * bK, bx * bN], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            for i, j in T.Parallel(bM, bN):
                C_local[i, j] = T.max(C_local[i, j] + T.cast(bias_local[j], "float32"), 0)
            T.copy(C_local, C[by * bM, bx * bN])

    return matmul_bias_relu


def matmul_dynamic(
    bM: int = 32, bN: int = 32, bK: int = 32, stages: int = 2, dtype: str = "float16"
) -> PrimFunc:
    """C = A · B for any M, N, K, by one compiled kernel."""
    M, N, K = T.dynamic("M, N, K")

    @T.prim_func
    def matmul_dynamic(
        A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")
    ):
        with T.Kernel(T.ceildiv(N, bN), T.ceildiv(M, bM), threads=128) as (bx, by):
            A_shared = T.alloc_shared((bM, bK), dtype)
            B_shared = T.alloc_shared((bK, bN), dtype)
            C_local = T.alloc_fragment((bM, bN), "float32")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, bK), num_stages=stages):
                T.copy(A[by * bM, k * bK], A_shared)
                T.copy(B[k * bK, bx * bN], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * bM, bx * bN])

    return matmul_dynamic


def softmax(m: int = 10, n: int = 100, dtype: str = "float32") -> PrimFunc:
    """B = softmax(A) along the rows; one block per row."""
    width = T.ceildiv(n, 32) * 32

    @T.prim_func
    def softmax(A: T.Tensor((m, n), dtype), B: T.Tensor((m, n), dtype)):
        with T.Kernel(m, threads=32) as row:
            x = T.alloc_fragment((1, width), "float32")
            top = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.annotate_safe_value({A: -T.infinity(dtype)})
            T.copy(A[row, 0], x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(1, width):
                x[i, j] = T.exp2((x[i, j] - top[i]) * 1.4426950408889634)
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(1, width):
                x[i, j] /= total[i]
            T.copy(x, B[row, 0])

    return softmax


@T.macro
def _online_softmax(scores, top, old_top, rescale, row_sum, total, scale):
    """Scores become weights relative to the running row maximum; `rescale` is for earlier sums."""
    rows, cols = scores.shape
    T.copy(top, old_top)
    T.fill(top, -T.infinity("float32"))
    T.reduce_max(scores, top, dim=1, clear=False)
    for i in T.Parallel(rows):
        top[i] = T.max(top[i], old_top[i])
    for i in T.Parallel(rows):
        rescale[i] = T.exp2(old_top[i] * scale - top[i] * scale)
    for i, j in T.Parallel(rows, cols):
        scores[i, j] = T.exp2(scores[i, j] * scale - top[i] * scale)
    T.reduce_sum(scores, row_sum, dim=1)
    for i in T.Parallel(rows):
        total[i] = total[i] * rescale[i] + row_sum[i]


def attention(
    batch: int = 1,
    heads: int = 2,
    seq: int = 96,
    dim: int = 32,
    causal: bool = True,
    bM: int = 32,
    bN: int = 32,
    stages: int = 2,
    dtype: str = "float16",
) -> PrimFunc:
    """Flash attention, forward: Out = softmax(Q · Kᵀ / sqrt(dim)) · V."""
    scale = (1.0 / dim) ** 0.5 * 1.4426950408889634
    shape = (batch, seq, heads, dim)

    @T.prim_func
    def attention(
        Q: T.Tensor(shape, dtype),
        K: T.Tensor(shape, dtype),
        V: T.Tensor(shape, dtype),
        Out: T.Tensor(shape, dtype),
    ):
        with T.Kernel(T.ceildiv(seq, bM), heads, batch, threads=128) as (bx, by, bz):
            Q_shared = T.alloc_shared((bM, dim), dtype)
            K_shared = T.alloc_shared((bN, dim), dtype)
            V_shared = T.alloc_shared((bN, dim), dtype)
            scores = T.alloc_fragment((bM, bN), "float32")
            weights = T.alloc_fragment((bM, bN), dtype)
            acc = T.alloc_fragment((bM, dim), "float32")
            top = T.alloc_fragment((bM,), "float32")
            old_top = T.alloc_fragment((bM,), "float32")
            rescale = T.alloc_fragment((bM,), "float32")
            row_sum = T.alloc_fragment((bM,), "float32")
            total = T.alloc_fragment((bM,), "float32")
            T.copy(Q[bz, bx * bM : (bx + 1) * bM, by, :], Q_shared)
            T.fill(acc, 0)
            T.fill(total, 0)
            T.fill(top, -T.infinity("float32"))
            steps = T.ceildiv(seq, bN)
            if causal:
                steps = T.min(steps, T.ceildiv((bx + 1) * bM, bN))
            for k in T.Pipelined(steps, num_stages=stages):
                T.copy(K[bz, k * bN : (k + 1) * bN, by, :], K_shared)
                for i, j in T.Parallel(bM, bN):
                    seen = bx * bM + i >= k * bN + j if causal else k * bN + j < seq
                    scores[i, j] = T.if_then_else(seen, 0, -T.infinity("float32"))
                T.gemm(
                    Q_shared, K_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow
                )
                _online_softmax(scores, top, old_top, rescale, row_sum, total, scale)
                T.copy(scores, weights)
                for i, j in T.Parallel(bM, dim):
                    acc[i, j] *= rescale[i]
                T.copy(V[bz, k * bN : (k + 1) * bN, by, :], V_shared)
                T.gemm(weights, V_shared, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(bM, dim):
                acc[i, j] /= total[i]
            T.copy(acc, Out[bz, bx * bM : (bx + 1) * bM, by, :])

    return attention


def transpose(m: int = 70, n: int = 45, block: int = 32, dtype: str = "float32") -> PrimFunc:
    """B = Aᵀ through a shared tile."""

    @T.prim_func
    def transpose(A: T.Tensor((m, n), dtype), B: T.Tensor((n, m), dtype)):
        with T.Kernel(T.ceildiv(n, block), T.ceildiv(m, block), threads=128) as (bx, by):
            tile = T.alloc_shared((block, block), dtype)
            turned = T.alloc_shared((block, block), dtype)
            T.copy(A[by * block, bx * block], tile)
            T.transpose(tile, turned)
            T.copy(turned, B[bx * block, by * block])

    return transpose


def transpose_strided(m: int = 33, n: int = 40, dtype: str = "float32") -> PrimFunc:
    """B = Aᵀ by writing through a column-major view of the output."""

    @T.prim_func
    def transpose_strided(A: T.Tensor((m, n), dtype), B: T.StridedTensor((m, n), (1, m), dtype)):
        with T.Kernel(m, threads=32) as row:
            for j in T.Parallel(n):
                B[row, j] = A[row, j]

    return transpose_strided


def conditional_pipeline(n: int = 6, width: int = 64, stages: int = 2) -> PrimFunc:
    """Adds the rows whose mask is set: the copy inside the pipeline is conditional."""

    @T.prim_func
    def conditional_pipeline(
        A: T.Tensor((n, width), "float32"),
        mask: T.Tensor((n,), "int32"),
        B: T.Tensor((width,), "float32"),
    ):
        with T.Kernel(1, threads=64) as _:
            tile = T.alloc_shared((width,), "float32")
            acc = T.alloc_fragment((width,), "float32")
            T.clear(acc)
            for k in T.Pipelined(n, num_stages=stages):
                if mask[k] != 0:
                    T.copy(A[k, :], tile)
                    for j in T.Parallel(width):
                        acc[j] += tile[j]
            T.copy(acc, B)

    return conditional_pipeline


def continue_in_pipeline(n: int = 7, width: int = 64, stages: int = 3) -> PrimFunc:
    """As conditional_pipeline, but a `continue` leaves the iteration after the copy."""

    @T.prim_func
    def continue_in_pipeline(
        A: T.Tensor((n, width), "float32"),
        mask: T.Tensor((n,), "int32"),
        B: T.Tensor((width,), "float32"),
    ):
        with T.Kernel(1, threads=64) as _:
            tile = T.alloc_shared((width,), "float32")
            acc = T.alloc_fragment((width,), "float32")
            T.clear(acc)
            for k in T.Pipelined(n, num_stages=stages):
                T.copy(A[k, :], tile)
                if mask[k] == 0:
                    continue
                for j in T.Parallel(width):
                    acc[j] += tile[j]
            T.copy(acc, B)

    return continue_in_pipeline


def read_then_overwrite(n: int = 8, width: int = 32, stages: int = 2) -> PrimFunc:
    """The sum of the rows read *before* each copy: a dependence against the pipeline's
    direction.
    """

    @T.prim_func
    def read_then_overwrite(
        first: T.Tensor((width,), "int32"),
        A: T.Tensor((n, width), "int32"),
        B: T.Tensor((width,), "int32"),
    ):
        with T.Kernel(1, threads=32) as _:
            tile = T.alloc_shared((width,), "int32")
            acc = T.alloc_fragment((width,), "int32")
            T.clear(acc)
            T.copy(first, tile)
            for k in T.Pipelined(n, num_stages=stages):
                for j in T.Parallel(width):
                    acc[j] += tile[j]
                T.copy(A[k, :], tile)
            T.copy(acc, B)

    return read_then_overwrite


def two_gemms(M: int = 32, N: int = 32, K: int = 32, steps: int = 4, stages: int = 2) -> PrimFunc:
    """Two products per iteration, the second of what the first gave: as in attention, without
    softmax.
    """

    @T.prim_func
    def two_gemms(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((steps * K, N), "float16"),
        D: T.Tensor((steps * N, K), "float16"),
        C: T.Tensor((M, K), "float32"),
    ):
        with T.Kernel(1, threads=128) as _:
            A_shared = T.alloc_shared((M, K), "float16")
            B_shared = T.alloc_shared((K, N), "float16")
            D_shared = T.alloc_shared((N, K), "float16")
            inner = T.alloc_fragment((M, N), "float32")
            narrow = T.alloc_fragment((M, N), "float16")
            acc = T.alloc_fragment((M, K), "float32")
            T.copy(A, A_shared)
            T.clear(acc)
            for k in T.Pipelined(steps, num_stages=stages):
                T.copy(B[k * K, 0], B_shared)
                T.copy(D[k * N, 0], D_shared)
                T.gemm(A_shared, B_shared, inner, clear_accum=True)
                T.copy(inner, narrow)
                T.gemm(narrow, D_shared, acc)
            T.copy(acc, C)

    return two_gemms


def reductions(
    m: int = 20, n: int = 48, kind: str = "sum", dim: int = 1, dtype: str = "float32"
) -> PrimFunc:
    """B = reduction of A along one dimension."""
    size = m if dim == 1 else n

    @T.prim_func
    def reductions(A: T.Tensor((m, n), dtype), B: T.Tensor((size,), dtype)):
        with T.Kernel(1, threads=64) as _:
            x = T.alloc_fragment((m, n), dtype)
            y = T.alloc_fragment((size,), dtype)
            T.copy(A, x)
            T.reduce(x, y, kind, dim=dim, clear=True)
            T.copy(y, B)

    return reductions


@T.macro
def _collatz(x: int, steps: T.Ref) -> None:
    value = T.alloc_var("int32", init=x)
    steps = 0
    while value != 1:
        if value % 2 == 0:  # noqa: SIM108 - the statement is what is tested
            value = value // 2
        else:
            value = 3 * value + 1
        steps += 1


def control_flow(n: int = 40) -> PrimFunc:
    """B[i] = length of the Collatz sequence of A[i], or -1: while, if, break, a macro, a mutable
    scalar.
    """

    @T.prim_func
    def control_flow(A: T.Tensor((n,), "int32"), B: T.Tensor((n,), "int32")):
        with T.Kernel(T.ceildiv(n, 32), threads=32) as bx:
            tx = T.get_thread_binding()
            i = bx * 32 + tx
            count = T.alloc_var("int32")
            if i < n:
                if A[i] < 1:
                    B[i] = -1
                elif A[i] == 1:
                    B[i] = 0
                else:
                    _collatz(A[i], count)
                    B[i] = count
            for k in T.serial(2, 10, 3):
                if k > 5:
                    break
                if i < n and A[i] == -k:
                    B[i] = -1 - k

    return control_flow


def dtype_casts(n: int = 64) -> PrimFunc:
    """Conversions among the dtypes of the first issue, and bit casts."""

    @T.prim_func
    def dtype_casts(
        A: T.Tensor((n,), "float32"),
        H: T.Tensor((n,), "float16"),
        W: T.Tensor((n,), "bfloat16"),
        D: T.Tensor((n,), "float64"),
        Bits: T.Tensor((n,), "int32"),
        J: T.Tensor((n,), "int8"),
    ):
        with T.Kernel(1, threads=32) as _:
            for i in T.Parallel(n):
                H[i] = A[i]
                W[i] = A[i]
                D[i] = T.cast(A[i], "float64") / 3
                Bits[i] = T.reinterpret(A[i], "int32") ^ 1
                J[i] = T.clamp(T.cast(A[i], "int32"), -100, 100)

    return dtype_casts


def vectors(n: int = 64) -> PrimFunc:
    """Vectorized, unrolled and serial loops over thread-private memory."""

    @T.prim_func
    def vectors(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=n // 8) as _:
            tx = T.get_thread_binding()
            x = T.alloc_local((8,), "float32")
            for v in T.vectorized(8):
                x[v] = A[tx * 8 + v]
            for u in T.unroll(8):
                x[u] = x[u] * T.float32(2) + u
            for s in T.serial(8):
                B[tx * 8 + s] = x[s]

    return vectors


def two_kernels(n: int = 256) -> PrimFunc:
    """Two launches in one function with scratch memory between them."""

    @T.prim_func
    def two_kernels(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        scratch = T.alloc_global((n,), "float32")
        with T.Kernel(n // 64, threads=64) as bx:
            for i in T.Parallel(64):
                scratch[bx * 64 + i] = A[bx * 64 + i] * 2
        with T.Kernel(n // 64, threads=64) as bx:
            for i in T.Parallel(64):
                B[bx * 64 + i] = scratch[n - 1 - (bx * 64 + i)]

    return two_kernels


def histogram(n: int = 500, bins: int = 16) -> PrimFunc:
    """Atomic additions to shared, then to global memory."""

    @T.prim_func
    def histogram(A: T.Tensor((n,), "int32"), B: T.Tensor((bins,), "int32")):
        with T.Kernel(T.ceildiv(n, 128), threads=64) as bx:
            counts = T.alloc_shared((bins,), "int32")
            T.clear(counts)
            for i in T.Parallel(128):
                if bx * 128 + i < n:
                    T.atomic_add(counts[A[bx * 128 + i] % bins], 1)
            T.atomic_add(B, counts)

    return histogram


def persistent(m: int = 4, n: int = 7, workers: int = 3) -> PrimFunc:
    """Counts the visits of every tile of a persistent schedule; all must be 1."""

    @T.prim_func
    def persistent(B: T.Tensor((m, n), "int32")):
        with T.Kernel(workers, threads=32) as block:
            for i, j in T.Persistent([m, n], workers, block):
                if T.get_thread_binding() == 0:
                    B[i, j] += 1

    return persistent


def scalars(n: int = 100) -> PrimFunc:
    """B = A · scale + offset with scalar parameters and an assumption about the size."""
    size = T.dynamic("size")

    @T.prim_func
    def scalars(
        A: T.Tensor((size,), "float32"),
        B: T.Tensor((size,), "float32"),
        scale: T.float32,
        offset: T.int32,
    ):
        T.assume(size % 4 == 0)
        with T.Kernel(T.ceildiv(size, 128), threads=32) as bx:
            for i in T.Parallel(128):
                B[bx * 128 + i] = A[bx * 128 + i] * scale + offset

    return scalars


ZOO: dict[str, Callable[[], PrimFunc]] = {
    f.__name__: f
    for f in (
        add,
        add_tiles,
        matmul,
        matmul_bias_relu,
        matmul_dynamic,
        softmax,
        attention,
        transpose,
        transpose_strided,
        conditional_pipeline,
        continue_in_pipeline,
        read_then_overwrite,
        two_gemms,
        reductions,
        control_flow,
        dtype_casts,
        vectors,
        two_kernels,
        histogram,
        persistent,
        scalars,
    )
}
