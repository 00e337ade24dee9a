# SPDX-License-Identifier: Apache-2.0
"""Conversions from and to packed dtypes (several elements in a byte), every code of every source,
against ml_dtypes and numpy, on both CPU targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.codegen import llvm_support
from tests.codegen.llvm_support import load_kernels, make
from tests.codegen.test_llvm_dtypes import TYPES, assert_same, expected, inputs
from tilelang.ir import Buffer, Builder, Cast, DType, Kernel, Ramp, Var, const, session

Array = Any
PACKED = [DType(n) for n in ("int2", "int4", "uint1", "uint2", "uint4", "float4_e2m1fn")]


def packed(codes: Array, bits: int) -> Array:
    per = 8 // bits
    parts = [codes[k::per].astype(np.uint8) << (k * bits) for k in range(per)]
    return np.bitwise_or.reduce(parts).astype(np.uint8)


def unpacked(data: Array, bits: int) -> Array:
    per = 8 // bits
    return np.stack([(data >> (k * bits)) & ((1 << bits) - 1) for k in range(per)], 1).ravel()


def values(codes: Array, d: DType) -> Array:
    """Codes as numbers that numpy knows."""
    if d.is_float:
        return codes.astype(np.uint8).view(d.as_numpy())
    signed = d.kind == "int" and codes >> (d.bits - 1)
    return np.where(signed, codes.astype(int) - (1 << d.bits), codes).astype(np.int8)


def codes_of(x: Array, src: DType, dst: DType) -> Array:
    """The packed codes that values of `src` become: floats saturate, integers wrap."""
    if dst.is_float:
        return expected(x, src, dst).view(np.uint8)
    low = -(1 << (dst.bits - 1)) if dst.kind == "int" else 0
    high = low + (1 << dst.bits) - 1
    if src.is_float:
        with np.errstate(all="ignore"):
            y = np.nan_to_num(np.trunc(x.astype(np.float64)), nan=0.0)
        return np.clip(y, low, high).astype(np.int64) & ((1 << dst.bits) - 1)
    return x.astype(np.int64) & ((1 << dst.bits) - 1)


def kernel(src: DType, dst: DType, lanes: int) -> Kernel:
    x, y, n = Buffer("x", (1 << 20,), src), Buffer("y", (1 << 20,), dst), Var("n")
    w = Builder()
    with w.for_("i", n) as i:
        at = i if lanes == 1 else Ramp(i * lanes, const(1), lanes)
        w.store(y, (at,), x[at] if src is dst else Cast(x[at], dst.with_lanes(lanes)))
    return make(f"cast_{src}_{dst}_{lanes}", [x, y, n], w.finish())


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("name", [str(d) for d in PACKED])
def test_from_a_packed_dtype(name: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm_support, "backend", target)
    source = DType(name)
    codes = np.tile(np.arange(1 << source.bits), 64)[:64]
    pairs = [(d, lanes) for d in (*TYPES, *PACKED) for lanes in (1, 16)]
    with session():
        calls = load_kernels([kernel(source, *p) for p in pairs])
    x = values(codes, source)
    for run, (dst, lanes) in zip(calls, pairs, strict=True):
        if dst in PACKED:
            out = np.zeros(64 * dst.bits // 8, np.uint8)
            assert run(packed(codes, source.bits), out, 64 // lanes) is None
            want = codes if dst is source else codes_of(x, source, dst)
            np.testing.assert_array_equal(unpacked(out, dst.bits), want, err_msg=str(dst))
            continue
        got = np.zeros(64, dst.as_numpy())
        assert run(packed(codes, source.bits), got, 64 // lanes) is None
        assert_same(got, expected(x, source, dst), x, dst)


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("name", [str(d) for d in TYPES])
def test_to_a_packed_dtype(name: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm_support, "backend", target)
    source = DType(name)
    x = inputs(source)
    pairs = [(d, lanes) for d in PACKED for lanes in (1, 16)]
    with session():
        calls = load_kernels([kernel(source, *p) for p in pairs])
    for run, (dst, lanes) in zip(calls, pairs, strict=True):
        out = np.zeros(len(x) * dst.bits // 8, np.uint8)
        assert run(x, out, len(x) // lanes) is None
        got, want = unpacked(out, dst.bits), codes_of(x, source, dst)
        if dst.is_float:  # both zeros and both NaNs may differ in nothing else
            assert_same(values(got, dst), values(want, dst), x, dst)
        else:
            wrong = np.nonzero(got != want)[0][:5]
            assert not len(wrong), [(dst, x[i], got[i], want[i]) for i in wrong]
