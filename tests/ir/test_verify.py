# SPDX-License-Identifier: Apache-2.0
"""Every rule of the verifier is broken once, and the message shows where."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tilelang.errors import InternalError
from tilelang.ir import (
    Add,
    Alloc,
    Bind,
    Break,
    Broadcast,
    Buffer,
    Builder,
    Call,
    Const,
    Div,
    DType,
    Evaluate,
    For,
    If,
    Kernel,
    Launch,
    Load,
    Not,
    Parallel,
    PrimFunc,
    Ramp,
    Seq,
    Stmt,
    Store,
    Var,
    call,
    cast,
    const,
    logical_and,
    seq,
    session,
)  # fmt: skip
from tilelang.ir.verify import verify

A = "float32"


@pytest.fixture(autouse=True)
def one_session() -> Iterator[None]:
    with session():
        yield


def check(body: Callable[[Builder, Buffer], Any], stage: str = "LOOP") -> None:
    b = Builder()
    c = Buffer("C", (8, 8), "float32")
    extra = body(b, c)
    if isinstance(extra, Stmt):
        b.emit(extra)
    verify(PrimFunc("f", (c,), b.finish()), stage, after="some_pass")


def nothing(b: Builder, c: Buffer) -> None:
    with b.for_("i", 8) as i, b.for_("j", 8, kind="vectorized") as j:
        b.store(c, (i, j), cast(i, "float32") + 1.0)


def test_a_good_function_passes() -> None:
    check(nothing)


def out_of_scope(b: Builder, c: Buffer) -> Stmt:
    i = Var("i")
    loop = For(i, const(0), const(8), Store(c, (i, i), const(0.0)))
    return seq(loop, Store(c, (i, const(0)), const(0.0)))


def mixed_operands(b: Builder, c: Buffer) -> Stmt:
    return Store(c, (const(0), const(0)), Add(const(0.0), const(1)))


LOOP_FAULTS: dict[str, tuple[Callable[[Builder, Buffer], Any], str]] = {
    "scope": (out_of_scope, "variable 'i' is used outside its scope"),
    "operands": (mixed_operands, "operands of .* float32 and int32"),
    "value": (
        lambda b, c: Store(c, (const(0), const(0)), const(1)),
        "store to 'C': float32 and int32",
    ),
    "rank": (lambda b, c: Store(c, (const(0),), const(0.0)), "rank 2, the access 1 indices"),
    "index": (lambda b, c: Store(c, (const(0), const(0.5)), const(0.0)), "index .* is float32"),
    "vector index": (
        lambda b, c: Store(c, (Ramp(const(0), const(1), 4), const(0)), const(0.0)),
        "vector index",
    ),
    "lanes": (
        lambda b, c: Store(c, (const(0), Ramp(const(0), const(1), 4)), const(0.0)),
        "float32x4 and float32",
    ),
    "buffer": (
        lambda b, c: Store(Buffer("D", (8,), A, "local"), (const(0),), const(0.0)),
        "'D' is used outside its scope",
    ),
    "twice": (
        lambda b, c: seq(Bind(x := Var("x"), const(1)), Bind(x, const(2))),
        "'x' is defined twice",
    ),
    "fragment": (
        lambda b, c: Alloc(Buffer("F", (8,), A, "local.fragment")),
        "fragment 'F' is left",
    ),
    "parallel": (lambda b, c: Parallel((Var("p"),), (const(4),), seq()), "Parallel nest is left"),
    "pipelined": (
        lambda b, c: For(Var("k"), const(0), const(4), seq(), "pipelined"),
        "a pipelined loop",
    ),
    "condition": (lambda b, c: If(const(1), seq()), "is int32, not bool"),
    "jump": (lambda b, c: Break(), "break outside a loop"),
    "intrinsic": (lambda b, c: Evaluate(Call("nope", (), DType("handle"))), "no row"),
    "not": (lambda b, c: Evaluate(Not(const(1))), "negates int32"),
    "division": (lambda b, c: Evaluate(Div(const(1), const(2))), "divides int32"),
    "broadcast": (
        lambda b, c: Evaluate(Broadcast(Broadcast(const(1), 2), 2)),
        "broadcasts a vector",
    ),
    "bind": (lambda b, c: Bind(Var("x"), const(1.0)), "binding 'x': int32 and float32"),
    "extent": (
        lambda b, c: For(Var("i"), const(0), const(4, "int64"), seq()),
        "extent of the loop: int32 and int64",
    ),
}


@pytest.mark.parametrize("name", LOOP_FAULTS)
def test_faults(name: str) -> None:
    body, message = LOOP_FAULTS[name]
    with pytest.raises(InternalError, match=message) as e:
        check(body)
    assert "after some_pass" in str(e.value)


FLAT_FAULTS: dict[str, tuple[Callable[[Builder, Buffer], Any], str]] = {
    "two indices": (lambda b, c: Store(c, (const(0), const(0)), const(0.0)), "rank 1"),
    "vectorized": (
        lambda b, c: For(Var("v"), const(0), const(4), seq(), "vectorized"),
        "a vectorized loop",
    ),
    "layout": (
        lambda b, c: Alloc(Buffer("S", (8,), A, "shared.dyn"), {"layout": object()}),
        "still has a layout",
    ),
    "shape": (lambda b, c: Alloc(Buffer("S", (8, 8), A, "shared.dyn")), "not one-dimensional"),
}


@pytest.mark.parametrize("name", FLAT_FAULTS)
def test_faults_of_flat_code(name: str) -> None:
    body, message = FLAT_FAULTS[name]
    with pytest.raises(InternalError, match=message):
        check(body, "FLAT")


def test_the_window_marks_the_line() -> None:
    def body(b: Builder, c: Buffer) -> None:
        b.store(c, (0, 0), 1.0)
        b.store(c, (0, 1), 2.0)
        b.emit(Store(c, (const(0),), const(3.0)))

    with pytest.raises(InternalError) as e:
        check(body)
    assert "> C[0] = T.float32(3.0)" in str(e.value)
    assert "  C[0, 1] = T.float32(2.0)" in str(e.value)


def test_a_kernel_has_no_launch_and_all_arguments() -> None:
    c = Buffer("C", (8,), "float32")
    one = const(1)
    three = (Var("x"), Var("y"), Var("z"))

    def kernel(body: Stmt) -> Kernel:
        return Kernel("k", (c,), body, (one, one, one), (1, 1, 1), three, three)

    verify(kernel(Store(c, (three[0],), const(0.0))), "DEVICE")
    inner = Launch((one,), (1, 1, 1), (), (), seq())
    with pytest.raises(InternalError, match="a Launch is left"):
        verify(kernel(inner), "DEVICE")
    with pytest.raises(InternalError, match="'n' is used outside its scope"):
        verify(kernel(Store(c, (Var("n"),), const(0.0))), "DEVICE")
    with pytest.raises(InternalError, match="cannot allocate global"):
        verify(kernel(Alloc(Buffer("W", (8,), "float32"))), "DEVICE")


def test_loads_in_branches_are_checked() -> None:
    def body(b: Builder, c: Buffer) -> None:
        with b.if_(logical_and(Load(c, (const(0), const(0))) > 0.0, const(True))):
            b.emit(Seq((Evaluate(call("exp", [Load(c, (const(0), const(0)))], "float32")),)))
        with b.else_():
            b.emit(Evaluate(Const(1, DType("int32"))))

    check(body)
