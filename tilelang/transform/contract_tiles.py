# SPDX-License-Identifier: Apache-2.0
"""LOOP → LOOP (CPU): tiles that only carry a value to the next statement go away or shrink.

In: merged loops over the elements of tiles. Out: a tile that is written once and read at the same
element of the same trip, and nowhere else, is replaced by the value. Of a tile that one loop uses
row by row, and nothing else uses, one row is left, which stays in the first cache.

    for i in vectorized(n):                        for i in serial(64):
        a[i] = A[i] * 2                                for j: x[i, j] = X[b, i, j]
        C[i] = a[i] + 1                                for j: y[i] = y[i] + x[i, j]
    →                                              →
    for i in vectorized(n):                        for i in serial(64):
        C[i] = A[i] * 2 + 1                            for j: x[0, j] = X[b, i, j] …
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tilelang.arith import Facts
from tilelang.ir import (
    Alloc,
    Buffer,
    Call,
    Expr,
    For,
    Launch,
    Load,
    PrimFunc,
    Rewriter,
    Seq,
    Stmt,
    Store,
    const,
    flatten,
    is_const,
    mentions,
    seq,
    walk,
)

from .loop_accesses import Accesses, aliased
from .manager import PassContext
from .summary import StmtRewriter, statements


def run(func: PrimFunc, ctx: PassContext) -> PrimFunc:
    return func.with_body(_Kernels(func, ctx).visit(func.body))


class _Kernels(StmtRewriter):
    def __init__(self, func: PrimFunc, ctx: PassContext) -> None:
        super().__init__()
        self.func, self.ctx = func, ctx

    def visit_Launch(self, s: Launch) -> Stmt:
        body = s.body
        for step in (_Forward, _Shrink):
            body = step(body, aliased(self.func, self.ctx, s)).visit(body)
        return Launch(s.grid, s.threads, s.block_vars, s.thread_vars, body, s.annotations, s.span)


class _OfTiles(StmtRewriter):
    """Knows the private tiles of a kernel. users: how many statements access a tile."""

    def __init__(self, body: Stmt, overlapping: frozenset[Buffer]) -> None:
        super().__init__()
        self.accesses = Accesses(overlapping)
        self.users: Counter[Buffer] = Counter()
        allocs = [s for s in statements(body) if type(s) is Alloc]
        views = {s.buffer.root() for s in allocs if s.buffer.view_of is not None}
        self.tiles = {
            s.buffer
            for s in allocs
            if s.buffer not in views
            and not s.buffer.is_global
            and s.buffer.strides is None
            and not s.annotations
        } - views
        for s in statements(body):
            self.users.update(_own_tiles(s))

    def inside(self, s: Stmt) -> Counter[Buffer]:
        """How many statements of `s` access a tile."""
        out: Counter[Buffer] = Counter()
        for x in statements(s):
            out.update(_own_tiles(x))
        return out


def _own_tiles(s: Any) -> set[Buffer]:
    """The tiles that a statement itself accesses, not those inside it."""
    out = {b for c in s.children if isinstance(c, Expr) for b in mentions(c) if type(b) is Buffer}
    if type(s) is Store:
        out.add(s.buffer)
    return {b.root() for b in out}


class _Forward(_OfTiles):
    """Values instead of the tiles that carry them."""

    def __init__(self, body: Stmt, overlapping: frozenset[Buffer]) -> None:
        super().__init__(body, overlapping)
        self.gone: set[Buffer] = set()
        self.facts = Facts()

    def visit_For(self, s: For) -> Stmt:
        stmts = flatten(s.body)
        if s.kind != "vectorized" or len(stmts) < 2 or self.accesses.of(s).rigid:
            return s
        here = self.inside(s.body)
        at = 0
        while at < len(stmts):
            x = stmts[at]
            if (
                type(x) is Store
                and x.buffer in self.tiles
                and here[x.buffer] == self.users[x.buffer]
                and (rest := self.replaced(x, stmts[at + 1 :])) is not None
                and all(x.buffer not in self.accesses.of(y).reads for y in stmts[: at + 1])
                and all(x.buffer not in self.accesses.of(y).writes for y in stmts[:at])
            ):
                stmts[at:] = rest
                self.gone.add(x.buffer)
            else:
                at += 1
        body = seq(stmts)
        return For(s.var, s.start, s.extent, body, s.kind, s.annotations, s.span)

    def replaced(self, source: Store, rest: list[Stmt]) -> list[Stmt] | None:
        """The statements after `source` with its value, if they may have it."""
        tile, inputs = source.buffer, self.accesses.of(source).reads
        readers = [n for n, s in enumerate(rest) if tile in self.accesses.of(s).reads]
        costly = any(type(x) is Call for x in walk(source.value))
        if not readers or (costly and len(readers) > 1):
            return None
        for n, s in enumerate(rest[: readers[-1] + 1]):
            info = self.accesses.of(s)
            if tile in info.writes or (
                info.writes & inputs and (n < readers[-1] or type(s) is not Store)
            ):
                return None
            for b, indices in info.places:
                if b.root() is tile and not self.same(indices, source.indices):
                    return None
        value = _Value(tile, source.value)
        return [value.visit(s) if n in readers else s for n, s in enumerate(rest)]

    def same(self, a: tuple[Expr, ...], b: tuple[Expr, ...]) -> bool:
        return all(i is j or self.facts.equal(i, j) for i, j in zip(a, b, strict=True))

    def visit_Seq(self, s: Seq) -> Stmt:
        kept = [x for x in s.stmts if not (type(x) is Alloc and x.buffer in self.gone)]
        return s if len(kept) == len(s.stmts) else seq(kept, span=s.span)


class _Value(Rewriter):
    """Reads of a tile -> the value that was stored."""

    def __init__(self, tile: Buffer, value: Expr) -> None:
        super().__init__()
        self.tile, self.value = tile, value

    def visit_Load(self, e: Load) -> Expr:
        return self.value if e.buffer is self.tile else e


class _Shrink(_OfTiles):
    """One row instead of many."""

    def visit_Seq(self, s: Seq) -> Stmt:
        own = [x.buffer for x in s.stmts if type(x) is Alloc and x.buffer in self.tiles]
        loops = [x for x in s.stmts if type(x) is For and x.kind == "serial"] if own else []
        rows: dict[Buffer, Buffer] = {}
        for loop in loops:
            here = self.inside(loop.body)
            places = self.accesses.of(loop).places
            for b in own:
                if here[b] and here[b] == self.users[b] and self.by_row(b, loop, places):
                    shape = (const(1), *b.shape[1:])
                    rows[b] = Buffer(b.name, shape, b.dtype, b.scope, None, None, b.span)
        if not rows:
            return s
        out: Stmt = _Rows(rows).visit(s)
        self.users.update({new: self.users[b] for b, new in rows.items()})
        self.tiles.update(rows.values())
        return out

    def by_row(self, tile: Buffer, loop: For, places: Any) -> bool:
        found = [indices for b, indices in places if b is tile]
        return not is_const(tile.shape[0], 1) and all(i and i[0] is loop.var for i in found)


class _Rows(Rewriter):
    """Accesses of row `i` -> of the one row that is left."""

    def __init__(self, rows: dict[Buffer, Buffer]) -> None:
        super().__init__()
        self.rows = rows

    def visit_Alloc(self, s: Alloc) -> Stmt:
        new = self.rows.get(s.buffer)
        return s if new is None else Alloc(new, s.annotations, s.span)

    def visit_Load(self, e: Load) -> Expr:
        new = self.rows.get(e.buffer)
        return e if new is None else Load(new, (const(0), *e.indices[1:]))

    def visit_Store(self, s: Store) -> Stmt:
        new = self.rows.get(s.buffer)
        return s if new is None else Store(new, (const(0), *s.indices[1:]), s.value, s.span)


__all__ = ["run"]
