# SPDX-License-Identifier: Apache-2.0
"""How much `T.copy` copies, and `T.gemm` multiplies, where the user wrote a slice out."""

from __future__ import annotations

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import ShapeError

TARGETS = pytest.mark.parametrize("target", ["llvm", "cuda-sim -arch=sm_80"])


@TARGETS
def test_a_shorter_slice_says_how_much(target: str) -> None:
    @T.prim_func
    def main(
        A: T.Tensor((16,), "float32"),
        B: T.Tensor((16,), "float32"),
        C: T.Tensor((4, 8), "float32"),
        D: T.Tensor((8,), "float32"),
    ):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((8,), "float32")
            f = T.alloc_fragment((4, 8), "float32")
            T.fill(s, -1.0)
            T.fill(f, 3.0)
            T.copy(A[0:4], s)
            T.copy(s, D)
            T.copy(s, B[0:4])
            T.copy(f, C[0:2, 0:3])

    a = np.arange(16, dtype=np.float32) + 1
    b, c, d = np.zeros(16, np.float32), np.zeros((4, 8), np.float32), np.zeros(8, np.float32)
    kernel = tilelang.compile(main, target=target)
    kernel(a, b, c, d)
    assert b.tolist() == [1, 2, 3, 4] + [0] * 12
    assert d.tolist() == [1, 2, 3, 4] + [-1] * 4
    assert c[:2, :3].sum() == c.sum() == 18
    kernel.verify(a, np.zeros_like(b), np.zeros_like(c), np.zeros_like(d))


@TARGETS
def test_offsets_known_at_run_time(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((2, 5, 8), "float32"), B: T.Tensor((16, 8), "float32")):
        with T.Kernel(2, threads=32) as bz:
            s = T.alloc_shared((8, 8), "float32")
            f = T.alloc_fragment((8, 8), "float32")
            T.copy(A[bz, :, :], s)  # `:` is clipped, the rest of the tile is 0
            T.copy(s[bz * 2 : (bz + 1) * 2, :], f)
            T.copy(f, B[bz * 8 + 1 : bz * 8 + 3, 0:8])

    a = np.random.default_rng(0).random((2, 5, 8), np.float32)
    b, want = np.ones((16, 8), np.float32), np.ones((16, 8), np.float32)
    want[1:3], want[9:11] = a[0, :2], a[1, 2:4]
    tilelang.compile(main, target=target)(a, b)
    np.testing.assert_array_equal(b, want)


@TARGETS
def test_slices_of_the_size_of_the_tile_clip(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((50, 32), "float16"), B: T.Tensor((64, 32), "float16")):
        with T.Kernel(2, threads=64) as by:
            s = T.alloc_shared((32, 32), "float16")
            T.copy(A[by * 32 : (by + 1) * 32, :], s)
            T.copy(s, B[by * 32 : (by + 1) * 32, 0:32])

    a = np.random.default_rng(0).random((50, 32)).astype(np.float16)
    b = np.ones((64, 32), np.float16)
    tilelang.compile(main, target=target)(a, b)
    assert (b[:50] == a).all()
    assert not b[50:].any()


def test_a_part_cannot_be_moved_onto_itself() -> None:
    with pytest.raises(ShapeError, match=r"A\[0:32\] and A\[8:40\] overlap") as caught:

        @T.prim_func
        def main(A: T.Tensor((64,), "float32")):
            with T.Kernel(1, threads=32):
                T.copy(A[0:32], A[8:40])

    assert caught.value.span is not None
    assert "fragment" in str(caught.value.help)


@TARGETS
def test_parts_of_one_buffer_that_do_not_meet(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((8, 64), "float32")):
        with T.Kernel(4, threads=32) as bx:
            T.copy(A[bx, 0:32], A[bx + 4, 32:64])
            T.copy(A[bx, :], A[bx, :])

    a = np.random.default_rng(0).random((8, 64), np.float32)
    want = a.copy()
    want[4:, 32:] = a[:4, :32]
    tilelang.compile(main, target=target)(a)
    np.testing.assert_array_equal(a, want)


@pytest.mark.parametrize("target", ["llvm", "c", "cuda-sim -arch=sm_80"])
def test_a_gemm_of_slices_at_a_running_place_has_known_sizes(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((40, 40), "float16"), O: T.Tensor((16, 16), "float32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((40, 40), "float16")
            c = T.alloc_fragment((16, 16), "float32")
            T.copy(A, s)
            T.clear(c)
            for q in T.serial(3):
                T.gemm(s[0:16, 0:7], s[q : q + 7, 0:16], c)
                T.gemm(s[0:7, q : q + 16], s[q : q + 16, 0:7], c, True, True)
            T.copy(c, O)

    a = np.random.default_rng(0).integers(-3, 4, (40, 40)).astype(np.float16)
    out = np.zeros((16, 16), np.float32)
    tilelang.compile(main, target=target)(a, out)
    w = a.astype(np.float32)
    want = sum(
        w[:16, :7] @ w[q : q + 7, :16] + w[:7, q : q + 16].T @ w[q : q + 16, :7].T for q in range(3)
    )
    np.testing.assert_array_equal(out, want)
