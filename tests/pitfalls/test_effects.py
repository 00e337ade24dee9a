# SPDX-License-Identifier: Apache-2.0
"""Effects that a dependence analysis must see: reads before overwrites, fills, atomics, values
bound to names, views."""

from __future__ import annotations

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tests.pitfalls.support import ON, launch, run


@ON
@pytest.mark.parametrize("stages", [0, 2, 3])
def test_clear_before_and_after_a_pipelined_product(t: str, stages: int) -> None:
    """The ring's buffers are filled before the loop and read after it."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 128), "float16"),
        B: T.Tensor((128, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
        L: T.Tensor((64, 32), "float16"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(a)
            T.fill(b, 3)
            T.clear(c)
            for k in T.Pipelined(4, num_stages=stages):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)
            T.copy(a, L)

    rng = np.random.default_rng(0)
    a = rng.integers(-3, 3, (64, 128)).astype(np.float16)
    b = rng.integers(-3, 3, (128, 64)).astype(np.float16)
    c, last = np.zeros((64, 64), np.float32), np.zeros((64, 32), np.float16)
    launch(main, t, a, b, c, last)
    assert (c == a.astype(np.float32) @ b.astype(np.float32)).all()
    assert (last == a[:, 96:]).all()


@ON
@pytest.mark.parametrize("stages", [0, 1, 2, 4])
def test_what_is_written_late_is_read_in_the_next_trip(t: str, stages: int) -> None:
    """A buffer read before it is written, one written by a fill, one under a condition."""

    @T.prim_func
    def main(A: T.Tensor((7, 32), "int32"), O: T.Tensor((3, 32), "int32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((32,), "int32")
            u = T.alloc_shared((32,), "int32")
            acc = T.alloc_fragment((3, 32), "int32")
            T.clear(acc)
            T.fill(s, 5)
            T.fill(u, 1)
            for k in T.Pipelined(7, num_stages=stages):
                for j in T.Parallel(32):
                    acc[0, j] += s[j]
                if k % 3 == 1:
                    T.copy(A[k, :], u)
                for j in T.Parallel(32):
                    acc[1, j] += u[31 - j]
                T.copy(A[k, :], s)
                for j in T.Parallel(32):
                    acc[2, j] += s[31 - j]
                T.fill(s, k)
            T.copy(acc, O)

    a = np.random.default_rng(1).integers(-9, 9, (7, 32)).astype(np.int32)
    o = np.full((3, 32), -7, np.int32)
    launch(main, t, a, o)
    seen, held = np.zeros(32, np.int64), np.ones(32, np.int64)
    for k in range(7):
        held = a[k] if k % 3 == 1 else held
        seen = seen + held[::-1]
    assert (o[0] == 5 + sum(range(6))).all()
    assert (o[1] == seen).all()
    assert (o[2] == a.sum(axis=0)[::-1]).all()


@ON
def test_an_index_that_is_read_and_then_changed(t: str) -> None:
    @T.prim_func
    def main(I: T.Tensor((64,), "int32"), O: T.Tensor((2, 64), "int32")):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((64,), "int32")
            T.copy(I, s)
            first = s[3]
            for j in T.Parallel(64):
                O[0, j] = s[j] + first
            for j in T.Parallel(64):
                s[j] = s[j] * 2 if j != first else -1
            for j in T.Parallel(64):
                O[1, j] = s[63 - j] + first

    x = np.arange(64, dtype=np.int32) + 5
    o = np.full((2, 64), -7, np.int32)
    launch(main, t, x, o)
    assert (o[0] == x + 8).all()
    after = np.where(np.arange(64) == 8, -1, x * 2)
    assert (o[1] == after[::-1] + 8).all()


@ON
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
def test_atomics(t: str, dtype: str) -> None:
    """Of a float32 fragment into every dtype, whole tiles, single elements, in shared memory; what
    comes after sees them all."""
    import ml_dtypes

    @T.prim_func
    def main(S: T.Tensor((40,), "float32"), D: T.Tensor((3, 40), dtype), O: T.Tensor((40,), dtype)):
        with T.Kernel(1, threads=64):
            f = T.alloc_fragment((40,), "float32")
            s = T.alloc_shared((40,), "float32")
            T.copy(S, f)
            T.clear(s)
            T.atomic_add(D[0, :], f)
            for i in T.Parallel(40):
                T.atomic_add(D[1, i], f[i])
                T.atomic_add(s[i // 2], f[i])
            for i in T.Parallel(40):
                O[i] = s[i]
            for i in T.Parallel(40):
                s[i] = 0
            for i, j in T.Parallel(40, 3):
                T.atomic_add(D[2, 0], T.cast(1, dtype))

    np_dtype = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    x = (np.arange(40) % 8 + 1).astype(np.float32)
    d, o = np.zeros((3, 40), np_dtype), np.zeros(40, np_dtype)
    launch(main, t, x, d, o)
    assert (d[0].astype(np.float32) == x).all()
    assert (d[1].astype(np.float32) == x).all()
    assert float(d[2, 0]) == 120
    assert (o.astype(np.float32)[:20] == x.reshape(20, 2).sum(axis=1)).all()
    assert (o.astype(np.float32)[20:] == 0).all()


@ON
def test_atomics_give_what_was_there(t: str) -> None:
    @T.prim_func
    def main(C: T.Tensor((3,), "int32"), O: T.Tensor((2, 200), "int32")):
        with T.Kernel(2, threads=100) as bx:
            for i in T.Parallel(100):
                O[0, bx * 100 + i] = T.atomic_add(C[0], 2, return_prev=True)
                T.atomic_max(C[1], bx * 100 + i)
                T.atomic_min(C[2], -(bx * 100 + i))
                O[1, bx * 100 + i] = 1

    c, o = np.zeros(3, np.int32), np.full((2, 200), -7, np.int32)
    launch(main, t, c, o)
    assert list(c) == [400, 199, -199]
    assert sorted(o[0]) == list(range(0, 400, 2))


@ON
def test_views_of_a_swizzled_buffer(t: str) -> None:
    """The tile of a tensor-core operand, seen as another shape and in another dtype."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
        F: T.Tensor((4096,), "float16"),
        W: T.Tensor((64, 64), "uint16"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            flat = T.view(a, (4096,))
            word = T.view(b, dtype="uint16")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c)
            T.copy(flat, F)
            T.copy(word, W)
            for i in T.Parallel(64):
                flat[i * 64 + 3] = 1
            T.gemm(a, b, c)
            T.copy(c, C)

    rng = np.random.default_rng(5)
    a, b = (rng.integers(-3, 3, (64, 64)).astype(np.float16) for _ in range(2))
    c = np.zeros((64, 64), np.float32)
    f, w = np.zeros(4096, np.float16), np.zeros((64, 64), np.uint16)
    launch(main, t, a, b, c, f, w)
    assert (f == a.reshape(-1)).all()
    assert (w == b.view(np.uint16)).all()
    changed = a.astype(np.float32)
    changed[:, 3] = 1
    assert (c == (a.astype(np.float32) + changed) @ b.astype(np.float32)).all()


@ON
def test_a_reduction_over_rows_of_an_operand(t: str) -> None:
    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((64, 32), "float16"),
        C: T.Tensor((64, 32), "float32"),
        R: T.Tensor((64,), "float16"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 32), "float16")
            c = T.alloc_fragment((64, 32), "float32")
            r = T.alloc_fragment((64,), "float16")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c)
            T.reduce_max(a, r, dim=1)
            for i, j in T.Parallel(64, 32):
                c[i, j] += r[i]
            T.copy(c, C)
            T.copy(r, R)

    rng = np.random.default_rng(6)
    a = rng.integers(-9, 9, (64, 64)).astype(np.float16)
    b = rng.integers(-3, 3, (64, 32)).astype(np.float16)
    c, r = np.zeros((64, 32), np.float32), np.zeros(64, np.float16)
    launch(main, t, a, b, c, r)
    assert (r == a.max(axis=1)).all()
    want = a.astype(np.float32) @ b.astype(np.float32) + a.max(axis=1, keepdims=True)
    assert (c == want).all()


@ON
def test_clear_before_a_product_of_warp_roles(t: str) -> None:
    """Tiles that TMA loads and wgmma reads; the writes outside of the loop are never seen."""

    @T.prim_func
    def main(
        A: T.Tensor((128, 256), "float16"),
        B: T.Tensor((256, 128), "float16"),
        C: T.Tensor((128, 128), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 128), "float16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(a)
            for i, j in T.Parallel(64, 128):
                b[i, j] = 7
            T.clear(c)
            for k in T.Pipelined(4, num_stages=3):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)
            T.clear(a)
            T.copy(c, C)

    rng = np.random.default_rng(0)
    a = rng.integers(-3, 3, (128, 256)).astype(np.float16)
    b = rng.integers(-3, 3, (256, 128)).astype(np.float16)
    c = np.zeros((128, 128), np.float32)
    launch(main, t, a, b, c)
    assert (c == a.astype(np.float32) @ b.astype(np.float32)).all()


@ON
def test_atomics_of_every_thread(t: str) -> None:
    """Outside of `T.Parallel` every thread of the block makes the update, whether or not the kernel
    speaks of threads; one that takes a fragment's element is made by the element's owner."""

    @T.prim_func
    def main(X: T.Tensor((64,), "int32"), C: T.Tensor((7,), "int32")):
        with T.Kernel(2, threads=(32, 2)) as b:
            x = T.alloc_fragment((64,), "int32")
            s = T.alloc_shared((1,), "int32")
            old = T.alloc_var("int32", 0)
            T.copy(X, x)
            T.clear(s)
            T.atomic_add(C[0], 1)
            old = T.atomic_add(C[1], 1, return_prev=True)
            T.atomic_max(C[2], old)
            for _ in range(3):
                T.atomic_add(s[0], 1)
            T.atomic_add(C[3], x[5])
            for _ in T.Parallel(10):
                T.atomic_add(C[4], 1)
            T.atomic_add(C[5 + b], s[0])

    x, c = np.arange(64, dtype=np.int32), np.zeros(7, np.int32)
    kernel = tilelang.compile(main, target=t)
    run(kernel, t, x, c)
    assert list(c) == [128, 128, 127, 10, 20, 64 * 192, 64 * 192]
    if t == "llvm":
        kernel.verify(x, np.zeros(7, np.int32))
