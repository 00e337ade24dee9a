# SPDX-License-Identifier: Apache-2.0
"""Reductions along rows of every length, as users write them, on the CPU targets."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.target import Target

TARGETS = ("llvm", "c")
ROWS = 5
LENGTHS = (1, 3, 16, 31, 64, 77, 300)


@tilelang.jit
def fold(kind: str, n: int, dtype: str, clear: bool = True, nan: bool = False) -> Any:
    op = getattr(T, f"reduce_{kind}")
    options = {"nan_propagate": True} if nan else {}

    @T.prim_func
    def main(X: T.Tensor((ROWS, n), dtype), Y: T.Tensor((ROWS,), dtype)):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((ROWS, n), dtype)
            y = T.alloc_fragment((ROWS,), dtype)
            T.copy(X, x)
            T.copy(Y, y)
            op(x, y, dim=1, clear=clear, **options)
            T.copy(y, Y)

    return main


FOLDS = {
    "sum": np.sum, "abssum": lambda x, axis: np.abs(x).sum(axis), "max": np.max, "min": np.min,
    "absmax": lambda x, axis: np.abs(x).max(axis), "bitand": np.bitwise_and.reduce,
    "bitor": np.bitwise_or.reduce, "bitxor": np.bitwise_xor.reduce,
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (kind, dtype)
        for kind in FOLDS
        for dtype in ("float32", "float64", "int32", "int8")
        if not (kind.startswith("bit") and dtype.startswith("float"))
    ],
)
def test_every_length(kind: str, dtype: str, target: str) -> None:
    rng = np.random.default_rng(0)
    for n in LENGTHS[:: 1 if target == "llvm" and dtype == "float32" else 3]:
        x = rng.integers(-3, 4, (ROWS, n)).astype(dtype)
        y = np.full(ROWS, 77, dtype)
        with Target(target):
            fold(kind, n, dtype)(x, y)
        np.testing.assert_array_equal(y, FOLDS[kind](x, axis=1).astype(dtype))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("n", [5, 16, 200])
def test_nan(kind: str, n: int, target: str) -> None:
    """A NaN anywhere is ignored, or decides; a row of nothing else gives the neutral element."""
    x = np.random.default_rng(1).standard_normal((ROWS, n)).astype(np.float32)
    for row, at in enumerate((0, n // 2, n - 1)):
        x[row, at] = np.nan
    x[3] = np.nan
    old = np.array([np.nan, 0, np.nan, 0, 0], np.float32)
    for clear in (True, False):
        y, z = old.copy(), old.copy()
        with Target(target):
            fold(kind, n, "float32", clear)(x, y)
            fold(kind, n, "float32", clear, True)(x, z)
        both = x if clear else np.concatenate([x, old[:, None]], axis=1)
        neutral = -np.inf if kind == "max" else np.inf
        ignoring = {"max": np.fmax, "min": np.fmin}[kind].reduce(both, axis=1)
        want = np.where(np.isnan(ignoring), neutral, ignoring)
        np.testing.assert_array_equal(y, want)
        np.testing.assert_array_equal(z, FOLDS[kind](both, axis=1))


def test_a_long_row_has_independent_partial_sums() -> None:
    """One chain of additions would wait for the latency of each."""
    with Target("llvm -mcpu=x86-64-v4"):
        text = tilelang.lower(fold.get_tir("sum", 300, "float32")).kernel_source
    blocks = re.split(r"\n[a-z]+\.\d+:\n", text)
    assert any(b.count("fadd <16 x float>") == 4 for b in blocks)
