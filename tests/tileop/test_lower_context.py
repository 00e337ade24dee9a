# SPDX-License-Identifier: Apache-2.0
"""A lowering's scope of facts ends with it, however it ends."""

from __future__ import annotations

import pytest

from tilelang.arith import Facts
from tilelang.config import Options
from tilelang.ir import Var, const
from tilelang.target import Target
from tilelang.tileop.base import LowerContext


@pytest.mark.parametrize("fails", [False, True])
def test_what_is_learnt_in_a_scope_is_forgotten_at_its_end(fails: bool) -> None:
    v = Var("v")
    ctx = LowerContext(Target("cuda-sim -arch=sm_80"), Options(), const(0), 1, Facts())
    outer = ctx.facts
    try:
        with ctx.scope() as facts:
            assert ctx.facts is facts
            facts.bind(v, 0, 4)
            assert ctx.facts.prove(v < 4)
            if fails:
                raise ValueError
    except ValueError:
        assert fails
    assert ctx.facts is outer
    assert not ctx.facts.prove(v < 4)
