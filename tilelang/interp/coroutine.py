# SPDX-License-Identifier: Apache-2.0
"""One thread of a block while its program runs: its own memory, what it does alone or waits for.

`Thread` is `me` in the text of a `program`; `Waiter` is its generator with the request that it made
last. Which requests are served together is said here, the serving is the block's.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tilelang.ir import Alloc, Buffer, Scope, const

from .memory import Memory, Pointer, fresh
from .units import CopyGroups
from .values import to_storage, wrapped
from .wgmma import encode

if TYPE_CHECKING:
    from .block import Block

__all__ = ["WARP", "Thread", "Waiter"]

WARP = 32


class Waiter:
    """A thread's generator and what it waits for."""

    __slots__ = ("args", "code", "kind", "me", "ready", "result")

    def __init__(self, me: Thread, code: Generator[Any, Any, None]) -> None:
        self.me = me
        self.code = code
        self.ready = True
        self.result: Any = None
        self.kind = ""
        self.args: Any = ()

    def resume(self) -> bool:
        """Runs to the next request; False at the end."""
        try:
            self.kind, self.args = self.code.send(self.result)
        except StopIteration:
            return False
        self.ready, self.result = False, None
        return True

    def answer(self, result: Any) -> None:
        self.ready, self.result = True, result

    def group(self) -> tuple[Any, ...]:
        """Requests of one group are answered together."""
        if self.kind in ("sync_threads", "once"):
            return (self.kind, self.me.group)
        if self.kind == "sync_grid":
            return (self.kind, None)
        if self.kind == "named_barrier_sync":
            return (self.kind, self.args[0])
        if self.kind == "mbar_wait":
            return (self.kind, None)
        if self.kind.startswith("wgmma"):
            return (self.kind, self.me.tid // (4 * WARP))
        return (f"warp:{self.kind}", self.me.tid // WARP)


class Thread:
    """`me` in a program: the thread's own memory and the operations it does alone."""

    def __init__(self, block: Block, tid: int) -> None:
        self.block = block
        self.tid = tid
        nx, ny, nz = block.threads
        self.group = (0, nx * ny * nz)
        self.copies = CopyGroups()

    @contextmanager
    def role(self, first: int, threads: int) -> Iterator[None]:
        outer, self.group = self.group, (first, threads)
        yield
        self.group = outer

    def alloc(self, stmt: Alloc, shape: tuple[int, ...]) -> Memory:
        scope = stmt.buffer.scope
        if scope in (Scope.LOCAL, Scope.VAR):
            return Memory(stmt.buffer, fresh(stmt.buffer, shape))
        out = self.block.alloc_shared(stmt, shape)
        count = stmt.annotations.get("arrive_count")
        if scope == Scope.BARRIER and count is not None:
            self.block.barriers.declare(out, count)
        return out

    def tile(self, key: Any, values: tuple[Any, ...], env: Mapping[Buffer, Memory]) -> None:
        """A tile op by its `reference`, its open expressions replaced by their values."""
        stmt, exprs = key
        known = {e: const(_python(v), e.dtype) for e, v in zip(exprs, values, strict=True)}
        op = _closed(stmt.op, known)
        arrays = {b: m.array for b, m in env.items()}
        op.reference(arrays, self.block.runtime.safe)

    def tile_async(
        self,
        key: Any,
        values: tuple[Any, ...],
        env: Mapping[Buffer, Memory],
        bar: Pointer,
        size: int,
    ) -> None:
        """A copy by the tensor unit, which tells a barrier when `size` bytes have come."""
        barrier = self.block.barriers.find(bar)

        def complete() -> None:
            self.tile(key, values, env)
            barrier.update(0, -size)

        self.block.tensor_unit.pending.append(complete)

    def wgmma_desc(self, call: Any, args: tuple[Any, ...]) -> int:
        return encode(self.block.address(args[0]), *args[1:])

    # ------------------------------------------------------------------------------ atomics

    def _atomic(self, pointer: Pointer, value: Any, f: Callable[[Any, Any], Any]) -> Any:
        old = pointer.load()
        pointer.store(from_rounded(f(old, value), pointer.memory))
        return old

    def atomic_add(self, call: Any, args: tuple[Any, ...]) -> Any:
        return self._atomic(args[0], args[1], lambda a, b: a + b)

    def atomic_max(self, call: Any, args: tuple[Any, ...]) -> Any:
        return self._atomic(args[0], args[1], max)

    def atomic_min(self, call: Any, args: tuple[Any, ...]) -> Any:
        return self._atomic(args[0], args[1], min)

    def atomic_or(self, call: Any, args: tuple[Any, ...]) -> Any:
        return self._atomic(args[0], args[1], lambda a, b: a | b)

    def atomic_load(self, call: Any, args: tuple[Any, ...]) -> Any:
        return args[0].load()

    def atomic_store(self, call: Any, args: tuple[Any, ...]) -> None:
        args[0].store(args[1])

    def memory_fence(self, call: Any, args: tuple[Any, ...]) -> None:
        """Order is already total here."""

    # ------------------------------------------------------------------------------ asynchronous

    def cp_async(self, call: Any, args: tuple[Any, ...]) -> None:
        self.copies.issue(*args)

    def cp_async_commit(self, call: Any, args: tuple[Any, ...]) -> None:
        self.copies.commit()

    def cp_async_wait(self, call: Any, args: tuple[Any, ...]) -> None:
        self.copies.wait(args[0])

    def __getattr__(self, name: str) -> Any:
        """The remaining operations belong to the block's units."""
        for unit in (self.block.barriers, self.block.tensor_unit):
            found = getattr(unit, name, None)
            if found is not None:
                return lambda call, args: found(self, *args)
        raise AttributeError(name)


def from_rounded(value: Any, memory: Memory) -> Any:
    """A sum of two values of the memory's dtype, wrapped to it."""
    if not memory.dtype.is_int:
        return to_storage(value, memory.dtype)
    return wrapped(memory.dtype)(int(value))


def _python(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _closed(op: Any, known: Mapping[Any, Any]) -> Any:
    """The op with its expressions replaced."""

    def close(x: Any) -> Any:
        return known[x] if x in known else x.map_children(close)

    return op.map_children(close)
