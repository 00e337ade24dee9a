# SPDX-License-Identifier: Apache-2.0
"""What the emitter of one kernel knows at a point of the program: names, values already computed.

A value computed in a block is reused where that block dominates: `scope()` forgets what was added
inside. A value that depends on memory is forgotten at the next write (`invalidate`).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tilelang.ir import DType

from .writer import Module, Value

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        self.from_memory: set[Any] = set()
        self.reads = self.effects = 0  # loads, and calls with an effect, so far
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

    def invalidate(self) -> None:
        """Memory may have changed."""
        for key in self.from_memory:
            self.memo.pop(key, None)
        self.from_memory.clear()

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
