# SPDX-License-Identifier: Apache-2.0
"""The float32 vector functions: error in ULP against a wider type, and the special values of
C99."""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.codegen import llvm_support
from tests.codegen.llvm_support import build, make
from tilelang.ir import Buffer, Builder, Ramp, Var, call, const, session

LANES = 16
Array = np.ndarray[Any, Any]
WIDE = np.longdouble


def erf(x: Array) -> Array:
    """By its Taylor series near 0 and its continued fraction beyond 2.5, in long double."""
    a = np.minimum(np.abs(x), WIDE(7))
    term, total = a.copy(), a.copy()
    for n in range(1, 120):
        term = -term * a * a / n
        total = total + term / (2 * n + 1)
    series = total * 2 / np.sqrt(WIDE(np.pi))
    tail = a.copy()
    for n in range(80, 0, -1):
        tail = a + (WIDE(n) / 2) / np.where(tail == 0, WIDE(1), tail)
    fraction = 1 - np.exp(-a * a) / (np.where(tail == 0, WIDE(1), tail) * np.sqrt(WIDE(np.pi)))
    out = np.copysign(np.where(a < 2.5, series, fraction), x)
    return np.where(np.isnan(x), x, np.where(x == 0, x, out))


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


# name -> (what it should be, the bound that codegen/llvm/math.py states)
UNARY: dict[str, tuple[Callable[[Array], Array], float]] = {
    "exp": (np.exp, 2), "exp2": (np.exp2, 2), "exp10": (lambda x: np.power(WIDE(10), x), 2),
    "log": (np.log, 2), "log2": (np.log2, 2), "log10": (np.log10, 2), "log1p": (np.log1p, 2),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 2), "sigmoid": (sigmoid, 3), "tanh": (np.tanh, 2),
    "sin": (np.sin, 2), "cos": (np.cos, 2), "tan": (np.tan, 4), "sinh": (np.sinh, 2),
    "cosh": (np.cosh, 2), "asin": (np.arcsin, 3), "acos": (np.arccos, 2), "atan": (np.arctan, 2),
    "erf": (erf, 3), "sqrt": (np.sqrt, 1), "fast_exp": (np.exp, 2), "fast_rcp": (lambda x: 1 / x,
    1),
}  # fmt: skip
BINARY: dict[str, tuple[Callable[[Array, Array], Array], float]] = {
    "pow": (np.power, 1),
    "atan2": (np.arctan2, 2),
}


def run(op: str, *inputs: Array, dtype: str = "float32", lanes: int = LANES) -> Array:
    out = np.empty(len(inputs[0]), inputs[0].dtype)
    assert (
        _kernel(op, len(inputs), dtype, lanes, llvm_support.backend)(
            *inputs, out, len(out) // lanes
        )
        is None
    )
    return out


@cache
def _kernel(op: str, count: int, dtype: str, lanes: int, backend: str) -> Callable[..., str | None]:
    with session():
        xs = [Buffer(f"x{k}", (1 << 24,), dtype) for k in range(count)]
        y, n = Buffer("y", (1 << 24,), dtype), Var("n")
        w = Builder()
        with w.for_("i", n) as i:
            at = i if lanes == 1 else Ramp(i * lanes, const(1), lanes)
            w.store(y, (at,), call(op, [x[at] for x in xs], y.dtype.with_lanes(lanes)))
        return build(make("f", [*xs, y, n], w.finish()))


def ulp(got: Array, exact: Array) -> Array:
    """Distance in units of the last place of the exact result; special values must agree."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        top = np.finfo(np.float32).max
        unit = np.maximum(np.spacing(np.minimum(np.abs(rounded), top)).astype(WIDE), 2.0**-149)
        error = np.abs(got.astype(WIDE) - exact) / unit
        error = np.where((got == rounded) | (np.isnan(got) & np.isnan(rounded)), 0, error)
    return np.where(np.isnan(error), np.inf, error)


def values(seed: int, count: int = 1 << 15) -> Array:
    """Patterns over all of float32, and the ranges where functions bend."""
    rng = np.random.default_rng(seed)
    special = np.array(
        [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 88.7, 89, -103.9, -104, 9, 4, 0.5],
        np.float32,
    )
    parts = [
        np.arange(0, 2**32, 65521, dtype=np.uint64).astype(np.uint32).view(np.float32)[:65536],
        rng.standard_normal(count), rng.uniform(-100, 100, count),
        1 + rng.standard_normal(count) / 10, rng.uniform(-1.2, 1.2, count), rng.integers(-1000,
        1000, count) * (np.pi / 2),
    ]  # fmt: skip
    out = np.concatenate([special, *(p.astype(np.float32) for p in parts)])
    return out[: len(out) // LANES * LANES]


@pytest.mark.parametrize("op", UNARY)
def test_unary(op: str) -> None:
    reference, bound = UNARY[op]
    x = values(0)
    got = run(op, x)
    with np.errstate(all="ignore"):
        exact = np.asarray(reference(x.astype(WIDE)))
    error = ulp(got, exact)
    worst = int(np.argmax(error))
    assert error[worst] <= bound, (op, x[worst], got[worst], exact[worst])
    odd = exact == 0
    assert (np.signbit(got[odd]) == np.signbit(exact[odd])).all()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names an x86 CPU")
@pytest.mark.parametrize("op", ["exp", "sin", "erf"])
def test_without_fused_multiply_add(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm_support, "backend", "llvm -mcpu=x86-64")
    test_unary(op)


@pytest.mark.parametrize("op", BINARY)
def test_binary(op: str) -> None:
    reference, bound = BINARY[op]
    rng = np.random.default_rng(1)
    edges = np.array(
        [0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, np.inf, -np.inf, np.nan, 1e-45, 16777216, 1e30],
        np.float32,
    )
    a, b = (g.ravel() for g in np.meshgrid(edges, edges))
    n = 1 << 15
    sets = [
        (a, b), (np.exp(rng.standard_normal(n) * 3), rng.uniform(-30, 30, n)),
        (rng.permutation(values(2))[:n], rng.permutation(values(3))[:n]),
        (rng.uniform(0.9, 1.1, n), rng.uniform(-1500, 1500, n)),
        (-rng.uniform(0, 9, n), rng.integers(-9, 9, n)),
    ]  # fmt: skip
    for pair in sets:
        x, y = (np.ascontiguousarray(v, np.float32) for v in pair)
        got = run(op, x, y)
        with np.errstate(all="ignore"):
            exact = np.asarray(reference(x.astype(WIDE), y.astype(WIDE)))
        error = ulp(got, exact)
        worst = int(np.argmax(error))
        assert error[worst] <= bound, (op, x[worst], y[worst], got[worst], exact[worst])


@pytest.mark.parametrize("op", ["exp", "sin", "log", "pow"])
@pytest.mark.parametrize("lanes", [1, 4, 32])
def test_every_width_is_the_same_function(op: str, lanes: int) -> None:
    x = np.random.default_rng(5).uniform(0, 50, 256).astype(np.float32)
    args = (x, x / 20) if op == "pow" else (x,)
    assert (run(op, *args, lanes=lanes) == run(op, *args)).all()


def test_float16_is_rounded_once() -> None:
    x = np.arange(0x0400, 0x4800, dtype=np.uint16).view(np.float16)
    got = run("exp", x, dtype="float16")
    with np.errstate(over="ignore"):
        want = np.exp(x.astype(np.float64)).astype(np.float16)
    assert (got == want).mean() > 0.999
    np.testing.assert_allclose(got.view(np.int16), want.view(np.int16), atol=1)


@pytest.mark.parametrize("lanes", [1, LANES])
def test_rounding_functions(lanes: int) -> None:
    x = np.concatenate(
        [np.arange(-4, 4, 0.25), [np.inf, -np.inf, np.nan, 1e30, -0.0, 0.3, -0.3, 8388609.0] * 4]
    ).astype(np.float32)
    for op, reference in (
        ("floor", np.floor),
        ("ceil", np.ceil),
        ("trunc", np.trunc),
        ("nearbyint", np.rint),
    ):
        np.testing.assert_array_equal(run(op, x, lanes=lanes), reference(x))
    away = np.copysign(np.floor(np.abs(x) + np.float32(0.5)), x)
    away = np.where(np.abs(x) >= 8388608, x, away)
    np.testing.assert_array_equal(run("round", x, lanes=lanes), away)
