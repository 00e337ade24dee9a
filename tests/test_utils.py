# SPDX-License-Identifier: Apache-2.0
"""The small helpers agree with exact arithmetic and with the standard library."""

from __future__ import annotations

import gc
from fractions import Fraction
from importlib.metadata import version
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.utils import (
    align_up,
    ceildiv,
    fewer_collections,
    installed_version,
    is_power_of_2,
    next_power_of_2,
    prod,
)

NONZERO = st.integers().filter(bool)
NATURAL = st.integers(min_value=1, max_value=2**80)


@given(st.integers(), NONZERO)
def test_ceildiv_rounds_up(a: int, b: int) -> None:
    assert ceildiv(a, b) == ceil(Fraction(a, b))


@given(st.integers(), NATURAL)
def test_align_up_is_the_next_multiple(value: int, alignment: int) -> None:
    aligned = align_up(value, alignment)
    assert aligned % alignment == 0
    assert 0 <= aligned - value < alignment


@given(NATURAL)
def test_next_power_of_2_is_the_least(value: int) -> None:
    power = next_power_of_2(value)
    assert is_power_of_2(power)
    assert power // 2 < value <= power


def test_edges() -> None:
    assert [next_power_of_2(v) for v in (-1, 0, 1, 2, 3)] == [1, 1, 1, 2, 4]
    assert [is_power_of_2(v) for v in (-2, 0, 1, 6)] == [False, False, True, False]
    assert prod(()) == 1
    assert prod((2, 0, 3)) == 0


def test_installed_version() -> None:
    for name in ("numpy", "apache-tvm-ffi", "llvmlite"):
        assert installed_version(name) == version(name)
    assert installed_version("no-such-distribution") is None


def test_settings_of_the_collector_come_back() -> None:
    usual = gc.get_threshold()
    with fewer_collections():
        inside = gc.get_threshold()
        assert inside[0] > usual[0]
        assert inside[1:] == usual[1:]
        with fewer_collections():
            assert gc.get_threshold() == inside
        assert gc.get_threshold() == inside
    assert gc.get_threshold() == usual


@pytest.mark.parametrize("chosen", [(0, 5, 5), (500_000, 5, 5)])
def test_a_collector_that_is_off_or_rare_is_left_alone(chosen: tuple[int, int, int]) -> None:
    usual = gc.get_threshold()
    gc.set_threshold(*chosen)
    try:
        with fewer_collections():
            assert gc.get_threshold() == chosen
        assert gc.get_threshold() == chosen
    finally:
        gc.set_threshold(*usual)


def test_what_the_program_itself_sets_meanwhile_stays() -> None:
    usual = gc.get_threshold()
    try:
        with fewer_collections():
            gc.set_threshold(123, 4, 5)
        assert gc.get_threshold() == (123, 4, 5)
    finally:
        gc.set_threshold(*usual)
