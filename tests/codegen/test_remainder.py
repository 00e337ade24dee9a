# SPDX-License-Identifier: Apache-2.0
"""fmod and % of float vectors: the bits of numpy's, and no call of the C library in the loop."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T

N = 4096
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4e38, 5.5, -5.5, 2.0**24]


def _values(dtype: str, seed: int) -> Any:
    """Edge values in every pair, and numbers of all sizes."""
    rng = np.random.default_rng(seed)
    size = 60 if dtype == "float32" else 400
    out = rng.standard_normal(N) * 2.0 ** rng.integers(-size, size, N)
    out[: N // 2] = rng.standard_normal(N // 2) * 2.0 ** rng.integers(-8, 8, N // 2)
    out[N // 2 : N // 2 + 512] = rng.integers(-40, 40, 512) / 4
    return out.astype(dtype)


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bits(dtype: str, target: str) -> None:
    @T.prim_func
    def main(
        X: T.Tensor((N,), dtype),
        Y: T.Tensor((N,), dtype),
        F: T.Tensor((N,), dtype),
        M: T.Tensor((N,), dtype),
    ):
        with T.Kernel(1):
            for i in T.Parallel(N):
                F[i] = T.fmod(X[i], Y[i])
                M[i] = X[i] % Y[i]

    kernel = tilelang.compile(main, target=target)
    x, y = _values(dtype, 1), _values(dtype, 2)
    pairs = np.array(np.meshgrid(SPECIAL, SPECIAL)).reshape(2, -1)
    x[: pairs.shape[1]], y[: pairs.shape[1]] = pairs
    f, m = np.empty_like(x), np.empty_like(x)
    kernel(x, y, f, m)
    with np.errstate(all="ignore"):
        want = np.fmod(x, y)
        np.testing.assert_array_equal(f, want)
        same_sign = np.signbit(f) == np.signbit(want)
        assert (same_sign | np.isnan(want)).all()
        wrong = (want != 0) & ((want < 0) ^ (y < 0))
        np.testing.assert_array_equal(m, np.where(wrong, want + y, want))


def test_the_usual_way_calls_nothing() -> None:
    @T.prim_func
    def main(X: T.Tensor((N,), "float32"), F: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(N):
                F[i] = T.fmod(X[i], 1.5)

    text = tilelang.compile(main, target="llvm").get_kernel_source()
    body = re.search(r"@tl\.fmod\.v\d+\(.*?\n}", text, re.S)
    assert body is not None
    usual, rare = body[0].split("rare", 1)
    assert "frem" not in usual
    assert rare.count("frem") == 1
