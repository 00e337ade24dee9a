# SPDX-License-Identifier: Apache-2.0
"""Statements and whole kernels -> LLVM functions.

In: an `ir.Kernel`. Out: the text of

    ptr <name>(arguments…, i64 %block_begin, i64 %block_end)

which runs blocks [block_begin, block_end) of the grid (linear, x fastest) and returns null, or the
text of the failed assertion's message (a constant: nobody frees it); blocks after it are not run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilelang.codegen.work import Split, split
from tilelang.errors import InternalError
from tilelang.ir import (
    Alloc,
    Assert,
    Assume,
    Bind,
    Break,
    Buffer,
    Const,
    Continue,
    Evaluate,
    For,
    If,
    Kernel,
    Return,
    Seq,
    Stmt,
    Store,
    Var,
    While,
    walk,
)  # fmt: skip

from .expr import Expressions
from .memory import ALIGNMENT
from .streaming import LINE, streamed
from .types import elem_of
from .writer import Module, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

UNROLL_NODES = 40_000  # an unrolled body times its trips: beyond it the loop stays a loop
_INT32_MAX = 2**31 - 1
BLOCK_LINES = 1500


class Statements(Expressions):
    """One kernel's emitter."""

    def __init__(self, module: Module, half: bool) -> None:
        super().__init__(module, half)
        self.loops: list[tuple[str, str]] = []  # (continue, break) labels
        self.return_label = ""

    def run(self, s: Stmt | None) -> None:
        """Emits a statement; nothing after a jump."""
        if s is None or not self.fn.open:
            return
        handler = _HANDLERS.get(type(s))
        if handler is None:
            raise InternalError(f"{type(s).__name__} cannot reach the code generator")
        handler(self, s)

    def sequence(self, s: Any) -> None:
        for x in s.stmts:
            self.run(x)
            if len(self.fn.lines) - self.fn.block_start > BLOCK_LINES and self.fn.open:
                self._split_block()

    def _split_block(self) -> None:
        """Ends a long block with a branch that LLVM cannot fold: its scheduler takes quadratic time
        in the length of a block."""
        fn = self.fn
        status = fn.emit("load volatile ptr, ptr %status, align 8", "ptr")
        rest = fn.label("rest")
        fn.branch(status.cmp("eq", 0), rest, "exit")
        fn.start(rest)

    def bind(self, s: Any) -> None:
        self.env[s.var] = self.value(s.value)

    def alloc(self, s: Any) -> None:
        if s.buffer.view_of is None and s.buffer.data is None:
            self.allocate(s.buffer, s.annotations)
            init = s.annotations.get("init")
            if init is not None:
                self.run(Store(s.buffer, tuple(Const(0, self.int32) for _ in s.buffer.shape), init))

    def evaluate(self, s: Any) -> None:
        self.value(s.value)

    # ------------------------------------------------------------------------------ loops

    def loop(self, s: Any) -> None:
        trips = s.extent.value if type(s.extent) is Const else None
        if trips is not None and trips <= 0:
            return
        if s.kind == "unroll" and trips is not None and self._may_unroll(s, trips):
            start = self.value(s.start)
            for k in range(trips):
                with self.scope():
                    self.env[s.var] = start + k
                    self.run(s.body)
            return
        self._counted(s, trips)

    def _may_unroll(self, s: Any, trips: int) -> bool:
        size = 0
        for n in walk(s.body):
            if type(n) in (Break, Continue):
                return False
            size += 1
        return size * trips <= UNROLL_NODES

    def _counted(self, s: Any, trips: int | None) -> None:
        """Tested at the end; before the first trip only if there may be none."""
        fn = self.fn
        start, extent = self.value(s.start), self.value(s.extent)
        end = start + extent
        body, latch, done = fn.label("loop"), fn.label("next"), fn.label("done")
        if trips is None:
            fn.branch(extent.cmp("sgt", 0), body, done)
        entry = fn.block
        self.invalidate()
        at = len(fn.lines) + fn.open + 1  # where the phi goes, when the end of the body is known
        fn.start(body)
        var = Value(fn, "%" + fn.name("i"), start.elem)
        if start.range is not None:
            last = start.range[1] + trips - 1 if trips is not None else None
            bound = extent.range[1] + start.range[1] - 1 if last is None and extent.range else last
            var.range = (
                (start.range[0], bound) if bound is not None and bound <= _INT32_MAX else None
            )
        with self.scope():
            self.env[s.var] = var
            self.loops.append((latch, done))
            self.run(s.body)
            self.loops.pop()
        self.invalidate()
        fn.start(latch)
        step = fn.emit(f"add nsw {var.typed}, 1", var.elem)
        again = step.cmp("slt", end)
        fn.lines.insert(
            at,
            f"  {var.text} = phi {var.elem} [ {start.text}, %{entry} ], [ {step.text}, %{latch} ]",
        )
        fn.branch(again, body, done)
        fn.start(done)

    def while_loop(self, s: Any) -> None:
        fn = self.fn
        head, body, done = fn.label("while"), fn.label("loop"), fn.label("done")
        self.invalidate()
        fn.start(head)
        with self.scope():
            fn.branch(self.value(s.cond), body, done)
            fn.start(body)
            self.loops.append((head, done))
            self.run(s.body)
            self.loops.pop()
            fn.jump(head)
        self.invalidate()
        fn.start(done)

    def break_loop(self, _: Any) -> None:
        self.fn.jump(self.loops[-1][1])

    def continue_loop(self, _: Any) -> None:
        self.fn.jump(self.loops[-1][0])

    # ------------------------------------------------------------------------------ conditions

    def condition(self, s: Any) -> None:
        cond, fn = self.value(s.cond), self.fn
        if cond.lanes > 1:
            self._masked(cond, s)
            return
        if cond.const is not None:
            with self.scope():
                self.run(s.then if cond.const else s.orelse)
            return
        then, other, join = fn.label("then"), fn.label("else"), fn.label("join")
        fn.branch(cond, then, other if s.orelse is not None else join)
        for label, side in ((then, s.then), (other, s.orelse)):
            if side is not None:
                fn.start(label)
                with self.scope():
                    self.run(side)
                fn.jump(join)
        fn.start(join)

    def _masked(self, cond: Value, s: Any) -> None:
        """A vector condition: each side runs with its lanes."""
        for mask, side in ((cond, s.then), (cond.invert(), s.orelse)):
            if side is not None:
                with self.masked(mask):
                    self.run(side)

    def leave(self, _: Any) -> None:
        self.fn.jump(self.return_label)

    def assertion(self, s: Any) -> None:
        place = f" ({s.span.place})" if s.span is not None else ""
        self.fail_unless(self.value(s.cond), f"assertion failed: {s.message}{place}")

    # ------------------------------------------------------------------------------ kernels

    def kernel(self, k: Kernel) -> str:
        if k.block != (1, 1, 1):
            raise InternalError(
                f"kernel {k.name} has {k.block} threads per block; on a CPU it must have one"
            )
        # Tensors that overlap no other argument.
        alone = {b for b in k.attrs.get("restrict", k.args) if isinstance(b, Buffer)}
        self.alone = alone
        params = [self._parameter(a, n, alone) for n, a in enumerate(k.args)]
        fn = self.fn
        fn.block = "start"
        grid = [self.index64(e) for e in k.grid]
        for b in streamed(k, self.module.features):
            address = self.buffers[b].convert("ptrtoint", "i64")
            self.streamed[b] = (address & (LINE - 1)).cmp("eq", 0)
        begin, end = Value(fn, "%block_begin", "i64"), Value(fn, "%block_end", "i64")
        some, entry = begin.cmp("slt", end), fn.block
        fn.branch(some, "block", "exit")
        fn.start("block")
        block = Value(fn, "%linear", "i64")
        fn.line(f"%linear = phi i64 [ %block_begin, %{entry} ], [ %next, %block_done ]")
        self._bind_block(k, block, grid)
        for v in k.thread_vars:
            self.env[v] = fn.const(0, elem_of(v.dtype))
        self.return_label = "block_done"
        with self.scope():
            self.run(k.body)
        fn.start("block_done")
        fn.line("%next = add nsw i64 %linear, 1")
        fn.branch(Value(fn, "%next", "i64").cmp("slt", end), "block", "exit")
        return self._finish(k, params)

    def _parameter(self, arg: Any, n: int, alone: Collection[Any]) -> str:
        if isinstance(arg, Buffer):
            self.buffers[arg] = Value(self.fn, f"%p{n}", "ptr")
            return f"ptr noalias %p{n}" if arg in alone else f"ptr %p{n}"
        if isinstance(arg, Var):
            elem = elem_of(arg.dtype)
            packed = arg.dtype.bits < 8  # travels as a byte
            value = Value(self.fn, f"%p{n}", "i8" if packed else elem)
            self.env[arg] = value.convert("trunc", elem) if packed else value
            return value.typed
        raise InternalError(f"{type(arg).__name__} is no kernel argument on a CPU")

    def _bind_block(self, k: Kernel, block: Value, grid: list[Value]) -> None:
        """x = block % gx, y = block / gx % gy, z = block / gx / gy."""
        rest = block
        for n, (var, extent) in enumerate(zip(k.block_vars, grid, strict=True)):
            if extent.const == 1:
                at = self.fn.i64(0)
            elif n == 2 or all(g.const == 1 for g in grid[n + 1 :]):
                at = rest
            else:
                at = self.fn.binary("urem", rest, extent)
                rest = self.fn.binary("udiv", rest, extent)
            value = at.convert("trunc", elem_of(var.dtype))
            if value.const is None:
                value.range = (0, (extent.const or _INT32_MAX) - 1)
            self.env[var] = value

    def _finish(self, k: Kernel, params: list[str]) -> str:
        fn = self.fn
        fn.start("exit")
        if self.streamed:  # other cores see these stores before what tells them that we are done
            fn.line("fence seq_cst")
        need_memory = bool(self.scratch or self.arena)
        if need_memory:
            fn.call_void("free", [Value(fn, "%memory", "ptr")])
        fn.line("%result = load ptr, ptr %status, align 8")
        fn.line("ret ptr %result")
        head = ["  %status = alloca ptr, align 8", "  store ptr null, ptr %status, align 8"]
        lines = ["entry:", *head, *fn.prologue]
        if need_memory:
            lines += self._scratch_setup()
        signature = ", ".join([*params, "i64 %block_begin", "i64 %block_end"])
        lines += ["  br label %start", "start:"]
        text = "\n".join([*lines, *fn.lines])
        parts = split(k)
        if parts is None:
            return f"define ptr @{k.name}({signature}) #0 {{\n{text}\n}}\n"
        serial = f"define internal ptr @{k.name}.blocks({signature}) #0 {{\n{text}\n}}\n"
        return serial + self._shared(k.name, params, parts)

    def _shared(self, name: str, params: list[str], parts: Split) -> str:
        """The kernel's entry where threads may share its blocks (`runtime.pool`), and what a thread
        calls: the arguments travel in words."""
        self.module.pooled = True
        slots = range(len(params))
        plain = [p.replace(" noalias", "") for p in params]
        bare = [p.split()[0] for p in plain]
        where = [f"getelementptr i64, ptr %args, i64 {n}" for n in slots]
        store = [f"  %at{n} = {where[n]}\n  store {plain[n]}, ptr %at{n}, align 8" for n in slots]
        load = [
            f"  %at{n} = {where[n]}\n  %p{n} = load {bare[n]}, ptr %at{n}, align 8" for n in slots
        ]
        span = "i64 %block_begin, i64 %block_end"
        given = ", ".join([*plain, span])
        return "\n".join(
            [
                f"define internal ptr @{name}.task(ptr %args, {span}) #0 {{",
                *load,
                f"  %result = call ptr @{name}.blocks({given})",
                "  ret ptr %result",
                "}",
                f"define ptr @{name}({', '.join([*params, span])}) #0 {{",
                "  %count = sub i64 %block_end, %block_begin",
                f"  %many = icmp sge i64 %count, {parts.many}",
                "  br i1 %many, label %look, label %alone",
                "look:",
                "  %cell = load ptr, ptr @tl_pool, align 8",
                "  %none = icmp eq ptr %cell, null",
                "  br i1 %none, label %alone, label %share",
                "share:",
                f"  %args = alloca [{max(len(params), 1)} x i64], align 8",
                *store,
                "  %parallel = load ptr, ptr %cell, align 8",
                "  %threads.at = getelementptr i8, ptr @tl_pool, i64 8",
                "  %threads = load i64, ptr %threads.at, align 8",
                f"  %shared = call ptr %parallel(ptr @{name}.task, ptr %args, {span},"
                f" i64 {parts.work}, i64 %threads)",
                "  ret ptr %shared",
                "alone:",
                f"  %result = call ptr @{name}.blocks({given})",
                "  ret ptr %result",
                "}",
                "",
            ]
        )

    def _scratch_setup(self) -> list[str]:
        """One block for the large tiles and the arena, aligned by hand (malloc aligns to 16)."""
        arena = -(-self.arena // ALIGNMENT) * ALIGNMENT
        size = arena + self.scratch + ALIGNMENT
        self.module.declare("malloc", "ptr", ["i64"])
        message = self.module.string(
            f"out of memory: a kernel needs {size} bytes of scratch memory"
        )
        return [
            f"  %memory = call ptr @malloc(i64 {size})",
            f"  %memory.end = getelementptr i8, ptr %memory, i64 {ALIGNMENT - 1}",
            "  %memory.int = ptrtoint ptr %memory.end to i64",
            f"  %memory.aligned = and i64 %memory.int, {-ALIGNMENT}",
            "  %arena = inttoptr i64 %memory.aligned to ptr",
            f"  %scratch = getelementptr i8, ptr %arena, i64 {arena}",
            "  %no.memory = icmp eq ptr %memory, null",
            "  br i1 %no.memory, label %starved, label %start0",
            "starved:",
            f"  ret ptr {message}",
            "start0:",
        ]


_S = Statements
_HANDLERS: dict[type, Callable[[Any, Any], None]] = {
    Seq: _S.sequence, Bind: _S.bind, Alloc: _S.alloc, Store: lambda self, s: self.store(s),
    Evaluate: _S.evaluate, For: _S.loop, While: _S.while_loop, If: _S.condition,
    Break: _S.break_loop, Continue: _S.continue_loop, Return: _S.leave, Assert: _S.assertion,
    Assume: lambda self, s: None,
}  # fmt: skip
