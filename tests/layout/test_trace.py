# SPDX-License-Identifier: Apache-2.0
"""Layouts given as functions: matched to digits, kept as tables, or refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilelang import ir
from tilelang.errors import LayoutError
from tilelang.ir.evaluate import evaluate
from tilelang.layout import (
    Fragment,
    FragmentTable,
    Layout,
    LayoutTable,
    fragment_from_functions,
    layout_from_function,
    make_swizzled,
    mma_a,
    mma_c,
    wgmma_c,
)


@pytest.fixture(autouse=True)
def _session() -> Iterator[None]:
    with ir.session():
        yield


@pytest.mark.parametrize(
    "layout",
    [
        Layout.row_major((8, 12)),
        Layout.strided((8, 12), (13, 1)),
        Layout.strided((8, 12), (1, 8), 5),
        make_swizzled((16, 64), 16),
        make_swizzled((16, 32), 16),
        make_swizzled((16, 128), 16),
        make_swizzled((16, 128), 16, interleave="box"),
        make_swizzled((2, 16, 64), 8),
        make_swizzled((8, 96), 16),
    ],
)
def test_a_layout_is_found_again(layout: Layout) -> None:
    found = layout_from_function(layout.shape, lambda *at: layout.address(at))
    assert isinstance(found, Layout)
    grid = np.indices(layout.shape, sparse=True)
    assert np.array_equal(found.address_at(grid), layout.address_at(grid))


def test_physical_coordinates_are_flattened() -> None:
    found = layout_from_function((16, 16), lambda i, j: [i // 8, j // 8, i % 8, j % 8])
    assert isinstance(found, Layout)
    assert found.address_at((9, 3)) == 2 * 64 + 8 + 3
    turned = layout_from_function((4, 6), lambda i, j: (j, i))
    assert turned == Layout.strided((4, 6), (1, 4))


def test_what_is_no_digits_stays_a_table_with_its_expression() -> None:
    found = layout_from_function((6, 8), lambda i, j: (i * 8 + j) * 5 % 48)
    assert isinstance(found, LayoutTable)
    assert found.why_no_digits
    x, y = ir.Var("x"), ir.Var("y")
    e = found.address((x, y))
    assert all(
        evaluate(e, {x: i, y: j}) == (i * 8 + j) * 5 % 48 == found.address_at((i, j))
        for i in range(6)
        for j in range(8)
    )
    ring, turned, flat = found.prepend(2), found.permute((1, 0)), found.reshape((12, 4))
    z = ir.Var("z")
    for i in range(6):
        for j in range(8):
            want = found.address_at((i, j))
            assert ring.address_at((1, i, j)) == want + found.size
            assert evaluate(ring.address((z, x, y)), {z: 1, x: i, y: j}) == want + found.size
            assert turned.address_at((j, i)) == want
            assert evaluate(turned.address((y, x)), {x: i, y: j}) == want
            k = divmod(i * 8 + j, 4)
            assert flat.address_at(k) == want
            assert evaluate(flat.address((x, y)), {x: k[0], y: k[1]}) == want


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (lambda i, j: i * 4 + j, "TL1105"),
        (lambda i, j: i - j, "TL1104"),
        (lambda i, j: [0, ir.Load(ir.Buffer("A", [4], "int32"), (i,))], "TL1102"),
    ],
)
def test_layouts_that_cannot_be(function: Any, code: str) -> None:
    with pytest.raises(LayoutError) as e:
        layout_from_function((8, 8), function)
    assert e.value.code == code


def test_the_error_names_both_elements() -> None:
    with pytest.raises(LayoutError, match=r"\(0, 4\) and \(1, 0\)"):
        layout_from_function((8, 8), lambda i, j: i * 4 + j)
    with pytest.raises(LayoutError, match="cannot be given as a function"):
        layout_from_function((4096, 4096), lambda i, j: i * 4096 + j)
    with pytest.raises(LayoutError, match="one number"):
        fragment_from_functions((8, 8), lambda i, j: (i, j))


@pytest.mark.parametrize(
    "f",
    [
        mma_c(32, 32, 2, 1),
        mma_a(32, 32, 2, 2),
        wgmma_c(64, 32, 1),
        Fragment.row_major_vector((16, 64), 32, 8),
        Fragment.row_major_vector((16,), 64, 1),
    ],
)
def test_a_fragment_is_found_again(f: Fragment) -> None:
    copies = f.replication
    found = fragment_from_functions(
        f.shape,
        lambda *at: f.thread(at[: f.ndim], at[-1] if copies > 1 else 0),
        lambda *at: f.reg(at),
        copies,
    )
    assert found == f


def test_registers_are_numbered_where_no_function_gives_them() -> None:
    f = fragment_from_functions((8, 16), lambda i, j: j // 2 % 4 + i * 4)
    assert f == Fragment((8, 16), 32, [(0, 1, 8, 4), (1, 2, 4, 1)], [(1, 1, 2, 1), (1, 8, 2, 2)])


def test_a_fragment_that_is_no_digits() -> None:
    f = fragment_from_functions((8, 8), lambda i, j: (i + j) % 8, lambda i, j: i)
    assert isinstance(f, FragmentTable)
    assert f.threads == f.regs == 8
    x, y = ir.Var("x"), ir.Var("y")
    thread, reg = f.thread((x, y)), f.reg((x, y))
    t, r = ir.Var("t"), ir.Var("r")
    back = f.coords(t, r)
    for i in range(8):
        for j in range(8):
            owner, place = f.thread_at((i, j)), f.reg_at((i, j))
            assert (owner, place) == ((i + j) % 8, i)
            assert evaluate(thread, {x: i, y: j}) == owner
            assert evaluate(reg, {x: i, y: j}) == place
            assert f.coords_at(owner, place) == (i, j)
            assert tuple(evaluate(c, {t: owner, r: place}) for c in back) == (i, j)
    assert f.valid(t, r) is None
    with pytest.raises(LayoutError):
        fragment_from_functions((8, 8), lambda i, j: j, lambda i, j: i // 2)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_digits_are_found_again(data: st.DataObject) -> None:
    extents = data.draw(st.lists(st.sampled_from((2, 3, 4, 5)), min_size=1, max_size=5))
    dims = [data.draw(st.integers(0, 1)) for _ in extents]
    shape, at, digits = [1, 1], 1, []
    for n in data.draw(st.permutations(range(len(extents)))):
        digits.append((dims[n], shape[dims[n]], extents[n], at))
        shape[dims[n]] *= extents[n]
        at *= extents[n]
    layout = Layout(shape, digits)
    with ir.session():
        assert layout_from_function(shape, lambda i, j: layout.address((i, j))) == layout
