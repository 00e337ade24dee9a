# SPDX-License-Identifier: Apache-2.0
"""Statements as a Python program: one generator per thread.

In: the body of a function, at any stage. Out: the text of `main(rt)`, which walks the host's
statements and, at each `Launch`, hands `rt` a generator function of the block and thread indices. A
thread yields whenever it needs others: at a barrier, a warp operation, a wait; and at a tile op or
`Parallel` nest, which the block executes once for all its threads.

    for i in T.serial(4):             for i_1 in range(0, 4):
        A[i] = B[i] + 1       ->          A_2.put((i_1, ), (B_3.get((i_1, )) + c_4))
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tilelang.errors import InternalError
from tilelang.ir import (
    Alloc,
    Assert,
    Assume,
    Bind,
    Break,
    Call,
    Const,
    Continue,
    Evaluate,
    Expr,
    For,
    If,
    Kernel,
    Launch,
    Load,
    Parallel,
    Region,
    Return,
    Role,
    Seq,
    Stmt,
    Store,
    TileStmt,
    Var,
    While,
    as_expr,
    cast,
    flatten,
    updates_once_per_thread,
    walk,
)  # fmt: skip
from tilelang.tileop.expand import is_private
from tilelang.utils import prod

from .text import ExprText

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tilelang.ir import TensorMap

__all__ = ["Program", "needs_threads"]

# Calls that a thread makes alone and at once; the others are handed to the scheduler.
_IMMEDIATE = (
    "atomic_add", "atomic_max", "atomic_min", "atomic_or", "atomic_load", "atomic_store",
    "memory_fence", "cp_async", "cp_async_commit", "cp_async_wait",
    "mbar_init", "mbar_arrive", "mbar_expect_tx", "mbar_announce", "fence_mbar_init",
    "fence_proxy_async", "prefetch_tensormap", "tma_load", "tma_store", "tma_store_commit",
    "tma_store_wait", "setmaxnreg_inc", "setmaxnreg_dec", "wgmma_fence", "reg_fence", "wgmma_desc",
    "named_barrier_arrive", "print", "trap",
)  # fmt: skip


def needs_threads(launch: Launch, tile: bool) -> bool:
    """Does the body say what single threads do? (Else one thread stands for the block.)"""
    if tile and prod(launch.threads) > 1 and _updates(launch.body):
        return True
    own = set(launch.thread_vars)
    for x in walk(launch.body):
        if x in own if isinstance(x, Var) else type(x) is Role:
            return True
        if type(x) is Call and x.op in _THREAD_CALLS:
            return True
    return False


def _updates(s: Stmt) -> bool:
    """Is memory updated by every thread, as an atomic outside of `Parallel` does?"""
    if type(s) in (Parallel, TileStmt):
        return False
    if type(s) in (Evaluate, Store, Bind):
        return updates_once_per_thread(s)
    return any(_updates(c) for c in s.children if isinstance(c, Stmt))


_THREAD_CALLS = (
    "shfl_idx", "shfl_xor", "shfl_up", "shfl_down", "warp_uniform", "elect_one", "sync_warp",
    "ballot", "match_any", "sync_grid", "named_barrier_sync", "named_barrier_arrive",
)  # fmt: skip


class Program(ExprText):
    """Writes statements. tile: of TILE stage, where barriers are implied: threads go on together
    from statement to statement, as far as they all take the same way."""

    def __init__(self, tile: bool) -> None:
        super().__init__()
        self.tile = self.lockstep = tile
        self.differing: set[Any] = set()
        self.taken: str | None = None  # the version of the coming launch that may already have run
        self.lines: list[str] = []
        self.depth = 1
        self.single = True  # the code being written is run by one thread for its block

    # ------------------------------------------------------------------------------ text

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    def main(
        self, params: tuple[Any, ...], symbols: tuple[Var, ...], body: Callable[[], None]
    ) -> str:
        """The whole program; `body` writes the statements."""
        for p in (*params, *symbols):
            self.line(f"{self.define(p)} = rt.argument({self.constant(p, 'p')})")
        body()
        return "\n".join(["def main(rt):", "    me = rt.host", *self.lines, ""])

    # ------------------------------------------------------------------------------ statements

    def stmt(self, s: Stmt | None) -> None:
        for x in flatten(s):
            if type(x) in _STEPS:
                self.step()
            _STATEMENTS[type(x)](self, x)

    def step(self) -> None:
        """Threads of TILE stage meet."""
        if self.lockstep and not self.single:
            self.line("yield 'sync_threads', ()")

    @contextmanager
    def together(self, *conditions: Expr) -> Iterator[None]:
        """Inside, threads stay in step if these conditions are the same for all of them."""
        outer = self.lockstep
        self.lockstep = outer and not any(self.differs(c) for c in conditions)
        yield
        self.lockstep = outer

    def differs(self, e: Expr) -> bool:
        """May the value differ from thread to thread?"""
        return any(x in self.differing or (type(x) is Load and x.buffer.is_local) for x in walk(e))

    def _bind(self, s: Bind) -> None:
        value = self.expr(s.value)
        if self.differs(s.value):
            self.differing.add(s.var)
        self.line(f"{self.define(s.var)} = {value}")

    def _alloc(self, s: Alloc) -> None:
        key = self.constant(s, "alloc")
        owner = "rt" if s.buffer.is_global else "me"
        shape = self.tuple(s.buffer.shape)
        if s.buffer.view_of is not None:
            value = f"rt.view({key}, {self.name(s.buffer.view_of)}, {shape})"
        elif s.buffer.data is not None:
            value = f"rt.at_pointer({key}, {self.expr(s.buffer.data)}, {shape})"
        else:
            value = f"{owner}.alloc({key}, {shape})"
        name = self.define(s.buffer)
        self.line(f"{name} = {value}")
        if s.annotations.get("init") is not None:
            init = cast(as_expr(s.annotations["init"], s.buffer.dtype), s.buffer.dtype)
            self.line(f"{name}.put({(0,) * s.buffer.ndim}, {self.expr(init)})")

    def _store(self, s: Store) -> None:
        buffer, index = self.name(s.buffer), self.tuple(s.indices)
        value = self.expr(s.value)
        run = self.run(s.indices)
        if run is not None:
            self.line(f"{buffer}.put_run({run}, {value})")
        elif self.grid or any(i.dtype.lanes > 1 for i in s.indices):
            mask = f", {self.mask}" if self.mask != "True" else ""
            self.line(f"{buffer}.scatter({index}, {value}{mask})")
        else:
            self.line(f"{buffer}.put({index}, {value})")

    def _evaluate(self, s: Evaluate) -> None:
        value = self.expr(s.value)
        owned = (
            self.tile
            and not self.grid
            and any(type(x) is Load and x.buffer.is_fragment for x in walk(s.value))
        )
        if owned:  # by the thread that has the element
            self._once(value)
        else:
            self.line(value)

    def _for(self, s: For) -> None:
        start, extent = self.expr(s.start), self.expr(s.extent)
        low = self.fresh("start")
        self.line(f"{low} = {start}")
        var = self.define(s.var)
        head = f"for {var} in range({low}, {low} + {extent}):"
        with self.together(s.start, s.extent, *_jumps(s.body)), self.block(head):
            self.stmt(s.body)

    def _while(self, s: While) -> None:
        head = f"while {self.expr(s.cond)}:"
        with self.together(s.cond, *_jumps(s.body)), self.block(head):
            self.line("rt.tick()")
            self.stmt(s.body)
            self.step()

    def _if(self, s: If) -> None:
        if self.grid:
            self._grid_if(s)
            return
        with self.together(s.cond):
            with self.block(f"if {self.expr(s.cond)}:"):
                self.stmt(s.then)
            if s.orelse is not None:
                with self.block("else:"):
                    self.stmt(s.orelse)

    def _grid_if(self, s: If) -> None:
        cond, outer = self.fresh("cond"), self.mask
        self.line(f"{cond} = {self.expr(s.cond)}")
        for branch, text in ((s.then, cond), (s.orelse, f"({cond} ^ True)")):
            if branch is not None:
                self.mask = self.fresh("mask")
                self.line(f"{self.mask} = {text}" + ("" if outer == "True" else f" & {outer}"))
                self.stmt(branch)
        self.mask = outer

    def _assert(self, s: Assert) -> None:
        with self.block(f"if not ({self.expr(s.cond)}):"):
            self.line(f"raise AssertionError({s.message!r})")

    def _launch(self, s: Launch) -> None:
        """A launch; of the versions of one the first whose condition holds, else the last."""
        when = s.annotations.get("when")
        if when is not None:
            taken = self.fresh("version")
            self.line(f"{taken} = {self.expr(when)}")
            with self.block(f"if {taken}:"):
                self._only_launch(s)
            self.taken = taken
        elif self.taken is not None:
            with self.block(f"if not {self.taken}:"):
                self._only_launch(s)
            self.taken = None
        else:
            self._only_launch(s)

    def _only_launch(self, s: Launch) -> None:
        self.single = not needs_threads(s, self.tile)
        threads = (1, 1, 1) if self.single else s.threads
        self.tensor_maps(s.annotations.get("tensor_maps", ()))
        key = self.constant(dict(s.annotations), "annotations")
        self.thread_function(s.block_vars, s.thread_vars, s.body)
        self.line(f"rt.launch(thread, {self.tuple(s.grid)}, {threads!r}, {key})")
        self.single = True

    def kernel(self, k: Kernel) -> None:
        """One launch of DEVICE stage; its arguments are in scope."""
        self.single = False
        self.thread_function(k.block_vars, k.thread_vars, k.body)
        together = {"cooperative": bool(k.attrs.get("cooperative"))}
        self.line(f"rt.launch(thread, {self.tuple(k.grid)}, {k.block!r}, {together!r})")
        self.single = True

    def tensor_maps(self, maps: Iterable[TensorMap]) -> None:
        """Descriptors of the launch that follows."""
        for m in maps:
            key, buffer = self.constant(m, "map"), self.name(m.buffer)
            dims, strides = self.tuple(m.dims), self.tuple(m.strides)
            self.line(f"{self.define(m.var)} = BoundMap({key}, {buffer}, {dims}, {strides})")

    def thread_function(
        self, blocks: tuple[Var, ...], threads: tuple[Var, ...], body: Stmt
    ) -> None:
        names = ", ".join(self.define(v) for v in (*blocks, *threads))
        self.differing = set(threads)
        with self.block(f"def thread(me, {names}):"):
            self.stmt(body)
            self.line("return")
            self.line("yield")

    def _role(self, s: Role) -> None:
        """Only some of the threads go in; what the block does at once is then done by these."""
        count = 1 if s.annotations.get("elected") else s.threads
        first, last = s.first, s.first + count
        with (
            self.block(f"if {first} <= me.tid < {last}:"),
            self.block(f"with me.role({first}, {count}):"),
        ):
            self.stmt(s.body)

    # ------------------------------------------------------------------------------ tile stage

    def _tile(self, s: TileStmt) -> None:
        open_exprs = [e for e in _operands(s.op) if type(e) is not Const]
        buffers = [x.buffer for x in walk(s.op) if type(x) is Region]
        env = "{" + ", ".join(f"{self.constant(b, 'b')}: {self.name(b)}" for b in buffers) + "}"
        key = self.constant((s, tuple(open_exprs)), "op")
        call = f"{key}, {self.tuple(open_exprs)}, {env}"
        bar = s.annotations.get("barrier")
        if bar is not None:
            dst: Any = s.op.dst  # type: ignore[attr-defined]
            size = " * ".join(self.expr(e) for e in dst.extents)
            call += f", {self.pointer(bar)}, {size} * {dst.dtype.bytes}"
        call = f"me.tile{'' if bar is None else '_async'}({call})"
        if is_private(s.op):  # each thread has its own memory, and does it all
            self.line(call)
        else:
            self._once(call)

    def _once(self, call: str) -> None:
        """A thing that the block does once."""
        if self.single:
            self.line(call)
        else:
            self.line(f"yield 'once', (lambda: {call})")

    def _parallel(self, s: Parallel) -> None:
        from .grid import is_simple

        if not self.single:
            name = self.fresh("nest")
            self.single = True
            with self.block(f"def {name}():"):
                self._nest(s, is_simple(s))
            self.single = False
            self.line(f"yield 'once', {name}")
        else:
            self._nest(s, is_simple(s))

    def _nest(self, s: Parallel, simple: bool) -> None:
        extents = [self.expr(e) for e in s.extents]
        if simple:
            sizes = self.fresh("sizes")
            self.line(f"{sizes} = ({''.join(f'{e}, ' for e in extents)})")
            for d, v in enumerate(s.vars):
                self.line(f"{self.define(v)} = rt.axis({sizes}, {d})")
            with self.block(f"if all(n > 0 for n in {sizes}):"):
                self.grid = True
                self.stmt(s.body)
                self.grid = False
            return
        depth = self.depth
        for v, e in zip(s.vars, extents, strict=True):
            self.line(f"for {self.define(v)} in range({e}):")
            self.depth += 1
        self.stmt(s.body)
        self.line("pass")
        self.depth = depth

    # ------------------------------------------------------------------------------ calls

    def effect_call(self, e: Call, row: Any) -> str:
        args = "".join(f"{self.pointer(a)}, " for a in e.args)
        if e.op == "call_extern":
            raise InternalError("the interpreter cannot run functions of the user's own source")
        if e.op == "sync_threads" and self.single:
            return "pass"
        if e.op in _IMMEDIATE:
            key = self.constant(e, "call") if e.op in _NEEDS_CALL else "None"
            call = f"me.{e.op}({key}, ({args}))"
            return call if e.op not in _NEEDS_CALL else self.update(e, call)
        return f"(yield {e.op!r}, ({args}))"

    def update(self, e: Call, call: str) -> str:
        """An atomic update of an element outside of a global buffer is dropped, as a store is."""
        target = e.args[0]
        if type(target) is not Call or target.op != "address_of":
            return call
        load: Any = target.args[0]
        if not load.buffer.root().is_global:
            return call
        return f"({call} if {self.name(load.buffer)}.has({self.tuple(load.indices)}) else 0)"


_NEEDS_CALL = ("atomic_add", "atomic_max", "atomic_min", "atomic_or")


# Statements before which threads of TILE stage meet.
_STEPS = (Bind, Store, Evaluate, If, For, While)


def _jumps(body: Stmt) -> list[Expr]:
    """Conditions under which a loop is left early."""
    return [
        x.cond
        for x in walk(body)
        if type(x) is If and any(type(y) in (Break, Continue, Return) for y in walk(x))
    ]


def _operands(op: Any) -> list[Expr]:
    """The expressions of a tile op, those of its regions included, in a fixed order."""
    out: list[Expr] = []
    for child in op.children:
        if isinstance(child, Expr):
            out.append(child)
        else:
            out += [*child.offsets, *child.extents]
    return out


_STATEMENTS: dict[type, Any] = {
    Seq: lambda w, s: w.stmt(s),
    Bind: Program._bind,
    Alloc: Program._alloc,
    Store: Program._store,
    Evaluate: Program._evaluate,
    For: Program._for,
    While: Program._while,
    If: Program._if,
    Break: lambda w, s: w.line("break"),
    Continue: lambda w, s: w.line("continue"),
    Return: lambda w, s: w.line("return"),
    Assert: Program._assert,
    Assume: lambda w, s: None,
    Launch: Program._launch,
    Role: Program._role,
    TileStmt: Program._tile,
    Parallel: Program._parallel,
}
