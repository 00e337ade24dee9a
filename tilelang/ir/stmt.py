# SPDX-License-Identifier: Apache-2.0
"""Statements. Each keeps its identity and carries the span of the user's line.

    Stmt = Seq(stmts)
         | Bind(var, value)            var names value, evaluated here, in the rest of the Seq
         | Alloc(buffer)               buffer exists in the rest of the enclosing Seq
         | Store(buffer, indices, value) | Evaluate(value)
         | For(var, start, extent, body, kind) | While(cond, body) | If(cond, then, orelse)
         | Parallel(vars, extents, body)       unordered element loop nest           (TILE only)
         | TileStmt(op)                        a tile operation on regions           (TILE only)
         | Launch(grid, threads, block_vars, thread_vars, body)                      (until DEVICE)
         | Role(first, threads, body)  only threads [first, first + threads) run body (TILE only)
         | Break | Continue | Return           Return leaves the thread
         | Assert(cond, message) | Assume(cond)

A `For` visits `start + i` for i in [0, extent); a stepped loop of the user's is a `For` over i with
a `Bind`. `kind`: serial, unroll, vectorized, pipelined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .expr import Expr, Var
from .node import Node, node

if TYPE_CHECKING:
    from .buffer import Buffer
    from .effects import Effects

_EMPTY: Mapping[str, Any] = {}


class Stmt(Node):
    """Base of all statements."""

    __slots__ = ()
    span: Any

    def __repr__(self) -> str:
        from .printer import stmt_text  # the printer knows every node: late, to break the cycle

        return stmt_text(self)


class TileOp(Node):
    """Base of all tile operations (the classes are in `tilelang.tileop`).

    Subclasses are `@node`s over regions and expressions. `name` is the op's spelling in `T.`.
    """

    __slots__ = ()
    name: str = ""

    def effects(self) -> Effects:
        """What it reads, writes and updates: the one model every pass asks."""
        raise TypeError(f"{type(self).__name__} does not state its effects")


@node
class Seq(Stmt):
    stmts: tuple[Stmt, ...]
    span: Any = None


@node
class Bind(Stmt):
    var: Var
    value: Expr
    span: Any = None


@node
class Alloc(Stmt):
    """annotations: e.g. {"layout": …, "arrive_count": …, "init": …}."""

    buffer: Buffer
    annotations: Mapping[str, Any] = _EMPTY
    span: Any = None


@node
class Store(Stmt):
    """`buffer[indices] = value`; the value has the buffer's dtype (times the lanes of the last
    index)."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr
    span: Any = None


@node
class Evaluate(Stmt):
    """An expression for its effect (an intrinsic call)."""

    value: Expr
    span: Any = None


@node
class For(Stmt):
    var: Var
    start: Expr
    extent: Expr
    body: Stmt
    kind: str = "serial"
    annotations: Mapping[str, Any] = _EMPTY
    span: Any = None


@node
class Parallel(Stmt):
    """Each index tuple is visited exactly once, by one thread (by every owner of a replicated
    fragment)."""

    vars: tuple[Var, ...]
    extents: tuple[Expr, ...]
    body: Stmt
    annotations: Mapping[str, Any] = _EMPTY
    span: Any = None


@node
class While(Stmt):
    cond: Expr
    body: Stmt
    span: Any = None


@node
class If(Stmt):
    cond: Expr
    then: Stmt
    orelse: Stmt | None = None
    span: Any = None


@node
class Break(Stmt):
    span: Any = None


@node
class Continue(Stmt):
    span: Any = None


@node
class Return(Stmt):
    """The current thread is done."""

    span: Any = None


@node
class Assert(Stmt):
    cond: Expr
    message: str
    span: Any = None


@node
class Assume(Stmt):
    """A fact for the optimiser; no run-time effect."""

    cond: Expr
    span: Any = None


@node
class TileStmt(Stmt):
    op: TileOp
    annotations: Mapping[str, Any] = _EMPTY
    span: Any = None


@node
class Launch(Stmt):
    """`with T.Kernel(*grid, threads=…)`. grid has 1 to 3 extents, threads is (x, y, z).

    annotations: layouts {Buffer: layout}, swizzle, safe_values, min_blocks, prelude, cluster_dims,
    producer_registers, consumer_registers, reallocate_registers (False: no setmaxnreg), …"""

    grid: tuple[Expr, ...]
    threads: tuple[int, int, int]
    block_vars: tuple[Var, ...]
    thread_vars: tuple[Var, ...]
    body: Stmt
    annotations: Mapping[str, Any] = _EMPTY
    span: Any = None


@node
class Role(Stmt):
    """A warp role: threads [first, first + threads) of the block execute `body` as a group of their
    own.

    Inside, tile ops are distributed over these threads and a barrier counts only them (a named
    one). annotations: name, registers (setmaxnreg), elected (one thread runs the body)."""

    first: int
    threads: int
    body: Stmt
    annotations: Mapping[str, Any] = _EMPTY
    span: Any = None


def seq(*stmts: Any, span: Any = None) -> Stmt:
    """Statements in order; nested Seqs and None are flattened away, one statement stays itself."""
    flat: list[Stmt] = []

    def add(s: Any) -> None:
        if s is None:
            return
        if isinstance(s, (list, tuple)):
            for x in s:
                add(x)
        elif type(s) is Seq:
            for x in s.stmts:
                add(x)
        else:
            flat.append(s)

    add(stmts)
    return flat[0] if len(flat) == 1 else Seq(tuple(flat), span)


def flatten(s: Stmt | None) -> list[Stmt]:
    """The statements of a body as a list."""
    if s is None:
        return []
    return list(s.stmts) if type(s) is Seq else [s]
