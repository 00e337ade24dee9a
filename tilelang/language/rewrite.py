# SPDX-License-Identifier: Apache-2.0
"""The user's syntax tree -> a tree in which every statement asks the trace what it means.

In: an `ast.FunctionDef`. Out: a new one (the input is shared and stays as it is) with the same
positions. What is not rewritten is plain Python and runs while tracing: calls, comprehensions,
lambdas, f-strings, imports, `try`, nested functions. `_tl_` is the trace (`trace.Trace`):

    x = v             x = _tl_.assign("x", v, lambda: x)      (None where x has no value yet)
    x += v            x = _tl_.augassign("x", "Add", lambda: x, v)
    A[i] = v          _tl_.setitem(A, _tl_.key[i], v)
    a, b = v          _tl1, _tl2 = _tl_.unpack(v, ("a", "b"), None); a = …; b = …
    for i in it: …    for i in _tl_.loop(it, ("i",), <escaping names>, False): …
    while c: …        for _ in _tl_.while_(lambda: c, <escaping>, …): …
    if c: … else: …   _tl1 = _tl_.if_(c, <escaping>, True)
                      if _tl1.then(): …
                      if _tl1.orelse(): …
                      _tl1.end()
    with c as n: …    with _tl_.with_(c, ("n",), False) as n: …
    break             if _tl_.break_(): break
    a and b, a < b < c, not a, p if c else q
                      _tl_.and_(a, lambda: b), …
    x := v            x := _tl_.assign("x", v, lambda: x)
    del A[i]          _tl_.delitem(A, _tl_.key[i])
    l.append(v)       _tl_.method(l, "append")(v)             (in a loop or a branch)

Before any other statement that binds names whose values are seen after a loop or a branch (`with …
as`, `match`, `def`, `class`, `import`, `except … as`, `del`) stands `_tl_.rebinds(names)`.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from tilelang.errors import LanguageError, Span

from .containers import MUTATORS
from .liveness import Escaping, assigned_in, escaping_names, stored_names

if TYPE_CHECKING:
    from collections.abc import Sequence

TRACE_NAME = "_tl_"

_NEW = (
    ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.Call, ast.BinOp,
    ast.Tuple, ast.IfExp,
)  # fmt: skip
"""Expressions that make an object (or may: the benefit of the doubt is the user's)."""

_REFUSED = {
    ast.AsyncFunctionDef: "`async def`",
    ast.AsyncFor: "`async for`",
    ast.AsyncWith: "`async with`",
    ast.Yield: "`yield`",
    ast.YieldFrom: "`yield from`",
    ast.Await: "`await`",
    ast.TryStar: "`except*`",
}


def rewrite_function(function: ast.FunctionDef, file: str) -> ast.FunctionDef:
    """The traced form of `function`: without decorators, annotations and defaults (those are
    evaluated by Python where the function is defined)."""
    return _Rewrite(function, file).function()


class _Method(ast.Attribute):
    """A method of ours. Its place is one point: Python moves the place of a call to the last line
    of the method's name, which for a statement of several lines would be the wrong one."""


def _call(method: str, *args: ast.expr) -> ast.Call:
    target = _Method(ast.Name(TRACE_NAME, ast.Load()), method, ast.Load())
    return ast.Call(target, list(args), [])


def locate(node: Any, place: tuple[int, int, int, int] | None = None) -> None:
    """Gives every node that has no place the one of its parent."""
    here = place
    if "lineno" in node._attributes:
        if not hasattr(node, "lineno") and place is not None:
            point = isinstance(node, _Method)
            line, col, end_line, end_col = place
            node.lineno, node.col_offset = line, col
            node.end_lineno, node.end_col_offset = (line, col) if point else (end_line, end_col)
        here = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
    for child in ast.iter_child_nodes(node):
        locate(child, place if isinstance(node, _Method) else here)


def _lambda(body: ast.expr) -> ast.Lambda:
    return ast.Lambda(ast.arguments([], [], None, [], [], None, []), body)


def _constant(value: Any) -> ast.expr:
    if isinstance(value, (tuple, list)):
        return ast.Tuple([_constant(v) for v in value], ast.Load())
    return ast.Constant(value)


class _Rewrite:
    def __init__(self, node: ast.FunctionDef, file: str) -> None:
        self.node = node
        self.file = file
        self.escaping: Escaping = escaping_names(node)
        self.escaped = frozenset[str]().union(*self.escaping.values())
        self.depth = 0  # loops and branches around
        self.count = 0
        a = node.args
        every = [*a.posonlyargs, *a.args, *a.kwonlyargs, *(x for x in (a.vararg, a.kwarg) if x)]
        self.bound = {x.arg for x in every}  # names that may have a value where we are

    def function(self) -> ast.FunctionDef:
        a = self.node.args
        plain = [
            [ast.copy_location(ast.arg(x.arg), x) for x in g]
            for g in (a.posonlyargs, a.args, a.kwonlyargs)
        ]
        vararg = ast.arg(a.vararg.arg) if a.vararg else None
        kwarg = ast.arg(a.kwarg.arg) if a.kwarg else None
        missing: list[ast.expr | None] = [None for _ in a.kwonlyargs]
        args = ast.arguments(plain[0], plain[1], vararg, plain[2], missing, kwarg, [])
        out = ast.FunctionDef(self.node.name, args, self.block(self.node.body) or [ast.Pass()], [])
        return ast.copy_location(out, self.node)

    def fresh(self) -> str:
        self.count += 1
        return f"_tl{self.count}"

    def refuse(self, node: Any, what: str, help: str) -> LanguageError:
        return LanguageError(
            f"{what} is not part of the kernel language",
            code="TL0111",
            span=Span.of(node, self.file, self.node.name),
            help=help,
        )

    # -------------------------------------------------------------------------------- statements

    def block(self, stmts: Sequence[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for s in stmts:
            new = self.stmt(s)
            for n in new:
                if n is not s:
                    ast.copy_location(n, s)
            out.extend(new)
            self.bound |= stored_names(s)
        return out

    def inner(self, stmts: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The body of a loop or a branch."""
        self.depth += 1
        out = self.block(stmts)
        self.depth -= 1
        return out

    def rebinds(self, names: set[str]) -> list[ast.stmt]:
        """Before a statement that binds `names`: the check that an assignment makes."""
        late = sorted(names & self.escaped)
        return [ast.Expr(_call("rebinds", _constant(late)))] if late else []

    def stmt(self, s: ast.stmt) -> list[ast.stmt]:
        if type(s) in _REFUSED:
            raise self.refuse(
                s, _REFUSED[type(s)], "kernels run to completion; use plain statements"
            )
        method = getattr(self, f"s_{type(s).__name__}", None)
        return method(s) if method else [self.map(s)]

    def s_FunctionDef(self, s: ast.FunctionDef | ast.ClassDef) -> list[ast.stmt]:
        return [*self.rebinds({s.name}), s]

    s_ClassDef = s_FunctionDef

    def s_Import(self, s: ast.Import | ast.ImportFrom) -> list[ast.stmt]:
        return [*self.rebinds(stored_names(s)), s]

    s_ImportFrom = s_Import

    def s_Delete(self, s: ast.Delete) -> list[ast.stmt]:
        out = self.rebinds(stored_names(s))
        for t in s.targets:
            if isinstance(t, ast.Subscript):
                out.append(ast.Expr(_call("delitem", self.expr(t.value), self.key(t.slice))))
            else:
                out.append(ast.Delete([t]))
        return out

    def s_Expr(self, s: ast.Expr) -> list[ast.stmt]:
        if isinstance(s.value, ast.Constant):
            return [s]
        return [ast.Expr(_call("expr", self.expr(s.value)))]

    def s_Return(self, s: ast.Return) -> list[ast.stmt]:
        value = self.expr(s.value) if s.value is not None else ast.Constant(None)
        return [ast.Return(_call("ret", value))]

    def s_Assert(self, s: ast.Assert) -> list[ast.stmt]:
        message = self.expr(s.msg) if s.msg is not None else ast.Constant(None)
        text = ast.Constant(ast.unparse(s.test))
        return [ast.Expr(_call("assert_", self.expr(s.test), _lambda(message), text))]

    def s_Break(self, s: ast.Break) -> list[ast.stmt]:
        return [ast.If(_call("break_"), [ast.copy_location(ast.Break(), s)], [])]

    def s_Continue(self, s: ast.Continue) -> list[ast.stmt]:
        return [ast.If(_call("continue_"), [ast.copy_location(ast.Continue(), s)], [])]

    def s_Assign(self, s: ast.Assign) -> list[ast.stmt]:
        value = self.made(s.value)
        if len(s.targets) == 1:
            return self.assign(s.targets[0], value)
        tmp = self.fresh()
        first = next((t.id for t in s.targets if isinstance(t, ast.Name)), "v")
        out: list[ast.stmt] = [
            ast.Assign([ast.Name(tmp, ast.Store())], _call("value", value, _constant(first)))
        ]
        for t in s.targets:
            out += self.assign(t, ast.Name(tmp, ast.Load()))
        return out

    def made(self, value: ast.expr) -> ast.expr:
        """The value of an assignment; in a loop or a branch it may have been made there."""
        new = self.expr(value)
        return _call("made", new) if self.depth and isinstance(value, _NEW) else new

    def s_AnnAssign(self, s: ast.AnnAssign) -> list[ast.stmt]:
        if s.value is not None:
            return self.assign(s.target, self.made(s.value))
        if not isinstance(s.target, ast.Name):
            return [s]
        name = s.target.id
        value = _call(
            "annotate", _constant(name), _lambda(s.annotation), _lambda(ast.Name(name, ast.Load()))
        )
        return [ast.Assign([ast.Name(name, ast.Store())], value)]

    def s_AugAssign(self, s: ast.AugAssign) -> list[ast.stmt]:
        op, value = _constant(type(s.op).__name__), self.expr(s.value)
        t = s.target
        if isinstance(t, ast.Name):
            new = _call(
                "augassign", _constant(t.id), op, _lambda(ast.Name(t.id, ast.Load())), value
            )
            return [ast.Assign([ast.Name(t.id, ast.Store())], new)]
        if isinstance(t, ast.Subscript):
            return [ast.Expr(_call("augsetitem", self.expr(t.value), self.key(t.slice), op, value))]
        return [ast.Expr(_call("augsetattr", self.expr(t.value), _constant(t.attr), op, value))]

    def assign(self, t: ast.expr, value: ast.expr) -> list[ast.stmt]:
        if isinstance(t, ast.Name):
            # only where there may be one: each makes a cell, and a program may have thousands of
            # names
            old = _lambda(ast.Name(t.id, ast.Load())) if t.id in self.bound else ast.Constant(None)
            new = _call("assign", _constant(t.id), value, old)
            return [ast.Assign([ast.Name(t.id, ast.Store())], new)]
        if isinstance(t, ast.Subscript):
            return [ast.Expr(_call("setitem", self.expr(t.value), self.key(t.slice), value))]
        if isinstance(t, ast.Attribute):
            return [ast.Expr(_call("setattr", self.expr(t.value), _constant(t.attr), value))]
        assert isinstance(t, (ast.Tuple, ast.List))
        return self.unpack(t, value)

    def unpack(self, t: ast.Tuple | ast.List, value: ast.expr) -> list[ast.stmt]:
        star = next((n for n, e in enumerate(t.elts) if isinstance(e, ast.Starred)), None)
        leaves = [e.value if isinstance(e, ast.Starred) else e for e in t.elts]
        names = [e.id if isinstance(e, ast.Name) else "v" for e in leaves]
        temps = [self.fresh() for _ in leaves]
        left = ast.Tuple([ast.Name(n, ast.Store()) for n in temps], ast.Store())
        out: list[ast.stmt] = [
            ast.Assign([left], _call("unpack", value, _constant(names), ast.Constant(star)))
        ]
        for leaf, tmp in zip(leaves, temps, strict=True):
            out += self.assign(leaf, ast.Name(tmp, ast.Load()))
        return out

    def s_For(self, s: ast.For) -> list[ast.stmt]:
        names, structured = _target_names(s.target)
        self.bound |= stored_names(s.target) | assigned_in(s.body)
        iterable = _call(
            "loop",
            self.iterable(s.iter),
            _constant(names),
            ast.Constant(structured),
            _constant(sorted(self.escaping[s])),
            ast.Constant(bool(s.orelse)),
            _constant(sorted(stored_names(s.target) & self.escaped)),
        )
        ast.copy_location(iterable, s.iter)
        return [ast.For(s.target, iterable, self.inner(s.body), self.block(s.orelse))]

    def iterable(self, e: ast.expr) -> ast.expr:
        if (
            isinstance(e, ast.Call)
            and isinstance(e.func, ast.Name)
            and e.func.id == "range"
            and not e.keywords
        ):
            return ast.copy_location(_call("range_", e.func, *(self.expr(a) for a in e.args)), e)
        return self.expr(e)

    def s_While(self, s: ast.While) -> list[ast.stmt]:
        self.bound |= assigned_in(s.body)
        if _assigns(s.test):
            raise self.refuse(
                s.test, "`:=` in the condition of a `while`", "assign in the loop's body"
            )
        iterable = _call(
            "while_",
            _lambda(self.expr(s.test)),
            _constant(sorted(self.escaping[s])),
            ast.Constant(bool(s.orelse)),
            ast.Constant(_leaves_loop(s.body)),
            ast.Constant(isinstance(s.test, ast.Constant)),
        )
        ast.copy_location(iterable, s.test)
        return [
            ast.For(
                ast.Name(self.fresh(), ast.Store()),
                iterable,
                self.inner(s.body),
                self.block(s.orelse),
            )
        ]

    def s_If(self, s: ast.If) -> list[ast.stmt]:
        tmp = self.fresh()
        test = _call("if_", self.expr(s.test), _constant(sorted(self.escaping[s])))
        ast.copy_location(test, s.test)

        def step(method: str) -> ast.expr:
            return ast.Call(_Method(ast.Name(tmp, ast.Load()), method, ast.Load()), [], [])

        out: list[ast.stmt] = [
            ast.Assign([ast.Name(tmp, ast.Store())], test),
            ast.If(step("then"), self.inner(s.body), []),
        ]
        if s.orelse:
            out.append(ast.If(step("orelse"), self.inner(s.orelse), []))
        out.append(ast.Expr(step("end")))
        return out

    def s_With(self, s: ast.With) -> list[ast.stmt]:
        items = []
        targets = [i.optional_vars for i in s.items if i.optional_vars is not None]
        checks = self.rebinds(set[str]().union(*map(stored_names, targets)))
        for item in s.items:
            self.bound |= (
                stored_names(item.optional_vars) if item.optional_vars is not None else set()
            )
            names, structured = (
                _target_names(item.optional_vars) if item.optional_vars is not None else ([], False)
            )
            context = _call(
                "with_", self.expr(item.context_expr), _constant(names), ast.Constant(structured)
            )
            items.append(
                ast.withitem(ast.copy_location(context, item.context_expr), item.optional_vars)
            )
        return [*checks, ast.With(items, self.block(s.body))]

    def s_Global(self, s: ast.Global | ast.Nonlocal) -> list[ast.stmt]:
        self.bound |= set(s.names)
        return [s]

    s_Nonlocal = s_Global

    def s_Try(self, s: ast.Try) -> list[ast.stmt]:
        handlers = []
        checks = self.rebinds({h.name for h in s.handlers if h.name})
        for h in s.handlers:
            new = ast.ExceptHandler(h.type, h.name, self.block(h.body))
            handlers.append(ast.copy_location(new, h))
        body, orelse, final = self.block(s.body), self.block(s.orelse), self.block(s.finalbody)
        return [*checks, ast.Try(body, handlers, orelse, final)]

    def s_Match(self, s: ast.Match) -> list[ast.stmt]:
        cases = [
            ast.match_case(c.pattern, c.guard and self.expr(c.guard), self.block(c.body))
            for c in s.cases
        ]
        names = set[str]().union(*(stored_names(c.pattern) for c in s.cases))
        return [*self.rebinds(names), ast.Match(self.expr(s.subject), cases)]

    # ------------------------------------------------------------------------------- expressions

    def map(self, n: Any) -> Any:
        """`n` with its expressions rewritten; `n` itself if nothing below changed."""
        changed = False
        values: dict[str, Any] = {}
        for name, old in ast.iter_fields(n):
            new: Any = old
            if isinstance(old, ast.AST):
                new = self.expr(old)
            elif isinstance(old, list):
                new = [self.expr(x) if isinstance(x, ast.AST) else x for x in old]
                if all(a is b for a, b in zip(new, old, strict=True)):
                    new = old
            changed |= new is not old
            values[name] = new
        return ast.copy_location(type(n)(**values), n) if changed else n

    def expr(self, e: Any) -> Any:
        if isinstance(e, (ast.Name, ast.Constant)):
            return e
        if type(e) in _REFUSED:
            raise self.refuse(e, _REFUSED[type(e)], "return a list, or write the loop out")
        method = getattr(self, f"e_{type(e).__name__}", None)
        if method is None:
            return self.map(e)
        new = method(e)
        return new if new is e else ast.copy_location(new, e)

    def e_Call(self, e: ast.Call) -> ast.expr:
        new = self.map(e)
        if self.depth and isinstance(e.func, ast.Attribute) and e.func.attr in MUTATORS:
            func = _call("method", self.expr(e.func.value), _constant(e.func.attr))
            new = ast.Call(ast.copy_location(func, e.func), new.args, new.keywords)
        return new

    def e_NamedExpr(self, e: ast.NamedExpr) -> ast.expr:
        old = _lambda(ast.Name(e.target.id, ast.Load()))
        value = _call("assign", _constant(e.target.id), self.expr(e.value), old)
        return ast.NamedExpr(e.target, ast.copy_location(value, e.value))

    def e_Attribute(self, e: ast.Attribute) -> ast.expr:
        if e.attr == "data" and isinstance(e.ctx, ast.Load):
            return _call("data", self.expr(e.value))
        new: ast.expr = self.map(e)
        return new

    def e_Lambda(self, e: ast.Lambda) -> ast.expr:
        return e  # plain Python; it may be called long after this trace is over

    def e_BoolOp(self, e: ast.BoolOp) -> ast.expr:
        if _assigns(e):
            return self.map(e)
        name = "and_" if isinstance(e.op, ast.And) else "or_"
        first, *rest = [self.expr(v) for v in e.values]
        return _call(name, first, *(_lambda(v) for v in rest))

    def e_UnaryOp(self, e: ast.UnaryOp) -> ast.expr:
        if isinstance(e.op, ast.Not):
            return _call("not_", self.expr(e.operand))
        return self.map(e)

    def e_IfExp(self, e: ast.IfExp) -> ast.expr:
        if _assigns(e):
            return self.map(e)
        return _call(
            "ifexp", self.expr(e.test), _lambda(self.expr(e.body)), _lambda(self.expr(e.orelse))
        )

    def e_Compare(self, e: ast.Compare) -> ast.expr:
        membership = any(isinstance(op, (ast.In, ast.NotIn)) for op in e.ops)
        if (len(e.ops) == 1 and not membership) or _assigns(e):
            return self.map(e)
        args: list[ast.expr] = [self.expr(e.left)]
        for op, right in zip(e.ops, e.comparators, strict=True):
            args += [ast.Constant(type(op).__name__), _lambda(self.expr(right))]
        return _call("compare", *args)

    def key(self, index: ast.expr) -> ast.expr:
        """An index as a value: `_tl_.key[i, 0:n]` gives back what stands in the brackets."""
        target = ast.Attribute(ast.Name(TRACE_NAME, ast.Load()), "key", ast.Load())
        return ast.Subscript(target, self.expr(index), ast.Load())


def _assigns(e: ast.expr) -> bool:
    """`:=` binds a name of the function, which a lambda could not: such an expression stays
    Python's.
    """
    return any(isinstance(n, ast.NamedExpr) for n in ast.walk(e))


def _target_names(t: ast.expr) -> tuple[list[str], bool]:
    """Names for the variables of a loop or a launch, and whether they are unpacked from a tuple."""
    if isinstance(t, ast.Name):
        return [t.id], False
    if isinstance(t, (ast.Tuple, ast.List)):
        return [e.id if isinstance(e, ast.Name) else "v" for e in t.elts], True
    return ["v"], False


def _leaves_loop(body: Sequence[ast.stmt]) -> bool:
    """Is there a `break`, or anything else that may end the loop, in its own body?"""
    stack: list[ast.AST] = list(body)
    while stack:
        n = stack.pop()
        if isinstance(n, (ast.Break, ast.Return)):
            return True
        if isinstance(n, ast.Attribute) and n.attr in ("loop_break", "thread_return"):
            return True
        if not isinstance(n, (ast.FunctionDef, ast.Lambda)):
            stack.extend(ast.iter_child_nodes(n))
    return False
