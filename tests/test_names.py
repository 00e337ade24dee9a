# SPDX-License-Identifier: Apache-2.0
"""The names of the package: each is there, and `from tilelang import *` gives them all."""

from __future__ import annotations

import pytest

import tilelang


def test_every_name_is_there() -> None:
    names: dict[str, object] = {}
    exec("from tilelang import *", names)
    assert set(tilelang.__all__) <= set(names)
    assert names["jit"] is tilelang.jit
    assert callable(tilelang.jit)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="did you mean 'compile'"):
        tilelang.compil
