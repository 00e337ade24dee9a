# SPDX-License-Identifier: Apache-2.0
"""The float64 vector functions: error in ULP against long double, and the special values of C99."""

from __future__ import annotations

import platform
import re
from typing import Any

import numpy as np
import pytest

from tests.codegen import llvm_support
from tests.codegen.llvm_support import make
from tests.codegen.test_llvm_math import UNARY as NARROW
from tests.codegen.test_llvm_math import WIDE, run
from tilelang.codegen.llvm import llvm_ir
from tilelang.ir import Buffer, Builder, Ramp, call, const, session
from tilelang.target import Target

Array = np.ndarray[Any, Any]
LANES = 8
# name -> the bound that codegen/llvm/math64.py states
UNARY = {
    "exp": 1, "exp2": 1, "exp10": 2, "log": 1, "log2": 1, "log10": 1, "log1p": 2, "rsqrt": 2,
    "sigmoid": 3, "tanh": 3, "sin": 1, "cos": 1, "tan": 3, "sinh": 3, "cosh": 2, "asin": 2,
    "acos": 2, "atan": 3, "erf": 3,
}  # fmt: skip
BINARY = {"pow": (np.power, 2), "atan2": (np.arctan2, 3)}
EDGES = np.array(
    [
        0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e-310,
        709.7, 709.8, -745.1, -746, 1e300, -1e300, 2.0**20, 2.0**53, 2.0**53 + 2, 1e15, 22, 6, 7,
        710.4, 1 + 2.0**-52, 1 - 2.0**-53,
    ]
)  # fmt: skip


def ulp(got: Array, exact: Array) -> Array:
    """Distance in units of the last place of the exact result; special values must agree."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float64)
        top = np.finfo(np.float64).max
        unit = np.maximum(np.spacing(np.minimum(np.abs(rounded), top)), 5e-324).astype(WIDE)
        error = np.abs(got.astype(WIDE) - exact) / unit
        error = np.where((got == rounded) | (np.isnan(got) & np.isnan(rounded)), 0, error)
    return np.where(np.isnan(error), np.inf, error)


def values(seed: int, count: int = 1 << 15) -> Array:
    """Patterns over all of float64, and the ranges where functions bend."""
    rng = np.random.default_rng(seed)
    parts = [
        EDGES, rng.integers(0, 2**64, count, dtype=np.uint64).view(np.float64),
        rng.standard_normal(count), rng.uniform(-750, 750, count), rng.uniform(-1.2, 1.2, count),
        1 + rng.standard_normal(count) / 100, np.exp(rng.uniform(-40, 5, count)),
        rng.integers(-9999, 9999, count) * (np.pi / 2), rng.uniform(-7, 7, count),
        rng.uniform(-2e6, 2e6, count),
    ]  # fmt: skip
    return np.concatenate(parts)


@pytest.mark.parametrize("op", UNARY)
def test_unary(op: str) -> None:
    x = values(0)
    got = run(op, x, dtype="float64", lanes=LANES)
    with np.errstate(all="ignore"):
        exact = np.asarray(NARROW[op][0](x.astype(WIDE)))
    error = ulp(got, exact)
    worst = int(np.argmax(error))
    assert error[worst] <= UNARY[op], (op, x[worst], got[worst], exact[worst])
    zero = exact == 0
    assert (np.signbit(got[zero]) == np.signbit(exact[zero])).all()


@pytest.mark.parametrize("op", BINARY)
def test_binary(op: str) -> None:
    reference, bound = BINARY[op]
    rng = np.random.default_rng(1)
    a, b = (g.ravel() for g in np.meshgrid(EDGES, EDGES))
    n = 1 << 15
    sets = [
        (a, b), (np.exp(rng.standard_normal(n) * 30), rng.uniform(-30, 30, n)),
        (rng.permutation(values(2))[:n], rng.permutation(values(3))[:n]),
        (rng.uniform(0.9, 1.1, n), rng.uniform(-7500, 7500, n)),
        (-rng.uniform(0, 9, n), rng.integers(-9, 9, n).astype(float)),
        (1 + rng.standard_normal(n) * 1e-12, rng.standard_normal(n) * 1e14),
    ]  # fmt: skip
    for x, y in sets:
        got = run(op, x, y, dtype="float64", lanes=LANES)
        with np.errstate(all="ignore"):
            exact = np.asarray(reference(x.astype(WIDE), y.astype(WIDE)))
        error = ulp(got, exact)
        worst = int(np.argmax(error))
        assert error[worst] <= bound, (op, x[worst], y[worst], got[worst], exact[worst])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names an x86 CPU")
@pytest.mark.parametrize("op", ["exp", "log2", "sin", "erf"])
def test_without_fused_multiply_add(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm_support, "backend", "llvm -mcpu=x86-64")
    test_unary(op)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names an x86 CPU")
def test_power_without_fused_multiply_add(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm_support, "backend", "llvm -mcpu=x86-64")
    test_binary("pow")


@pytest.mark.parametrize("op", [*UNARY, "pow", "atan2"])
def test_no_call_of_the_c_library_in_a_loop(op: str) -> None:
    """A vector is computed by our own straight code; the huge angles are behind a branch."""
    with session():
        x, y = Buffer("x", (64,), "float64"), Buffer("y", (64,), "float64")
        w = Builder()
        at = Ramp(const(0), const(1), LANES)
        args = [x[at]] * (2 if op in BINARY else 1)
        w.store(y, (at,), call(op, args, y.dtype.with_lanes(LANES)))
        text = llvm_ir([make("f", [x, y], w.finish())], Target("llvm -mcpu=x86-64-v3"))
    called = set(re.findall(r"call double @(\w+)\(", text))
    assert called <= ({op} if op in ("sin", "cos", "tan") else set())
