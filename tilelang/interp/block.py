# SPDX-License-Identifier: Apache-2.0
"""Blocks and threads while a program of `program` runs: their memory, and who waits for whom.

`Runtime` holds the arguments and launches blocks one after another. Each thread of a block is a
generator; the block resumes them in turn until each yields a request it cannot serve yet, serves
the requests for which everyone has arrived (barriers, warp operations, waits), and completes one
pending asynchronous operation only when nobody can go on. So a missing wait shows as poison.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import numpy as np

from tilelang.errors import InternalError
from tilelang.ir import Alloc, Buffer, Scope, as_expr
from tilelang.tileop import numeric

from . import warp
from .coroutine import WARP, Thread, Waiter
from .evaluate import evaluate_grid
from .memory import Memory, Pointer, fresh
from .units import Barriers, TensorUnit
from .values import literal
from .wgmma import WarpgroupUnit

__all__ = ["Runtime"]

_MAX_TURNS = 50_000_000


class Runtime:
    """arguments: parameter or symbol -> `Memory` or number. logical: layouts do not count yet."""

    def __init__(self, arguments: Mapping[Any, Any], logical: bool) -> None:
        self.arguments = arguments
        self.logical = logical
        self.safe: dict[Buffer, Any] = {}
        self.tables: dict[tuple[Any, tuple[int, ...]], Any] = {}
        self.turns = 0
        self.host = Thread(Block(self, (1, 1, 1)), 0)

    def argument(self, key: Any) -> Any:
        return self.arguments[key]

    def tick(self) -> None:
        """Counts turns of loops that might never end."""
        self.turns += 1
        if self.turns > _MAX_TURNS:
            raise InternalError("the interpreter gave up on a loop that does not seem to end")

    def layout_table(self, layout: Any, shape: tuple[int, ...]) -> Any:
        """Logical index -> address, as an array."""
        hit = self.tables.get((layout, shape))
        if hit is None:
            hit = self.tables[layout, shape] = evaluate_grid(layout.address, shape)
        return hit

    def axis(self, sizes: tuple[int, ...], dim: int) -> Any:
        """The index array of one variable of a nest."""
        shape = [1] * len(sizes)
        shape[dim] = max(sizes[dim], 0)
        return np.arange(shape[dim], dtype=np.int64).reshape(shape)

    def alloc(self, stmt: Alloc, shape: tuple[int, ...]) -> Memory:
        """A global workspace."""
        return Memory(stmt.buffer, fresh(stmt.buffer, shape))

    def workspace(self, buffer: Buffer, shape: tuple[int, ...]) -> Memory:
        """A global workspace of DEVICE stage: one offset into its storage."""
        return Memory(buffer, fresh(buffer, (int(np.prod(shape)),)))

    def view(self, stmt: Alloc, root: Memory, shape: tuple[int, ...]) -> Memory:
        """The same bytes as another shape and dtype."""
        return view(stmt.buffer, root, shape)

    def at_pointer(self, stmt: Alloc, pointer: Pointer, shape: tuple[int, ...]) -> Memory:
        """A tensor at a raw pointer."""
        flat = pointer.memory.flat[pointer.offset :].view(stmt.buffer.dtype.as_numpy())
        count = int(np.prod(shape))
        return Memory(stmt.buffer, flat[:count].reshape(shape))

    def launch(
        self,
        thread: Callable[..., Any],
        grid: tuple[int, ...],
        threads: tuple[int, int, int],
        annotations: Mapping[str, Any],
    ) -> None:
        for buffer, value in (annotations.get("safe_values") or {}).items():
            self.safe[buffer] = numeric.value(as_expr(value))
            self.arguments[buffer].safe = literal(self.safe[buffer], buffer.dtype)
        indices = [tuple(reversed(i)) for i in product(*(range(n) for n in reversed(grid)))]
        if not annotations.get("cooperative"):
            for index in indices:
                Block(self, threads).run(thread, index)
            return
        blocks = [Block(self, threads).start(thread, index) for index in indices]
        while blocks:  # from one barrier of the grid to the next
            blocks = [b for b in blocks if not b.advance()]
            for b in blocks:
                b.pass_grid_barrier()


def view(buffer: Buffer, root: Memory, shape: tuple[int, ...]) -> Memory:
    """A view reads through the layout of what it views."""
    target = buffer.dtype.as_numpy()
    if root.table is None:
        return Memory(
            buffer, root.array.reshape(-1).view(target)[: int(np.prod(shape))].reshape(shape)
        )
    if target.itemsize != root.flat.itemsize:
        raise InternalError(f"view {buffer.name}: another element size over a layout")
    return Memory(buffer, root.array, root.flat.view(target), root.table.reshape(shape))


class Block:
    """The state of one block."""

    def __init__(self, runtime: Runtime, threads: tuple[int, int, int]) -> None:
        self.runtime = runtime
        self.threads = threads
        self.shared: dict[Alloc, Memory] = {}
        self.arena = np.full(0, 0xFF, np.uint8)
        self.top = _ARENA
        self.barriers = Barriers()
        self.tensor_unit = TensorUnit(self.barriers)
        self.warpgroups: dict[int, WarpgroupUnit] = {}
        self.waiting: dict[int, Waiter] = {}

    # ------------------------------------------------------------------------------ memory

    def alloc_shared(self, stmt: Alloc, shape: tuple[int, ...]) -> Memory:
        hit = self.shared.get(stmt)
        if hit is None:
            hit = self.shared[stmt] = self._new(stmt, shape)
        return hit

    def _new(self, stmt: Alloc, shape: tuple[int, ...]) -> Memory:
        buffer = stmt.buffer
        if not buffer.is_shared and buffer.scope != Scope.BARRIER:
            return Memory(buffer, fresh(buffer, shape))
        layout = None if self.runtime.logical else stmt.annotations.get("layout")
        table = None if layout is None else self.runtime.layout_table(layout, shape)
        count = int(np.prod(shape)) if table is None else int(table.max(initial=-1)) + 1
        flat = self._place(buffer, count, stmt.annotations.get("offset"))
        return Memory(buffer, flat.reshape(shape) if table is None else flat, flat, table)

    def _place(self, buffer: Buffer, count: int, offset: int | None) -> Any:
        """`count` elements of shared memory, at a byte offset, or wherever there is room."""
        target = buffer.dtype.as_numpy()
        size = count * target.itemsize
        if not len(self.arena):
            self.arena = np.full(_ARENA, 0xFF, np.uint8)  # as floats these bytes are NaN
        if offset is None:
            self.top = (self.top - size) // _ALIGNMENT * _ALIGNMENT
            if self.top < 0:  # more than a block has: no pass has placed it yet
                return fresh(buffer, (count,))
            offset = self.top
            self.arena[offset : offset + size].view(target)[:] = numeric.poison(buffer.dtype)
        if offset + size > _ARENA:
            raise InternalError(f"{buffer.name} ends beyond the shared memory of a block")
        return self.arena[offset : offset + size].view(target)

    def address(self, pointer: Pointer) -> int:
        """Where an element of shared memory lies in the arena."""
        base: int = self.arena.__array_interface__["data"][0]
        flat = pointer.memory.flat
        own: int = flat.__array_interface__["data"][0]
        return own + pointer.offset * int(flat.itemsize) - base

    def warpgroup(self, index: int) -> WarpgroupUnit:
        return self.warpgroups.setdefault(index, WarpgroupUnit(lambda: self.arena))

    # ------------------------------------------------------------------------------ running

    def run(self, thread: Callable[..., Any], index: tuple[int, ...]) -> None:
        """All threads of the block to their end."""
        if not self.start(thread, index).advance():
            raise InternalError("a barrier of the grid in a launch that is not cooperative")

    def start(self, thread: Callable[..., Any], index: tuple[int, ...]) -> Block:
        """Makes the threads, which have not begun yet."""
        nx, ny, nz = self.threads
        for tid, (z, y, x) in enumerate(product(range(nz), range(ny), range(nx))):
            me = Thread(self, tid)
            count = thread.__code__.co_argcount - 1 - len(index)
            self.waiting[tid] = Waiter(me, thread(me, *index, *(x, y, z)[:count]))
        return self

    def pass_grid_barrier(self) -> None:
        for w in self.waiting.values():
            w.answer(None)

    def advance(self) -> bool:
        """Runs to the end (True), or until all threads are at a barrier of the grid."""
        waiting = self.waiting
        while waiting:
            progress = False
            for tid, w in list(waiting.items()):
                if w.ready:
                    progress = True
                    if not w.resume():
                        del waiting[tid]
                        w.me.copies.finish()
            if waiting and all(w.kind == "sync_grid" and not w.ready for w in waiting.values()):
                return False
            progress |= self._serve(waiting)
            if not progress and waiting and not self.tensor_unit.step():
                raise InternalError(_deadlock(waiting))
        self.tensor_unit.finish()
        return True

    def _serve(self, waiting: dict[int, Waiter]) -> bool:
        """Answers every request whose partners have arrived."""
        served = False
        requests: dict[tuple[Any, ...], list[Waiter]] = {}
        for w in waiting.values():
            if not w.ready:
                requests.setdefault(w.group(), []).append(w)
        for (kind, key), group in requests.items():
            if kind == "sync_grid":
                continue  # `advance` ends when all are there
            if kind == "mbar_wait":
                for w in group:
                    bar, parity = w.args
                    if self.barriers.passed(bar, parity):
                        w.answer(None)
                        served = True
            elif len(group) >= self._expected(kind, key, group, waiting):
                self._answer(kind, group)
                served = True
        return served

    def _expected(
        self, kind: str, key: Any, group: list[Waiter], waiting: dict[int, Waiter]
    ) -> int:
        """How many threads must have arrived."""
        if kind == "named_barrier_sync":
            return int(group[0].args[1]) - self.barriers.arrived(key)
        if kind in ("sync_threads", "once"):
            first, count = key
            return sum(first <= tid < first + count for tid in waiting)
        size = WARP if kind.startswith("warp") else 4 * WARP
        return sum(tid // size == key for tid in waiting)

    def _answer(self, kind: str, group: list[Waiter]) -> None:
        if kind == "once":
            group[0].args()
        elif kind == "named_barrier_sync":
            self.barriers.clear(group[0].args[0])
        elif kind.startswith("wgmma"):
            self.warpgroup(group[0].me.tid // (4 * WARP)).serve(kind, group)
        elif kind.startswith("warp"):
            for w, result in zip(group, warp.run(group), strict=True):
                w.answer(result)
            return
        for w in group:
            w.answer(None)


_ARENA = 256 << 10  # what 14 bits of a matrix descriptor can address, in 16 bytes
_ALIGNMENT = 1024  # bytes after which the 128-byte swizzle repeats


def _deadlock(waiting: dict[int, Waiter]) -> str:
    kinds: dict[str, list[int]] = {}
    for tid, w in waiting.items():
        kinds.setdefault(w.kind, []).append(tid)
    text = "; ".join(f"{len(t)} threads ({t[0]} …) in {kind}" for kind, t in kinds.items())
    return f"deadlock: no thread of the block can go on: {text}"
