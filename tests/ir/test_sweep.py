# SPDX-License-Identifier: Apache-2.0
"""The region that effects give a loop contains every element that the loop touches, and no more
than that where the index is a sum of multiples of the loop variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tilelang import ir
from tilelang.ir import Buffer, Expr, For, Load, Parallel, Region, Seq, Stmt, Store, Var, const
from tilelang.ir.evaluate import evaluate
from tilelang.ir.sweep import sweep

SIZE = 1000
I, J, N = Var("i"), Var("j"), Var("n")
WIDE = Var("w", ir.DType("int64"))
BYTE = Var("b", ir.DType("uint8"))
Loops = Mapping[Var, tuple[int, int]]


def ends(r: Region, n: int = 0) -> tuple[int, int]:
    """The box in the only dimension, where the free variable has the value n."""
    lo = evaluate(r.offsets[0], {N: n})
    return lo, lo + evaluate(r.extents[0], {N: n})


def swept(e: Expr, loops: Loops, extent: Any = 1) -> Region:
    a = Buffer("A", (SIZE,), "float32")
    ranges = {v: (const(lo, v.dtype), const(n, v.dtype)) for v, (lo, n) in loops.items()}
    return sweep(Region(a, (e,), (ir.as_expr(extent),)), ranges)


def test_sums_of_multiples_give_the_exact_box() -> None:
    for e, box in (
        (I, (0, 8)),
        (I + 5, (5, 13)),
        (I * 4 + J, (2, 33)),
        (63 - I, (56, 64)),
        (ir.neg(I) + 8, (1, 9)),
        (3 * (I - J) + 20, (8, 36)),
        (ir.cast(I, "int64") * 2 + WIDE, (0, 24)),
        (I - I + J, (2, 5)),
    ):
        assert ends(swept(e, {I: (0, 8), J: (2, 3), WIDE: (0, 10)})) == box, e
    assert ends(swept(I * 4, {I: (1, 3)}, extent=4)) == (4, 16)


def test_a_symbolic_extent_or_start_stays_exact() -> None:
    for e, box in ((I + 2, (2, 9)), (9 - I, (3, 10))):
        r = sweep(Region(Buffer("A", (SIZE,), "float32"), (e,), (const(1),)), {I: (const(0), N)})
        assert ends(r, n=7) == box
    assert ends(swept(N * 64 + I, {I: (0, 64)}), n=2) == (128, 192)


@pytest.mark.parametrize(
    "make",
    [
        lambda i: i // 64,
        lambda i: i % 64,
        lambda i: ir.binary(ir.Min, i, const(2)),
        lambda i: ir.binary(ir.Max, i, const(2)),
        lambda i: i << 1,
        lambda i: i >> 6,
        lambda i: i ^ 3,
        lambda i: i & 3,
        lambda i: i * i,
        lambda i: ir.select(i < 3, const(0), const(77)),
        lambda i: ir.cast(i, "int8").astype("int32"),
        lambda i: ir.cast(ir.cast(i, "int64") * 3, "int32"),
        lambda i: i + Load(Buffer("at", (4,), "int32"), (const(0),)),
        lambda i: Load(Buffer("at", (4,), "int32"), (const(0),)),
        lambda i: i * 2**30,
    ],
)
def test_anything_else_gives_the_whole_dimension(make: Callable[[Expr], Expr]) -> None:
    assert ends(swept(make(I), {I: (0, 128)})) == (0, SIZE)


def test_an_index_of_a_narrow_type_may_wrap() -> None:
    assert ends(swept(BYTE - const(5, "uint8"), {BYTE: (0, 100)})) == (0, SIZE)


def test_an_extent_that_changes_with_the_loop_gives_the_whole_dimension() -> None:
    assert ends(swept(I, {I: (0, 4)}, extent=I + 1)) == (0, SIZE)


def test_a_loop_without_iterations_touches_nothing_so_any_box_is_right() -> None:
    assert ends(swept(I * 2, {I: (0, 0)})) == (0, SIZE)


def test_nested_loops_whose_ranges_depend_on_outer_ones() -> None:
    """for i < 6: for j in [i, i + 3): at = 2j + 1; A[at] and A[j // 4]."""
    a, at = Buffer("A", (SIZE,), "float32"), Var("at")
    for index, box in ((at, (1, 16)), (J // 4, (0, SIZE))):
        inner = Seq((ir.Bind(at, J * 2 + 1), Store(a, (index,), const(0.0))))
        loop = For(I, const(0), const(6), For(J, I, const(3), inner))
        (access,) = ir.effects(loop).writes
        assert ends(access.region) == box
    triangle = For(I, const(0), const(6), For(J, const(0), I + 1, Store(a, (J,), const(0.0))))
    (access,) = ir.effects(triangle).writes
    assert ends(access.region) == (0, SIZE)


def test_a_parallel_nest() -> None:
    a = Buffer("A", (2, 64), "float32")
    nest = Parallel((I,), (const(128),), Store(a, (I // 64, I % 64), const(0.0)))
    (access,) = ir.effects(nest).writes
    assert [int(x) for x in access.region.offsets] == [0, 0]
    assert [int(x) for x in access.region.extents] == [2, 64]


# --------------------------------------------------------------------------- random index programs

_CONSTS = st.integers(-4, 70)
_LEAVES = st.one_of(st.sampled_from((I, J, N)), _CONSTS.map(const))
_CUTS = st.sampled_from((2, 3, 4, 8, 16, 64))


def _grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    two = st.tuples(inner, inner)
    return st.one_of(
        two.map(lambda x: x[0] + x[1]),
        two.map(lambda x: x[0] - x[1]),
        two.map(lambda x: x[0] * x[1]),
        two.map(lambda x: ir.binary(ir.Min, *x)),
        two.map(lambda x: ir.binary(ir.Max, *x)),
        two.map(lambda x: x[0] ^ x[1]),
        st.tuples(inner, inner, inner).map(lambda x: ir.select(x[0] < x[1], x[1], x[2])),
        st.tuples(inner, _CUTS).map(lambda x: x[0] // x[1]),
        st.tuples(inner, _CUTS).map(lambda x: x[0] % x[1]),
        st.tuples(inner, st.integers(0, 3)).map(lambda x: x[0] << x[1]),
        st.tuples(inner, st.integers(0, 7)).map(lambda x: x[0] >> x[1]),
        inner.map(ir.neg),
        inner.map(lambda x: ir.cast(ir.cast(x, "int64") * 2, "int32")),
        inner.map(lambda x: ir.cast(ir.cast(x, "uint8"), "int32")),
    )


_SUMS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda x: x[0] + x[1]),
        st.tuples(inner, inner).map(lambda x: x[0] - x[1]),
        st.tuples(inner, _CONSTS).map(lambda x: x[0] * x[1]),
    ),
    max_leaves=5,
)
_INDICES = st.one_of(st.recursive(_LEAVES, _grow, max_leaves=8), _SUMS)
_RANGES = st.tuples(st.integers(0, 5), st.integers(1, 70))


def touched(e: Expr, i_range: range, j_ranges: Callable[[int], range], n: int) -> set[int]:
    points = ((i, j) for i in i_range for j in j_ranges(i))
    return {evaluate(e, {I: i, J: j, N: n}) for i, j in points}


@settings(max_examples=300)
@given(_INDICES, _RANGES, st.integers(0, 5), st.integers(1, 9), st.booleans(), st.integers(0, 3))
def test_every_index_that_is_accessed_is_in_the_region(
    e: Expr, outer: tuple[int, int], lo: int, count: int, skewed: bool, n: int
) -> None:
    a = Buffer("A", (SIZE,), "float32")
    start: Expr = I + lo if skewed else const(lo)
    inner = For(J, start, const(count), Store(a, (e,), const(0.0)))
    loop: Stmt = For(I, const(outer[0]), const(outer[1]), inner)
    (access,) = ir.effects(loop).writes
    assert ir.free_vars(access.region) in ([], [N])
    first, end = ends(access.region, n)
    i_range = range(outer[0], sum(outer))
    seen = touched(e, i_range, lambda i: range(lo + i * skewed, lo + i * skewed + count), n)
    inside = {x for x in seen if 0 <= x < SIZE}  # what is out of bounds touches nothing
    assert all(first <= x < end for x in inside)


@given(_SUMS, _RANGES, _RANGES)
def test_the_box_of_a_sum_is_no_larger_than_what_is_accessed(
    e: Expr, outer: tuple[int, int], inner: tuple[int, int]
) -> None:
    assume(any(v in ir.free_vars(e) for v in (I, J)))
    r = swept(e, {I: outer, J: inner})
    seen = touched(e, range(outer[0], sum(outer)), lambda _: range(inner[0], sum(inner)), 2)
    assert ends(r, n=2) == (min(seen), max(seen) + 1)
