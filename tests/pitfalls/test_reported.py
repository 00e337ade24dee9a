# SPDX-License-Identifier: Apache-2.0
"""What users of tile languages have stumbled over: sizes that divide nothing, dependences across
iterations, narrow dtypes, empty loops: the cases of public reports, exactly."""
# ruff: noqa: B023 - a kernel is captured where it is defined, before the loop goes on

from __future__ import annotations

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tests.pitfalls.support import ON, launch, run

SLOW = pytest.mark.slow


@SLOW
@ON
def test_ragged_width(t: str) -> None:
    for N in (1, 31, 127, 128, 129, 192, 229, 256, 257, 384, 1000):

        @T.prim_func
        def main(X: T.Tensor((1, N), "float32"), Y: T.Tensor((1, N), "float32")):
            with T.Kernel(1, threads=128):
                f = T.alloc_fragment((N,), "float32")
                T.copy(X[0, :], f)
                for i in T.Parallel(N):
                    f[i] = f[i] * 2 + 1
                T.copy(f, Y[0, :])

        x = np.random.rand(1, N).astype(np.float32)
        y = np.zeros_like(x)
        launch(main, t, x, y)
        assert (y == x * 2 + 1).all(), N


@SLOW
@ON
def test_column_broadcast(t: str) -> None:
    for BN in (16, 24, 32, 40, 48, 64, 96, 128):

        @T.prim_func
        def main(D: T.Tensor((BN,), "float32"), Y: T.Tensor((16, BN), "float32")):
            with T.Kernel(1, threads=128):
                d = T.alloc_fragment((BN,), "float32")
                x = T.alloc_fragment((16, BN), "float32")
                T.copy(D, d)
                for i, j in T.Parallel(16, BN):
                    x[i, j] = d[j] * 2
                T.copy(x, Y)

        x = np.random.rand(BN).astype(np.float32)
        y = np.zeros((16, BN), np.float32)
        launch(main, t, x, y)
        assert (y == x * 2).all(), BN


@ON
def test_modulo(t: str) -> None:
    for M, N, K in ((2, 512, 3), (4, 48, 5), (32, 32, 7), (8, 64, 16)):

        @T.prim_func
        def main(B: T.Tensor((K,), "float32"), C: T.Tensor((M, N), "float32")):
            with T.Kernel(1, threads=128):
                for i, j in T.Parallel(M, N):
                    C[i, j] = B[j % K]

        b = np.random.rand(K).astype(np.float32)
        c = np.zeros((M, N), np.float32)
        launch(main, t, b, c)
        assert (c == b[np.arange(N) % K]).all()


@ON
def test_big_guarded(t: str) -> None:
    s = T.dynamic("s")

    @T.prim_func
    def main(
        src: T.StridedTensor((1, 8192), (s, 1), "uint8"),
        dst: T.StridedTensor((1, 8192), (s, 1), "uint8"),
    ):
        with T.Kernel(1, threads=128):
            for a, c in T.Parallel(64, 8192):
                if a < 1:
                    dst[a, c] = src[a, c]

    x = np.random.randint(0, 255, (1, 8192)).astype(np.uint8)
    y = np.zeros_like(x)
    launch(main, t, x, y)
    assert (x == y).all()


@ON
def test_absmax_padding(t: str) -> None:
    @T.prim_func
    def main(X: T.Tensor((64, 576), "float32"), O: T.Tensor((64,), "float32")):
        with T.Kernel(64, threads=128) as bx:
            f = T.alloc_fragment((768,), "float32")
            o = T.alloc_fragment((1,), "float32")
            for i in T.Parallel(768):
                f[i] = T.if_then_else(i < 576, X[bx, T.min(i, 575)], 0)
            T.reduce_absmax(f, o, dim=0)
            T.copy(o, O[bx])

    kernel = tilelang.compile(main, target=t)
    for base in range(0, 576, 64):
        x = np.full((64, 576), 0.5, np.float32)
        for r in range(64):
            x[r, base + r] = -(base + r + 2)
        o = np.zeros(64, np.float32)
        run(kernel, t, x, o)
        assert (o == base + np.arange(64) + 2).all(), base


@SLOW
@ON
def test_narrow_reduce(t: str) -> None:
    for dt, vals, want, kind in (
        ("uint32", [100, 10, 20, 30], 100, "absmax"),
        ("uint64", [100, 10, 20, 30], 160, "abssum"),
        ("int32", [10, 25, 40, 30, 15, 42, 20, 20], 202, "sum"),
        ("int16", [10, 25, 40, 30, 15, 42, 20, 20], 202, "sum"),
        ("int8", [10, 25, 40, 30, 15, 42, 20, 20], -54, "sum"),
        ("float16", [10, 25, 40, 30, 15, 42, 20, 20], 202, "sum"),
        ("float32", [10, 25, 40, 30, 15, 42, 20, 20], 202, "sum"),
    ):
        n = len(vals)

        @T.prim_func
        def main(X: T.Tensor((1, n), dt), O: T.Tensor((1,), dt)):
            with T.Kernel(1, threads=32):
                f = T.alloc_fragment((1, n), dt)
                o = T.alloc_fragment((1,), dt)
                T.copy(X, f)
                T.reduce(f, o, kind, dim=1)
                T.copy(o, O)

        o = np.zeros(1, dt)
        launch(main, t, np.array([vals]).astype(dt), o)
        assert o[0] == want, (dt, o)


@ON
def test_read_overwrite(t: str) -> None:
    for n in range(5):

        @T.prim_func
        def main(
            S0: T.Tensor((32,), "int32"),
            A: T.Tensor((8, 32), "int32"),
            O: T.Tensor((2, 32), "int32"),
        ):
            with T.Kernel(1, threads=32):
                S = T.alloc_shared((32,), "int32")
                acc = T.alloc_fragment((32,), "int32")
                acc2 = T.alloc_fragment((32,), "int32")
                T.clear(acc)
                T.clear(acc2)
                T.copy(S0, S)
                for k in T.Pipelined(8, num_stages=n):
                    for j in T.Parallel(32):
                        acc[j] += S[j]
                    T.copy(A[k, :], S)
                for k in T.Pipelined(8, num_stages=n):
                    T.copy(A[k, :], S)
                    for j in T.Parallel(32):
                        acc2[j] += S[j]
                T.copy(acc, O[0, :])
                T.copy(acc2, O[1, :])

        s0 = np.arange(32, dtype=np.int32)
        a = np.random.randint(0, 9, (8, 32)).astype(np.int32)
        o = np.zeros((2, 32), np.int32)
        launch(main, t, s0, a, o)
        assert (o[0] == s0 + a[:7].sum(0)).all(), n
        assert (o[1] == a.sum(0)).all(), n


@SLOW
@ON
def test_single_trip(t: str) -> None:
    for s in (1, 2, 3):
        for trips in (1, 0):

            @T.prim_func
            def main(
                X: T.Tensor((64,), "bfloat16"),
                W: T.Tensor((64, 512), "bfloat16"),
                O: T.Tensor((512,), "float32"),
            ):
                with T.Kernel(2, threads=256) as bx:
                    xs = T.alloc_shared((64,), "bfloat16")
                    ws = T.alloc_shared((64, 256), "bfloat16")
                    acc = T.alloc_fragment((256,), "float32")
                    T.clear(acc)
                    for k in T.Pipelined(trips, num_stages=s):
                        T.copy(X[k * 64], xs)
                        T.copy(W[k * 64, bx * 256], ws)
                        for kk in T.serial(64):
                            for j in T.Parallel(256):
                                acc[j] += T.cast(xs[kk], "float32") * T.cast(ws[kk, j], "float32")
                    T.copy(acc, O[bx * 256])

            torch = pytest.importorskip("torch")
            x = torch.randint(-2, 3, (64,)).bfloat16()
            w = torch.randint(-2, 3, (64, 512)).bfloat16()
            o = torch.full((512,), 7.0)
            launch(main, t, x, w, o)
            assert (o == (x.float() @ w.float() if trips else 0)).all(), (s, trips)


@SLOW
@ON
def test_ragged_k(t: str) -> None:
    for K, BK in ((33, 32), (96, 48), (160, 80), (24, 24), (100, 32)):

        @T.prim_func
        def main(
            A: T.Tensor((128, K), "float16"),
            B: T.Tensor((K, 128), "float16"),
            C: T.Tensor((128, 128), "float32"),
        ):
            with T.Kernel(2, 2, threads=128) as (bx, by):
                As = T.alloc_shared((64, BK), "float16")
                Bs = T.alloc_shared((BK, 64), "float16")
                Cl = T.alloc_fragment((64, 64), "float32")
                T.clear(Cl)
                for k in T.Pipelined(T.ceildiv(K, BK), num_stages=2):
                    T.copy(A[by * 64, k * BK], As)
                    T.copy(B[k * BK, bx * 64], Bs)
                    T.gemm(As, Bs, Cl)
                T.copy(Cl, C[by * 64, bx * 64])

        a = np.random.randint(0, 3, (128, K)).astype(np.float16)
        b = np.random.randint(0, 3, (K, 128)).astype(np.float16)
        c = np.zeros((128, 128), np.float32)
        launch(main, t, a, b, c)
        assert (c == a.astype(np.float32) @ b.astype(np.float32)).all(), (K, BK)


@SLOW
@ON
def test_ragged_1d_store(t: str) -> None:
    for n, b, dt in ((1000, 256, "float32"), (100, 100, "float16"), (7, 7, "int8")):
        for th in (1, 2, 16, 31, 32, 33, 128):

            @T.prim_func
            def main(O: T.Tensor((n,), dt)):
                with T.Kernel(T.ceildiv(n, b), threads=th) as bx:
                    S = T.alloc_shared((b,), dt)
                    for i in T.Parallel(b):
                        S[i] = bx * b + i
                    T.copy(S, O[bx * b])

            back = np.full(n + 64, -7).astype(dt)
            launch(main, t, back[:n])
            assert (back[:n] == np.arange(n).astype(dt)).all(), (n, b, dt, th)
            assert (back[n:] == np.array(-7).astype(dt)).all(), (n, b, dt, th)


@ON
def test_operand_out(t: str) -> None:
    @T.prim_func
    def main(
        A: T.Tensor((128, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
        C: T.Tensor((128, 64), "float32"),
        O: T.Tensor((128, 64), "float16"),
    ):
        with T.Kernel(1, threads=128):
            Bs = T.alloc_shared((64, 64), "float16")
            Af = T.alloc_fragment((128, 64), "float16")
            Cf = T.alloc_fragment((128, 64), "float32")
            So = T.alloc_shared((128, 64), "float16")
            T.copy(A, Af)
            T.copy(B, Bs)
            T.clear(Cf)
            T.gemm(Af, Bs, Cf)
            T.copy(Af, So)
            T.copy(So, O)
            T.copy(Cf, C)

    a = np.random.randint(-3, 3, (128, 64)).astype(np.float16)
    b = np.random.randint(-3, 3, (64, 64)).astype(np.float16)
    c = np.zeros((128, 64), np.float32)
    o = np.zeros_like(a)
    launch(main, t, a, b, c, o)
    assert (o == a).all()
    assert (c == a.astype(np.float32) @ b.astype(np.float32)).all()


@ON
def test_clear_after_read(t: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), O: T.Tensor((2, 64), "float32")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((64,), "float32")
            f = T.alloc_fragment((64,), "float32")
            T.copy(A, S)
            T.copy(S, f)
            T.clear(S)
            T.copy(f, O[0, :])
            T.copy(S, O[1, :])

    a = np.random.rand(64).astype(np.float32)
    o = np.ones((2, 64), np.float32)
    launch(main, t, a, o)
    assert (o[0] == a).all()
    assert (o[1] == 0).all()


@ON
def test_casts(t: str) -> None:
    torch = pytest.importorskip("torch")

    @T.prim_func
    def main(
        I: T.Tensor((5,), "int32"),
        W: T.Tensor((5,), "bfloat16"),
        F: T.Tensor((6,), "float32"),
        E: T.Tensor((6,), "float8_e5m2"),
        Q: T.Tensor((256,), "float8_e4m3fn"),
        H: T.Tensor((256,), "float16"),
    ):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(5):
                W[i] = I[i]
            for i in T.Parallel(6):
                E[i] = F[i]
            for i in T.Parallel(256):
                H[i] = Q[i]

    i = torch.tensor([259, 33000, -259, 257, 1001], dtype=torch.int32)
    w = torch.zeros(5, dtype=torch.bfloat16)
    f = torch.tensor([float("inf"), -float("inf"), 1e5, 65504.0, 57344.0, -1e5])
    e = torch.zeros(6).to(torch.float8_e5m2)
    q = torch.arange(256).to(torch.uint8).view(torch.float8_e4m3fn)
    h = torch.zeros(256, dtype=torch.float16)
    launch(main, t, i, w, f, e, q, h)
    assert w.tolist() == [260, 33024, -260, 256, 1000], w
    inf = float("inf")
    assert e.float().tolist() == [inf, -inf, inf, inf, 57344, -inf]
    want = q.half()
    assert torch.equal(torch.nan_to_num(h, nan=-1), torch.nan_to_num(want, nan=-1))


@ON
def test_misc(t: str) -> None:
    @T.prim_func
    def main(
        A: T.Tensor((16,), "float32"),
        B: T.Tensor((16,), "float32"),
        V: T.Tensor((16,), "int32"),
        U: T.Tensor((16,), "int32"),
    ):
        with T.Kernel(1, threads=1):
            for i in T.serial(16):
                tmp = T.max(A[i], 1)
                B[i] = tmp / 2
                A[i] = tmp * 2
            for i in T.serial(10, 0, -3):
                V[i] = 1
            for i in T.unroll(4, 4, 2):
                U[i] = 1
            for i in T.unroll(0, 7, 3):
                U[i] = 2

    a = np.random.rand(16).astype(np.float32) * 3
    a0 = a.copy()
    b = np.zeros(16, np.float32)
    v = np.zeros(16, np.int32)
    u = np.zeros(16, np.int32)
    launch(main, t, a, b, v, u)
    m = np.maximum(a0, 1)
    assert (b == m / 2).all()
    assert (a == m * 2).all()
    assert list(np.nonzero(v)[0]) == [1, 4, 7, 10]
    assert list(np.nonzero(u)[0]) == [0, 3, 6]


@ON
def test_break_vec(t: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((16,), "int32")):
        with T.Kernel(1, threads=1):
            for i in T.vectorized(16):
                if i == 5:
                    break
                A[i] = i + 1

    a = np.full(16, -7, np.int32)
    launch(main, t, a)
    assert list(a) == [1, 2, 3, 4, 5] + [-7] * 11, a


@ON
def test_odd_gemm(t: str) -> None:
    for M, N, K, th in ((16, 104, 32, 384), (16, 8, 16, 32), (64, 64, 16, 96), (48, 40, 24, 64)):

        @T.prim_func
        def main(
            A: T.Tensor((M, K), "float16"),
            B: T.Tensor((K, N), "float16"),
            C: T.Tensor((M, N), "float32"),
        ):
            with T.Kernel(1, threads=th):
                As = T.alloc_shared((M, K), "float16")
                Bs = T.alloc_shared((K, N), "float16")
                Cl = T.alloc_fragment((M, N), "float32")
                T.copy(A, As)
                T.copy(B, Bs)
                T.clear(Cl)
                T.gemm(As, Bs, Cl)
                T.copy(Cl, C)

        a = np.random.randint(-3, 3, (M, K)).astype(np.float16)
        b = np.random.randint(-3, 3, (K, N)).astype(np.float16)
        c = np.zeros((M, N), np.float32)
        launch(main, t, a, b, c)
        assert (c == a.astype(np.float32) @ b.astype(np.float32)).all(), (M, N, K, th)


@ON
def test_partial_warp(t: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((48,), "int32"), O: T.Tensor((48,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((48,), "int32")
            if tx < 48:
                s[tx] = A[tx]
            if tx < 48:
                O[tx] = s[47 - tx]

    a = np.random.randint(0, 99, 48).astype(np.int32)
    o = np.zeros_like(a)
    launch(main, t, a, o)
    assert (o == a[::-1]).all()


@ON
def test_launch_contract(t: str) -> None:
    n = T.dynamic("n")

    @T.prim_func
    def main(O: T.Tensor((n,), "float32"), A: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 128), threads=128) as bx:
            for i in T.Parallel(128):
                O[bx * 128 + i] = A[bx * 128 + i] + 1

    kernel = tilelang.compile(main, target=t, out_idx=[0])
    a = np.random.rand(77).astype(np.float32)
    assert (run(kernel, t, a) == a + 1).all()
    assert run(kernel, t, np.zeros(0, np.float32)).shape == (0,)
    with pytest.raises((TypeError, ValueError), match="A"):
        run(kernel, t, np.zeros((3, 3), np.float32))
