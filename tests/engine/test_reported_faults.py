# SPDX-License-Identifier: Apache-2.0
"""Programs that users of tile languages have reported as miscompiled: they must be right here.

Each runs by the oracle, compiled for the CPU, and compiled for the simulated GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.interp import tile

TARGETS = ("oracle", "llvm", "cuda-sim -arch=sm_80")
RNG = np.random.default_rng(7)


def _run(func: Any, target: str, *arrays: Any) -> list[Any]:
    out = [a.copy() for a in arrays]
    if target == "oracle":
        tile.run(func, *out)
    else:
        tilelang.compile(func, target=target)(*out)
    return out


def _small(shape: tuple[int, ...], dtype: str = "float16", low: int = -3) -> Any:
    return RNG.integers(low, 4, shape).astype(dtype)


def _affine(n: int) -> Any:
    @T.prim_func
    def main(X: T.Tensor((1, n), "float32"), Y: T.Tensor((1, n), "float32")):
        with T.Kernel(1, threads=128) as _:
            f = T.alloc_fragment((n,), "float32")
            T.copy(X[0, 0:n], f)
            for i in T.Parallel(n):
                f[i] = f[i] * 2 + 1
            T.copy(f, Y[0, 0:n])

    return main


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n", [1, 127, 129, 229, 1000])
def test_fragments_of_any_width(n: int, target: str) -> None:
    x = RNG.random((1, n), np.float32)
    _, y = _run(_affine(n), target, x, np.zeros_like(x))
    np.testing.assert_array_equal(y, x * np.float32(2) + np.float32(1))


def _column_broadcast(n: int) -> Any:
    @T.prim_func
    def main(d: T.Tensor((n,), "float32"), Y: T.Tensor((16, n), "float32")):
        with T.Kernel(1, threads=128) as _:
            row = T.alloc_fragment((n,), "float32")
            x = T.alloc_fragment((16, n), "float32")
            T.copy(d, row)
            for i, j in T.Parallel(16, n):
                x[i, j] = row[j] * 2
            T.copy(x, Y)

    return main


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n", [24, 40, 96])
def test_a_row_repeated_over_columns(n: int, target: str) -> None:
    d = RNG.random(n, np.float32)
    _, y = _run(_column_broadcast(n), target, d, np.zeros((16, n), np.float32))
    np.testing.assert_array_equal(y, np.repeat(d[None] * 2, 16, 0))


def _modulo(m: int, n: int, k: int) -> Any:
    @T.prim_func
    def main(B: T.Tensor((k,), "float32"), C: T.Tensor((m, n), "float32")):
        with T.Kernel(1, threads=128) as _:
            for i, j in T.Parallel(m, n):
                C[i, j] = B[j % k]

    return main


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [(2, 512, 3), (4, 48, 5), (8, 64, 16)])
def test_an_index_modulo_something(size: tuple[int, int, int], target: str) -> None:
    m, n, k = size
    b = RNG.random(k, np.float32)
    _, c = _run(_modulo(m, n, k), target, b, np.zeros((m, n), np.float32))
    np.testing.assert_array_equal(c, np.repeat(b[np.arange(n) % k][None], m, 0))


def _abs_max_over_padding() -> Any:
    @T.prim_func
    def main(X: T.Tensor((20, 576), "float32"), Y: T.Tensor((20,), "float32")):
        with T.Kernel(20, threads=128) as row:
            f = T.alloc_fragment((768,), "float32")
            top = T.alloc_fragment((1,), "float32")
            for i in T.Parallel(768):
                f[i] = T.if_then_else(i < 576, X[row, i], 0)
            T.reduce_absmax(f, top, dim=0)
            T.copy(top, Y[row : row + 1])

    return main


@pytest.mark.parametrize("target", TARGETS)
def test_a_reduction_over_padding_skips_no_index(target: str) -> None:
    x = np.full((20, 576), 0.5, np.float32)
    x[np.arange(20), np.arange(20) * 29] = -(np.arange(20) + 2)
    _, y = _run(_abs_max_over_padding(), target, x, np.zeros(20, np.float32))
    np.testing.assert_array_equal(y, np.arange(20) + 2)


def _ragged_k(k: int, block: int, m: int = 128, n: int = 128) -> Any:
    @T.prim_func
    def main(
        A: T.Tensor((m, k), "float16"),
        B: T.Tensor((k, n), "float16"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(T.ceildiv(n, 64), T.ceildiv(m, 64), threads=128) as (bx, by):
            a = T.alloc_shared((64, block), "float16")
            b = T.alloc_shared((block, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for i in T.Pipelined(T.ceildiv(k, block), num_stages=2):
                T.copy(A[by * 64, i * block], a)
                T.copy(B[i * block, bx * 64], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 64, bx * 64])

    return main


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("k", "block"), [(33, 32), (96, 48), (24, 24), (100, 32), (20, 20)])
def test_any_k_and_any_block(k: int, block: int, target: str) -> None:
    a, b = _small((128, k)), _small((k, 128))
    *_, c = _run(_ragged_k(k, block), target, a, b, np.zeros((128, 128), np.float32))
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


def _store(n: int, block: int, dtype: str, threads: int) -> Any:
    @T.prim_func
    def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block), threads=threads) as bx:
            s = T.alloc_shared((block,), dtype)
            T.copy(X[bx * block], s)
            T.copy(s, Y[bx * block])

    return main


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("n", "block", "dtype"), [(1000, 256, "float32"), (100, 100, "float16"), (7, 7, "int8")]
)
@pytest.mark.parametrize("threads", [1, 33, 128])
def test_stores_of_any_length(n: int, block: int, dtype: str, threads: int, target: str) -> None:
    x = np.arange(n).astype(dtype)
    backing = np.full(n + 64, -7).astype(dtype)
    out = backing.copy()
    func = _store(n, block, dtype, threads)
    if target == "oracle":
        tile.run(func, x, out[:n])
    else:
        tilelang.compile(func, target=target)(x, out[:n])
    np.testing.assert_array_equal(out[:n], x)
    np.testing.assert_array_equal(out[n:], backing[n:])


def _operand_copied_out() -> Any:
    @T.prim_func
    def main(
        A: T.Tensor((128, 64), "float16"), B: T.Tensor((64, 64), "float16"),
        Y: T.Tensor((128, 64), "float16"), C: T.Tensor((128, 64), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_fragment((128, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            s = T.alloc_shared((128, 64), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c)
            T.copy(a, s)
            T.copy(s, Y)
            T.copy(c, C)

    return main


@pytest.mark.parametrize("target", TARGETS)
def test_an_operand_fragment_is_still_itself(target: str) -> None:
    a, b = _small((128, 64)), _small((64, 64))
    out = np.zeros((128, 64), np.float16), np.zeros((128, 64), np.float32)
    *_, y, c = _run(_operand_copied_out(), target, a, b, *out)
    np.testing.assert_array_equal(y, a)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


def _cleared_after_read() -> Any:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), Y: T.Tensor((2, 64), "float32")):
        with T.Kernel(1, threads=64) as _:
            s = T.alloc_shared((64,), "float32")
            f = T.alloc_fragment((64,), "float32")
            g = T.alloc_fragment((64,), "float32")
            T.copy(A, s)
            T.copy(s, f)
            T.clear(s)
            T.copy(s, g)
            T.copy(f, Y[0, :])
            T.copy(g, Y[1, :])

    return main


@pytest.mark.parametrize("target", TARGETS)
def test_a_clear_comes_after_the_read(target: str) -> None:
    a = RNG.random(64, np.float32)
    _, y = _run(_cleared_after_read(), target, a, np.ones((2, 64), np.float32))
    np.testing.assert_array_equal(y, [a, np.zeros(64)])


def _odd_warps() -> Any:
    @T.prim_func
    def main(
        A: T.Tensor((16, 32), "float16"), B: T.Tensor((32, 104), "float16"),
        C: T.Tensor((16, 104), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=384) as _:
            a = T.alloc_shared((16, 32), "float16")
            b = T.alloc_shared((32, 104), "float16")
            c = T.alloc_fragment((16, 104), "float32")
            T.clear(c)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c)
            T.copy(c, C)

    return main


@pytest.mark.parametrize("target", TARGETS)
def test_more_warps_than_tiles(target: str) -> None:
    a, b = _small((16, 32)), _small((32, 104))
    *_, c = _run(_odd_warps(), target, a, b, np.zeros((16, 104), np.float32))
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


def _reversed_by_some_threads() -> Any:
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), Y: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64) as _:
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "int32")
            if tx < 48:
                s[tx] = A[tx]
            if tx < 48:
                Y[tx] = s[47 - tx]

    return main


@pytest.mark.parametrize("target", TARGETS)
def test_a_barrier_where_some_threads_write(target: str) -> None:
    a = np.arange(64, dtype=np.int32)
    _, y = _run(_reversed_by_some_threads(), target, a, np.full(64, -7, np.int32))
    np.testing.assert_array_equal(y, [*a[47::-1], *[-7] * 16])


def _value_read_twice() -> Any:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32) as _:
            for i in T.Parallel(64):
                t = T.max(A[i], 1)
                B[i] = t / 2
                A[i] = t * 2

    return main


@pytest.mark.parametrize("target", TARGETS)
def test_a_named_value_is_computed_once(target: str) -> None:
    a = RNG.random(64, np.float32) * 3
    changed, b = _run(_value_read_twice(), target, a, np.zeros(64, np.float32))
    np.testing.assert_array_equal(b, np.maximum(a, 1) / 2)
    np.testing.assert_array_equal(changed, np.maximum(a, 1) * 2)


def _stepped_loops() -> Any:
    @T.prim_func
    def main(Y: T.Tensor((16,), "int32")):
        with T.Kernel(1, threads=1) as _:
            for i in T.serial(10, 0, -3):
                Y[i] = 1
            for i in T.unroll(5, 5, 1):
                Y[i] = 9

    return main


@pytest.mark.parametrize("target", TARGETS)
def test_loops_with_a_step(target: str) -> None:
    (y,) = _run(_stepped_loops(), target, np.zeros(16, np.int32))
    assert np.flatnonzero(y).tolist() == [1, 4, 7, 10]
    assert y.max() == 1
