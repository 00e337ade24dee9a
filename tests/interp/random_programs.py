# SPDX-License-Identifier: Apache-2.0
"""Random tile programs: a hypothesis strategy that draws whole kernels.

A program copies ragged pieces of global tensors to shared memory and fragments, changes them by
elementwise nests, fills, reductions, conversions and products, some of it in loops, pipelines and
conditions that depend on data, and copies every fragment out. The number of rows may be known at
run time only. Values are small integers, so that every order of evaluation gives one result.
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
    While,
    cast,
    ceildiv,
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

    def __init__(self, draw: Draw, dtype: str, threads: int, large: bool) -> None:
        self.draw = draw
        self.dtype = dtype
        self.threads = threads
        self.large = large
        self.acc = "int32" if dtype == "int8" else "float32"
        sizes = st.sampled_from([64, 128]) if large else st.integers(1, 40)
        self.m, self.n, self.k = (draw(sizes) for _ in range(3))
        self.params: list[Any] = []
        self.allocs: list[Stmt] = []
        self.tiles: list[Buffer] = []
        self.rows: list[Buffer] = []
        self.columns: list[Buffer] = []
        self.bx = Var("bx")
        self.height: Any = Var("M") if draw(st.booleans()) else draw(st.integers(1, 2)) * self.m
        if isinstance(self.height, int):
            self.height = const(max(self.height - draw(st.integers(0, 3)), 1))

    # ------------------------------------------------------------------------------ buffers

    def tensor(self, shape: tuple[Any, ...], dtype: str) -> Any:
        b = Buffer(f"G{len(self.params)}", shape, dtype)
        self.params.append(b)
        return b

    def alloc(self, shape: tuple[int, ...], dtype: str, scope: str) -> Any:
        b = Buffer(f"t{len(self.allocs)}", shape, dtype, scope)
        self.allocs.append(Alloc(b, {"init": const(0)} if scope == Scope.VAR else {}))
        return b

    def tile(self) -> Any:
        f = self.alloc((self.m, self.n), self.acc, Scope.FRAGMENT)
        self.tiles.append(f)
        return f

    def some_tile(self) -> Any:
        return self.draw(st.sampled_from(self.tiles))

    def whole(self, b: Any) -> Region:
        """The block's part of a global tensor."""
        low = self.bx * self.m
        part: Region = b[low : low + self.m, :] if b.ndim == 2 else b[low : low + self.m]
        return part

    def nest(self, body: Callable[[Var, Var], Stmt]) -> Stmt:
        i, j = Var("i"), Var("j")
        return Parallel((i, j), (const(self.m), const(self.n)), body(i, j))

    # ------------------------------------------------------------------------------ copies

    def load(self) -> Stmt:
        """A ragged piece of a tensor into a new fragment, perhaps through shared memory."""
        g, f = self.tensor((self.height, self.n), self.dtype), self.tile()
        if self.draw(st.booleans()):
            return TileStmt(Copy(self.whole(g), f.whole()))
        s = self.alloc((self.m, self.n), self.dtype, Scope.SHARED)
        return seq(TileStmt(Copy(self.whole(g), s.whole())), TileStmt(Copy(s.whole(), f.whole())))

    def load_elements(self) -> Stmt:
        """Elements of a tensor, shifted, straight into a fragment."""
        g, f = self.tensor((self.height, self.n), self.dtype), self.tile()
        low, shift = self.bx * self.m, self.draw(st.integers(-2, 2))
        return self.nest(
            lambda i, j: Store(f, (i, j), cast(g[low + i + shift, j - shift], self.acc))
        )

    def convert(self) -> Stmt:
        """Through a narrower dtype and back."""
        narrow = self.draw(st.sampled_from(["float16", "bfloat16", "int8", "int32", "float32"]))
        scope = self.draw(st.sampled_from([Scope.SHARED, Scope.FRAGMENT]))
        f, t = self.some_tile(), self.alloc((self.m, self.n), narrow, scope)
        return seq(TileStmt(Copy(f.whole(), t.whole())), TileStmt(Copy(t.whole(), f.whole())))

    def through_shared(self) -> Stmt:
        """A fragment to shared memory, and the turned elements back."""
        f, s = self.some_tile(), self.alloc((self.m, self.n), self.acc, Scope.SHARED)
        m, n = self.m, self.n
        back = self.nest(lambda i, j: Store(f, (i, j), s[m - 1 - i, n - 1 - j]))
        return seq(TileStmt(Copy(f.whole(), s.whole())), back)

    def box(self) -> Stmt:
        """A part of a shared tile, repeated along one dimension, over a whole one."""
        s, t = (self.alloc((self.m, self.n), self.acc, Scope.SHARED) for _ in range(2))
        row = self.draw(st.integers(0, self.m - 1))
        h = self.draw(st.integers(1, self.m))
        f = self.some_tile()
        return seq(
            TileStmt(Copy(f.whole(), s.whole())), TileStmt(Copy(f.whole(), t.whole())),
            TileStmt(Copy(s[row, :], t[0:h, :])), TileStmt(Copy(t.whole(), f.whole())),
        )  # fmt: skip

    # ------------------------------------------------------------------------------ products

    def product(self) -> Stmt:
        """A loop of products of new tiles into a new fragment."""
        ta, tb = self.draw(st.booleans()), self.draw(st.booleans())
        steps = self.draw(st.integers(1 if self.large else 0, 3))
        cut = st.sampled_from([0, 8, 0, 1]) if self.large else st.integers(0, 2)
        depth = max(steps * self.k - self.draw(cut), 0)
        a = self.tensor((depth, self.m) if ta else (self.m, depth), self.dtype)
        b = self.tensor((self.n, depth) if tb else (depth, self.n), self.dtype)
        a_shape, b_shape = (self.m, self.k), (self.k, self.n)
        a_s = self.alloc(a_shape[::-1] if ta else a_shape, self.dtype, Scope.SHARED)
        b_s = self.alloc(b_shape[::-1] if tb else b_shape, self.dtype, Scope.SHARED)
        c, k = self.tile(), Var("k")
        low, high = k * self.k, k * self.k + self.k
        clear = self.draw(st.booleans())
        body = seq(
            TileStmt(Copy(a[low:high, :] if ta else a[:, low:high], a_s.whole())),
            TileStmt(Copy(b[:, low:high] if tb else b[low:high, :], b_s.whole())),
            TileStmt(Gemm(
                a_s.whole(), b_s.whole(), c.whole(), ta, tb, 0, k == 0 if clear else const(False)
            )),
        )  # fmt: skip
        start = None if clear and steps else TileStmt(Fill(c.whole(), const(0)))
        return seq(start, self.loop(k, steps, body))

    def chained_product(self) -> Stmt:
        """The product of a fragment, made narrow, with a shared tile."""
        f, c = self.some_tile(), self.tile()
        a = self.alloc((self.m, self.n), self.dtype, Scope.FRAGMENT)
        b = self.tensor((self.n, self.n), self.dtype)
        b_s = self.alloc((self.n, self.n), self.dtype, Scope.SHARED)
        small = self.nest(lambda i, j: Store(f, (i, j), maximum(minimum(f[i, j], 3), -3)))
        return seq(
            small, TileStmt(Copy(f.whole(), a.whole())), TileStmt(Copy(b.whole(), b_s.whole())),
            TileStmt(Gemm(a.whole(), b_s.whole(), c.whole(), False, False, 0, const(True))),
        )  # fmt: skip

    # ------------------------------------------------------------------------------ elements

    def elementwise(self) -> Stmt:
        f, g = self.some_tile(), self.some_tile()
        bound = self.draw(st.integers(0, self.m)) if self.draw(st.booleans()) else None

        def body(i: Var, j: Var) -> Stmt:
            store = Store(f, (i, j), cast(self.value(f, g, i, j), self.acc))
            return store if bound is None else If(i + self.bx < bound, store)

        return self.nest(body)

    def value(self, f: Any, g: Any, i: Var, j: Var) -> Expr:
        x, y = f[i, j], g[i, j]
        choices: list[Callable[[], Any]] = [
            lambda: x + y, lambda: minimum(x, y) - 1, lambda: maximum(x, y), lambda: -x,
            lambda: x + cast(i * 2 - j, self.acc), lambda: select(j % 3 == 1, x, y),
            lambda: x + cast((i + j) // 3 % 5, self.acc),
        ]  # fmt: skip
        if self.rows:
            row = self.draw(st.sampled_from(self.rows))
            choices.append(lambda: x - row[i])  # type: ignore[operator]
        if self.columns:
            column = self.draw(st.sampled_from(self.columns))
            choices.append(lambda: minimum(x, column[j]))
        return self.draw(st.sampled_from(choices))()  # type: ignore[no-any-return]

    def reduce(self) -> Stmt:
        kind = self.draw(st.sampled_from(["sum", "max", "min", "absmax"]))
        dim = self.draw(st.sampled_from([0, 1, -1]))
        out = self.alloc((self.n,) if dim == 0 else (self.m,), self.acc, Scope.FRAGMENT)
        (self.columns if dim == 0 else self.rows).append(out)
        f = self.some_tile()
        if kind != "absmax" and self.draw(st.booleans()):
            keep = Reduce(f.whole(), out.whole(), kind, dim, clear=False)
            return seq(TileStmt(Fill(out.whole(), const(1))), TileStmt(keep))
        return TileStmt(Reduce(f.whole(), out.whole(), kind, dim))

    def fill(self) -> Stmt:
        return TileStmt(Fill(self.some_tile().whole(), const(self.draw(st.integers(-2, 2)))))

    # ------------------------------------------------------------------------------ control

    def loop(self, var: Var, steps: Any, body: Stmt) -> Stmt:
        kind = self.draw(st.sampled_from(["pipelined" if self.large else "serial", "pipelined"]))
        fewest = 2 if self.large else 0
        notes = {"num_stages": self.draw(st.integers(fewest, 3))} if kind == "pipelined" else {}
        return For(var, const(0), const(steps), body, kind, notes)

    def repeated(self) -> Stmt:
        return self.loop(Var("r"), self.draw(st.integers(0, 3)), self.elementwise())

    def conditional(self) -> Stmt:
        return If(
            self.bx > 0, self.elementwise(), self.fill() if self.draw(st.booleans()) else None
        )

    def masked_pipeline(self) -> Stmt:
        """Rows that a table names, added where a mask is set: the copy may be conditional."""
        steps = self.draw(st.integers(1, 4))
        mask, g = self.tensor((steps,), "int32"), self.tensor((4 * steps, self.n), self.dtype)
        s, f = self.alloc((self.n,), self.dtype, Scope.SHARED), self.some_tile()
        k = Var("k")
        row = mask[k] + 3 if self.draw(st.booleans()) else k * 2
        copy: Stmt = TileStmt(Copy(g[row, :], s.whole()))
        add = self.nest(lambda i, j: Store(f, (i, j), f[i, j] + cast(s[j], self.acc)))
        always = self.draw(st.booleans())
        when = If(mask[k] > 0, add if always else seq(copy, add))
        return self.loop(k, steps, seq(copy, when) if always else when)

    def counted(self) -> Stmt:
        """A while loop over a variable that the nest reads."""
        v, f = self.alloc((1,), "int32", Scope.VAR), self.some_tile()
        zero = (const(0),)
        add = self.nest(lambda i, j: Store(f, (i, j), f[i, j] + cast(v[0], self.acc)))
        step = Store(v, zero, v[0] * 2 + 1)
        return While(v[0] < self.draw(st.integers(0, 4)), seq(step, add))

    # ------------------------------------------------------------------------------ the kernel

    def store(self, tile: Any, shape: tuple[Any, ...]) -> Stmt:
        """A tile to a new output, as a copy or element by element."""
        g = self.tensor(shape, self.acc)
        if tile.ndim == 2 and self.draw(st.booleans()):
            low = self.bx * self.m
            return self.nest(lambda i, j: Store(g, (low + i, j), tile[i, j]))
        return TileStmt(Copy(tile.whole(), self.whole(g)))

    def finish(self, body: list[Stmt]) -> PrimFunc:
        out = [self.store(f, (self.height, self.n)) for f in self.tiles]
        out += [self.store(row, (self.height,)) for row in self.rows]
        grid = (ceildiv(self.height, self.m),)
        threads = (Var("tx"), Var("ty"), Var("tz"))
        whole = seq(self.allocs, body, out)
        launch = Launch(grid, (self.threads, 1, 1), (self.bx,), threads, whole)
        return PrimFunc("program", tuple(self.params), launch)


@st.composite
def programs(draw: Draw, large: bool = False) -> PrimFunc:
    """A kernel; all its parameters are given, outputs are changed in place. large: a pipelined
    product of tiles that tensor cores take whole, and what may follow it."""
    dtype = draw(st.sampled_from([*([] if large else ["float32"]), "float16", "bfloat16", "int8"]))
    p = _Program(draw, dtype, draw(st.sampled_from([128, 256] if large else [32, 64, 128])), large)
    body = [p.product() if large else draw(st.sampled_from([p.load, p.product]))()]
    more = st.sampled_from([
        p.load, p.load_elements, p.product, p.chained_product, p.elementwise, p.elementwise,
        p.reduce, p.through_shared, p.convert, p.box, p.fill, p.repeated, p.conditional,
        p.masked_pipeline, p.counted,
    ])  # fmt: skip
    return p.finish(body + [draw(more)() for _ in range(draw(st.integers(0, 3 if large else 6)))])
