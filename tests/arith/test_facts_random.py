# SPDX-License-Identifier: Apache-2.0
"""Random integer expressions: every answer of `Facts` against evaluation at sampled points."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilelang import ir
from tilelang.arith import Facts
from tilelang.ir.evaluate import evaluate

POINTS = 32
INTEGER_OPS = (
    "Add",
    "Add",
    "Sub",
    "Mul",
    "FloorDiv",
    "FloorMod",
    "FloorDiv",
    "FloorMod",
    "TruncDiv",
    "TruncMod",
    "Min",
    "Max",
    "Select",
    "IfThenElse",
    "Neg",
    "Shl",
    "Shr",
    "BitAnd",
    "BitOr",
    "BitXor",
    "Wide",
    "Narrow",
    "Unsigned",
)
COMPARES = ("EQ", "NE", "LT", "LE", "GT", "GE")
NAMES = "ijkstmnpu"
CONSTS = st.one_of(st.integers(-3, 9), st.sampled_from((16, 32, 64, 128, -16, 12, 15, 127)))
DIVISORS = st.sampled_from((1, 2, 3, 4, 5, 8, 16, 32, 64, 128, -1, -2, -3, -8))

leaves = st.one_of(st.sampled_from(NAMES), CONSTS)


def _grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.tuples(
        st.sampled_from(INTEGER_OPS), inner, inner, DIVISORS, st.sampled_from(COMPARES), inner
    )


trees = st.recursive(leaves, _grow, max_leaves=9)
conditions = st.recursive(
    st.tuples(st.sampled_from(COMPARES), trees, trees),
    lambda c: st.tuples(st.sampled_from(("And", "Or", "Not")), c, c),
    max_leaves=4,
)


# Index arithmetic: sums of scaled terms, cut by divisions whose divisors have something in common.
SCALES = st.sampled_from((1, 1, 2, 3, 4, 6, 8, 16, 32, 64, 128, -1, -4, -8))
CUTS = st.sampled_from((2, 3, 4, 6, 8, 12, 16, 32, 64, 128))
OFFSETS = st.sampled_from((0, 0, 0, 1, 3, 4, 7, 8, 12, 16, 31, 64, -1, -8, -3))
CUT_OPS = ("FloorDiv", "FloorMod", "FloorDiv", "FloorMod", "TruncDiv", "TruncMod")


def _sum(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    terms = st.lists(st.tuples(SCALES, inner), min_size=1, max_size=3)
    return st.tuples(st.just("sum"), terms, OFFSETS)


def _cut(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(_sum(inner), st.tuples(st.sampled_from(CUT_OPS), _sum(inner), CUTS))


indices = st.recursive(st.sampled_from(NAMES), _cut, max_leaves=7)
index_conditions = st.tuples(st.sampled_from(COMPARES), indices, indices)
any_tree = st.one_of(trees, indices)
any_condition = st.one_of(conditions, index_conditions)


class World:
    """Variables with facts about them, and points where these facts hold."""

    def __init__(self, seed: int) -> None:
        self.vars = {n: ir.Var(n) for n in NAMES}
        v = self.vars
        v["u"] = ir.Var("u", ir.DType("uint32"))
        f = self.facts = Facts()
        f.bind(v["i"], 0, 128)
        f.bind(v["j"], 0, 8)
        f.bind(v["k"], -5, 17)
        f.bind(v["s"], 4, 1)
        f.bind_nonneg(v["n"])
        f.bind(v["m"], 0, v["n"])
        f.assume(v["p"] % 8 == 0)
        f.assume(ir.logical_and(v["p"] >= -64, v["p"] < v["n"] * 8))
        f.define(v["t"], v["i"] * 8 + v["j"])
        f.bind(v["u"], 0, 40)
        rng = random.Random(seed)
        self.points = [self._point(rng) for _ in range(POINTS)]

    def _point(self, rng: random.Random) -> dict[ir.Var, int]:
        n = rng.choice((1, 2, 7, 8, 64, 100))
        i, j = rng.choice((0, 127, rng.randrange(128))), rng.choice((0, 7, rng.randrange(8)))
        values = {
            "i": i,
            "j": j,
            "k": rng.randrange(-5, 12),
            "s": 4,
            "t": i * 8 + j,
            "n": n,
            "m": rng.choice((0, n - 1, rng.randrange(n))),
            "p": rng.randrange(-8, n) * 8,
            "u": rng.randrange(40),
        }
        return {self.vars[name]: value for name, value in values.items()}

    def build(self, tree: Any) -> ir.Expr:
        if isinstance(tree, int):
            return ir.const(tree)
        if isinstance(tree, str):
            return ir.cast(self.vars[tree], "int32")
        if tree[0] == "sum":
            out: ir.Expr = ir.const(tree[2])
            for scale, term in tree[1]:
                out = out + self.build(term) * scale
            return out
        if len(tree) == 3:
            return ir.binary(getattr(ir, tree[0]), self.build(tree[1]), ir.const(tree[2]))
        op, a, b, d, compare, c = tree
        x = self.build(a)
        make = _MAKE.get(op)
        if make is not None:
            return make(x, d)
        y = self.build(b)
        if op in ("Select", "IfThenElse"):
            z = self.build(c)
            cond = ir.binary(getattr(ir, compare), x, y)
            choose = ir.select if op == "Select" else ir.if_then_else
            return choose(cond, y, z)
        if op == "Mul" and ir.free_vars(x) and ir.free_vars(y) and d != 4:
            y = ir.const(d)  # mostly by constants, so that values stay small
        if op.endswith(("Div", "Mod")) and not (d == 5 and b == "n"):
            y = ir.const(d)
        return ir.binary(getattr(ir, op), x, y)

    def condition(self, tree: Any) -> ir.Expr:
        op, a, b = tree
        if op in COMPARES:
            return ir.binary(getattr(ir, op), self.build(a), self.build(b))
        if op == "Not":
            return ir.logical_not(self.condition(a))
        join: Callable[[Any, Any], ir.Expr] = ir.logical_and if op == "And" else ir.logical_or
        return join(self.condition(a), self.condition(b))


_MAKE: dict[str, Callable[[ir.Expr, int], ir.Expr]] = {
    "Neg": lambda x, d: ir.neg(x),
    "Shl": lambda x, d: x << (abs(d) % 5),
    "Shr": lambda x, d: x >> (abs(d) % 5),
    "BitAnd": lambda x, d: x & d,
    "Wide": lambda x, d: ir.cast(ir.cast(x, "int64") + d, "int32"),
    "Narrow": lambda x, d: ir.cast(ir.cast(x, "int8") * ir.const(d, "int8"), "int32"),
    "Unsigned": lambda x, d: ir.cast(
        (ir.cast(x, "uint32") + abs(d)) // ir.const(abs(d), "uint32"), "int32"
    ),
}

fast = settings(deadline=None, max_examples=200, suppress_health_check=list(HealthCheck))


@fast
@given(any_tree, st.integers(0, 1000))
def test_simplify_keeps_value_and_dtype(tree: Any, seed: int) -> None:
    with ir.session():
        world = World(seed)
        e = world.build(tree)
        new = world.facts.simplify(e)
        assert new.dtype is e.dtype
        for env in world.points:
            assert evaluate(new, env) == evaluate(e, env), f"{e} -> {new}"


@fast
@given(any_tree, st.integers(0, 1000))
def test_bounds_and_residues_hold(tree: Any, seed: int) -> None:
    with ir.session():
        world = World(seed)
        e = world.build(tree)
        lo, hi = world.facts.bounds(e)
        m, r = world.facts.modular(e)
        for env in world.points:
            value = evaluate(e, env)
            assert lo is None or lo <= value, f"{e} = {value} < {lo}"
            assert hi is None or value <= hi, f"{e} = {value} > {hi}"
            assert (value == r) if m == 0 else (value % m == r), f"{e} = {value}, not {r} mod {m}"


@fast
@given(any_condition, st.integers(0, 1000))
def test_proofs_and_conditions(tree: Any, seed: int) -> None:
    with ir.session():
        world = World(seed)
        cond = world.condition(tree)
        known = world.facts.decide(cond)
        new = world.facts.simplify(cond)
        for env in world.points:
            value = evaluate(cond, env)
            assert known is None or known == value, f"{cond} is {value}"
            assert evaluate(new, env) == value, f"{cond} -> {new}"


@fast
@given(any_condition, any_tree, st.integers(0, 1000))
def test_what_follows_from_an_assumption(cond_tree: Any, tree: Any, seed: int) -> None:
    with ir.session():
        world = World(seed)
        cond, e = world.condition(cond_tree), world.build(tree)
        points = [env for env in world.points if evaluate(cond, env)]
        f = world.facts.child()
        f.assume(cond)
        new = f.simplify(e)
        lo, hi = f.bounds(e)
        m, r = f.modular(e)
        for env in points:
            value = evaluate(e, env)
            assert evaluate(new, env) == value, f"under {cond}: {e} -> {new}"
            assert lo is None or lo <= value, f"under {cond}: {e} in {lo}..{hi}"
            assert hi is None or value <= hi, f"under {cond}: {e} in {lo}..{hi}"
            assert (value == r) if m == 0 else (value % m == r)


@fast
@given(any_tree, any_tree, st.integers(0, 1000))
def test_equal_is_never_wrong(left: Any, right: Any, seed: int) -> None:
    with ir.session():
        world = World(seed)
        a, b = world.build(left), world.build(right)
        if world.facts.equal(a, b):
            for env in world.points:
                assert evaluate(a, env) == evaluate(b, env), f"{a} is not {b}"


@fast
@given(any_tree, st.integers(0, 1000))
def test_simplify_is_stable(tree: Any, seed: int) -> None:
    """The result never costs more, and simplifying again never costs more than once."""
    from tilelang.arith.simplify import cost

    with ir.session():
        world = World(seed)
        f = world.facts
        e = world.build(tree)
        once = f.simplify(e)
        assert cost(f, once) <= cost(f, e), f"{e} -> {once}"
        assert cost(f, Facts(f).simplify(once)) <= cost(f, once)


@fast
@given(index_conditions, index_conditions, st.integers(0, 1000))
def test_one_condition_decides_another(first: Any, second: Any, seed: int) -> None:
    with ir.session():
        world = World(seed)
        a, b = world.condition(first), world.condition(second)
        points = [env for env in world.points if evaluate(a, env)]
        f = world.facts.under(a)
        known, new = f.decide(b), f.simplify(b)
        for env in points:
            value = evaluate(b, env)
            assert known is None or known == value, f"under {a}: {b} is {value}"
            assert evaluate(new, env) == value, f"under {a}: {b} -> {new}"
