# SPDX-License-Identifier: Apache-2.0
"""The oracle: statements, scalar arithmetic, element loops, poison."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.interp.programs import kernel
from tilelang.errors import ArgumentValueError, BoundsError, InternalError
from tilelang.interp import tile
from tilelang.interp.evaluate import evaluate
from tilelang.interp.thread import program_text
from tilelang.interp.values import literal
from tilelang.ir import (
    Add,
    Alloc,
    Assert,
    Bind,
    Break,
    Broadcast,
    Buffer,
    Builder,
    Continue,
    DType,
    Evaluate,
    Expr,
    FloorDiv,
    FloorMod,
    For,
    If,
    IfThenElse,
    Load,
    Mul,
    Parallel,
    PrimFunc,
    Ramp,
    Return,
    Scope,
    Select,
    Shl,
    Shr,
    Store,
    Sub,
    TileStmt,
    Var,
    While,
    binary,
    call,
    cast,
    const,
    fold,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    seq,
    truncdiv,
    truncmod,
)  # fmt: skip
from tilelang.ir.node import NODES
from tilelang.tileop import Copy


def _out(dtype: str = "int32", n: int = 8) -> Buffer:
    return Buffer("Out", (n,), dtype)


def _run(body: Any, *buffers: Buffer, arrays: Any = ()) -> Any:
    out = buffers[0]
    result = np.zeros(tuple(int(e) for e in out.shape), out.dtype.as_numpy())
    tile.run(kernel(body, *buffers), result, *arrays)
    return result


@given(
    st.sampled_from([Add, Sub, Mul, FloorDiv, FloorMod, Shl, Shr]),
    st.sampled_from(["int8", "int32", "uint8", "uint32", "int64", "uint64"]),
    st.integers(-(2**63), 2**64), st.integers(-(2**63), 2**64),
)  # fmt: skip
def test_integers_wrap_as_constants_do(op: Any, dtype: str, a: int, b: int) -> None:
    x, y = Var("x", DType(dtype)), Var("y", DType(dtype))
    u, v = const(a, dtype), const(b, dtype)
    want = binary(op, u, v)
    if type(want) is op:  # not folded: division by zero, shift out of range
        return
    assert evaluate(op(x, y), {x: u.value, y: v.value}) == want.value  # type: ignore[attr-defined]


@given(
    st.sampled_from(["Add", "Sub", "Mul", "Div", "Min", "Max"]),
    st.sampled_from(["float16", "bfloat16", "float32", "float64", "float8_e4m3fn"]),
    st.floats(), st.floats(),
)  # fmt: skip
def test_floats_round_as_constants_do(op: str, dtype: str, a: float, b: float) -> None:
    x, y = Var("x", DType(dtype)), Var("y", DType(dtype))
    u, v = const(a, dtype), const(b, dtype)
    if op == "Div" and v.value == 0:
        return
    got = float(
        evaluate(NODES[op](x, y), {x: literal(u.value, x.dtype), y: literal(v.value, y.dtype)})
    )
    want = fold.binary(op, u.value, v.value, x.dtype)
    assert got == want or (got != got and want != want)


def test_truncating_division() -> None:
    x = Var("x")
    for a in (-7, 7):
        assert evaluate(truncdiv(x, 2), {x: a}) == (3 if a > 0 else -3)
        assert evaluate(truncmod(x, 2), {x: a}) == (1 if a > 0 else -1)


def test_loops_and_jumps() -> None:
    out, i, j = _out(), Var("i"), Var("j")
    body = seq(
        For(i, const(2), const(5), seq(
            If(i == 3, Continue()), If(i > 5, Break()), Store(out, (i,), i * 10))),
        For(j, const(0), const(0), Store(out, (const(7),), const(1))),
    )  # fmt: skip
    assert _run(body, out).tolist() == [0, 0, 20, 0, 40, 50, 0, 0]


def test_while_and_variables() -> None:
    out, v = _out(), Buffer("v", (1,), "int32", Scope.VAR)
    body = seq(
        Alloc(v, {"init": const(1)}),
        While(v[0] < 100, Store(v, (const(0),), v[0] * 3)),
        Store(out, (const(0),), v[0]), Return(), Store(out, (const(1),), const(5)),
    )  # fmt: skip
    assert _run(body, out).tolist()[:2] == [243, 0]


def test_binds_are_evaluated_once() -> None:
    out, x = _out(), Var("x")
    body = seq(Bind(x, out[0] + 1), Store(out, (const(0),), const(9)), Store(out, (const(1),), x))
    assert _run(body, out).tolist()[:2] == [9, 1]


def test_conditions_guard_loads() -> None:
    s = Buffer("S", (4,), "int32", Scope.SHARED)
    out, i = _out(), Var("i")
    fill = Parallel((i,), (const(4),), Store(s, (i,), i + 1))
    j = Var("j")
    guarded = IfThenElse(j < 4, s[j], const(-1))
    short = logical_and(j < 4, s[j] > 2)
    for value, want in (
        (guarded, [1, 2, 3, 4, -1, -1, -1, -1]),
        (cast(short, "int32"), [0, 0, 1, 1, 0, 0, 0, 0]),
        (cast(logical_or(j >= 4, s[j] > 2), "int32"), [0, 0, 1, 1, 1, 1, 1, 1]),
        (cast(logical_not(short), "int32"), [1, 1, 0, 0, 1, 1, 1, 1]),
    ):
        nest = Parallel((j,), (const(8),), Store(out, (j,), value))
        assert _run(seq(Alloc(s), fill, nest), out).tolist() == want
        loop = For(j, const(0), const(8), Store(out, (j,), value))
        assert _run(seq(Alloc(s), fill, loop), out).tolist() == want
    unguarded = Parallel((j,), (const(8),), Store(out, (j,), Select(j < 4, s[j], const(-1))))
    with pytest.raises(BoundsError, match=r"S\[4\] is outside"):
        _run(seq(Alloc(s), fill, unguarded), out)


def test_global_memory_has_soft_edges() -> None:
    a, out, i = Buffer("A", (3,), "int32"), _out(), Var("i")
    nest = Parallel((i,), (const(12),), Store(out, (i - 1,), a[i - 2]))
    got = _run(nest, out, a, arrays=[np.array([7, 8, 9], np.int32)])
    assert got.tolist() == [0, 7, 8, 9, 0, 0, 0, 0]


def test_a_nest_with_conflicts_runs_element_by_element() -> None:
    out, a = _out(), Buffer("A", (2, 8), "int32")
    i, j = Var("i"), Var("j")
    nest = Parallel((i, j), (const(2), const(8)), Store(out, (j,), out[j] + a[i, j]))
    x = np.arange(16, dtype=np.int32).reshape(2, 8)
    assert _run(nest, out, a, arrays=[x]).tolist() == x.sum(0).tolist()
    assert "rt.axis" not in program_text(kernel(nest, out, a))
    simple = Parallel((i, j), (const(2), const(8)), Store(a, (i, j), a[i, j] * 2))
    assert "rt.axis" in program_text(kernel(simple, out, a))


def test_conditional_statements_in_a_nest() -> None:
    out, i = _out(), Var("i")
    body = If(
        i % 2 == 0,
        Store(out, (i,), i),
        If(i > 4, Store(out, (i,), const(-1)), Store(out, (i,), const(1))),
    )
    assert _run(Parallel((i,), (const(8),), body), out).tolist() == [0, 1, 2, 1, 4, -1, 6, -1]


def test_math() -> None:
    out, i = _out("float32"), Var("i")
    x = cast(i, "float32") / 4
    for value, want in (
        (call("exp2", [x], "float32"), lambda v: np.exp2(v)),
        (call("fma", [x, x, x], "float32"), lambda v: v * v + v),
        (
            call("erf", [x], "float32"),
            lambda v: np.array([0, 0.2763, 0.5205, 0.7112, 0.8427, 0.9229, 0.9661, 0.9867]),
        ),
        (call("round", [x], "float32"), lambda v: np.floor(v + 0.5)),
        (maximum(minimum(x, 1), 0.5), lambda v: np.clip(v, 0.5, 1)),
    ):
        got = _run(Parallel((i,), (const(8),), Store(out, (i,), value)), out)
        np.testing.assert_allclose(
            got, want(np.arange(8, dtype=np.float32) / 4), rtol=1e-3, atol=1e-4
        )


def test_half_precision_rounds_after_every_operation() -> None:
    out = _out("float16", 1)
    h = lambda v: const(v, "float16")  # noqa: E731
    x = Buffer("x", (1,), "float16")
    value: Expr = (x[0] + h(1)) - x[0]  # type: ignore[operator]
    got = _run(Store(out, (const(0),), value), out, x, arrays=[np.array([2048], np.float16)])
    assert got[0] == 0


def test_uninitialised_memory_is_poison() -> None:
    for dtype, check in (
        ("float32", np.isnan),
        ("float16", np.isnan),
        ("int32", lambda v: v == 0x5A5A5A5A),
    ):
        s, out = Buffer("S", (8,), dtype, Scope.SHARED), _out(dtype)
        assert np.all(check(_run(seq(Alloc(s), TileStmt(Copy(s.whole(), out.whole()))), out)))


def test_dynamic_sizes_come_from_shapes() -> None:
    n = Var("n")
    a, b, i = Buffer("A", (n, n * 2), "float32"), Buffer("B", (n,), "float32"), Var("i")
    f = PrimFunc("f", (a, b), Parallel((i,), (n,), Store(b, (i,), a[i, n * 2 - 1])), outputs=(1,))
    x = np.arange(18, dtype=np.float32).reshape(3, 6)
    (got,) = tile.run(f, x)
    assert got.tolist() == [5, 11, 17]
    with pytest.raises(
        ArgumentValueError, match="A has 5 elements in dimension 1, but must have 6"
    ):
        tile.run(f, np.zeros((3, 5), np.float32))
    with pytest.raises(ArgumentValueError, match="float64"):
        tile.run(f, np.zeros((3, 6)))


def test_views_share_their_bytes() -> None:
    s = Buffer("S", (4,), "float32", Scope.SHARED)
    v = Buffer("V", (2, 2), "int32", Scope.SHARED, view_of=s)
    out, i = _out(), Var("i")
    body = seq(
        Alloc(s), Alloc(v), Parallel((i,), (const(4),), Store(s, (i,), const(1.0))),
        Store(out, (const(0),), v[1, 1]),
    )  # fmt: skip
    assert _run(body, out)[0] == 0x3F800000


def test_asserts_and_endless_loops() -> None:
    out = _out()
    with pytest.raises(AssertionError, match="no"):
        _run(Assert(const(1) > const(2), "no"), out)


def test_builder_and_vectors() -> None:
    out = _out("float32")
    b = Builder()
    ramp = Ramp(const(0), const(1), 4)
    b.store(out, (ramp,), cast(ramp, "float32x4") * Broadcast(const(2.0), 4))
    b.store(out, (Ramp(const(4), const(1), 4),), Load(out, (Ramp(const(3), const(-1), 4),)))
    assert _run(b.finish(), out).tolist() == [0, 2, 4, 6, 6, 4, 2, 0]


def test_what_cannot_be_interpreted_says_so() -> None:
    out = _out()
    with pytest.raises(InternalError, match="user's own source"):
        _run(Evaluate(call("call_extern", ["f"])), out)
