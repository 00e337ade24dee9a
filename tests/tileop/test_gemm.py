# SPDX-License-Identifier: Apache-2.0
"""Gemm: meaning against numpy, and the micro-kernel of the CPU against the meaning."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.tileop.op_support import cpu_context, fragment, reference, run_on_cpu, shared, values
from tilelang.ir import Buffer, Builder, DType, Var, const, stmt_text
from tilelang.tileop import Gemm
from tilelang.tileop.gemm.pack import Pack

DTYPES = [
    ("float32", "float32"), ("float64", "float64"), ("float16", "float32"), ("bfloat16", "float32"),
    ("float16", "float16"), ("int8", "int32"), ("uint8", "int32"), ("int32", "int32"),
    ("int4", "int32"), ("float8_e4m3fn", "float32"), ("float8_e5m2", "float32"),
]  # fmt: skip


def _case(
    m: int, n: int, k: int, a: str, c: str, ta: bool, tb: bool, clear: Any = False
) -> tuple[Any, ...]:
    x = shared("A", (k, m) if ta else (m, k), a)
    y = shared("B", (n, k) if tb else (k, n), a)
    z = fragment("C", (m, n), c)
    op = Gemm(x.whole(), y.whole(), z.whole(), ta, tb, 0, const(clear))
    arrays = [values(b.static_shape, str(b.dtype), i) for i, b in enumerate((x, y, z))]
    return op, [x, y, z], arrays


def _close(got: Any, want: Any, dtype: str) -> None:
    tol = 1e-2 if dtype == "float16" else 1e-4
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=tol, atol=tol)


@pytest.mark.parametrize(("a", "c"), DTYPES)
@pytest.mark.parametrize(("ta", "tb"), list(product([False, True], repeat=2)))
def test_meaning(a: str, c: str, ta: bool, tb: bool) -> None:
    op, buffers, arrays = _case(5, 7, 11, a, c, ta, tb)
    wide = np.float64 if DType(c).is_float else np.int64
    x, y, z = (v.astype(wide) for v in arrays)
    want = z + (x.T if ta else x) @ (y.T if tb else y)
    reference(op, *zip(buffers, arrays, strict=True))
    _close(arrays[2], want, c)


@pytest.mark.parametrize(("a", "c"), DTYPES)
@pytest.mark.parametrize(("ta", "tb"), list(product([False, True], repeat=2)))
@pytest.mark.parametrize("size", [(1, 1, 1), (13, 29, 7)])
def test_cpu(a: str, c: str, ta: bool, tb: bool, size: tuple[int, int, int]) -> None:
    op, buffers, arrays = _case(*size, a, c, ta, tb)
    want = [v.copy() for v in arrays]
    reference(op, *zip(buffers, want, strict=True))
    run_on_cpu(op, buffers, arrays)
    _close(arrays[2], want[2], c)


@pytest.mark.parametrize("mcpu", ["x86-64", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("size", [(96, 80, 4), (16, 32, 3), (6, 100, 2), (33, 17, 1)])
def test_cpu_register_blocks(mcpu: str, size: tuple[int, int, int]) -> None:
    op, buffers, arrays = _case(*size, "float32", "float32", False, False)
    want = [v.copy() for v in arrays]
    reference(op, *zip(buffers, want, strict=True))
    run_on_cpu(op, buffers, arrays, mcpu)
    _close(arrays[2], want[2], "float32")


@pytest.mark.parametrize(
    ("k", "a", "c"), [(600, "float32", "float32"), (300, "int8", "int32"), (131, "uint8", "int32")]
)
def test_cpu_long_k_is_cut_into_panels(k: int, a: str, c: str) -> None:
    for clear in (False, True):
        op, buffers, arrays = _case(4, 18, k, a, c, False, True, clear)
        if a != "float32":  # the largest magnitudes: sums must stay exact
            info = np.iinfo(arrays[0].dtype)
            arrays[0][:], arrays[1][:] = info.min or info.max, info.min or info.max
        want = [v.copy() for v in arrays]
        reference(op, *zip(buffers, want, strict=True))
        run_on_cpu(op, buffers, arrays)
        _close(arrays[2], want[2], c)


def test_clear_known_at_run_time() -> None:
    flag = Buffer("flag", (1,), "int32", "local")
    op, buffers, arrays = _case(3, 20, 5, "float32", "float32", False, False)
    op = Gemm(op.a, op.b, op.c, False, False, 0, flag[0])
    for value in (0, 1):
        want = arrays[0] @ arrays[1] + (0 if value else arrays[2])
        out = arrays[2].copy()
        run_on_cpu(op, [*buffers, flag], [*arrays[:2], out, np.array([value], np.int32)])
        _close(out, want, "float32")


def test_regions_with_offsets() -> None:
    x, y, z = shared("A", (2, 9, 8)), shared("B", (12, 40)), fragment("C", (6, 30))
    op = Gemm(x[1, 2:6, 1:6], y[3:8, 4:24], z[1:5, 5:25], False, False, 0, const(True))
    arrays = [values(b.static_shape, "float32", i) for i, b in enumerate((x, y, z))]
    want = arrays[2].copy()
    want[1:5, 5:25] = arrays[0][1, 2:6, 1:6] @ arrays[1][3:8, 4:24]
    run_on_cpu(op, [x, y, z], arrays)
    _close(arrays[2], want, "float32")


def test_k_of_zero_clears() -> None:
    op, buffers, arrays = _case(3, 4, 0, "float32", "float32", False, False, True)
    run_on_cpu(op, buffers, arrays)
    np.testing.assert_array_equal(arrays[2], np.zeros((3, 4)))


def test_the_micro_kernel_keeps_accumulators_in_constant_places() -> None:
    op, _, _ = _case(128, 128, 32, "float32", "float32", False, False)
    b = Builder()
    Gemm.LOWERINGS[0].emit(op, cpu_context(), b)
    text = stmt_text(b.finish())
    assert text.count("'fma'") == 16  # 8 rows of two 16-lane vectors
    assert "acc[T.Ramp(240, 1, 16)]" in text
    assert "packed" not in text


def test_tiles_of_unknown_size() -> None:
    n = Var("n")
    x, y, z = (
        Buffer("A", (n, n), "float32"),
        Buffer("B", (n, n), "float32"),
        Buffer("C", (n, n), "float32"),
    )
    b = Builder()
    op = Gemm(x.whole(), y.whole(), z.whole(), False, False, 0, const(False))
    Gemm.LOWERINGS[0].emit(op, cpu_context(), b)
    assert "for j in T.vectorized(n)" in stmt_text(b.finish())


def test_effects() -> None:
    op, _, _ = _case(3, 4, 5, "float32", "float32", False, False)
    assert [(a.buffer.name, a.kind) for a in op.effects().accesses] == [
        ("A", "read"), ("B", "read"), ("C", "read"), ("C", "write"),
    ]  # fmt: skip
    op, _, _ = _case(3, 4, 5, "float32", "float32", False, False, True)
    assert [a.buffer.name for a in op.effects().reads] == ["A", "B"]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "int4"])
@pytest.mark.parametrize("shape", [(1, 1), (8, 16), (13, 27)])
def test_a_packed_operand_holds_the_same_numbers(
    transposed: bool, dtype: str, shape: tuple[int, int]
) -> None:
    src, dst = shared("A", shape, dtype), shared("P", shape[:: -1 if transposed else 1], "float32")
    op = Pack(src.whole(), dst.whole(), transposed)
    arrays = [values(b.static_shape, str(b.dtype), 0) for b in (src, dst)]
    want = [v.copy() for v in arrays]
    reference(op, *zip((src, dst), want, strict=True))
    run_on_cpu(op, [src, dst], arrays)
    np.testing.assert_array_equal(arrays[1], want[1])
    whole = arrays[0].astype(np.float32)
    np.testing.assert_array_equal(arrays[1], whole.T if transposed else whole)
