# SPDX-License-Identifier: Apache-2.0
"""What single threads do, done by one thread on a CPU: compared with the threads' own execution."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tilelang.config import Options
from tilelang.errors import TargetError
from tilelang.interp import thread
from tilelang.ir import (
    Break,
    Buffer,
    Builder,
    If,
    Launch,
    PrimFunc,
    Return,
    Var,
    const,
    session,
)
from tilelang.target import Target
from tilelang.transform import PIPELINE, PassContext, run_passes

PASSES = [p.name for p in PIPELINE]
ROWS = PIPELINE[PASSES.index("serialize_threads") :]


@pytest.fixture(autouse=True)
def one_session() -> Iterator[None]:
    with session():
        yield


Body = Callable[[Builder, Buffer, tuple[Var, Var, Var]], None]


def made(body: Body, threads: tuple[int, int, int] = (8, 1, 1)) -> PrimFunc:
    c = Buffer("C", (64,), "int32")
    bx, ids = Var("bx"), (Var("tx"), Var("ty"), Var("tz"))
    b = Builder()
    body(b, c, ids)
    return PrimFunc("f", (c,), Launch((const(1),), threads, (bx,), ids, b.finish()))


def program(func: PrimFunc) -> object:
    ctx = PassContext(Target("llvm -mcpu=x86-64-v3"), Options())
    return run_passes(func, ctx, [p for p in ROWS if p.when(ctx)], stage="LOOP")


def same(body: Body, threads: tuple[int, int, int] = (8, 1, 1)) -> np.ndarray:
    func = made(body, threads)
    want, got = np.full(64, -7, np.int32), np.full(64, -7, np.int32)
    thread.run(func, want)
    thread.run(program(func), got)
    np.testing.assert_array_equal(got, want)
    return got


def test_a_private_value_lives_across_a_barrier() -> None:
    def body(b: Builder, c: Buffer, ids: tuple[Var, Var, Var]) -> None:
        tx = ids[0]
        s = b.alloc("S", (8,), "int32", "shared.dyn")
        x = b.alloc("x", (1,), "int32", "local")
        twice = b.bind("twice", tx * 2)
        b.store(x, (0,), tx + 10)
        b.store(s, (tx,), tx * tx)
        b.call("sync_threads")
        b.store(c, (tx,), s[7 - tx] + x[0] + twice)

    out = same(body)
    assert out[0] == 49 + 10


def test_three_dimensions_of_threads() -> None:
    def body(b: Builder, c: Buffer, ids: tuple[Var, Var, Var]) -> None:
        tx, ty, tz = ids
        b.store(c, ((tz * 2 + ty) * 4 + tx,), tx + ty * 10 + tz * 100)

    same(body, (4, 2, 3))


def test_loops_and_conditions_of_threads() -> None:
    def body(b: Builder, c: Buffer, ids: tuple[Var, Var, Var]) -> None:
        tx = ids[0]
        with b.for_("k", 3) as k:
            with b.if_(tx > k):
                b.store(c, (tx * 3 + k,), tx)
            with b.else_():
                b.store(c, (tx * 3 + k,), k)
            b.call("sync_threads")
        with b.for_("j", tx) as j:
            b.store(c, (32 + tx,), j)
            b.emit(If(j > 3, Break()))

    same(body)


def test_a_thread_returns_early() -> None:
    def body(b: Builder, c: Buffer, ids: tuple[Var, Var, Var]) -> None:
        tx = ids[0]
        b.store(c, (tx,), 1)
        b.emit(If(tx >= 5, Return()))
        b.store(c, (tx,), 2)
        with b.if_(tx > 2):
            b.store(c, (tx,), 3)

    assert list(same(body)[:8]) == [2, 2, 2, 3, 3, 1, 1, 1]


def test_what_a_cpu_cannot_do_is_refused() -> None:
    def divergent(b: Builder, c: Buffer, ids: tuple[Var, Var, Var]) -> None:
        with b.if_(ids[0] < 4):
            b.call("sync_threads")
            b.store(c, (ids[0],), 1)

    def leaves(b: Builder, c: Buffer, ids: tuple[Var, Var, Var]) -> None:
        with b.for_("k", 3) as k:
            b.emit(If(ids[0] > k, Return()))
        b.store(c, (ids[0],), 1)

    for body, message in ((divergent, "barrier"), (leaves, "return")):
        with pytest.raises(TargetError, match=message):
            program(made(body))
