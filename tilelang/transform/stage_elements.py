# SPDX-License-Identifier: Apache-2.0
"""Single elements of fragments, outside of `Parallel` nests.

In: a kernel and the layouts of its fragments. Out: the same, where an element that a thread needs
and does not hold is read from a shared copy of the fragment. What every thread evaluates (a value
bound to a name or kept in a variable, a condition, a bound) needs an element that all hold; a store
or an atomic is executed by the owner of its first element, who may not hold the others.

    n = f[3]             ->     f_staged[...] <- f; n = f_staged[3]
    while f[0] < 9: ...  ->     while True: f_staged[...] <- f; if f_staged[0] >= 9: break; ...

Where only some threads come by, the copy is made before the statement that parts them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any

from tilelang.errors import InternalError, LayoutError
from tilelang.ir import (
    Alloc,
    Assert,
    Assume,
    Bind,
    Break,
    Buffer,
    Evaluate,
    Expr,
    For,
    If,
    Load,
    Rewriter,
    Role,
    Scope,
    Seq,
    Stmt,
    Store,
    While,
    const,
    effects,
    logical_not,
    seq,
)

from .fragment_access import FragmentAccess, fragment_accesses
from .ownership import held_by_all
from .uniformity import Uniformity

if TYPE_CHECKING:
    from .infer_layouts import Inference

__all__ = ["Elements"]


class Redirect(Rewriter):
    """These loads, from other buffers."""

    pre = True

    def __init__(self, copies: Mapping[Any, Buffer]) -> None:
        super().__init__()
        self.copies = copies

    def visit_Load(self, n: Load) -> Expr:
        indices = tuple(self.visit(i) for i in n.indices)
        return Load(self.copies.get(n, n.buffer), indices)


class Elements(Rewriter):
    """apart: the outermost statement around that not all threads execute alike. hoisted: what goes
    before it."""

    pre = True

    def __init__(self, inference: Inference) -> None:
        super().__init__()
        self.inf = inference
        self.threads = inference.ctx.threads
        self.uniform = Uniformity(inference.launch, inference.layouts)
        self.apart: Stmt | None = None
        self.hoisted: list[Stmt] = []

    def _move(self, src: Buffer, dst: Buffer, s: Stmt) -> Stmt:
        raise InternalError("the pass says how a fragment is copied")

    # ------------------------------------------------------------------------------ statements

    def visit_Seq(self, s: Seq) -> Stmt:
        return seq([self.visit(x) for x in s.stmts], span=s.span)

    def visit_Role(self, s: Role) -> Stmt:
        outer, self.threads = self.threads, s.threads
        out: Stmt = self.descend(s)
        self.threads = outer
        return out

    def visit_Bind(self, s: Bind) -> Stmt:
        before, value = self._for_all(s, s.value)
        return seq(before, Bind(s.var, value, s.span))

    def visit_If(self, s: If) -> Stmt:
        before, cond = self._for_all(s, s.cond)

        def branches() -> Stmt:
            return If(cond, self.visit(s.then), s.orelse and self.visit(s.orelse), s.span)

        return seq(before, self._parted(s, not self.uniform.expr(cond), branches))

    def visit_For(self, s: For) -> Stmt:
        before, start = self._for_all(s, s.start)
        more, extent = self._for_all(s, s.extent)

        def loop() -> Stmt:
            return For(s.var, start, extent, self.visit(s.body), s.kind, s.annotations, s.span)

        return seq(before, more, self._parted(s, not self.uniform.loop(s, start, extent), loop))

    def visit_While(self, s: While) -> Stmt:
        def loop() -> Stmt:
            before, cond = self._for_all(s, s.cond)
            body = self.visit(s.body)
            if not before:
                return While(cond, body, s.span)
            leave = If(logical_not(cond), Break(s.span), None, s.span)
            return While(const(True), seq(before, leave, body), s.span)

        return self._parted(s, not self.uniform.loop(s) or self._differs(s.cond), loop)

    def visit_Assert(self, s: Assert) -> Stmt:
        before, cond = self._for_all(s, s.cond)
        return seq(before, Assert(cond, s.message, s.span))

    def visit_Assume(self, s: Assume) -> Stmt:
        return seq() if fragment_accesses(s) else s  # nothing follows from what memory holds

    def visit_Store(self, s: Store) -> Stmt:
        accesses = fragment_accesses(s)
        if s.buffer.is_local:  # each thread has its own
            return self._shared_for(s, [a for a in accesses if not self._everywhere(a)])
        return self._shared_for(s, self._not_the_owners(accesses))

    def visit_Evaluate(self, s: Evaluate) -> Stmt:
        return self._shared_for(s, self._not_the_owners(fragment_accesses(s)))

    def _parted(self, s: Stmt, diverges: bool, go: Callable[[], Stmt]) -> Stmt:
        if self.apart is not None or not diverges:
            return go()
        self.apart, self.hoisted = s, []
        out = go()
        self.apart = None
        return seq(self.hoisted, out)

    # ------------------------------------------------------------------------------ elements

    def _everywhere(self, a: FragmentAccess) -> bool:
        return held_by_all(self.inf.layouts[a.buffer], a.indices)

    def _differs(self, value: Expr) -> bool:
        """Has the value no one meaning for all threads, wherever fragments are read from?"""
        shared = {
            Load(a.buffer, a.indices): Buffer(a.buffer.name, a.buffer.shape, a.buffer.dtype)
            for a in fragment_accesses(value)
        }
        return not self.uniform.expr(Redirect(shared).visit(value))

    def _not_the_owners(self, accesses: Sequence[FragmentAccess]) -> list[FragmentAccess]:
        """Those that the owner of the first may not hold."""
        if not accesses:
            return []
        owner, layouts = accesses[0], self.inf.layouts

        def same(a: FragmentAccess) -> bool:
            alike = layouts[a.buffer] == layouts[owner.buffer]
            return alike and all(map(is_, a.indices, owner.indices))

        return [a for a in accesses[1:] if not same(a) and not self._everywhere(a)]

    def _for_all(self, s: Stmt, value: Expr) -> tuple[list[Stmt], Expr]:
        """A value that every thread needs: what goes before `s`, and the value from then on."""
        foreign = [a for a in fragment_accesses(value) if not self._everywhere(a)]
        before, redirect = self._copies(s, foreign)
        return before, redirect.visit(value) if foreign else value

    def _shared_for(self, s: Stmt, foreign: Sequence[FragmentAccess]) -> Stmt:
        """The statement with these elements read from shared copies."""
        before, redirect = self._copies(s, foreign)
        return seq(before, redirect.visit(s)) if foreign else s

    def _copies(self, s: Stmt, foreign: Sequence[FragmentAccess]) -> tuple[list[Stmt], Redirect]:
        """Copies of the fragments, to be made before `s`, and their use."""
        before: list[Stmt] = []
        copies: dict[Buffer, Buffer] = {}
        for f in dict.fromkeys(a.buffer for a in foreign):
            self._check_parted(s, f)
            copy = copies[f] = Buffer(
                f"{f.name}_staged", f.shape, f.dtype, Scope.SHARED, span=s.span
            )
            made = [Alloc(copy), self._move(f, copy, s)]
            (before if self.apart is None else self.hoisted).extend(made)
            self.inf.ctx.notes.append(
                f"{s.span}: {f.name} goes through shared memory: a thread needs an element here "
                "that is in the registers of another"
            )
        return before, Redirect({Load(a.buffer, a.indices): copies[a.buffer] for a in foreign})

    def _check_parted(self, s: Stmt, f: Buffer) -> None:
        if self.apart is None:
            return
        if all(w.buffer.root() is not f.root() for w in effects(self.apart).writes):
            return
        raise LayoutError(
            f"only some threads come here, and an element of fragment {f.name} lives in the "
            "registers of another",
            code="TL1152",
            span=s.span,
            help=f"read {f.name} before the condition, or copy it to a shared buffer first",
        )
