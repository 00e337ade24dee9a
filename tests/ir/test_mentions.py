# SPDX-License-Identifier: Apache-2.0
"""What an expression mentions agrees with a walk over it; effects are found once."""

from __future__ import annotations

from tilelang.ir import (
    Buffer,
    Call,
    Evaluate,
    Expr,
    For,
    Load,
    Seq,
    Store,
    Var,
    address_of,
    call,
    const,
    effects,
    free_vars,
    mentions,
    session,
    substitute,
    walk,
)


def by_walking(e: Expr) -> set[object]:
    out: set[object] = set()
    for x in walk(e):
        if type(x) is Var:
            out.add(x)
        elif type(x) is Load:
            out.add(x.buffer)
        elif type(x) is Call:
            out.add(x.op)
    return out


def test_mentions_are_what_a_walk_finds() -> None:
    i, j = Var("i"), Var("j")
    a, b = Buffer("A", (8, 8), "float32"), Buffer("B", (8,), "float32")
    with session():
        for e in (
            const(1) + 0,
            i + j * 2,
            a[i, j + 1] + b[i],
            call("exp", [b[i // 2]], "float32"),
            address_of(a, i, 0),
        ):
            assert mentions(e) == by_walking(e)
            assert mentions(e) is mentions(e)
            assert list(free_vars(e)) == [x for x in walk(e) if type(x) is Var]


def test_substitution_leaves_what_does_not_mention_the_variable() -> None:
    i, j = Var("i"), Var("j")
    a, b = Buffer("A", (8,), "float32"), Buffer("B", (8,), "float32")
    with session():
        kept = a[j] * 2
        e = kept + a[i]
        new = substitute(e, {i: const(3)})
        assert new.a is kept  # type: ignore[attr-defined]
        assert new is kept + a[3]
        assert substitute(e, {a: b}) is b[j] * 2 + b[i]
        assert substitute(e, {b: a}) is e


def test_effects_are_found_once_in_a_session() -> None:
    i = Var("i")
    a = Buffer("A", (8,), "float32")
    with session():
        loop = For(i, const(0), const(8), Store(a, (i,), const(0.0)))
        first = effects(loop)
        assert effects(loop) is first
        assert effects(Seq((loop, Evaluate(const(0))))).accesses == first.accesses
