# SPDX-License-Identifier: Apache-2.0
"""`tl.enable_fast_math` on a CPU permits contraction and reciprocals, never a wrong function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T

FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "exp": torch.exp, "exp2": torch.exp2, "exp10": lambda x: 10**x, "log": torch.log,
    "log2": torch.log2, "log10": torch.log10, "log1p": torch.log1p, "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "sin": torch.sin,
    "cos": torch.cos, "tan": torch.tan, "sinh": torch.sinh, "cosh": torch.cosh, "asin": torch.asin,
    "acos": torch.acos, "atan": torch.atan, "erf": torch.erf, "floor": torch.floor,
    "ceil": torch.ceil, "trunc": torch.trunc, "round": torch.round, "abs": torch.abs,
}  # fmt: skip
EDGES = [float("inf"), float("-inf"), float("nan"), 0.0, -2.25, 37.0, -37.0]


def kernel(target: str, dtype: str, size: int) -> Any:
    """Row j of B: function j of A."""
    chosen = [getattr(T, name) for name in FUNCTIONS]

    @T.prim_func
    def every(A: T.Tensor((size,), dtype), B: T.Tensor((len(chosen), size), dtype)):
        with T.Kernel(1, threads=32):
            for j, function in enumerate(chosen):
                for i in T.Parallel(size):
                    B[j, i] = function(A[i])

    return tilelang.compile(every, target=target, pass_configs={"tl.enable_fast_math": True})


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("target", ["c", "llvm"])
def test_every_function(target: str, dtype: str) -> None:
    kind = getattr(torch, dtype)
    a = torch.cat([torch.linspace(0.05, 0.93, 37), torch.tensor(EDGES)]).to(kind)
    b = torch.empty((len(FUNCTIONS), len(a)), dtype=kind)
    kernel(target, dtype, len(a))(a, b)
    close = {"rtol": 2e-3, "atol": 1e-3} if dtype == "float16" else {"rtol": 3e-6, "atol": 1e-6}
    for got, (name, function) in zip(b, FUNCTIONS.items(), strict=True):
        exact = function(a.double()).to(kind)
        assert torch.allclose(got, exact, equal_nan=True, **close), (name, got, exact)


@pytest.mark.parametrize("target", ["c", "llvm"])
def test_pow_and_atan2(target: str) -> None:
    @T.prim_func
    def f(A: T.Tensor((37,), "float32"), B: T.Tensor((2, 37), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(37):
                B[0, i] = T.pow(A[i], T.float32(2.3))
                B[1, i] = T.atan2(A[i], T.float32(0.7))

    a, b = torch.linspace(0.05, 9, 37), torch.empty(2, 37)
    tilelang.compile(f, target=target, pass_configs={"tl.enable_fast_math": True})(a, b)
    torch.testing.assert_close(b[0], a**2.3)
    torch.testing.assert_close(b[1], torch.atan2(a, torch.tensor(0.7)))
