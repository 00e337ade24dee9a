# SPDX-License-Identifier: Apache-2.0
"""read(print(f)) is f, up to names, at every stage."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang import ir
from tilelang.config import Options
from tilelang.ir import Const, DType, PrimFunc, Store, Var
from tilelang.language.reader import read_func
from tilelang.target import Target
from tilelang.testing.alpha import difference
from tilelang.testing.kernels import ZOO
from tilelang.transform import PIPELINE
from tilelang.transform.manager import PassContext, run_passes


def assert_reads_back(func: PrimFunc) -> None:
    text = func.script()
    again = read_func(text)
    assert difference(func, again) is None
    assert again.script() == text


@pytest.mark.parametrize("name", list(ZOO))
def test_tile(name: str) -> None:
    assert_reads_back(ZOO[name]())


@pytest.mark.parametrize("target", ["llvm", "cuda -arch=sm_80"])
@pytest.mark.parametrize("name", list(ZOO))
def test_every_pass(name: str, target: str) -> None:
    def observe(_: str, func: Any) -> None:
        if isinstance(func, PrimFunc):
            assert_reads_back(func)

    ctx = PassContext(Target(target), Options())
    with ir.fresh_session():
        run_passes(ZOO[name](), ctx, PIPELINE, observe, stop_after="simplify_func")


pytestmark = pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")
A = ir.Buffer("A", (16,), "float32")
B = ir.Buffer("A", (16,), "int32")
VARS = [
    Var("x"),
    Var("x"),
    Var("y", DType("int64")),
    Var("if", DType("float32")),
    Var("T", DType("bool")),
]
INT32, FLOAT32 = DType("int32"), DType("float32")


def ints() -> st.SearchStrategy[ir.Expr]:
    leaves = st.one_of(
        st.integers(-(2**31), 2**31 - 1).map(lambda v: Const(v, INT32)), st.sampled_from(VARS[:2])
    )

    def grow(inner: st.SearchStrategy[ir.Expr]) -> st.SearchStrategy[ir.Expr]:
        classes = [
            ir.Add,
            ir.Sub,
            ir.Mul,
            ir.FloorDiv,
            ir.FloorMod,
            ir.TruncDiv,
            ir.TruncMod,
            ir.Min,
            ir.Max,
            ir.BitAnd,
            ir.BitOr,
            ir.BitXor,
            ir.Shl,
            ir.Shr,
        ]
        two = st.builds(lambda c, a, b: c(a, b), st.sampled_from(classes), inner, inner)
        one = st.builds(lambda c, a: c(a), st.sampled_from([ir.Neg, ir.BitNot]), inner)
        choice = st.builds(lambda c, a, b: ir.Select(c, a, b), bools(inner), inner, inner)
        lazy = st.builds(lambda c, a, b: ir.IfThenElse(c, a, b), bools(inner), inner, inner)
        load = inner.map(lambda i: ir.Load(B, (i,)))
        converted = inner.map(lambda a: ir.Cast(ir.Cast(a, FLOAT32), INT32))
        call = inner.map(lambda a: ir.Call("popcount", (a,), INT32))
        return st.one_of(two, one, choice, lazy, load, converted, call)

    return st.recursive(leaves, grow, max_leaves=8)


def bools(inner: st.SearchStrategy[ir.Expr]) -> st.SearchStrategy[ir.Expr]:
    compare = st.builds(
        lambda c, a, b: c(a, b),
        st.sampled_from([ir.EQ, ir.NE, ir.LT, ir.LE, ir.GT, ir.GE]),
        inner,
        inner,
    )
    leaves = st.one_of(
        compare, st.just(VARS[4]), st.booleans().map(lambda v: Const(v, DType("bool")))
    )
    return st.recursive(
        leaves,
        lambda e: st.one_of(
            st.builds(lambda c, a, b: c(a, b), st.sampled_from([ir.And, ir.Or, ir.EQ]), e, e),
            e.map(ir.Not),
        ),
        max_leaves=4,
    )


@given(ints(), ints())
def test_any_expression(index: ir.Expr, value: ir.Expr) -> None:
    assert_reads_back(PrimFunc("f", (A, B, *VARS), Store(B, (index,), value)))


@given(st.floats(width=32))
def test_any_float(value: float) -> None:
    assert_reads_back(PrimFunc("f", (A,), Store(A, (Const(0, INT32),), Const(value, FLOAT32))))


@given(ints(), ints())
def test_any_region(offset: ir.Expr, extent: ir.Expr) -> None:
    from tilelang.tileop import Fill

    region = ir.Region(A, (offset,), (extent,))
    assert_reads_back(PrimFunc("f", (A, B, *VARS), ir.TileStmt(Fill(region, Const(0.0, FLOAT32)))))


@given(ints(), ints(), st.sampled_from(["serial", "unroll", "vectorized", "pipelined"]))
def test_any_loop(start: ir.Expr, extent: ir.Expr, kind: str) -> None:
    notes = (
        {"num_stages": 2, "order": (1, 0), "note": (None, "text", (1.5,))}
        if kind == "pipelined"
        else {}
    )
    loop = ir.For(Var("i"), start, extent, ir.Break(), kind, notes)
    assert_reads_back(PrimFunc("f", (A, B, *VARS), loop))
