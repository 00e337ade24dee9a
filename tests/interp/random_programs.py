# SPDX-License-Identifier: Apache-2.0
"""Random tile programs: a hypothesis strategy that draws whole kernels.

A program copies ragged pieces of global tensors to shared memory and fragments, changes them by
elementwise nests, fills, reductions and products, some of it in loops and conditions, and copies
every fragment out. Values are small integers, so that every order of evaluation gives one result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tilelang.ir import (
    Alloc,
    Buffer,
    Expr,
    For,
    If,
    Launch,
    Parallel,
    PrimFunc,
    Region,
    Scope,
    Stmt,
    Store,
    TileStmt,
    Var,
    cast,
    const,
    maximum,
    minimum,
    select,
    seq,
)  # fmt: skip
from tilelang.tileop import Copy, Fill, Gemm, Reduce

__all__ = ["programs"]

Draw = Callable[[Any], Any]


class _Program:
    """The statements drawn so far, and the tiles that hold values."""

    def __init__(self, draw: Draw, dtype: str, threads: int) -> None:
        self.draw = draw
        self.dtype = dtype
        self.threads = threads
        self.acc = "int32" if dtype == "int8" else "float32"
        self.m, self.n, self.k = (draw(st.integers(1, 40)) for _ in range(3))
        self.params: list[Buffer] = []
        self.allocs: list[Stmt] = []
        self.tiles: list[Buffer] = []
        self.rows: list[Buffer] = []
        self.bx = Var("bx")
        self.blocks = draw(st.integers(1, 2))

    def tensor(self, shape: tuple[int, ...], dtype: str) -> Buffer:
        b = Buffer(f"G{len(self.params)}", shape, dtype)
        self.params.append(b)
        return b

    def alloc(self, shape: tuple[int, ...], dtype: str, scope: str) -> Buffer:
        b = Buffer(f"t{len(self.allocs)}", shape, dtype, scope)
        self.allocs.append(Alloc(b))
        return b

    def whole(self, b: Buffer, rows: int) -> Region:
        """The block's part of a global tensor."""
        low = self.bx * rows
        part: Any = b[low : low + rows, :] if b.ndim == 2 else b[low : low + rows]
        return part  # type: ignore[no-any-return]

    # ------------------------------------------------------------------------------ statements

    def load(self) -> Stmt:
        """A ragged piece of a tensor into a new fragment, perhaps through shared memory."""
        short = self.draw(st.integers(0, min(3, self.m - 1)))
        g = self.tensor((self.blocks * self.m - short, self.n), self.dtype)
        f = self.alloc((self.m, self.n), self.acc, Scope.FRAGMENT)
        self.tiles.append(f)
        if self.draw(st.booleans()):
            return TileStmt(Copy(self.whole(g, self.m), f.whole()))
        s = self.alloc((self.m, self.n), self.dtype, Scope.SHARED)
        return seq(
            TileStmt(Copy(self.whole(g, self.m), s.whole())), TileStmt(Copy(s.whole(), f.whole()))
        )

    def product(self) -> Stmt:
        """A loop of products of new tiles into a new fragment."""
        ta, tb = self.draw(st.booleans()), self.draw(st.booleans())
        steps = self.draw(st.integers(0, 3))
        depth = max(steps * self.k - self.draw(st.integers(0, 2)), 0)
        a = self.tensor((depth, self.m) if ta else (self.m, depth), self.dtype)
        b = self.tensor((self.n, depth) if tb else (depth, self.n), self.dtype)
        a_s = self.alloc((self.k, self.m) if ta else (self.m, self.k), self.dtype, Scope.SHARED)
        b_s = self.alloc((self.n, self.k) if tb else (self.k, self.n), self.dtype, Scope.SHARED)
        c = self.alloc((self.m, self.n), self.acc, Scope.FRAGMENT)
        self.tiles.append(c)
        k = Var("k")
        low, high = k * self.k, k * self.k + self.k
        body = seq(
            TileStmt(Copy(a[low:high, :] if ta else a[:, low:high], a_s.whole())),  # type: ignore[arg-type]
            TileStmt(Copy(b[:, low:high] if tb else b[low:high, :], b_s.whole())),  # type: ignore[arg-type]
            TileStmt(Gemm(a_s.whole(), b_s.whole(), c.whole(), ta, tb, 0, const(False))),
        )
        kind = self.draw(st.sampled_from(["serial", "pipelined"]))
        notes = {"num_stages": self.draw(st.integers(0, 3))} if kind == "pipelined" else {}
        return seq(
            TileStmt(Fill(c.whole(), const(0))), For(k, const(0), const(steps), body, kind, notes)
        )

    def elementwise(self) -> Stmt:
        f = self.draw(st.sampled_from(self.tiles))
        g = self.draw(st.sampled_from(self.tiles))
        i, j = Var("i"), Var("j")
        value = self.value(f, g, i, j)
        body: Stmt = Store(f, (i, j), cast(value, self.acc))
        if self.draw(st.booleans()):
            body = If(i + self.bx < self.draw(st.integers(0, self.m)), body)
        return Parallel((i, j), (const(self.m), const(self.n)), body)

    def value(self, f: Buffer, g: Buffer, i: Var, j: Var) -> Expr:
        x: Any = f[i, j]
        y: Any = g[i, j]
        choices: list[Callable[[], Any]] = [
            lambda: x + y, lambda: minimum(x, y) - 1, lambda: maximum(x, y), lambda: -x,
            lambda: x + cast(i * 2 - j, self.acc), lambda: select(j % 3 == 1, x, y),
        ]  # fmt: skip
        if self.rows:
            row: Any = self.draw(st.sampled_from(self.rows))[i]
            choices.append(lambda: x - row)
        return self.draw(st.sampled_from(choices))()  # type: ignore[no-any-return]

    def reduce(self) -> Stmt:
        f = self.draw(st.sampled_from(self.tiles))
        row = self.alloc((self.m,), self.acc, Scope.FRAGMENT)
        kind = self.draw(st.sampled_from(["sum", "max", "min", "absmax"]))
        self.rows.append(row)
        return TileStmt(Reduce(f.whole(), row.whole(), kind, self.draw(st.sampled_from([1, -1]))))

    def through_shared(self) -> Stmt:
        """A fragment to shared memory, and the turned elements back."""
        f = self.draw(st.sampled_from(self.tiles))
        s = self.alloc((self.m, self.n), self.acc, Scope.SHARED)
        i, j = Var("i"), Var("j")
        turned = Store(f, (i, j), s[self.m - 1 - i, self.n - 1 - j])
        return seq(
            TileStmt(Copy(f.whole(), s.whole())),
            Parallel((i, j), (const(self.m), const(self.n)), turned),
        )

    def fill(self) -> Stmt:
        f = self.draw(st.sampled_from(self.tiles))
        return TileStmt(Fill(f.whole(), const(self.draw(st.integers(-2, 2)))))

    def repeated(self) -> Stmt:
        loop = Var("r")
        return For(loop, const(0), const(self.draw(st.integers(0, 3))), self.elementwise())

    def conditional(self) -> Stmt:
        return If(self.bx > 0, self.elementwise())

    def store(self, tile: Buffer, shape: tuple[int, ...]) -> Stmt:
        """A tile to a new output."""
        return TileStmt(Copy(tile.whole(), self.whole(self.tensor(shape, self.acc), self.m)))

    def finish(self, body: list[Stmt]) -> PrimFunc:
        short = self.draw(st.integers(0, 1))
        shape = (self.blocks * self.m - short, self.n)
        out = [self.store(f, shape) for f in self.tiles]
        out += [self.store(row, (self.blocks * self.m,)) for row in self.rows]
        launch = Launch(
            (const(self.blocks),), (self.threads, 1, 1), (self.bx,),
            (Var("tx"), Var("ty"), Var("tz")), seq(self.allocs, body, out),
        )  # fmt: skip
        return PrimFunc("program", tuple(self.params), launch)


@st.composite
def programs(draw: Draw) -> PrimFunc:
    """A kernel; all its parameters are given, outputs are changed in place."""
    dtype = draw(st.sampled_from(["float32", "float16", "int8"]))
    p = _Program(draw, dtype, draw(st.sampled_from([32, 64, 128])))
    body = [draw(st.sampled_from([p.load, p.product]))()]
    more = st.sampled_from([
        p.load, p.product, p.elementwise, p.elementwise, p.reduce, p.through_shared, p.fill,
        p.repeated, p.conditional,
    ])  # fmt: skip
    return p.finish(body + [draw(more)() for _ in range(draw(st.integers(0, 5)))])
