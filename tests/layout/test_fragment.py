# SPDX-License-Identifier: Apache-2.0
"""Fragments against enumeration: inverse, ownership, derivations, comparison, expressions."""

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
    FragmentTable,
    mma_a,
    mma_b,
    mma_c,
    wgmma_a,
    wgmma_c,
)
from tilelang.layout.owners import contains as contains_by_digits
from tilelang.layout.table import holders

EXTENTS = st.sampled_from((1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 32, 33))
THREADS = st.sampled_from((1, 2, 3, 4, 7, 12, 32, 48, 64, 96, 128))
quick = settings(deadline=None, max_examples=120)


@st.composite
def dealt(draw: Any) -> Fragment:
    shape = draw(st.lists(EXTENTS, min_size=1, max_size=3))
    return Fragment.row_major_vector(shape, draw(THREADS), draw(st.sampled_from((1, 2, 3, 4, 8))))


@st.composite
def tensor_core(draw: Any) -> Fragment:
    wm, wn = draw(st.sampled_from(((1, 1), (2, 1), (1, 2), (2, 2), (4, 1))))
    a, b = (
        draw(st.sampled_from((8, 16, 17, 32, 40, 64))),
        draw(st.sampled_from((8, 16, 24, 32, 64))),
    )
    make = draw(st.sampled_from((mma_a, mma_b, mma_c, wgmma_c, wgmma_a)))
    if make is wgmma_c:
        return wgmma_c(a, b, wm, wn)
    if make is wgmma_a:
        return wgmma_a(a, b, wm, wn, draw(st.sampled_from((16, 8, 32))))
    bits = draw(st.sampled_from((32, 64) if make is mma_c else (16, 8, 32, 64)))
    return make(a, b, wm, wn, bits)


@st.composite
def shuffled(draw: Any) -> Fragment:
    """Digits of power-of-two dimensions in any order on the two axes and the replicas."""
    bits = [("d", dim, b) for dim in range(2) for b in range(draw(st.integers(0, 3)))]
    bits += [("r", 0, 0)] * draw(st.integers(0, 2))
    order = draw(st.permutations(bits))
    thread_count = draw(st.integers(0, len(order)))
    shape = [1, 1]
    for kind, dim, _ in bits:
        shape[dim] *= 2 if kind == "d" else 1
    threads, regs, replicas = [], [], []
    t = r = 1
    for n, (kind, dim, b) in enumerate(order):
        if kind == "r":
            replicas.append((2, t))
            t *= 2
        elif n < thread_count:
            threads.append((dim, 1 << b, 2, t))
            t *= 2
        else:
            regs.append((dim, 1 << b, 2, r))
            r *= 2
    return Fragment(shape, t, threads, regs, replicas)


fragments = st.one_of(dealt(), tensor_core(), shuffled())


def places(f: Any) -> dict[tuple[int, ...], set[tuple[int, int]]]:
    """element -> {(thread, register)}, by asking every (thread, register)."""
    held: dict[tuple[int, ...], set[tuple[int, int]]] = {}
    t, r = np.meshgrid(np.arange(f.threads), np.arange(f.regs), indexing="ij")
    valid = np.broadcast_to(np.asarray(f.valid_at(t, r)), t.shape)
    coords = [np.broadcast_to(np.asarray(x), t.shape) for x in f.coords_at(t, r)]
    for at in zip(*np.nonzero(valid), strict=True):
        held.setdefault(tuple(int(c[at]) for c in coords), set()).add((int(t[at]), int(r[at])))
    return held


@quick
@given(fragments)
def test_every_element_is_owned_by_exactly_its_replicas(f: Fragment) -> None:
    held = places(f)
    assert set(held) == set(np.ndindex(*f.shape))
    for coords, owners in held.items():
        assert len(owners) == f.replication
        assert owners == {
            (f.thread_at(coords, rep), f.reg_at(coords)) for rep in range(f.replication)
        }
        assert {f.replica_at(t) for t, _ in owners} == set(range(f.replication))
    assert f.is_exact == (sum(map(len, held.values())) == f.threads * f.regs)
    assert f.is_replicated == (f.replication > 1)


@quick
@given(fragments)
def test_expressions_say_what_the_numbers_say(f: Fragment) -> None:
    from tilelang.ir.evaluate import evaluate

    with ir.session():
        t, r = ir.Var("t"), ir.Var("r")
        xs = [ir.Var(f"x{d}") for d in range(f.ndim)]
        coords, valid, replica = f.coords(t, r), f.valid(t, r), f.replica(t)
        rng = np.random.default_rng(0)
        for _ in range(12):
            env = {t: int(rng.integers(f.threads)), r: int(rng.integers(f.regs))}
            ok = bool(f.valid_at(env[t], env[r]))
            assert (True if valid is None else evaluate(valid, env)) == ok
            assert tuple(evaluate(c, env) for c in coords) == f.coords_at(env[t], env[r])
            assert evaluate(replica, env) == f.replica_at(env[t])
            env = {x: int(rng.integers(s)) for x, s in zip(xs, f.shape, strict=True)}
            at = [env[x] for x in xs]
            assert evaluate(f.thread(xs), env) == f.thread_at(at)
            assert evaluate(f.reg(xs), env) == f.reg_at(at)


@quick
@given(fragments, st.data())
def test_reduce(f: Fragment, data: st.DataObject) -> None:
    dim = data.draw(st.integers(0, f.ndim - 1))
    kept = f.reduce(dim, keepdim=True)
    g = f.reduce(dim)
    assert g.shape == f.shape[:dim] + f.shape[dim + 1 :]
    assert kept.shape == (*f.shape[:dim], 1, *f.shape[dim + 1 :])
    before, after = places(f), places(g)
    whole_dim = f.padded[dim] == f.shape[dim]
    for coords, owners in after.items():
        sources = set()
        for x in range(f.shape[dim]):
            sources |= {t for t, _ in before[(*coords[:dim], x, *coords[dim:])]}
        threads = {t for t, _ in owners}
        assert sources <= threads
        if whole_dim:
            assert sources == threads
    assert places(kept) == {(*c[:dim], 0, *c[dim:]): p for c, p in after.items()}


@quick
@given(fragments, st.data())
def test_expand_permute_project(f: Fragment, data: st.DataObject) -> None:
    dim = data.draw(st.integers(0, f.ndim))
    wide = f.expand(dim, 3)
    assert wide.shape == (*f.shape[:dim], 3, *f.shape[dim:])
    before, after = places(f), places(wide)
    for coords, owners in after.items():
        assert {t for t, _ in owners} == {t for t, _ in before[coords[:dim] + coords[dim + 1 :]]}
    assert wide.reduce(dim) == f
    order = data.draw(st.permutations(range(f.ndim)))
    assert places(f.permute(order)) == {tuple(c[d] for d in order): p for c, p in before.items()}
    assert f.project(range(f.ndim)) == f


@quick
@given(fragments, st.data())
def test_reshape(f: Fragment, data: st.DataObject) -> None:
    total = prod(f.shape)
    a = data.draw(st.sampled_from([d for d in range(1, total + 1) if total % d == 0]))
    g = f.reshape((a, total // a))
    before, after = places(f), places(g)
    for coords, owners in before.items():
        flat = np.ravel_multi_index(coords, f.shape)
        assert after[tuple(int(x) for x in np.unravel_index(flat, g.shape))] == owners
    assert len(after) == len(before)
    assert (g.why_no_digits is None) == isinstance(g, Fragment)
    if isinstance(g, Fragment) and f.padded == f.shape:
        assert g.reshape(f.shape) == f


def test_reshape_with_radices_that_do_not_nest_is_a_table() -> None:
    f = Fragment.row_major_vector((4, 6), 4, 1)
    g = f.reshape((6, 4))
    assert isinstance(g, FragmentTable)
    assert "do not nest" in str(g.why_no_digits)
    with ir.session():
        x, y, t, r = (ir.Var(n) for n in "xytr")
        assert len(str(g.thread((x, y)))) < 60  # composed of digits, not a chain of selects
        assert len(str(g.coords(t, r))) < 120
    ragged = Fragment.row_major_vector((3, 7), 4, 4)
    assert "padded" in str(ragged.reshape((7, 3)).why_no_digits)


@quick
@given(fragments, st.data())
def test_repeat_spread_and_slice(f: Fragment, data: st.DataObject) -> None:
    dim = data.draw(st.integers(0, f.ndim - 1))
    extent = f.shape[dim]
    if f.padded[dim] == extent:
        wide = f.repeat(dim, 3)
        one, three = places(f), places(wide)
        for coords, owners in three.items():
            base = (*coords[:dim], coords[dim] % extent, *coords[dim + 1 :])
            shift = coords[dim] // extent * f.regs
            assert owners == {(t, r + shift) for t, r in one[base]}
        part = wide.slice(dim, extent, extent)
        assert part == (f, f.regs)
        more = places(f.spread(dim, 2))
        for coords, owners in more.items():
            base = (*coords[:dim], coords[dim] % extent, *coords[dim + 1 :])
            shift = coords[dim] // extent * f.threads
            assert owners == {(t + shift, r) for t, r in one[base]}
    start = data.draw(st.integers(0, extent - 1))
    length = data.draw(st.integers(1, extent - start))
    cut = f.slice(dim, start, length)
    if cut is not None:
        g, first = cut
        whole = places(f)
        for coords, owners in places(g).items():
            source = (*coords[:dim], coords[dim] + start, *coords[dim + 1 :])
            assert {(t, r + first) for t, r in owners} == whole[source]


@quick
@given(st.data())
def test_contains_and_compatible(data: st.DataObject) -> None:
    shape, threads = data.draw(
        st.sampled_from((((8, 4), 8), ((16,), 4), ((6, 5), 6), ((4, 4), 16)))
    )
    pool: list[Any] = [Fragment.row_major_vector(shape, threads, v) for v in (1, 2, 4)]
    pool += [Fragment.replicated(shape, threads), pool[0].permute(range(len(shape)))]
    pool += [Fragment.row_major_vector(shape[::-1], threads, 1).permute(range(len(shape))[::-1])]
    f, g = data.draw(st.sampled_from(pool)), data.draw(st.sampled_from(pool))
    mine = {c: {t for t, _ in p} for c, p in places(f).items()}
    theirs = {c: {t for t, _ in p} for c, p in places(g).items()}
    assert f.contains(g) == all(theirs[c] <= mine[c] for c in mine)
    assert f.compatible(g) == (mine == theirs)


@settings(deadline=None, max_examples=400)
@given(fragments, fragments)
def test_owner_algebra_agrees_with_enumeration(f: Fragment, g: Fragment) -> None:
    """Digits of one fragment put over the shape and threads of another, where they fit."""
    known = contains_by_digits(f, g) if (f.shape, f.threads) == (g.shape, g.threads) else None
    if known is not None:
        assert known == bool((holders(f) | ~holders(g)).all())


@quick
@given(shuffled(), st.data())
def test_owner_algebra_on_permuted_digits(f: Fragment, data: st.DataObject) -> None:
    """The same digits dealt otherwise to the same threads."""
    axis = [(d, e) for _, e, d in f.thread_axis]
    order = data.draw(st.permutations(axis))
    threads, replicas, t = [], [], 1
    for d, e in order:
        if d is None:
            replicas.append((e, t))
        else:
            threads.append(d._replace(stride=t))
        t *= e
    g = Fragment(f.shape, f.threads, threads, f.reg_digits, replicas)
    freed = [d for d in g.thread_digits if data.draw(st.booleans())]
    regs, r = list(g.reg_digits), g.regs
    for d in freed:
        regs.append(d._replace(stride=r))
        r *= d.extent
    kept = [d for d in g.thread_digits if d not in freed]
    h = Fragment(
        f.shape, f.threads, kept, regs, [*g.replicas, *((d.extent, d.stride) for d in freed)]
    )
    assert h.contains(g)
    for a, b in ((f, g), (g, f), (f, h), (h, f), (g, h)):
        assert contains_by_digits(a, b) == bool((holders(a) | ~holders(b)).all())


def test_default_deal_is_coalesced_and_wastes_nothing() -> None:
    f = Fragment.row_major_vector((128, 64), 128, 8)
    assert f.regs == 64
    assert f.is_exact
    lanes = [f.coords_at(t, 0) for t in range(9)]
    assert lanes[:8] == [(0, 8 * t) for t in range(8)]
    assert lanes[8] == (1, 0)
    assert [f.coords_at(0, r) for r in (0, 7, 8)] == [(0, 0), (0, 7), (16, 0)]


@pytest.mark.parametrize(
    ("shape", "threads", "vector", "regs", "replication"),
    [
        ((16,), 128, 1, 1, 8),
        ((128,), 128, 1, 1, 1),
        ((129,), 128, 1, 2, 1),
        ((1, 1), 128, 1, 1, 128),
        ((128, 64), 1, 8, 8192, 1),
        ((128, 32), 96, 8, 48, 1),
        ((100,), 7, 1, 15, 1),
        ((64, 2), 32, 4, 4, 1),
    ],
)
def test_default_deal(
    shape: tuple[int, ...], threads: int, vector: int, regs: int, replication: int
) -> None:
    f = Fragment.row_major_vector(shape, threads, vector)
    assert (f.regs, f.replication) == (regs, replication)


def test_an_empty_tile_has_no_elements() -> None:
    f = Fragment.row_major_vector((0, 8), 32, 1)
    assert places(f) == {}


# Lane and register of single elements, read off the PTX manual's figures (g = lane // 4, q = lane %
# 4).
MMA_POINTS = [
    (
        mma_c(16, 8, 1, 1),
        {(0, 0): (0, 0), (0, 1): (0, 1), (8, 0): (0, 2), (9, 7): (7, 3), (7, 6): (31, 0)},
    ),
    (
        mma_a(16, 16, 1, 1),
        {(0, 0): (0, 0), (8, 1): (0, 3), (0, 8): (0, 4), (15, 15): (31, 7), (1, 2): (5, 0)},
    ),
    (
        mma_b(16, 8, 1, 1),
        {(0, 0): (0, 0), (1, 0): (0, 1), (8, 0): (0, 2), (15, 7): (31, 3), (2, 1): (5, 0)},
    ),
    (
        mma_a(16, 32, 1, 1, 8),
        {(0, 3): (0, 3), (8, 0): (0, 4), (0, 16): (0, 8), (0, 4): (1, 0), (15, 31): (31, 15)},
    ),
    (mma_b(32, 8, 1, 1, 8), {(3, 0): (0, 3), (16, 0): (0, 4), (4, 1): (5, 0), (31, 7): (31, 7)}),
    (
        mma_a(16, 8, 1, 1, 32),
        {(0, 0): (0, 0), (8, 0): (0, 1), (0, 4): (0, 2), (15, 7): (31, 3), (0, 3): (3, 0)},
    ),
    (mma_b(8, 8, 1, 1, 32), {(0, 0): (0, 0), (4, 0): (0, 1), (3, 7): (31, 0)}),
    (mma_c(8, 8, 1, 1, 64), {(0, 0): (0, 0), (0, 1): (0, 1), (7, 7): (31, 1)}),
    (mma_a(8, 4, 1, 1, 64), {(0, 0): (0, 0), (7, 3): (31, 0)}),
    (mma_b(4, 8, 1, 1, 64), {(0, 0): (0, 0), (3, 7): (31, 0)}),
    (wgmma_c(64, 16, 1), {(0, 0): (0, 0), (16, 0): (32, 0), (8, 9): (0, 7), (63, 15): (127, 7)}),
    (wgmma_a(64, 16, 1), {(16, 0): (32, 0), (8, 0): (0, 2), (0, 8): (0, 4), (63, 15): (127, 7)}),
]


@pytest.mark.parametrize(("f", "points"), MMA_POINTS)
def test_tensor_core_fragments_are_those_of_the_manual(f: Fragment, points: dict[Any, Any]) -> None:
    for coords, place in points.items():
        assert (f.thread_at(coords), f.reg_at(coords)) == place


def test_register_order_of_tiled_atoms() -> None:
    c = mma_c(64, 64, 2, 2)  # mt = nt = 2 x 4 per warp
    assert c.reg_at((16, 0)) == 4 * 4
    assert c.reg_at((0, 8)) == 4
    assert c.thread_at((0, 32)) == 32
    assert c.thread_at((32, 0)) == 64
    a = mma_a(64, 32, 2, 2)
    assert a.reg_at((16, 0)) == 2 * 8
    assert a.reg_at((0, 16)) == 8
    b = mma_b(32, 64, 2, 2)
    assert b.reg_at((0, 8)) == 2 * 4
    assert b.reg_at((16, 0)) == 4
    assert mma_a(64, 32, 2, 2, transposed=True) == a.permute((1, 0))
    # the accumulator of one gemm is the A operand of the next, thread by thread
    s, p = mma_c(64, 64, 4, 1), mma_a(64, 64, 4, 1)
    assert s.compatible(p)
    assert wgmma_c(64, 64, 1).compatible(wgmma_a(64, 64, 1))


def test_expressions_are_small() -> None:
    with ir.session():
        t, r = ir.Var("t"), ir.Var("r")
        f = Fragment.row_major_vector((128, 64), 128, 8)
        assert [str(c) for c in f.coords(t, r)] == ["r // 8 * 16 + t // 8", "t % 8 * 8 + r % 8"]
        assert f.valid(t, r) is None
        assert [str(c) for c in f.coords(t, 9)] == ["t // 8 + 16", "t % 8 * 8 + 1"]
        ragged = Fragment.row_major_vector((77,), 128, 1)
        assert str(ragged.valid(t, r)) == "t < 77"
        assert str(ragged.thread((r,))) == "r"
