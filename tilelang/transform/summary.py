# SPDX-License-Identifier: Apache-2.0
"""What a statement uses, found in one walk: several passes ask for parts of it.

In: a statement at LOOP or FLAT stage. Out: a `Summary`. Also traversals that stay among statements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tilelang.ir import (
    INTRINSICS,
    Alloc,
    Bind,
    Buffer,
    Call,
    Evaluate,
    Expr,
    For,
    Launch,
    Load,
    Node,
    Return,
    Rewriter,
    Stmt,
    Store,
    Var,
    walk,
)

from .scope import pointed


@dataclass
class Summary:
    """used: variables, in order of first use, bound ones included. accessed: buffers of loads and
    stores, also behind pointers. written: roots that a store or a call given a pointer may write.
    units: (root, engine) for pointers given to calls; "other" where the table does not say what
    becomes of a pointer. calls: names of intrinsics, with the argument lists."""

    used: dict[Var, None] = field(default_factory=dict)
    bound: set[Var] = field(default_factory=set)
    accessed: dict[Buffer, None] = field(default_factory=dict)
    written: set[Buffer] = field(default_factory=set)
    units: set[tuple[Buffer, str]] = field(default_factory=set)
    calls: dict[str, list[Call]] = field(default_factory=dict)
    allocs: list[Alloc] = field(default_factory=list)
    returns: bool = False

    @property
    def free(self) -> list[Var]:
        """Variables used but not bound inside, in order of first use."""
        return [v for v in self.used if v not in self.bound]

    @property
    def roots(self) -> set[Buffer]:
        return {b.root() for b in self.accessed}


def summary(n: Node) -> Summary:
    out = Summary()
    for x in walk(n):
        handler = _HANDLERS.get(type(x))
        if handler is not None:
            handler(out, x)
    return out


def _call(out: Summary, x: Call) -> None:
    out.calls.setdefault(x.op, []).append(x)
    if x.op == "address_of":
        return
    row = INTRINSICS[x.op]
    for i, a in enumerate(x.args):
        if type(a) is Call and a.op == "address_of":
            root = pointed(a).root()
            known = i in row.pointers or row.unit != "generic"  # a descriptor is for its unit
            out.units.add((root, row.unit if known else "other"))
            if row.pointers.get(i, "rw") != "read":
                out.written.add(root)


def _store(out: Summary, s: Store) -> None:
    out.accessed[s.buffer] = None
    out.written.add(s.buffer.root())


def _bind(out: Summary, s: Bind) -> None:
    out.bound.add(s.var)
    _kept(out, s)


def _kept(out: Summary, s: Any) -> None:
    """A pointer that gets a name may be written through."""
    if type(s.value) is Call and s.value.op == "address_of":
        out.written.add(pointed(s.value).root())


_HANDLERS: dict[type, Any] = {
    Var: lambda out, x: out.used.setdefault(x),
    Load: lambda out, x: out.accessed.setdefault(x.buffer),
    Call: _call,
    Store: _store,
    Bind: _bind,
    Evaluate: _kept,
    For: lambda out, s: out.bound.add(s.var),
    Launch: lambda out, s: out.bound.update((*s.block_vars, *s.thread_vars)),
    Alloc: lambda out, s: out.allocs.append(s),
    Return: lambda out, s: setattr(out, "returns", True),
}


def statements(s: Stmt) -> Iterator[Any]:
    """Every statement below `s` (and `s`), parents first; expressions are not looked into."""
    stack: list[Any] = [s]
    while stack:
        x = stack.pop()
        yield x
        if type(x) not in _LEAVES:
            stack.extend(c for c in reversed(x.children) if not isinstance(c, Expr))


_LEAVES = {Alloc, Bind, Store, Evaluate, Return}


class StmtRewriter(Rewriter):
    """A `Rewriter` that leaves expressions alone."""

    def visit(self, n: Any) -> Any:
        if isinstance(n, Expr):
            return n
        handler = self.table.get(type(n))
        if type(n) in _LEAVES:
            return n if handler is None else handler(self, n)
        new = n.map_children(self.visit)
        return new if handler is None else handler(self, new)
