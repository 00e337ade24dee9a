# SPDX-License-Identifier: Apache-2.0
"""Conversions among all dtypes, scalar and vector, against ml_dtypes and numpy, bit for bit."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import pytest

from tests.codegen import llvm_support
from tests.codegen.llvm_support import load_kernels, make
from tilelang.ir import Buffer, Builder, Cast, DType, Kernel, Ramp, Var, const, session
from tilelang.ir.dtype import TABLE

# float4_e2m1fn and the sub-byte integers are packed: see test_packed_casts.
NAMES = [n for n, row in TABLE.items() if row.bits >= 8 and n not in ("handle", "tfloat32")]
TYPES = [DType(n) for n in NAMES]
LIMITS = (
    0.0, -0.0, 0.5, 1.5, 2.5, -2.5, 127, 128, 255, 256, -128, -129, 240, 448, 464, 465, 57344,
    61440, 65504, 65519, 65520, 1e5, 2147483647.0, 4294967296.0, 1e20, 1e38, 3e38, 1e-40, -1e-40,
    6e-8, 2.98e-8, np.inf, -np.inf, np.nan,
)  # fmt: skip


def inputs(dtype: DType) -> np.ndarray[Any, Any]:
    """All values of a narrow type; of a wide one its limits, random ones, and what lies halfway
    between two values of a narrow type."""
    numpy_type, rng = dtype.as_numpy(), np.random.default_rng(0)
    if dtype.is_bool:
        return np.array([False, True] * 8)
    if not dtype.is_float:
        low, high = np.iinfo(numpy_type).min, np.iinfo(numpy_type).max
        if dtype.bits <= 16:
            return np.arange(low, high + 1).astype(numpy_type)
        small = np.clip(rng.integers(-70000, 70000, 500), low, high).astype(numpy_type)
        wide = rng.integers(low, high, 499, numpy_type, endpoint=True)
        return np.concatenate([wide, np.array([low, high], numpy_type), small])[:992]
    if dtype.bits == 8:
        codes = np.arange(16 if "e2m1" in dtype else 256, dtype=np.uint8)
        return codes.view(numpy_type)
    if dtype.bits == 16:
        return np.arange(65536, dtype=np.uint16).view(numpy_type)
    half = np.arange(0, 65536, 7, dtype=np.uint16).view(np.float16).astype(np.float32)
    between = [
        half.view(np.uint32) + 0x1000,
        (np.arange(0, 65536, 7, dtype=np.uint32) << 16) | 0x8000,
        np.arange(8192, dtype=np.uint32) << 19,
        rng.integers(0, 2**32, 5000, np.uint32),
    ]
    limits = np.array(LIMITS, np.float32)
    values = np.concatenate([limits, np.concatenate(between).astype(np.uint32).view(np.float32)])
    values = values[: len(values) // 16 * 16]
    with np.errstate(all="ignore"):  # signalling NaN
        return values if dtype.bits == 32 else values.astype(np.float64)


def expected(x: np.ndarray[Any, Any], src: DType, dst: DType) -> np.ndarray[Any, Any]:
    """What constant folding gives: narrow floats through float32, float to integer saturated."""
    with np.errstate(all="ignore"):
        if src.is_float and dst.is_int:
            y = x.astype(np.float64)
            low, high = np.iinfo(dst.as_numpy()).min, np.iinfo(dst.as_numpy()).max
            inside = (y > low) & (y < high)
            exact = np.where(inside, y, 0).astype(dst.as_numpy())
            return np.where(inside | np.isnan(y), exact, np.where(y > 0, high, low)).astype(
                dst.as_numpy()
            )
        if (src.is_float and src.bits < 32) or (dst.is_float and dst.bits < 32):
            x = x.astype(np.float32)
        return x.astype(dst.as_numpy())


def cast_kernel(src: DType, dst: DType, lanes: int) -> Kernel:
    x, y, n = Buffer("x", (1 << 20,), src), Buffer("y", (1 << 20,), dst), Var("n")
    w = Builder()
    with w.for_("i", n) as i:
        at = i if lanes == 1 else Ramp(i * lanes, const(1), lanes)
        w.store(y, (at,), x[at] if src is dst else Cast(x[at], dst.with_lanes(lanes)))
    return make(f"cast_{src}_{dst}_{lanes}", [x, y, n], w.finish())


def assert_same(got: Any, want: Any, x: Any, dtype: DType) -> None:
    with np.errstate(all="ignore"):
        a, b = (v.astype(np.float64) if dtype.is_float else v for v in (got, want))
        same = (a == b) | ((a != a) & (b != b))
        if dtype.is_float:
            same &= (np.signbit(a) == np.signbit(b)) | (a != a)
    wrong = np.nonzero(~same)[0][:5]
    assert not len(wrong), [(x[i], got[i], want[i]) for i in wrong]


@pytest.mark.parametrize("src", NAMES)
def test_casts(src: str) -> None:
    source = DType(src)
    with session():
        pairs = [(d, lanes) for d in TYPES for lanes in (1, 16)]
        kernels = [cast_kernel(source, d, lanes) for d, lanes in pairs]
        calls = load_kernels(kernels)
    x = inputs(source)
    for run, (dst, lanes) in zip(calls, pairs, strict=True):
        got = np.zeros(len(x), dst.as_numpy())
        assert run(x, got, len(x) // lanes) is None
        assert_same(got, expected(x, source, dst), x, dst)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names an x86 CPU")
@pytest.mark.parametrize("src", ["float16", "float32"])
def test_casts_without_conversion_instructions(src: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest x86-64 has no f16c: then float16 is converted by integer operations."""
    monkeypatch.setattr(llvm_support, "backend", "llvm -mcpu=x86-64")
    test_casts(src)
