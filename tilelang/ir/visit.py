# SPDX-License-Identifier: Apache-2.0
"""Traversal: `Visitor`, `Rewriter`, substitution, free variables, re-interning.

A subclass writes `visit_Add(self, n)`; the table type -> method is built when the class is created,
and a misspelt kind is an error there. Expressions are memoised per instance; a subclass whose
answer depends on context (guards, loop ranges) clears `self.memo` when the context changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from . import expr as E
from .buffer import Buffer, Region
from .expr import Expr, Load, Var
from .node import NODES, Node, session_memo
from .stmt import Alloc, Bind, For, Launch, Parallel, Stmt, Store, TileOp, TileStmt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


class _Table:
    """Builds the dispatch table of a Visitor or Rewriter subclass from its `visit_Kind` methods."""

    table: ClassVar[dict[type, Any]] = {}

    def __init_subclass__(cls, **kw: Any) -> None:
        super().__init_subclass__(**kw)
        table = dict(cls.table)
        for name, method in vars(cls).items():
            if name.startswith("visit_"):
                kind = NODES.get(name[6:])
                if kind is None:
                    raise TypeError(f"{cls.__name__}.{name}: there is no IR node {name[6:]!r}")
                table[kind] = method
        cls.table = table


class Visitor(_Table):
    """Walks statements and expressions; a handler decides itself whether to go on
    (`self.descend(n)`).

    Each distinct expression is visited once.
    """

    def __init__(self) -> None:
        self.seen: set[Node] = set()

    def visit(self, n: Node) -> None:
        if isinstance(n, Expr):
            if n in self.seen:
                return
            self.seen.add(n)
        handler = self.table.get(type(n))
        if handler is not None:
            handler(self, n)
        else:
            self.descend(n)

    def descend(self, n: Node) -> None:
        for c in n.children:
            self.visit(c)


class Rewriter(_Table):
    """Bottom-up rewriting that shares what did not change.

    A handler gets the node with its children already rewritten and returns the replacement (or the
    node). A class attribute `pre = True` makes handlers get the *original* node; they then call
    `self.descend(n)` themselves.
    """

    pre: ClassVar[bool] = False

    def __init__(self) -> None:
        self.memo: dict[Node, Any] = {}

    def visit(self, n: Any) -> Any:
        is_expr = isinstance(n, Expr)
        if is_expr:
            hit = self.memo.get(n)
            if hit is not None:
                return hit
        handler = self.table.get(type(n))
        if handler is None:
            out = n.map_children(self.visit)
        elif self.pre:
            out = handler(self, n)
        else:
            out = handler(self, n.map_children(self.visit))
        if is_expr:
            self.memo[n] = out
        return out

    def descend(self, n: Any) -> Any:
        return n.map_children(self.visit)


def rebuild(n: Any, f: Callable[[Any], Any]) -> Any:
    """`n.map_children(f)`, refolded if a child changed (constants fold, identities drop)."""
    new = n.map_children(f)
    return new if new is n or not isinstance(new, Expr) else refold(new)


def refold(n: Expr) -> Expr:
    """The node built again through its folding constructor."""
    t = type(n)
    if issubclass(t, (E.Binary, E.Compare)):
        if t is E.And:
            return E.logical_and(n.a, n.b)  # type: ignore[attr-defined]
        if t is E.Or:
            return E.logical_or(n.a, n.b)  # type: ignore[attr-defined]
        if n.a.dtype is n.b.dtype:  # type: ignore[attr-defined]
            return E.binary(t, n.a, n.b) if not n.a.dtype.is_bool else n  # type: ignore[attr-defined]
        return n
    if t is E.Not:
        return E.logical_not(n.a)  # type: ignore[attr-defined]
    if t is E.Neg:
        return E.neg(n.a)  # type: ignore[attr-defined]
    if t is E.Cast:
        return E.cast(n.a, n.to)  # type: ignore[attr-defined]
    if t in (E.Select, E.IfThenElse) and type(n.cond) is E.Const:  # type: ignore[attr-defined]
        return n.a if n.cond.value else n.b  # type: ignore[attr-defined,no-any-return]
    return n


class _Substitute(Rewriter):
    pre = True

    def __init__(self, mapping: Mapping[Any, Any]) -> None:
        super().__init__()
        self.mapping = mapping
        self.known = session_memo(_MENTIONS)

    def visit(self, n: Any) -> Any:
        if type(n) is Var:
            return self.mapping.get(n, n)
        if isinstance(n, Expr):
            hit = self.memo.get(n)
            if hit is None:
                same = _mentions(n, self.known).isdisjoint(self.mapping)
                hit = self.memo[n] = n if same else self._expr(n)
            return hit
        return self._other(n)

    def _expr(self, n: Expr) -> Expr:
        if type(n) is Load and n.buffer in self.mapping:
            return Load(self.mapping[n.buffer], tuple(self.visit(i) for i in n.indices))
        return rebuild(n, self.visit)  # type: ignore[no-any-return]

    def _other(self, n: Any) -> Any:
        t = type(n)
        if t is Store:
            n = n.map_children(self.visit)
            return (
                Store(self.mapping[n.buffer], n.indices, n.value, n.span)
                if n.buffer in self.mapping
                else n
            )
        if t is Region:
            n = n.map_children(self.visit)
            return (
                Region(self.mapping[n.buffer], n.offsets, n.extents)
                if n.buffer in self.mapping
                else n
            )
        if t is TileStmt and any(isinstance(v, Expr) for v in n.annotations.values()):
            notes = {
                k: self.visit(v) if isinstance(v, Expr) else v for k, v in n.annotations.items()
            }
            return TileStmt(self.visit(n.op), notes, n.span)
        if t is Alloc and n.buffer in self.mapping:
            return Alloc(self.mapping[n.buffer], n.annotations, n.span)
        if t is Bind and n.var in self.mapping and type(self.mapping[n.var]) is Var:
            return Bind(self.mapping[n.var], self.visit(n.value), n.span)
        if t is For and n.var in self.mapping and type(self.mapping[n.var]) is Var:
            return For(
                self.mapping[n.var],
                self.visit(n.start),
                self.visit(n.extent),
                self.visit(n.body),
                n.kind,
                n.annotations,
                n.span,
            )
        return n.map_children(self.visit)


def substitute(n: Any, mapping: Mapping[Any, Any]) -> Any:
    """`n` with variables (and buffers) replaced; changed expressions are refolded.

    mapping: Var -> Expr, Buffer -> Buffer. Binders (`Bind`, `For`, `Alloc`) mapped to another Var
    or Buffer are renamed too."""
    return _Substitute(mapping).visit(n) if mapping else n


_MENTIONS = "mentions"
_NOTHING: frozenset[Any] = frozenset()


def mentions(e: Expr) -> frozenset[Any]:
    """What an expression is made of: its variables, the buffers that it loads from (or takes the
    address of), and the names of the intrinsics that it calls. Remembered for the session."""
    return _mentions(e, session_memo(_MENTIONS))


def _mentions(e: Any, memo: dict[Any, frozenset[Any]]) -> frozenset[Any]:
    hit = memo.get(e)
    if hit is None:
        t = type(e)
        own = e if t is Var else e.buffer if t is Load else e.op if t is E.Call else None
        hit = _NOTHING if own is None else frozenset((own,))
        for c in e.children:
            found = _mentions(c, memo)
            if not found <= hit:
                hit = found if hit <= found else hit | found
        memo[e] = hit
    return hit


def walk(n: Node) -> Iterator[Node]:
    """Every node below `n` (and `n`), parents first; a shared expression once. Remembered for the
    session: many passes ask this of the same statement."""
    memo = session_memo("walks")
    hit = memo.get(n)
    if hit is None:
        hit = memo[n] = _walked(n)
    return iter(hit)


def _walked(n: Node) -> list[Node]:
    out: list[Node] = []
    seen: set[Node] = set()
    stack: list[Node] = [n]
    while stack:
        x = stack.pop()
        if isinstance(x, Expr):
            if x in seen:
                continue
            seen.add(x)
        out.append(x)
        stack.extend(reversed(x.children))
    return out


class VarList(list[Var]):
    """Variables in order. `in` compares identity: `==` on expressions would build a comparison."""

    def __contains__(self, x: object) -> bool:
        return any(x is v for v in self)


def free_vars(n: Node) -> VarList:
    """Variables used in `n` and not bound in it, in order of first use."""
    if isinstance(n, Expr):
        found = [v for v in mentions(n) if type(v) is Var]
        if len(found) < 2:  # no order to find out
            return VarList(found)
    used: dict[Var, None] = {}
    bound: set[Var] = set()
    for x in walk(n):
        t = type(x)
        if t is Var:
            used[x] = None  # type: ignore[index]
        elif t is Bind or t is For:
            bound.add(x.var)  # type: ignore[attr-defined]
        elif t is Parallel:
            bound.update(x.vars)  # type: ignore[attr-defined]
        elif t is Launch:
            bound.update((*x.block_vars, *x.thread_vars))  # type: ignore[attr-defined]
    return VarList(v for v in used if v not in bound)


def buffers_used(n: Node) -> list[Buffer]:
    """Buffers accessed in `n`, in order of first use."""
    out: dict[Buffer, None] = {}
    for x in walk(n):
        t = type(x)
        if t is Load or t is Store or t is Region:
            out[x.buffer] = None  # type: ignore[attr-defined]
    return list(out)


def refresh(s: Stmt) -> Stmt:
    """A copy of `s` in which every binder (Bind, For, Parallel, Alloc) is new: for duplicating a
    body."""
    mapping: dict[Any, Any] = {}
    for x in walk(s):
        t = type(x)
        if t is Bind or t is For:
            mapping[x.var] = Var(x.var.name, x.var.dtype)  # type: ignore[attr-defined]
        elif t is Alloc:
            b = x.buffer  # type: ignore[attr-defined]
            mapping[b] = Buffer(
                b.name, b.shape, b.dtype, b.scope, b.strides, b.view_of, b.span, b.data
            )
    return substitute(s, mapping)  # type: ignore[no-any-return]


class _Reintern(Rewriter):
    """Rebuilds every expression so that equal ones become one object of the current session."""

    def visit(self, n: Any) -> Any:
        if isinstance(n, Expr):
            hit = self.memo.get(n)
            if hit is None:
                hit = self.memo[n] = n if type(n) is Var else self._again(n)
            return hit
        return n.map_children(self.visit)

    def _again(self, n: Expr) -> Expr:
        kids = self._visited(n)
        return type(n)(*kids)

    def _visited(self, n: Expr) -> list[Any]:
        out: list[Any] = []
        for f in type(n).fields:
            v = getattr(n, f)
            if isinstance(v, Expr):
                v = self.visit(v)
            elif isinstance(v, tuple):
                v = tuple(self.visit(x) if isinstance(x, Expr) else x for x in v)
            out.append(v)
        return out


def reintern(n: Any) -> Any:
    """`n` with all its expressions interned in the current session (buffers' shapes included, in
    place order: a buffer keeps its identity, its shape expressions are rebuilt)."""
    r = _Reintern()
    return r.visit(n)


__all__ = [
    "Rewriter", "TileOp", "TileStmt", "Visitor", "buffers_used", "free_vars", "mentions", "rebuild",
    "refold", "refresh", "reintern", "substitute", "walk",
]  # fmt: skip
