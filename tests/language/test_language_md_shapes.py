# SPDX-License-Identifier: Apache-2.0
"""language.md §3.5, §3.7: sizes of run time, strides, what lies outside of a tensor."""

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import TileError


def compiled(func: Any, **options: Any) -> Any:
    return tilelang.compile(func, target="llvm", **options)


def iota(*shape: int, dtype: str = "float32") -> Any:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


# ------------------------------------------------------------------------------- §3.5 dynamic sizes


def test_a_symbol_is_bound_by_its_first_bare_place() -> None:
    m, n = T.dynamic("m, n")

    @T.prim_func
    def main(
        A: T.Tensor((2 * n,), "float32"), B: T.Tensor((m, n), "float32"), C: T.Tensor((m,), "int32")
    ):
        with T.Kernel(m, threads=32) as i:
            C[i] = n
            for j in T.Parallel(n):
                B[i, j] = A[j] + A[n + j]

    k = compiled(main)
    a, b, c = iota(10), np.zeros((3, 5), np.float32), np.zeros(3, np.int32)
    k(a, b, c)
    np.testing.assert_array_equal(b, np.tile(a[:5] + a[5:], (3, 1)))
    assert c.tolist() == [5] * 3
    with pytest.raises(ValueError, match=r"A.*12"):
        k(iota(12), b, c)
    with pytest.raises(ValueError, match="C"):
        k(a, b, np.zeros(4, np.int32))


def test_a_symbol_without_a_tensor_is_a_parameter() -> None:
    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), n: T.int32):
        with T.Kernel(n, threads=1) as i:
            A[i] = i + n

    a = np.zeros(8, np.int32)
    compiled(main)(a, 3)
    assert a.tolist() == [3, 4, 5, 0, 0, 0, 0, 0]


def test_a_symbol_that_nothing_gives() -> None:
    n = T.dynamic("n")

    with pytest.raises(TileError, match="`n` is used where it does not exist") as caught:

        @T.prim_func
        def main(A: T.Tensor((8,), "int32")):
            with T.Kernel(n, threads=1) as i:
                A[i] = i

    assert "scalar parameter" in str(caught.value.help)


def test_contiguous_tensors_check_their_strides() -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 1, 8), "float32")):
        with T.Kernel(1, threads=32):
            T.clear(A)

    k = compiled(main)
    k(iota(4, 1, 8))
    odd = np.lib.stride_tricks.as_strided(iota(4, 1, 8), (4, 1, 8), (32, 999 * 4, 4))
    k(odd)  # the stride of a dimension of one element means nothing
    with pytest.raises(ValueError, match="stride"):
        k(iota(4, 1, 16)[:, :, ::2])
    with pytest.raises(ValueError, match="stride"):
        k(iota(8, 1, 4).transpose(2, 1, 0))


def test_strides_that_are_known_or_bound() -> None:
    s = T.dynamic("s")

    @T.prim_func
    def main(
        A: T.StridedTensor((4, 8), (16, 2), "float32"),
        B: T.StridedTensor((4, 8), (s, 1), "float32"),
    ):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(4, 8):
                B[i, j] = A[i, j] + s

    k = compiled(main)
    a = iota(4, 16)
    for width in (8, 11):
        b = np.zeros((4, width), np.float32)
        k(a[:, ::2], b[:, :8])
        np.testing.assert_array_equal(b[:, :8], a[:, ::2] + width)
        assert not b[:, 8:].any()
    with pytest.raises(ValueError, match="stride"):
        k(iota(4, 8), np.zeros((4, 8), np.float32))


def test_tensors_without_elements() -> None:
    m = T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((m, 4), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(T.ceildiv(m, 2), threads=32) as i:
            for j in T.Parallel(4):
                A[i * 2, j] = 1
                B[j] = 7

    k = compiled(main)
    b = np.zeros(4, np.float32)
    k(np.zeros((0, 4), np.float32), b)
    assert not b.any()
    k(np.zeros((1, 4), np.float32), b)
    assert (b == 7).all()


def test_wide_indices() -> None:
    @T.prim_func
    def main(A: T.Tensor((70000, 70000), "int8"), i: T.int32):
        with T.Kernel(1, threads=1):
            A[i, i] = 1

    source = tilelang.lower(main, target="cuda -arch=sm_80").kernel_source
    assert "int64" in source or "long long" in source


# ----------------------------------------------------------------------- §3.7 outside of a tensor

SHAPES = [(32, 32), (33, 31), (5, 7), (64, 1), (1, 65)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("safe", [None, -1.0])
def test_tiles_that_stick_out_read_a_safe_value(shape: tuple[int, int], safe: Any) -> None:
    M, N = shape
    B = 32

    @T.prim_func
    def main(
        A: T.Tensor((M, N), "float32"),
        C: T.Tensor((T.ceildiv(M, B) * B, T.ceildiv(N, B) * B), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, B), T.ceildiv(M, B), threads=64) as (bx, by):
            S = T.alloc_shared((B, B), "float32")
            if safe is not None:
                T.annotate_safe_value({A: safe})
            T.copy(A[by * B, bx * B], S)
            T.copy(S, C[by * B, bx * B])

    c = np.full((-(-M // B) * B, -(-N // B) * B), 9, np.float32)
    compiled(main)(iota(M, N), c)
    want = np.full_like(c, 0 if safe is None else safe)
    want[:M, :N] = iota(M, N)
    np.testing.assert_array_equal(c, want)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_is_written_outside_is_dropped(shape: tuple[int, int]) -> None:
    m, n = T.dynamic("m n")
    B = 32

    @T.prim_func
    def main(C: T.Tensor((m, n), "float32")):
        with T.Kernel(T.ceildiv(n, B), T.ceildiv(m, B), threads=64) as (bx, by):
            F = T.alloc_fragment((B, B), "float32")
            T.fill(F, 3)
            T.copy(F, C[by * B, bx * B])

    M, N = shape
    backing = np.full(M * N + 64, -99, np.float32)
    compiled(main)(backing[: M * N].reshape(M, N))
    assert (backing[: M * N] == 3).all()
    assert (backing[M * N :] == -99).all()


def test_both_ends_are_guarded() -> None:
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((16,), "float32"), at: T.int32):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((16,), "float32")
            T.copy(A[at : at + 16], S)
            T.copy(S, B)
            for i in T.Parallel(16):
                A[i + at] = A[i + at] + 1

    b = np.zeros(16, np.float32)
    for at in (-5, 0, 3, 20, -30):
        a = iota(8)
        compiled(main)(a, b, at)
        places = np.arange(16) + at
        inside = (places >= 0) & (places < 8)
        np.testing.assert_array_equal(b, np.where(inside, places, 0))
        np.testing.assert_array_equal(a, iota(8) + np.isin(np.arange(8), places))


def test_the_tail_of_a_product_is_zero() -> None:
    M, N, K, B = 20, 24, 17, 16

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        W: T.Tensor((K, N), "float16"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, B), T.ceildiv(M, B), threads=32) as (bx, by):
            As = T.alloc_shared((B, B), "float16")
            Ws = T.alloc_shared((B, B), "float16")
            acc = T.alloc_fragment((B, B), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, B), num_stages=2):
                T.copy(A[by * B, k * B], As)
                T.copy(W[k * B, bx * B], Ws)
                T.gemm(As, Ws, acc)
            T.copy(acc, C[by * B, bx * B])

    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (M, K)).astype(np.float16)
    w = rng.integers(-3, 4, (K, N)).astype(np.float16)
    c = np.zeros((M, N), np.float32)
    compiled(main)(a, w, c)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ w.astype(np.float32))
    for arch in ("sm_80", "sm_90a"):
        assert tilelang.lower(main, target=f"cuda -arch={arch}").kernel_source


def test_nested_indices_are_guarded_level_by_level() -> None:
    @T.prim_func
    def main(
        A: T.Tensor((4,), "float32"), I: T.Tensor((6,), "int32"), B: T.Tensor((8,), "float32")
    ):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = A[I[i]]

    b = np.full(8, 9, np.float32)
    compiled(main)(iota(4) + 1, np.array([0, 3, -1, 4, 1 << 20, 2], np.int32), b)
    assert b.tolist() == [1, 4, 0, 0, 0, 3, 1, 1]


def test_no_guard_where_none_is_needed() -> None:
    @T.prim_func
    def main(A: T.Tensor((128, 128), "float32"), B: T.Tensor((128, 128), "float32")):
        with T.Kernel(4, 4, threads=128) as (bx, by):
            for i, j in T.Parallel(32, 32):
                B[by * 32 + i, bx * 32 + j] = A[by * 32 + i, bx * 32 + j]

    assert "if (" not in tilelang.lower(main, target="cuda -arch=sm_80").kernel_source
