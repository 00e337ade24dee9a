# SPDX-License-Identifier: Apache-2.0
"""The kernels of the zoo mean what their docstrings say: by the oracle, on the CPU, on a simulated
GPU; compared with numpy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilelang
from tilelang.interp import tile
from tilelang.testing import kernels

RNG = np.random.default_rng
EXECUTORS = ("oracle", "llvm", "cuda-sim -arch=sm_80")
executor = "oracle"


def _f16(*shape: int) -> np.ndarray:
    return RNG(0).integers(-3, 4, shape).astype(np.float16)


def _run(func: Any, *args: Any) -> None:
    if executor == "oracle":
        tile.run(func, *args)
    else:
        tilelang.compile(func, target=executor)(*args)


def check_add() -> None:
    a, b, c = (
        RNG(0).random(1000, np.float32),
        RNG(1).random(1000, np.float32),
        np.zeros(1000, np.float32),
    )
    _run(kernels.add(), a, b, c)
    np.testing.assert_array_equal(c, a + b)


def check_add_tiles() -> None:
    a, b, c = _f16(70, 50), _f16(70, 50) * 2, np.zeros((70, 50), np.float16)
    _run(kernels.add_tiles(), a, b, c)
    np.testing.assert_array_equal(c, a + b)


def check_matmul() -> None:
    a, b = _f16(96, 72), _f16(72, 80)
    for trans_a in (False, True):
        for trans_b in (False, True):
            c = np.zeros((96, 80), np.float32)
            func = kernels.matmul(trans_A=trans_a, trans_B=trans_b)
            _run(
                func,
                np.ascontiguousarray(a.T if trans_a else a),
                np.ascontiguousarray(b.T if trans_b else b),
                c,
            )
            np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


def check_matmul_bias_relu() -> None:
    a, b, bias, c = _f16(77, 104), _f16(104, 100), _f16(100), np.zeros((77, 100), np.float16)
    _run(kernels.matmul_bias_relu(), a, b, bias, c)
    want = np.maximum(a.astype(np.float32) @ b.astype(np.float32) + bias.astype(np.float32), 0)
    np.testing.assert_array_equal(c, want.astype(np.float16))


def check_matmul_dynamic() -> None:
    for m, n, k in ((1, 1, 1), (33, 65, 40), (64, 32, 0)):
        a, b, c = _f16(m, k), _f16(k, n), np.full((m, n), 7, np.float32)
        _run(kernels.matmul_dynamic(), a, b, c)
        np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


def check_softmax() -> None:
    a, b = RNG(0).standard_normal((10, 100), np.float32), np.zeros((10, 100), np.float32)
    _run(kernels.softmax(), a, b)
    e = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(b, e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-7)


def check_attention() -> None:
    for causal in (True, False):
        q, k, v = (RNG(n).standard_normal((1, 80, 2, 32)).astype(np.float16) for n in range(3))
        o = np.zeros_like(q)
        _run(kernels.attention(seq=80, causal=causal), q, k, v, o)
        s = np.einsum("bihd,bjhd->bhij", q.astype(np.float32), k.astype(np.float32)) / 32**0.5
        if causal:
            s = np.where(np.tril(np.ones((80, 80), bool)), s, -np.inf)
        w = np.exp(s - s.max(-1, keepdims=True))
        w /= w.sum(-1, keepdims=True)
        np.testing.assert_allclose(
            o, np.einsum("bhij,bjhd->bihd", w, v.astype(np.float32)), rtol=2e-2, atol=5e-3
        )


def check_transpose() -> None:
    a, b = RNG(0).random((70, 45), np.float32), np.zeros((45, 70), np.float32)
    _run(kernels.transpose(), a, b)
    np.testing.assert_array_equal(b, a.T)


def check_transpose_strided() -> None:
    a, b = RNG(0).random((33, 40), np.float32), np.zeros((40, 33), np.float32)
    _run(kernels.transpose_strided(), a, b.T)
    np.testing.assert_array_equal(b, a.T)


def check_conditional_pipeline() -> None:
    a, mask, b = (
        RNG(0).random((6, 64), np.float32),
        np.array([1, 0, 1, 1, 0, 1], np.int32),
        np.zeros(64, np.float32),
    )
    _run(kernels.conditional_pipeline(), a, mask, b)
    np.testing.assert_allclose(b, a[mask != 0].sum(0), rtol=1e-6)


def check_continue_in_pipeline() -> None:
    a, mask, b = (
        RNG(0).random((7, 64), np.float32),
        np.array([1, 0, 1, 1, 0, 1, 0], np.int32),
        np.zeros(64, np.float32),
    )
    _run(kernels.continue_in_pipeline(), a, mask, b)
    np.testing.assert_allclose(b, a[mask != 0].sum(0), rtol=1e-6)


def check_read_then_overwrite() -> None:
    first, a, b = (
        np.arange(32, dtype=np.int32),
        RNG(0).integers(0, 9, (8, 32)).astype(np.int32),
        np.zeros(32, np.int32),
    )
    _run(kernels.read_then_overwrite(), first, a, b)
    np.testing.assert_array_equal(b, first + a[:7].sum(0))


def check_two_gemms() -> None:
    a, b, d, c = _f16(32, 32), _f16(128, 32), _f16(128, 32), np.zeros((32, 32), np.float32)
    _run(kernels.two_gemms(), a, b, d, c)
    want = np.zeros((32, 32), np.float32)
    for k in range(4):
        inner = (a.astype(np.float32) @ b[k * 32 :][:32].astype(np.float32)).astype(np.float16)
        want += inner.astype(np.float32) @ d[k * 32 :][:32].astype(np.float32)
    np.testing.assert_array_equal(c, want)


def check_reductions() -> None:
    a = RNG(0).integers(-9, 9, (20, 48)).astype(np.float32)
    for kind, want in (("sum", a.sum(1)), ("max", a.max(1)), ("absmax", np.abs(a).max(1))):
        b = np.zeros(20, np.float32)
        _run(kernels.reductions(kind=kind), a, b)
        np.testing.assert_array_equal(b, want)


def _collatz(x: int) -> int:
    steps = 0
    while x != 1:
        x, steps = (x // 2 if x % 2 == 0 else 3 * x + 1), steps + 1
    return steps


def check_control_flow() -> None:
    a = np.arange(-5, 35, dtype=np.int32)
    b = np.zeros(40, np.int32)
    _run(kernels.control_flow(), a, b)
    want = [_collatz(x) if x > 0 else -1 for x in a]
    for k in (2, 5):
        want[int(np.where(a == -k)[0][0])] = -1 - k
    np.testing.assert_array_equal(b, want)


def check_dtype_casts() -> None:
    a = (RNG(0).standard_normal(64) * 90).astype(np.float32)
    h, w, d, i, j = (
        np.zeros(64, t) for t in (np.float16, "bfloat16", np.float64, np.int32, np.int8)
    )
    _run(kernels.dtype_casts(), a, h, w, d, i, j)
    np.testing.assert_array_equal(h, a.astype(np.float16))
    np.testing.assert_array_equal(d, a.astype(np.float64) / 3)
    np.testing.assert_array_equal(i, a.view(np.int32) ^ 1)
    np.testing.assert_array_equal(j, np.clip(a.astype(np.int32), -100, 100))


def check_vectors() -> None:
    a, b = RNG(0).random(64, np.float32), np.zeros(64, np.float32)
    _run(kernels.vectors(), a, b)
    np.testing.assert_array_equal(b, a * np.float32(2) + np.tile(np.arange(8, dtype=np.float32), 8))


def check_two_kernels() -> None:
    a, b = RNG(0).random(256, np.float32), np.zeros(256, np.float32)
    _run(kernels.two_kernels(), a, b)
    np.testing.assert_array_equal(b, a[::-1] * 2)


def check_histogram() -> None:
    a, b = RNG(0).integers(0, 1000, 500).astype(np.int32), np.zeros(16, np.int32)
    _run(kernels.histogram(), a, b)
    np.testing.assert_array_equal(b, np.bincount(a % 16, minlength=16))


def check_persistent() -> None:
    for m, n, workers in ((4, 7, 3), (1, 1, 3), (4, 12, 3), (7, 11, 5), (3, 17, 4)):
        b = np.zeros((m, n), np.int32)
        _run(kernels.persistent(m, n, workers), b)
        np.testing.assert_array_equal(b, 1)


def check_scalars() -> None:
    a, b = RNG(0).random(100, np.float32), np.zeros(100, np.float32)
    _run(kernels.scalars(), a, b, 2.5, 3)
    np.testing.assert_array_equal(b, a * np.float32(2.5) + np.float32(3))


CHECKS: dict[str, Callable[[], None]] = {
    n[6:]: f for n, f in list(globals().items()) if n.startswith("check_")
}


@pytest.mark.parametrize("where", EXECUTORS)
@pytest.mark.parametrize("name", list(kernels.ZOO))
def test_meaning(name: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "executor", where)
    CHECKS[name]()
