# SPDX-License-Identifier: Apache-2.0
"""Hand-written DEVICE kernels through LLVM, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.codegen.llvm_support import block_vars, build, make
from tilelang.ir import Broadcast, Buffer, Builder, Kernel, Ramp, call, const, maximum, session


def test_add_with_a_grid() -> None:
    with session():
        n = 100
        a, b, c = (Buffer(x, (n * 3,), "float32") for x in "abc")
        bx = block_vars()
        w = Builder()
        with w.for_("i", n) as i:
            at = bx[0] * n + i
            w.store(c, (at,), a[at] + b[at])
        run = build(make("add", [a, b, c], w.finish(), (3, 1, 1), bx))
    x, y = np.random.rand(2, 3 * n).astype(np.float32)
    z = np.zeros_like(x)
    assert run(x, y, z, blocks=3) is None
    assert (z == x + y).all()


def softmax_rows(n: int, lanes: int) -> Kernel:
    """One row per block, three passes over vectors."""
    x, y = (Buffer(s, (n * n,), "float32") for s in "xy")
    bx = block_vars()
    w = Builder()
    acc = w.alloc("acc", (lanes,), "float32")
    at = Ramp(const(0), const(1), lanes)

    def row(i: Any) -> Ramp:
        return Ramp(bx[0] * n + i * lanes, const(1), lanes)

    w.store(acc, (at,), Broadcast(const(float("-inf"), "float32"), lanes))
    with w.for_("i", n // lanes) as i:
        w.store(acc, (at,), maximum(acc[at], x[row(i)]))
    top = w.bind("top", call("reduce_lanes_max", [acc[at]], "float32"))
    w.store(acc, (at,), Broadcast(const(0.0, "float32"), lanes))
    with w.for_("i", n // lanes) as i:
        e = w.bind("e", call("exp", [x[row(i)] - Broadcast(top, lanes)], f"float32x{lanes}"))
        w.store(y, (row(i),), e)
        w.store(acc, (at,), acc[at] + e)
    scale = w.bind("scale", const(1.0, "float32") / call("reduce_lanes_add", [acc[at]], "float32"))
    with w.for_("i", n // lanes) as i:
        w.store(y, (row(i),), y[row(i)] * Broadcast(scale, lanes))
    return make("softmax", [x, y], w.finish(), (n, 1, 1), bx)


@pytest.mark.parametrize("lanes", [4, 16])
def test_softmax_rows(lanes: int) -> None:
    n = 64
    with session():
        run = build(softmax_rows(n, lanes))
    x = np.random.randn(n, n).astype(np.float32) * 10
    y = np.empty_like(x)
    assert run(x, y, blocks=n) is None
    e = np.exp((x - x.max(1, keepdims=True)).astype(np.float64))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=2e-6, atol=1e-30)


def gemm_kernel(m: int, n: int, k: int, rows: int, vectors: int, lanes: int) -> Kernel:
    """C = A·B with a register tile of rows x (vectors * lanes), B read in panels."""
    a, b, c = (
        Buffer("a", (m * k,), "float32"),
        Buffer("b", (k * n,), "float32"),
        Buffer("c", (m * n,), "float32"),
    )
    bx = block_vars()
    width = vectors * lanes
    w = Builder()
    acc = w.alloc("acc", (rows * width,), "float32")
    one = const(1)

    def reg(i: int, j: int) -> Ramp:
        return Ramp(const((i * vectors + j) * lanes), one, lanes)

    for i in range(rows):
        for j in range(vectors):
            w.store(acc, (reg(i, j),), Broadcast(const(0.0, "float32"), lanes))
    row, col = bx[1] * rows, bx[0] * width
    with w.for_("p", k) as p:
        bs = [w.bind("b", b[Ramp(p * n + (col + j * lanes), one, lanes)]) for j in range(vectors)]
        for i in range(rows):
            s = w.bind("s", Broadcast(a[(row + i) * k + p], lanes))
            for j in range(vectors):
                w.store(
                    acc, (reg(i, j),), call("fma", [s, bs[j], acc[reg(i, j)]], f"float32x{lanes}")
                )
    for i in range(rows):
        for j in range(vectors):
            w.store(c, (Ramp((row + i) * n + col + j * lanes, one, lanes),), acc[reg(i, j)])
    return make("gemm", [a, b, c], w.finish(), (n // width, m // rows, 1), bx)


def test_gemm_micro_kernel() -> None:
    m, n, k = 48, 64, 33
    with session():
        run = build(gemm_kernel(m, n, k, 6, 2, 16))
    a = np.random.rand(m, k).astype(np.float32)
    b = np.random.rand(k, n).astype(np.float32)
    c = np.empty((m, n), np.float32)
    assert run(a, b, c, blocks=8 * 2) is None
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)
