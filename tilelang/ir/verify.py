# SPDX-License-Identifier: Apache-2.0
"""What must hold at each stage; a pass that breaks it is found here and not in generated code.

In: a `PrimFunc` (TILE, LOOP, FLAT), a `Kernel` or a `HostProgram` (DEVICE). Out: nothing, or an
`InternalError` that names the pass, the rule and the few lines of text around the culprit.

    every stage   operands of one dtype and lane count; variables bound and buffers allocated before
                  use, once; stores of the buffer's dtype; intrinsic names known
    LOOP and on   no TileStmt, no Parallel, no fragment; loops serial, unroll or vectorized
    FLAT and on   one index per access; no vectorized loops; no layouts left
    DEVICE        no Launch, no Alloc of global memory, arguments cover what the body uses
"""

from __future__ import annotations

from typing import Any, NoReturn

from tilelang.errors import InternalError

from .buffer import Buffer, Region
from .dtype import DType
from .expr import (
    And,
    Binary,
    BitAnd,
    BitNot,
    BitOr,
    BitXor,
    Broadcast,
    Call,
    Cast,
    Compare,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    Load,
    Not,
    Or,
    Ramp,
    Select,
    Shl,
    Shr,
    TruncDiv,
    TruncMod,
    Var,
)
from .func import HostProgram, Kernel, PrimFunc, TensorMap
from .intrinsics import TABLE
from .node import Node
from .printer import Printer
from .stmt import (
    Alloc,
    Assert,
    Assume,
    Bind,
    Break,
    Continue,
    Evaluate,
    For,
    If,
    Launch,
    Parallel,
    Return,
    Role,
    Seq,
    Stmt,
    Store,
    TileOp,
    TileStmt,
    While,
)

STAGES = ("TILE", "LOOP", "FLAT", "DEVICE")
_WINDOW = 3  # lines of text shown on either side of the culprit
_INTEGER_ONLY = (FloorDiv, FloorMod, TruncDiv, TruncMod)
_BITS = (BitAnd, BitOr, BitXor, Shl, Shr)


def verify(what: PrimFunc | Kernel | HostProgram, stage: str, after: str = "") -> None:
    """Checks the invariants of `stage`. `after` is the pass to blame."""
    if isinstance(what, HostProgram):
        for kernel in what.launches:
            _Verifier(kernel.name, kernel.body, "DEVICE", after).kernel(kernel, what)
    elif isinstance(what, Kernel):
        _Verifier(what.name, what.body, "DEVICE", after).kernel(what, None)
    else:
        _Verifier(what.name, what.body, stage, after).func(what)


class _Verifier:
    def __init__(self, name: str, body: Stmt, stage: str, after: str) -> None:
        self.title = f"{name} at stage {stage}" + (f" after {after}" if after else "")
        self.body = body
        self.level = STAGES.index(stage)
        self.vars: set[Var] = set()
        self.buffers: set[Buffer] = set()
        # Expressions found good, one set per open scope: an inner scope only adds variables.
        self.good: list[set[Expr]] = [set()]
        self.at: Stmt | None = None
        self.loops = 0

    # ------------------------------------------------------------------------------ entry points

    def func(self, f: PrimFunc) -> None:
        self.parameters(f.params)
        for v in f.symbols:
            self.vars.add(v)
        self.stmt(f.body)

    def kernel(self, k: Kernel, program: HostProgram | None) -> None:
        self.parameters(k.args)
        if program is not None:
            self.host_scope(k, program)
        self.vars.update((*k.block_vars, *k.thread_vars))
        self.stmt(k.body)

    def host_scope(self, k: Kernel, program: HostProgram) -> None:
        """The grid and the arguments use only what the host knows."""
        known = _Verifier(k.name, k.body, "DEVICE", "")
        known.title = self.title
        known.parameters((*program.params, *program.temporaries))
        shapes = [
            e
            for p in program.params
            if isinstance(p, Buffer)
            for e in (*p.shape, *(p.strides or ()))
        ]
        known.vars.update(v for e in shapes for v in _vars(e))
        for e in k.grid:
            known.expr(e)
        for a in k.args:
            inside = (
                a in known.buffers
                if isinstance(a, Buffer)
                else isinstance(a, TensorMap) or a in known.vars
            )
            if not inside:
                self.fail(f"argument {a.name!r} is unknown to the host program")  # type: ignore[union-attr]

    def parameters(self, params: Any) -> None:
        for p in params:
            if isinstance(p, Buffer):
                self.buffers.add(p)
            elif isinstance(p, TensorMap):
                self.vars.add(p.var)
            else:
                self.vars.add(p)

    # ------------------------------------------------------------------------------ failing

    def fail(self, rule: str) -> NoReturn:
        span = getattr(self.at, "span", None)
        raise InternalError(
            f"{self.title}: {rule}", code="TL9910", span=span, notes=[self.window()]
        )

    def window(self) -> str:
        """The text around the statement at fault."""
        p = _Marking(self.at)
        p.stmt(self.body)
        if p.first is None:
            return "IR:\n" + "\n".join(p.lines[: 2 * _WINDOW])
        lo, hi = max(0, p.first - _WINDOW), p.first + 1 + _WINDOW
        return "IR:\n" + "\n".join(
            ("> " if i == p.first else "  ") + t for i, t in enumerate(p.lines) if lo <= i < hi
        )

    # ------------------------------------------------------------------------------ statements

    def stmt(self, s: Stmt | None) -> None:
        if s is None:
            return
        self.at = s
        handler = _STMTS.get(type(s))
        if handler is None:
            self.fail(f"{type(s).__name__} is not a statement")
        handler(self, s)

    def scoped(self, s: Stmt | None, *binders: Var) -> None:
        vars_, buffers = self.vars, self.buffers
        self.vars, self.buffers = set(vars_), set(buffers)
        self.good.append(set())
        for v in binders:
            self.define(v, self.vars)
        self.stmt(s)
        self.good.pop()
        self.vars, self.buffers = vars_, buffers

    def sequence(self, s: Seq) -> None:
        for x in s.stmts:
            if type(x) is Seq:
                self.sequence(
                    x
                )  # what an inner Seq binds is visible after it only as part of this one
            else:
                self.stmt(x)

    def define(self, x: Any, scope: set[Any]) -> None:
        if x in scope:
            self.fail(f"{x.name!r} is defined twice")
        scope.add(x)

    def bind(self, s: Bind) -> None:
        self.expr(s.value)
        self.same(s.var.dtype, s.value.dtype, f"binding {s.var.name!r}")
        self.define(s.var, self.vars)

    def alloc(self, s: Alloc) -> None:
        b = s.buffer
        self.define(b, self.buffers)
        for e in b.shape:
            self.expr(e)
        if self.level >= 1 and b.is_fragment:
            self.fail(f"fragment {b.name!r} is left")
        if self.level >= 2 and s.annotations.get("layout") is not None:
            self.fail(f"buffer {b.name!r} still has a layout")
        if self.level >= 2 and not b.is_global and b.ndim != 1:
            self.fail(f"buffer {b.name!r} is not one-dimensional")
        if self.level == 3 and b.is_global and b.view_of is None and b.data is None:
            self.fail(f"a kernel cannot allocate global buffer {b.name!r}")

    def store(self, s: Store) -> None:
        lanes = self.access(s.buffer, s.indices)
        self.expr(s.value)
        want = s.buffer.dtype.with_lanes(s.buffer.dtype.lanes * lanes)
        self.same(want, s.value.dtype, f"store to {s.buffer.name!r}")

    def evaluate(self, s: Evaluate) -> None:
        self.expr(s.value)

    def for_(self, s: For) -> None:
        self.expr(s.start)
        self.expr(s.extent)
        self.same(s.var.dtype, s.start.dtype, "start of the loop")
        self.same(s.var.dtype, s.extent.dtype, "extent of the loop")
        kinds = (
            ("serial", "unroll", "vectorized", "pipelined"),
            ("serial", "unroll", "vectorized"),
            ("serial", "unroll"),
        )
        if s.kind not in kinds[min(self.level, 2)]:
            self.fail(f"a {s.kind} loop")
        self.loops += 1
        self.scoped(s.body, s.var)
        self.loops -= 1

    def parallel(self, s: Parallel) -> None:
        if self.level >= 1:
            self.fail("a Parallel nest is left")
        for v, e in zip(s.vars, s.extents, strict=True):
            self.expr(e)
            self.same(v.dtype, e.dtype, "extent of the loop")
        self.scoped(s.body, *s.vars)

    def while_(self, s: While) -> None:
        self.condition(s.cond)
        self.loops += 1
        self.scoped(s.body)
        self.loops -= 1

    def if_(self, s: If) -> None:
        self.condition(s.cond)
        self.scoped(s.then)
        self.scoped(s.orelse)

    def jump(self, s: Stmt) -> None:
        if self.loops == 0:
            self.fail(f"{type(s).__name__.lower()} outside a loop")

    def assertion(self, s: Any) -> None:
        self.condition(s.cond)

    def role(self, s: Role) -> None:
        if self.level >= 1:
            self.fail("a Role is left")
        self.scoped(s.body)

    def tile(self, s: TileStmt) -> None:
        if self.level >= 1:
            self.fail(f"tile operation {s.op.name!r} is left")
        self.tile_op(s.op)

    def tile_op(self, op: TileOp) -> None:
        for c in op.children:
            if isinstance(c, Region):
                self.region(c)
            elif isinstance(c, Expr):
                self.expr(c)

    def region(self, r: Region) -> None:
        self.in_scope(r.buffer)
        if len(r.offsets) != r.buffer.ndim or len(r.extents) != r.buffer.ndim:
            self.fail(f"a region of {r.buffer.name!r} has the wrong rank")
        for e in (*r.offsets, *r.extents):
            self.expr(e)

    def launch(self, s: Launch) -> None:
        if self.level == 3:
            self.fail("a Launch is left")
        if not 1 <= len(s.grid) <= 3:
            self.fail(f"a grid of {len(s.grid)} dimensions")
        for e in s.grid:
            self.expr(e)
        maps = (m.var for m in s.annotations.get("tensor_maps", ()))
        self.scoped(s.body, *s.block_vars, *s.thread_vars, *maps)

    # ------------------------------------------------------------------------------ expressions

    def condition(self, e: Expr) -> None:
        self.expr(e)
        if not (e.dtype.is_bool and e.dtype.lanes == 1):
            self.fail(f"condition `{e}` is {e.dtype}, not bool")

    def same(self, a: DType, b: DType, where: str) -> None:
        if a is not b:
            self.fail(f"{where}: {a} and {b}")

    def in_scope(self, b: Buffer) -> None:
        if b not in self.buffers and b.root() not in self.buffers:
            if b.root().data is None:
                self.fail(f"buffer {b.name!r} is used outside its scope")
            self.expr(b.root().data)  # type: ignore[arg-type]

    def access(self, b: Buffer, indices: tuple[Expr, ...]) -> int:
        """Checks an access and returns its lanes."""
        self.in_scope(b)
        rank = 1 if self.level >= 2 else b.ndim
        if len(indices) != rank:
            self.fail(f"{b.name!r} has rank {rank}, the access {len(indices)} indices")
        for i in indices:
            self.expr(i)
            if not i.dtype.is_int:
                self.fail(f"index `{i}` of {b.name!r} is {i.dtype}")
        if any(i.dtype.lanes > 1 for i in indices[:-1]):
            self.fail(f"a vector index of {b.name!r} before the last dimension")
        return indices[-1].dtype.lanes if indices else 1

    def expr(self, e: Expr) -> None:
        if type(e) is Var:
            if e not in self.vars:
                self.fail(f"variable {e.name!r} is used outside its scope")
            return
        if any(e in scope for scope in self.good):
            return
        if type(e) is Load:
            self.access(e.buffer, e.indices)
        else:
            for c in e.children:
                self.expr(c)
        self.typed(e)
        self.good[-1].add(e)

    def typed(self, e: Expr) -> None:
        t = type(e)
        if issubclass(t, (Binary, Compare)):
            self.same(e.a.dtype, e.b.dtype, f"operands of `{e}`")  # type: ignore[attr-defined]
            self.operands(e)
        elif t in (Select, IfThenElse):
            self.same(e.a.dtype, e.b.dtype, f"branches of `{e}`")  # type: ignore[attr-defined]
            c = e.cond.dtype  # type: ignore[attr-defined]
            if not c.is_bool or c.lanes not in (1, e.dtype.lanes):
                self.fail(f"condition of `{e}` is {c}")
        elif t is Not and not e.dtype.is_bool:
            self.fail(f"`{e}` negates {e.dtype}")
        elif t is BitNot and not e.dtype.is_int:
            self.fail(f"`{e}` complements {e.dtype}")
        elif t is Cast and e.a.dtype.lanes != e.to.lanes:  # type: ignore[attr-defined]
            self.fail(f"`{e}` casts {e.a.dtype} to {e.to}")  # type: ignore[attr-defined]
        elif t is Broadcast and e.a.dtype.lanes != 1:  # type: ignore[attr-defined]
            self.fail(f"`{e}` broadcasts a vector")
        elif t is Ramp:
            self.same(e.base.dtype, e.stride.dtype, f"`{e}`")  # type: ignore[attr-defined]
        elif t is Call and e.op not in TABLE:  # type: ignore[attr-defined]
            self.fail(f"{e.op!r} is no row of the intrinsic table")  # type: ignore[attr-defined]

    def operands(self, e: Any) -> None:
        t, d = type(e), e.a.dtype
        if t in (And, Or) and not d.is_bool:
            self.fail(f"`{e}` joins {d}")
        if t in _BITS and not (d.is_int or d.is_bool):
            self.fail(f"`{e}` works on the bits of {d}")
        if t is Div and not d.is_float:
            self.fail(f"`{e}` divides {d}")
        if t in _INTEGER_ONLY and d.is_bool:
            self.fail(f"`{e}` divides {d}")


_STMTS: dict[type, Any] = {
    Seq: _Verifier.sequence,
    Bind: _Verifier.bind,
    Alloc: _Verifier.alloc,
    Store: _Verifier.store,
    Evaluate: _Verifier.evaluate,
    For: _Verifier.for_,
    Parallel: _Verifier.parallel,
    While: _Verifier.while_,
    If: _Verifier.if_,
    Break: _Verifier.jump,
    Continue: _Verifier.jump,
    Return: lambda v, s: None,
    Assert: _Verifier.assertion,
    Assume: _Verifier.assertion,
    TileStmt: _Verifier.tile,
    Launch: _Verifier.launch,
    Role: _Verifier.role,
}


class _Marking(Printer):
    """Remembers the line at which one statement begins."""

    def __init__(self, target: Stmt | None) -> None:
        super().__init__()
        self.target = target
        self.first: int | None = None

    def stmt(self, s: Stmt | None) -> None:
        if s is not None and s is self.target and self.first is None:
            self.first = len(self.lines)
        super().stmt(s)


def _vars(n: Node) -> list[Var]:
    from .visit import free_vars

    return free_vars(n)
