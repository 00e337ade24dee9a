# SPDX-License-Identifier: Apache-2.0
"""What the emitter of one kernel knows at a point of the program: names, values already computed.

A value computed in a block is reused where that block dominates: `scope()` forgets what was added
inside. A value that depends on memory is forgotten at the next write there (`invalidate`).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tilelang.ir import DType

from .writer import Module, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from tilelang.ir import Buffer, Var


class State:
    """Base of the emitter."""

    int32 = DType("int32")

    def __init__(self, module: Module, half: bool) -> None:
        self.module = module
        self.fn = module.new_function()
        self.half = half  # the CPU converts f16 itself
        self.env: dict[Var, Value] = {}
        self.buffers: dict[Buffer, Value] = {}
        self.streamed: dict[Buffer, Value] = {}  # tensor -> does it start at a cache line?
        self.memo: dict[Any, Any] = {}
        # For what is in `memo`: the memory that it was read from; and what is read just now.
        self.from_memory: dict[Any, set[Any]] = {}
        self.reads: set[Any] = set()
        self.effects = 0  # calls with an effect, so far
        self.alone: Collection[Any] = ()  # tensors that overlap no other one
        self.mask: Value | None = None
        self.stack = self.scratch = self.arena = 0
        self._added: list[Any] = []

    # Filled in by the layers above; declared here because memory access needs them.
    def value(self, e: Any) -> Value:
        raise AssertionError

    def index64(self, e: Any) -> Value:
        raise AssertionError

    def vector_index64(self, e: Any) -> list[Value]:
        raise AssertionError

    def remembered(self, key: Any) -> Any:
        """The value computed for a key, if it still holds."""
        hit = self.memo.get(key)
        if hit is not None:
            self.reads |= self.from_memory.get(key, set())
        return hit

    def computed(self, key: Any, compute: Callable[[], Value]) -> Value:
        """Computes and remembers a value, and what memory it depends on. Of what has an effect, a
        second one is another one."""
        outer, effects = self.reads, self.effects
        self.reads = set()
        out = compute()
        if self.effects == effects:
            self.remember(key, out)
            if self.reads:
                self.from_memory[key] = self.reads
        self.reads = outer | self.reads
        return out

    def remember(self, key: Any, value: Any) -> None:
        self.memo[key] = value
        self._added.append(key)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Values computed inside do not dominate what follows."""
        start = len(self._added)
        try:
            yield
        finally:
            for key in self._added[start:]:
                self.memo.pop(key, None)
            del self._added[start:]

    def storage(self, buffer: Buffer) -> Any:
        """Names the memory of a buffer: tensors that may overlap have one name."""
        root = buffer.root()
        return root if root in self.alone or not root.is_global else "tensors"

    def invalidate(self, buffer: Buffer | None = None) -> None:
        """Memory may have changed: that of a buffer, or all."""
        if buffer is None:
            gone = list(self.from_memory)
        else:
            place = self.storage(buffer)
            gone = [k for k, reads in self.from_memory.items() if place in reads]
        for key in gone:
            self.memo.pop(key, None)
            del self.from_memory[key]

    @contextmanager
    def masked(self, mask: Value) -> Iterator[None]:
        """Only the lanes of `mask` may touch memory inside; values made inside are theirs alone."""
        outer = self.mask
        self.mask = mask if outer is None else outer & mask
        try:
            with self.scope():
                yield
        finally:
            self.mask = outer
