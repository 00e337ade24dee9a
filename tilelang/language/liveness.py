# SPDX-License-Identifier: Apache-2.0
"""Which assignments inside a loop or a branch are seen after it.

In: a function's syntax tree. Out: for each `for`, `while` and `if` the names assigned in it whose
value would be read after it, or in the next iteration of it. While tracing, a loop over a run-time
range is run once and both branches of a run-time `if` are run, so such an assignment cannot mean
what it says: it is refused at its own line (`values.assign`). An ordinary backward liveness
analysis; one pass over straight code, two over the body of a loop.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

Names = set[str]
Escaping = dict[ast.AST, frozenset[str]]


def escaping_names(function: ast.FunctionDef) -> Escaping:
    """Compound statement -> names assigned in it that are live after it or around its back edge."""
    analysis = _Liveness()
    analysis.block(function.body, set(), frozenset(), frozenset())
    return analysis.escaping


class _Liveness:
    def __init__(self) -> None:
        self.escaping: Escaping = {}

    def block(
        self, stmts: Iterable[ast.stmt], live: Names, brk: frozenset[str], cont: frozenset[str]
    ) -> Names:
        """Names live before `stmts`, given those live after; `live` is used up."""
        for s in reversed(list(stmts)):
            live = self.stmt(s, live, brk, cont)
        return live

    def stmt(self, s: ast.stmt, live: Names, brk: frozenset[str], cont: frozenset[str]) -> Names:
        method: Callable[..., Names] = getattr(self, f"s_{type(s).__name__}", self.simple)
        return method(s, live, brk, cont)

    def simple(
        self, s: ast.stmt, live: Names, _brk: frozenset[str], _cont: frozenset[str]
    ) -> Names:
        live -= stored_names(s)
        live |= read_names(s) - _named_first(s)
        return live

    def s_AugAssign(self, s: ast.AugAssign, live: Names, *_: object) -> Names:
        live |= read_names(s.value) | read_names(s.target)
        if isinstance(s.target, ast.Name):
            live.add(s.target.id)
        return live

    def s_If(self, s: ast.If, live: Names, brk: frozenset[str], cont: frozenset[str]) -> Names:
        self.escaping[s] = frozenset(assigned_in([*s.body, *s.orelse]) & live)
        before = self.block(s.body, set(live), brk, cont) | self.block(
            s.orelse, set(live), brk, cont
        )
        before -= stored_names(s.test)
        return before | (read_names(s.test) - _named_first(s.test))

    def s_For(self, s: ast.For, live: Names, brk: frozenset[str], cont: frozenset[str]) -> Names:
        targets = stored_names(s.target)
        after = self.block(s.orelse, set(live), brk, cont)
        header = self._loop(s, targets, after, after, frozenset(live))
        return header | read_names(s.iter)

    def s_While(
        self, s: ast.While, live: Names, brk: frozenset[str], cont: frozenset[str]
    ) -> Names:
        after = self.block(s.orelse, set(live), brk, cont)
        return self._loop(s, set(), after | read_names(s.test), after, frozenset(live))

    def _loop(
        self,
        s: ast.For | ast.While,
        targets: Names,
        start: Names,
        after: Names,
        brk: frozenset[str],
    ) -> Names:
        header = set(start)
        while True:
            before = self.block(s.body, set(header), brk, frozenset(header)) - targets
            if before <= header:
                break
            header |= before
        # a target is set anew by each iteration: it escapes only to what comes after the loop
        self.escaping[s] = frozenset((assigned_in(s.body) & header) | (targets & after))
        return header

    def s_With(self, s: ast.With, live: Names, brk: frozenset[str], cont: frozenset[str]) -> Names:
        live = self.block(s.body, live, brk, cont)
        for item in reversed(s.items):
            if item.optional_vars is not None:
                live -= stored_names(item.optional_vars)
                live |= read_names(item.optional_vars)
            live |= read_names(item.context_expr)
        return live

    def s_Try(self, s: ast.Try, live: Names, brk: frozenset[str], cont: frozenset[str]) -> Names:
        after = self.block(s.finalbody, live, brk, cont)
        handlers: Names = set(after)
        for h in s.handlers:
            handlers |= self.block(h.body, set(after), brk, cont) | (
                read_names(h.type) if h.type else set()
            )
        body = self.block(s.body, self.block(s.orelse, set(after), brk, cont), brk, cont)
        return body | handlers

    def s_Match(
        self, s: ast.Match, live: Names, brk: frozenset[str], cont: frozenset[str]
    ) -> Names:
        before = set(live)
        for case in s.cases:
            before |= self.block(case.body, set(live), brk, cont) | read_names(case.pattern)
            before |= read_names(case.guard) if case.guard else set()
        return before | read_names(s.subject)

    def s_Return(self, s: ast.Return, *_: object) -> Names:
        return read_names(s)

    def s_Raise(self, s: ast.Raise, *_: object) -> Names:
        return read_names(s)

    def s_Break(
        self, _s: ast.Break, _live: Names, brk: frozenset[str], _cont: frozenset[str]
    ) -> Names:
        return set(brk)

    def s_Continue(
        self, _s: ast.Continue, _live: Names, _brk: frozenset[str], cont: frozenset[str]
    ) -> Names:
        return set(cont)


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def read_names(node: ast.AST) -> Names:
    """Names read below `node`, those of nested functions included, a comprehension's own
    excluded.
    """
    out: Names = set()
    _read(node, frozenset(), out)
    return out


def _read(node: ast.AST, hidden: frozenset[str], out: Names) -> None:
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Load) and node.id not in hidden:
            out.add(node.id)
        return
    if isinstance(node, (ast.Lambda, ast.FunctionDef)):
        hidden |= {a.arg for a in [*node.args.args, *node.args.kwonlyargs, *node.args.posonlyargs]}
        if isinstance(node, ast.FunctionDef):
            hidden |= assigned_in(node.body)
    elif isinstance(node, _COMPREHENSIONS):
        hidden |= {
            n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)
        }
    for child in ast.iter_child_nodes(node):
        _read(child, hidden, out)


def _named_first(node: ast.AST) -> Names:
    """Names that `:=` binds below `node` before anything reads them."""
    named = [n for n in ast.walk(node) if isinstance(n, ast.NamedExpr)]
    if not named:
        return set()
    ends: dict[str, tuple[int, int]] = {}
    for n in named:
        end = (n.end_lineno or 0, n.end_col_offset or 0)
        ends[n.target.id] = min(end, ends.get(n.target.id, end))
    early = {
        n.id
        for n in ast.walk(node)
        if isinstance(n, ast.Name)
        and isinstance(n.ctx, ast.Load)
        and (n.lineno, n.col_offset) < ends.get(n.id, (0, 0))
    }
    return set(ends) - early


def stored_names(node: ast.AST) -> Names:
    """Names that `node` binds, outside of nested functions and comprehensions."""
    out: Names = set()
    stack: list[ast.AST] = [node]
    while stack:
        n = stack.pop()
        if isinstance(n, ast.Name):
            if not isinstance(n.ctx, ast.Load):
                out.add(n.id)
        elif isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            out.add(n.name)
        elif isinstance(n, ast.alias):
            out.add((n.asname or n.name).split(".")[0])
        elif isinstance(n, _COMPREHENSIONS):  # `:=` in one binds a name of the function
            out |= {x.target.id for x in ast.walk(n) if isinstance(x, ast.NamedExpr)}
        elif not isinstance(n, ast.Lambda):
            if isinstance(n, (ast.MatchAs, ast.MatchStar, ast.ExceptHandler)) and n.name:
                out.add(n.name)
            elif isinstance(n, ast.MatchMapping) and n.rest:
                out.add(n.rest)
            stack.extend(ast.iter_child_nodes(n))
    return out


def assigned_in(stmts: Iterable[ast.stmt]) -> Names:
    """Names that a block of statements binds."""
    out: Names = set()
    for s in stmts:
        out |= stored_names(s)
    return out
