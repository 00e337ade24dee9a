# SPDX-License-Identifier: Apache-2.0
"""Memory layouts: one to one, swizzles as the hardware has them, bank conflicts, vector widths."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilelang import ir
from tilelang.layout import (
    Fragment,
    Layout,
    LayoutTable,
    Swizzle,
    bank_conflicts,
    make_swizzled,
    mma_c,
)

quick = settings(deadline=None, max_examples=120)


def addresses(layout: Any) -> np.ndarray[Any, Any]:
    found = layout.address_at(np.indices(layout.shape, sparse=True))
    return np.broadcast_to(np.asarray(found), layout.shape)


def ldmatrix_rows(layout: Layout, row: int, col: int, chunk: int) -> np.ndarray[Any, Any]:
    """First addresses of the 8 rows of one 8x16-byte matrix: what one phase of ldmatrix reads."""
    return np.array([[layout.address_at((row + r, col * chunk)) for r in range(8)]])


@st.composite
def tiles(draw: Any) -> tuple[Layout, int]:
    bits = draw(st.sampled_from((8, 16, 32)))
    rows = draw(st.sampled_from((1, 3, 8, 16, 24, 64)))
    cols = draw(st.sampled_from((16, 24, 32, 48, 64, 96, 128, 136, 256, 7, 100)))
    lead = draw(st.sampled_from(((), (2,), (3,), (2, 3))))
    layout = make_swizzled(
        (*lead, rows, cols), bits, interleave=draw(st.sampled_from(("row", "box")))
    )
    return layout, bits


@quick
@given(tiles())
def test_swizzled_tiles_are_one_to_one_and_dense_enough(tile: tuple[Layout, int]) -> None:
    layout, _ = tile
    found = addresses(layout)
    assert len(np.unique(found)) == prod(layout.shape)
    assert layout.is_one_to_one()
    assert found.min(initial=0) >= 0
    assert found.max(initial=0) < layout.size
    with ir.session():
        from tilelang.ir.evaluate import evaluate

        xs = [ir.Var(f"x{d}") for d in range(layout.ndim)]
        e = layout.address(xs)
        rng = np.random.default_rng(1)
        for _ in range(8):
            at = [int(rng.integers(s)) for s in layout.shape]
            assert evaluate(e, dict(zip(xs, at, strict=True))) == found[tuple(at)]


@quick
@given(tiles())
def test_vector_width_holds(tile: tuple[Layout, int]) -> None:
    layout, _ = tile
    width = layout.vector_width()
    found = addresses(layout)
    runs = found[..., : layout.shape[-1] // width * width].reshape(-1, width)
    assert (runs == runs[:, :1] + np.arange(width)).all()
    assert (runs[:, 0] % width == 0).all()


@pytest.mark.parametrize("interleave", ["row", "box"])
@pytest.mark.parametrize("row_bytes", [32, 64, 96, 128, 160, 192, 256, 320, 384, 512])
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_ldmatrix_is_conflict_free(bits: int, row_bytes: int, interleave: str) -> None:
    chunk = 128 // bits
    layout = make_swizzled((16, row_bytes * 8 // bits), bits, interleave=interleave)
    assert layout.vector_width() % chunk == 0
    for row in (0, 8):
        for col in range(row_bytes // 16):
            rows = ldmatrix_rows(layout, row, col, chunk)
            assert bank_conflicts(None, rows, bits // 8, chunk) == 0


@pytest.mark.parametrize(
    ("width", "rule"),
    [
        (128, lambda c, r: c ^ (r & 7)),
        (64, lambda c, r: c ^ (r >> 1 & 3)),
        (32, lambda c, r: c ^ (r >> 2 & 1)),
    ],
)
def test_box_form_is_what_tma_writes(width: int, rule: Any) -> None:
    """16-byte chunk c of row r of an atom of 8 rows x `width` bytes sits at chunk rule(c, r)."""
    chunk, cols = 8, width // 2
    layout = make_swizzled((24, 3 * cols), 16, swizzle_bytes=width, interleave="box")
    for r in range(24):
        for x in range(3 * cols):
            box, within = divmod(x, cols)
            c, e = divmod(within, chunk)
            assert layout.address_at((r, x)) == box * 24 * cols + r * cols + rule(c, r) * chunk + e


def test_row_form_of_a_swizzle_wide_row_is_the_box_form() -> None:
    for cols in (64, 32, 16):
        assert make_swizzled((64, cols), 16) == make_swizzled((64, cols), 16, interleave="box")


def test_boxes_and_slots_start_on_whole_atoms() -> None:
    layout = make_swizzled((3, 20, 128), 16, interleave="box")  # 20 rows: not a multiple of 8
    assert layout.address_at((0, 0, 64)) % 512 == 0
    assert layout.address_at((1, 0, 0)) % 512 == 0
    one = make_swizzled((20, 128), 16, interleave="box")
    slot = layout.address_at((1, 0, 0))
    assert all(
        layout.address_at((2, r, c)) == 2 * slot + one.address_at((r, c))
        for r in (0, 7, 19)
        for c in (0, 9, 127)
    )


def test_plain_rows_conflict_and_swizzled_rows_do_not() -> None:
    access = mma_c(64, 64, 4, 1)
    plain, swizzled = Layout.row_major((64, 64)), make_swizzled((64, 64), 16)
    assert bank_conflicts(plain, access, 2, 2) > 0
    assert bank_conflicts(swizzled, access, 2, 2) == 0
    rows = Fragment.row_major_vector((64, 64), 128, 8)
    assert bank_conflicts(swizzled, rows, 2, 8) == 0


def test_bank_conflicts_counts_wavefronts() -> None:
    lanes = np.arange(32)
    assert bank_conflicts(None, lanes[None], 4) == 0
    assert bank_conflicts(None, (lanes * 2)[None], 4) == 1
    assert bank_conflicts(None, (lanes * 32)[None], 4) == 31
    assert bank_conflicts(None, (lanes * 0)[None], 4) == 0  # a broadcast
    assert bank_conflicts(None, (lanes * 4)[None], 4, 4) == 0
    assert bank_conflicts(None, (lanes * 8)[None], 4, 4) == 4
    assert bank_conflicts(None, np.where(lanes < 8, lanes * 32, -1)[None], 4) == 7


def test_strided_and_row_major() -> None:
    layout = Layout.row_major((4, 6, 8))
    assert layout.strides == (48, 8, 1)
    assert layout.is_row_major
    assert layout.size == 192
    assert layout.vector_width() == 8
    padded = Layout.strided((4, 6), (10, 1))
    assert (padded.size, padded.vector_width(), padded.is_one_to_one()) == (36, 2, True)
    transposed = Layout.strided((4, 6), (1, 4))
    assert transposed.vector_width() == 1
    assert transposed.vector_width(0) == 4
    assert transposed == Layout.row_major((6, 4)).permute((1, 0))
    assert not Layout.strided((4, 6), (3, 1)).is_one_to_one()
    assert Layout.strided((4, 3), (3, 4)).is_one_to_one()  # overlapping digits, yet no collision
    assert Layout.row_major((0, 4)).size == 0
    assert Layout.row_major(()).size == 1
    assert make_swizzled((8, 64), 16).strides is None


@quick
@given(tiles(), st.data())
def test_reshape_keeps_memory(tile: tuple[Layout, int], data: st.DataObject) -> None:
    layout, _ = tile
    total = prod(layout.shape)
    a = data.draw(st.sampled_from([d for d in range(1, total + 1) if total % d == 0]))
    view = layout.reshape((a, total // a))
    assert (addresses(view).ravel() == addresses(layout).ravel()).all()
    assert view.size == layout.size
    if isinstance(view, LayoutTable):
        assert view.why_no_digits
        assert view.is_one_to_one()
        width = view.vector_width()
        runs = addresses(view).reshape(-1, width)
        assert (runs == runs[:, :1] + np.arange(width)).all()


def test_permute_and_prepend() -> None:
    layout = make_swizzled((16, 64), 16)
    turned = layout.permute((1, 0))
    assert turned.shape == (64, 16)
    assert (addresses(turned) == addresses(layout).T).all()
    ring = layout.prepend(4)
    assert ring.shape == (4, 16, 64)
    assert (addresses(ring)[2] == 2 * 1024 + addresses(layout)).all()
    assert ring == make_swizzled((4, 16, 64), 16)
    assert hash(ring) == hash(make_swizzled((4, 16, 64), 16))


def test_a_swizzle_is_its_own_inverse() -> None:
    s = Swizzle(3, 3, 3)
    x = np.arange(2 * s.period)
    assert (s.apply(s.apply(x)) == x).all()
    assert (np.sort(s.apply(x)) == x).all()


def test_address_expressions_are_small() -> None:
    with ir.session():
        x, y = ir.Var("x"), ir.Var("y")
        assert str(Layout.row_major((8, 4)).address((x, y))) == "y + x * 4"
        assert (
            str(make_swizzled((64, 64), 16).address((x, y)))
            == "y % 8 + x * 64 + (y // 8 ^ x % 8) * 8"
        )
