# SPDX-License-Identifier: Apache-2.0
"""The whole text of what an op says about a user's mistake."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tileop.op_support import fragment, shared
from tilelang.errors import ScopeError, ShapeError, Span, TileError, TypeMismatchError
from tilelang.ir import Buffer, Scope, const
from tilelang.tileop import CheckContext, Copy, Fill, Gemm, Reduce


def _text(op: Any, error: type[TileError], **spans: Span) -> str:
    with pytest.raises(error) as caught:
        op.check(CheckContext(None, Span("k.py", 9, 5), spans))
    return str(caught.value)


def _gemm(a: Buffer, b: Buffer, c: Buffer, ta: bool = False, tb: bool = False) -> Gemm:
    return Gemm(a.whole(), b.whole(), c.whole(), ta, tb, 0, const(False))


def test_gemm_sizes() -> None:
    a = Buffer("A_s", (128, 64), "float16", Scope.SHARED, span=Span("k.py", 3))
    b = Buffer("B_s", (32, 128), "float16", Scope.SHARED, span=Span("k.py", 4))
    c = fragment("C", (128, 128))
    assert _text(_gemm(a, b, c), ShapeError) == (
        "[TL0324] T.gemm: A has K = 64 but B has K = 32\n"
        " --> k.py:9:5\n"
        "  = A_s: shared float16[128, 64], allocated at k.py:3\n"
        "  = B_s: shared float16[32, 128], allocated at k.py:4\n"
        "  = help: allocate B_s as (64, 128)"
    )


def test_gemm_operands_are_marked(tmp_path: Any) -> None:
    source = tmp_path / "k.py"
    source.write_text("\n\nT.gemm(A, B, C)\n")
    a, b = Span(str(source), 3, 8, 3, 9), Span(str(source), 3, 11, 3, 12)
    op = _gemm(shared("A", (8, 4)), shared("B", (5, 8)), fragment("C", (8, 8)))
    with pytest.raises(ShapeError) as caught:
        op.check(CheckContext(None, Span(str(source), 3, 1, 3, 16), {"a": a, "b": b}))
    assert "3 | T.gemm(A, B, C)\n  |        ^  ^" in str(caught.value)


def test_gemm_says_when_a_transpose_would_fit() -> None:
    op = _gemm(shared("A", (128, 64)), shared("B", (96, 64)), fragment("C", (128, 96)))
    text = _text(op, ShapeError)
    assert "help: allocate B as (64, 64), or pass transpose_B=True" in text


@pytest.mark.parametrize(
    ("a", "b", "c", "message"),
    [
        ((8, 4), (4, 6), (9, 6), "A has M = 8 but C has M = 9"),
        ((8, 4), (4, 6), (8, 5), "B has N = 6 but C has N = 5"),
        ((4,), (4, 6), (8, 5), "A must be a matrix, but it has one dimension"),
        ((2, 8, 4), (4, 6), (8, 6), "A must be a matrix, but it has the shape [2, 8, 4]"),
    ],
)
def test_gemm_shapes(a: Any, b: Any, c: Any, message: str) -> None:
    assert message in _text(_gemm(shared("A", a), shared("B", b), fragment("C", c)), ShapeError)


def test_gemm_scopes() -> None:
    op = _gemm(Buffer("A", (8, 4), "float32"), shared("B", (4, 6)), fragment("C", (8, 6)))
    text = _text(op, ScopeError)
    assert "T.gemm works on shared and fragment buffers, but A is global" in text
    assert "help: T.copy A to a shared buffer and pass that" in text


@pytest.mark.parametrize(
    ("a", "b", "c", "message"),
    [
        ("float16", "bfloat16", "float32", "T.gemm: A is float16 but B is bfloat16"),
        ("float16", "float16", "int32", "products of float16 cannot be accumulated in int32"),
        ("int8", "int8", "float32", "products of int8 cannot be accumulated in float32"),
    ],
)
def test_gemm_dtypes(a: str, b: str, c: str, message: str) -> None:
    op = _gemm(shared("A", (8, 4), a), shared("B", (4, 6), b), fragment("C", (8, 6), c))
    assert message in _text(op, TypeMismatchError)


def test_gemm_may_mix_the_fp8_formats() -> None:
    a, b = shared("A", (8, 4), "float8_e4m3fn"), shared("B", (4, 6), "float8_e5m2")
    _gemm(a, b, fragment("C", (8, 6))).check(CheckContext())


def test_copy_extents() -> None:
    op = Copy(shared("S", (64, 64)).whole(), fragment("F", (64, 32)).whole())
    text = _text(op, ShapeError)
    assert (
        "source [64, 64] and destination [64, 32] do not match: 64 elements do not fit 32" in text
    )
    op = Copy(shared("S", (64, 64)).whole(), fragment("F", (64,)).whole())
    assert "64 elements would all be written to the same place" in _text(op, ShapeError)
    Copy(Buffer("A", (77, 8), "float32")[0:50, :], shared("S", (64, 8)).whole()).check(
        CheckContext()
    )


def test_barriers_hold_no_data() -> None:
    bar = Buffer("bar", (2,), "uint64", Scope.BARRIER)
    s = shared("S", (2,), "uint64")
    assert "bar is a barrier, which holds no data" in _text(
        Copy(s.whole(), bar.whole()), ScopeError
    )
    assert "bar is a barrier" in _text(Fill(bar.whole(), const(0)), ScopeError)


@pytest.mark.parametrize(
    ("dst", "dim", "message"),
    [
        (
            (32,),
            1,
            "the result of reducing [64, 32] over dim 1 does not fit an output of shape [32]",
        ),
        ((64, 2), 1, "help: allocate D as (64,) or (64, 1)"),
        ((64,), 2, "dim = 2 is not a dimension of F, which has 2"),
        ((64,), -3, "help: choose a dim from -2 to 1"),
    ],
)
def test_reduce_shapes(dst: Any, dim: int, message: str) -> None:
    op = Reduce(fragment("F", (64, 32)).whole(), fragment("D", dst).whole(), "sum", dim)
    assert message in _text(op, ShapeError)


def test_reduce_scopes_and_dtypes() -> None:
    a, d = Buffer("A", (64, 32), "float32"), fragment("D", (64,))
    text = _text(Reduce(a.whole(), d.whole(), "max", 1), ScopeError)
    assert "T.reduce_max works on fragment, shared and local buffers, but A is global" in text
    op = Reduce(fragment("F", (64, 32)).whole(), d.whole(), "bitxor", 1)
    assert "T.reduce_bitxor needs integers, but F is float32" in _text(op, TypeMismatchError)


def test_reduce_of_a_fragment_into_private_memory() -> None:
    d = Buffer("D", (64,), "float32", Scope.LOCAL)
    text = _text(Reduce(fragment("F", (64, 32)).whole(), d.whole(), "sum", 1), ScopeError)
    assert "no thread has all of fragment F" in text
    assert "help: allocate D with T.alloc_fragment" in text
