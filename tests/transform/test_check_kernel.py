# SPDX-License-Identifier: Apache-2.0
"""check_kernel: what is wrong with a kernel as a whole, in the user's words."""

from __future__ import annotations

from typing import Any

import pytest

from tilelang.config import Options
from tilelang.errors import LanguageError, ResourceError, ScopeError, ShapeError, Span, TileError
from tilelang.ir import (
    Alloc,
    Bind,
    Buffer,
    For,
    Launch,
    Parallel,
    PrimFunc,
    Scope,
    Stmt,
    Store,
    TileStmt,
    Var,
    const,
    seq,
)  # fmt: skip
from tilelang.target import Target
from tilelang.testing.kernels import ZOO
from tilelang.tileop import Copy, Fill
from tilelang.transform import PassContext, check_kernel
from tilelang.utils import prod

SPAN = Span("k.py", 7, 5)
A = Buffer("A", (8, 8), "float32", span=Span("k.py", 1))


def _run(body: Stmt, *params: Any, **options: Any) -> PrimFunc:
    ctx = PassContext(Target("cuda -arch=sm_80"), Options(**options))
    return check_kernel.run(PrimFunc("f", (A, *params), body), ctx)


def _text(error: type[TileError], body: Stmt, *params: Any) -> str:
    with pytest.raises(error) as caught:
        _run(body, *params)
    return str(caught.value)


def _nest(body: Stmt, *extents: Any) -> Stmt:
    loops = tuple(Var("ij"[n]) for n in range(len(extents)))
    return Parallel(
        loops, tuple(const(e) if isinstance(e, int) else e for e in extents), body, span=SPAN
    )


@pytest.mark.parametrize("threads", [(1025, 1, 1), (32, 64, 1), (1, 1, 128)])
def test_threads_of_a_block(threads: tuple[int, int, int]) -> None:
    body = Store(A, (const(0), const(0)), const(0.0))
    launch = Launch((const(1),), threads, (Var("bx"),), (), body, span=SPAN)
    text = _text(ResourceError, launch)
    assert f"asks for {prod(threads)} threads" in text
    assert "a block of sm_80 has at most 1024" in text
    assert "k.py:7:5" in text
    check_kernel.run(PrimFunc("f", (A,), launch), PassContext(Target("llvm"), Options()))


def test_blocks_of_a_grid() -> None:
    body = Store(A, (const(0), const(0)), const(0.0))
    blocks = (Var("bx"), Var("by"), Var("bz"))

    def launch(*grid: int) -> Launch:
        return Launch(tuple(map(const, grid)), (32, 1, 1), blocks, (), body, span=SPAN)

    assert _text(ResourceError, launch(1, 1, 65536)) == (
        "[TL0712] T.Kernel asks for 65536 blocks along z; a GPU launches at most 65535 along y "
        "and z\n"
        " --> k.py:7:5\n"
        "  = help: give the largest extent first: along x there may be 2147483647"
    )
    _run(launch(1 << 20, 65535, 1))
    check_kernel.run(
        PrimFunc("f", (A,), launch(1, 65536, 1)), PassContext(Target("llvm"), Options())
    )


def test_nested_parallel() -> None:
    inner = _nest(Store(A, (const(0), const(0)), const(0.0)), 4)
    assert _text(LanguageError, _nest(inner, 4)) == (
        "[TL0121] T.Parallel cannot be inside another T.Parallel\n"
        " --> k.py:7:5\n"
        "  = the outer T.Parallel is at k.py:7\n"
        "  = help: write one loop over all the indices: for i, j in T.Parallel(m, n)"
    )


def test_pipelined_and_tile_ops_inside_parallel() -> None:
    loop = For(Var("k"), const(0), const(4), seq(), "pipelined", span=SPAN)
    assert "T.Pipelined cannot be inside T.Parallel" in _text(LanguageError, _nest(loop, 4))
    fill = TileStmt(Fill(A.whole(), const(0)), span=SPAN)
    assert "T.fill works on whole tiles" in _text(LanguageError, _nest(fill, 4))


def test_a_local_buffer_indexed_by_a_parallel_variable() -> None:
    local = Buffer("x", (8,), "float32", Scope.LOCAL)
    nest: Any = _nest(seq(), 8)
    store = Store(local, (nest.vars[0],), const(0.0), SPAN)
    body = seq(Alloc(local), Parallel(nest.vars, nest.extents, store, span=SPAN))
    text = _text(ScopeError, body)
    assert "x is private to each thread, so `i` of T.Parallel" in text
    assert "help: allocate x with T.alloc_fragment, or loop with T.serial" in text


def test_a_local_buffer_of_one_element_of_the_loop_is_fine() -> None:
    local = Buffer("x", (8,), "float32", Scope.LOCAL)
    nest: Any = _nest(seq(), 8)
    store = Store(local, (nest.vars[0],), const(0.0), SPAN)
    _run(Parallel(nest.vars, nest.extents, seq(Alloc(local), store), span=SPAN))


def test_a_fragment_indexed_over_an_unknown_range() -> None:
    n = Var("n")
    b = Buffer("B", (n,), "float32")
    f = Buffer("F", (8,), "float32", Scope.FRAGMENT)
    nest: Any = _nest(seq(), n)
    store = Store(f, (nest.vars[0],), const(0.0), SPAN)
    body = seq(Alloc(f), Parallel(nest.vars, nest.extents, store, span=SPAN))
    text = _text(ScopeError, body, b)
    assert "fragment F is indexed by `i`, whose range is not known at compile time" in text


def test_variables_and_buffers_that_do_not_exist() -> None:
    ghost = Buffer("S", (8, 8), "float32", Scope.SHARED)
    copy = TileStmt(Copy(ghost.whole(), A.whole()), span=SPAN)
    assert "S is used here but is not allocated here" in _text(ScopeError, copy)
    inside = For(Var("k"), const(0), const(2), Alloc(ghost))
    text = _text(ScopeError, seq(inside, copy))
    assert "S is used here but was allocated in another block of the kernel" in text
    x = Var("x")
    store = Store(A, (x, const(0)), const(0.0), SPAN)
    loop = For(Var("k"), const(0), const(2), seq(Bind(x, const(1)), store))
    _run(loop)
    assert "`x` is used where it has no value" in _text(LanguageError, seq(loop, store))


def test_shapes() -> None:
    n, m = Var("n"), Var("m")
    b = Buffer("B", (n * 2,), "float32", span=SPAN)
    assert "nothing gives `n` in the shape of B a value" in _text(ShapeError, seq(), b)
    _run(seq(), b, n)
    _run(seq(), b, Buffer("D", (n,), "float32"))
    s = Buffer("S", (m,), "float32", Scope.SHARED, span=SPAN)
    assert "the shape of S uses `m`, which has no value here" in _text(ShapeError, Alloc(s))
    text = _text(ShapeError, Alloc(s), m)
    assert "S has the extent `m`, which is not known at compile time" in text


def test_an_op_reports_its_own_mistakes_at_the_statement() -> None:
    s = Buffer("S", (4, 4), "float32", Scope.SHARED)
    text = _text(ShapeError, seq(Alloc(s), TileStmt(Copy(A.whole(), s.whole()), span=SPAN)))
    assert "[TL0320] T.copy" in text
    assert " --> k.py:7:5" in text


def test_the_check_can_be_switched_off() -> None:
    inner = _nest(Store(A, (const(0), const(0)), const(0.0)), 4)
    _run(_nest(inner, 4), semantic_check=False)


@pytest.mark.parametrize("name", list(ZOO))
def test_right_kernels_pass(name: str) -> None:
    check_kernel.run(ZOO[name](), PassContext(Target("llvm"), Options()))
