# SPDX-License-Identifier: Apache-2.0
"""The small helpers agree with exact arithmetic and with the standard library."""

from __future__ import annotations

from fractions import Fraction
from importlib.metadata import version
from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from tilelang.utils import (
    align_up,
    ceildiv,
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
