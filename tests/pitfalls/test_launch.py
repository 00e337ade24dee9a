# SPDX-License-Identifier: Apache-2.0
"""The contract of a call: sizes that are 0, tensors that do not fit, where outputs come from,
strides, side streams."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tests.pitfalls.support import ON, launch, run


@ON
@pytest.mark.parametrize("stages", [0, 2])
def test_products_of_nothing(t: str, stages: int) -> None:
    """K = 0 gives zeros, M = 0 and N = 0 launch nothing; the kernel works afterwards."""
    M, N, K = T.dynamic("M, N, K")

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 32), threads=64) as (bx, by):
            a = T.alloc_shared((32, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=stages):
                T.copy(A[by * 32, k * 32], a)
                T.copy(B[k * 32, bx * 32], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 32, bx * 32])

    kernel = tilelang.compile(main, target=t)
    for m, n, k in ((33, 20, 0), (0, 20, 5), (33, 0, 5), (0, 0, 0), (33, 20, 50)):
        rng = np.random.default_rng(0)
        a = rng.integers(-3, 3, (m, k)).astype(np.float16)
        b = rng.integers(-3, 3, (k, n)).astype(np.float16)
        c = np.full((m, n), -7, np.float32)
        run(kernel, t, a, b, c)
        assert (c == a.astype(np.float32) @ b.astype(np.float32)).all(), (m, n, k)


def scale(n: Any) -> Any:
    @T.prim_func
    def main(O: T.Tensor((n,), "float32"), X: T.Tensor((n,), "float32"), f: T.float32):
        with T.Kernel(T.ceildiv(n, 64), threads=64) as bx:
            for i in T.Parallel(64):
                O[bx * 64 + i] = X[bx * 64 + i] * f

    return main


@ON
def test_an_output_before_its_size_is_known(t: str) -> None:
    kernel = tilelang.compile(scale(T.dynamic("n")), target=t, out_idx=[0])
    for n in (0, 1, 63, 64, 200):
        x = np.arange(n, dtype=np.float32)
        out = run(kernel, t, x, 3.0)
        assert out.shape == (n,)
        assert (out == x * 3).all()


@ON
def test_tensors_that_do_not_fit(t: str) -> None:
    """Refused before anything runs, by the parameter's name."""
    kernel = tilelang.compile(scale(64), target=t)
    good = np.zeros(64, np.float32)
    for bad in (np.zeros((8, 8), np.float32), np.zeros(65, np.float32), np.zeros(64, np.float64)):
        for args in ((good, bad), (bad, good)):
            with pytest.raises((TypeError, ValueError), match=r"parameter [OX]"):
                run(kernel, t, *args, 1.0)
    with pytest.raises((TypeError, ValueError)):
        run(kernel, t, good, good)
    out = good.copy()
    run(kernel, t, out, good + 2, 4.0)
    assert (out == 8).all()


@ON
def test_rows_of_a_wider_matrix(t: str) -> None:
    """A strided view is right where strides are declared and refused where they are not."""
    s = T.dynamic("s")

    @T.prim_func
    def strided(X: T.StridedTensor((40, 50), (s, 1), "float32"), Y: T.Tensor((40, 50), "float32")):
        with T.Kernel(2, threads=64) as bx:
            x = T.alloc_shared((32, 50), "float32")
            T.copy(X[bx * 32, 0], x)
            T.copy(x, Y[bx * 32, 0])

    @T.prim_func
    def dense(X: T.Tensor((40, 50), "float32"), Y: T.Tensor((40, 50), "float32")):
        with T.Kernel(1, threads=64):
            for i, j in T.Parallel(40, 50):
                Y[i, j] = X[i, j]

    torch = pytest.importorskip("torch")
    whole = torch.arange(40 * 128, dtype=torch.float32).reshape(40, 128)
    if tilelang.target.Target(t).is_cuda and not tilelang.target.Target(t).is_sim:
        whole = whole.cuda()
    kernel = tilelang.compile(strided, target=t)
    for view in (whole[:, 3:53], whole[:, 64:114], whole[:, :50].contiguous()):
        y = torch.full_like(view, -7).contiguous()
        kernel(view, y)
        assert torch.equal(y, view)
    with pytest.raises((TypeError, ValueError), match=r"(?s)parameter X.*128"):
        tilelang.compile(dense, target=t)(whole[:, :50], y)


@ON
def test_a_grid_of_nothing(t: str) -> None:
    """Between two kernels that do something."""
    n = T.dynamic("n")

    @T.prim_func
    def main(X: T.Tensor((n,), "int32"), O: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                O[i] = 1
        with T.Kernel(n, threads=32) as bx:
            for i in T.Parallel(4):
                T.atomic_add(O[i], X[bx])
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                O[i] *= 10

    for size in (0, 1, 5):
        o = np.full(4, -7, np.int32)
        launch(main, t, np.full(size, 2, np.int32), o)
        assert (o == 10 + 20 * size).all(), size


@pytest.mark.gpu
def test_a_side_stream_and_a_graph() -> None:
    torch = pytest.importorskip("torch")
    kernel = tilelang.compile(scale(1024), target="cuda")
    x, o = torch.arange(1024, device="cuda").float(), torch.zeros(1024, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        kernel(o, x, 2.0)
    stream.synchronize()
    assert torch.equal(o, x * 2)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(o, x, 3.0)
    x += 1
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(o, x * 3)
