# SPDX-License-Identifier: Apache-2.0
"""The proofs that index arithmetic of kernels asks for, without a solver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tilelang.arith import Facts
from tilelang.ir import Expr, Var, session

Proof = Callable[[Facts], Expr]


def _var(f: Facts, name: str, extent: int) -> Var:
    v = Var(name)
    f.bind(v, 0, extent)
    return v


def fused_quotient(f: Facts) -> Expr:
    i, j = _var(f, "i", 64), _var(f, "j", 8)
    return (i * 8 + j) // 8 == i


def fused_remainder(f: Facts) -> Expr:
    i, j = _var(f, "i", 64), _var(f, "j", 8)
    return (i * 8 + j) % 8 == j


def affine_bound(f: Facts) -> Expr:
    b, t, v = _var(f, "b", 16), _var(f, "t", 128), _var(f, "v", 4)
    return b * 512 + t * 4 + v < 8192


def fragment_address(f: Facts) -> Expr:
    t, r = _var(f, "t", 32), _var(f, "r", 8)
    row = t // 4 + r // 2 % 2 * 8
    column = t % 4 * 2 + r % 2 + r // 4 * 8
    return row * 16 + column < 256


def three_terms(f: Facts) -> Expr:
    a, b, c = _var(f, "a", 7), _var(f, "b", 8), _var(f, "c", 8)
    return (a * 64 + b * 8 + c) // 64 == a


def quotient_of_a_quotient(f: Facts) -> Expr:
    x, y = _var(f, "x", 100), _var(f, "y", 4)
    return (4 * x + y) // 16 == x // 4


def put_together(f: Facts) -> Expr:
    lane = _var(f, "lane", 32)
    return (lane // 4) * 4 + lane % 4 == lane


PROOFS: tuple[Proof, ...] = (
    fused_quotient, fused_remainder, affine_bound, fragment_address, three_terms,
    quotient_of_a_quotient, put_together,
)  # fmt: skip


@pytest.mark.parametrize("proof", PROOFS, ids=lambda p: p.__name__)
def test_it_is_proved(proof: Any) -> None:
    with session():
        f = Facts()
        assert f.prove(proof(f))


@pytest.mark.parametrize("proof", PROOFS, ids=lambda p: p.__name__)
def test_a_scope_remembers_what_it_proved(proof: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second question costs a look into the memo, in the scope itself and in those below."""
    with session():
        f = Facts()
        claim = proof(f)
        first = _steps(lambda: f.prove(claim))
        assert _steps(lambda: f.prove(claim)) * 4 < first
        assert _steps(lambda: f.child().prove(claim)) <= first * 2


def _steps(action: Callable[[], Any]) -> int:
    """Python calls that an action makes."""
    import sys

    count = 0

    def see(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(see)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count
