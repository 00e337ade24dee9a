# SPDX-License-Identifier: Apache-2.0
"""Copy and Fill: their meaning, their loop domain, their CPU lowering."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tileop.op_support import by_oracle, fragment, reference, run_on_cpu, shared, values
from tilelang.ir import Buffer, DType, Var, const
from tilelang.tileop import Copy, Fill, numeric


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5), (2, 3, 4), (0, 4)])
@pytest.mark.parametrize(
    ("a", "b"),
    [("float32", "float16"), ("int32", "bfloat16"), ("float16", "int8"), ("int8", "int8")],
)
def test_a_copy_converts(shape: tuple[int, ...], a: str, b: str) -> None:
    src, dst = shared("S", shape, a), fragment("D", shape, b)
    x, y = values(shape, a), values(shape, b, 1)
    z = y.copy()
    op = Copy(src.whole(), dst.whole())
    reference(op, (src, x), (dst, y))
    np.testing.assert_array_equal(y, numeric.cast_array(x, DType(a), DType(b)))
    run_on_cpu(op, [src, dst], [x, z])
    np.testing.assert_array_equal(z, y)


@pytest.mark.parametrize(
    ("at", "want"), [((0, 0), (3, 4)), ((2, 3), (1, 1)), ((3, 4), (0, 0)), ((7, 0), (0, 4))]
)
def test_a_tile_that_leaves_the_tensor_reads_zeros(
    at: tuple[int, int], want: tuple[int, int]
) -> None:
    a, s = Buffer("A", (3, 4), "float32"), shared("S", (4, 5))
    x, y = values((3, 4), "float32"), np.full((4, 5), -99.0, np.float32)
    i, j = at
    reference(Copy(a[i : i + 4, j : j + 5], s.whole()), (a, x), (s, y))
    full = np.zeros((4, 5), np.float32)
    full[: want[0], : want[1]] = x[i : i + 4, j : j + 5]
    np.testing.assert_array_equal(y, full)


def test_writes_outside_of_the_tensor_are_dropped() -> None:
    a, s = Buffer("A", (3, 4), "int32"), shared("S", (2, 8), "int32")
    x, y = np.zeros((3, 4), np.int32), np.arange(16, dtype=np.int32).reshape(2, 8)
    reference(Copy(s.whole(), a[2:4, 1:9]), (a, x), (s, y))
    np.testing.assert_array_equal(x, [[0] * 4, [0] * 4, [0, 0, 1, 2]])


def test_a_safe_value_replaces_the_zero() -> None:
    a, s = Buffer("A", (3,), "float32"), shared("S", (4,))
    y = np.zeros(4, np.float32)
    Copy(a[0:4], s.whole()).reference({a: np.ones(3, np.float32), s: y}, {a: -np.inf})
    np.testing.assert_array_equal(y, [1, 1, 1, -np.inf])


def test_dimensions_longer_than_one_meet_in_order() -> None:
    a, s = Buffer("A", (2, 8, 3, 16), "float32"), shared("S", (4, 16))
    x, y = values((2, 8, 3, 16), "float32"), np.zeros((4, 16), np.float32)
    reference(Copy(a[1, 2:6, 2, :], s.whole()), (a, x), (s, y))
    np.testing.assert_array_equal(y, x[1, 2:6, 2])


def test_one_is_repeated() -> None:
    s, d = shared("S", (1, 5)), fragment("D", (3, 5))
    x, y = values((1, 5), "float32"), np.zeros((3, 5), np.float32)
    reference(Copy(s.whole(), d.whole()), (s, x), (d, y))
    np.testing.assert_array_equal(y, np.repeat(x, 3, 0))
    row = shared("R", (5,))
    z = np.zeros((3, 5), np.float32)
    run_on_cpu(Copy(row.whole(), d.whole()), [row, d], [x[0], z])
    np.testing.assert_array_equal(z, y)


def test_the_nearer_side_says_how_much() -> None:
    a, s = Buffer("A", (9, 8), "float32"), shared("S", (4, 8))
    x, y = values((9, 8), "float32"), np.zeros((4, 8), np.float32)
    reference(Copy(a[0:3, :], s.whole()), (a, x), (s, y))
    np.testing.assert_array_equal(y, x[0:4])


def test_an_extent_of_one_that_was_not_folded() -> None:
    n = Var("n")
    a, s = Buffer("A", (9, 8), "float32"), shared("S", (1, 8))
    domain = Copy(a[n * 2 : n * 2 + 1 + 0, 0:8], s.whole()).pairing
    assert [e.value for e in domain.extents] == [8]  # type: ignore[attr-defined]


def test_a_copy_inside_one_buffer_reads_first() -> None:
    s = shared("S", (6,))
    x = np.arange(6, dtype=np.float32)
    reference(Copy(s[0:5], s[1:6]), (s, x))
    np.testing.assert_array_equal(x, [0, 0, 1, 2, 3, 4])


def test_effects_are_the_regions_touched() -> None:
    a, s = Buffer("A", (9, 8), "float32"), shared("S", (4, 8))
    idx = Buffer("idx", (1,), "int32")
    effects = Copy(a[idx[0] : idx[0] + 3, :], s.whole()).effects()
    assert [(e.buffer.name, e.kind) for e in effects.accesses] == [
        ("idx", "read"),
        ("A", "read"),
        ("S", "write"),
    ]
    assert [int(e) for e in effects.accesses[1].region.extents] == [4, 8]


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool"])
def test_fill(dtype: str) -> None:
    s = shared("S", (3, 5), dtype)
    x = values((3, 5), dtype)
    y = x.copy()
    op = Fill(s[1:3, 2:4], const(1))
    want = x.copy()
    want[1:3, 2:4] = 1
    by_oracle(op, [s], [x])
    np.testing.assert_array_equal(x, want)
    run_on_cpu(op, [s], [y])
    np.testing.assert_array_equal(y, want)


def test_a_fill_evaluates_its_value_once() -> None:
    s = shared("S", (4,))
    x, y = np.arange(4, dtype=np.float32) + 1, np.arange(4, dtype=np.float32) + 1
    op = Fill(s.whole(), s[0] + 1)
    by_oracle(op, [s], [x])
    run_on_cpu(op, [s], [y])
    assert x.tolist() == y.tolist() == [2.0] * 4
