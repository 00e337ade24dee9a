# SPDX-License-Identifier: Apache-2.0
"""Division means the same on every target and in the interpreter, where C defines nothing too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.interp import tile

TARGETS = ("llvm", "c", "cuda-sim -arch=sm_80", "interpreter")
on_all = pytest.mark.parametrize("target", TARGETS)


def _run(target: str, main: Any, *arrays: Any) -> None:
    if target == "interpreter":
        tile.run(main, *arrays)
    else:
        tilelang.compile(main, target=target)(*arrays)


@on_all
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_floats(target: str, dtype: str) -> None:
    large = 6e4 if dtype == "float16" else 1e10
    pairs = np.array(
        [(large, 3), (5, np.inf), (-5, np.inf), (5, -np.inf), (-5, 3), (5.5, -3), (-5.5, -3),
         (0, 2), (np.inf, 3), (np.nan, 3), (7, 0), (3, 0.1)]
    ).astype(T.dtype(dtype).as_numpy()).T  # fmt: skip
    a, b, n = *np.ascontiguousarray(pairs), pairs.shape[1]

    @T.prim_func
    def main(
        A: T.Tensor((n,), dtype),
        B: T.Tensor((n,), dtype),
        Q: T.Tensor((n,), dtype),
        R: T.Tensor((n,), dtype),
        S: T.Tensor((n,), dtype),
    ):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                Q[i] = A[i] // B[i]
                R[i] = A[i] % B[i]
                S[i] = T.truncmod(A[i], B[i])

    out = [np.zeros_like(a) for _ in range(3)]
    _run(target, main, a, b, *out)
    wide = np.float64 if dtype == "float64" else np.float32
    x, y = a.astype(wide), b.astype(wide)
    with np.errstate(all="ignore"):
        expected = (np.floor(x / y), x % y, np.fmod(x, y))
    for got, want in zip(out, expected, strict=True):
        np.testing.assert_array_equal(got.astype(wide), want.astype(a.dtype).astype(wide))


def _truncated(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


@on_all
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint32"])
def test_integers_by_zero_and_the_least_by_minus_one(target: str, dtype: str) -> None:
    low = int(np.iinfo(dtype).min)
    pairs = [(low, 0), (7, 0), (9, 4), (100, 1)]
    pairs += [(low, -1), (-7, 0), (-9, 4), (9, -4)] if low else []
    n = len(pairs)

    @T.prim_func
    def main(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), Out: T.Tensor((6, n), dtype)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                Out[0, i] = A[i] // B[i]
                Out[1, i] = A[i] % B[i]
                Out[2, i] = T.truncdiv(A[i], B[i])
                Out[3, i] = T.truncmod(A[i], B[i])
                Out[4, i] = A[i] // 0
                Out[5, i] = A[i] % 0

    out = np.ones((6, n), dtype)
    _run(target, main, *np.array(pairs, dtype).T.copy(), out)

    def row(floor: bool, modulo: bool) -> list[int]:
        quotients = [0 if b == 0 else a // b if floor else _truncated(a, b) for a, b in pairs]
        rests = [0 if b == 0 else a - b * q for (a, b), q in zip(pairs, quotients, strict=True)]
        return rests if modulo else [low if q > np.iinfo(dtype).max else q for q in quotients]

    want = [row(True, False), row(True, True), row(False, False), row(False, True)]
    np.testing.assert_array_equal(out, np.array([*want, [0] * n, [0] * n]).astype(dtype))
