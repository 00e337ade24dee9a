# SPDX-License-Identifier: Apache-2.0
"""The asynchronous parts of a block: cp.async groups, mbarriers, the tensor (TMA) unit.

What an operation writes appears as late as the program allows: a cp.async at the wait that covers
it, a bulk copy when every thread is waiting. A program whose waits are too weak reads poison.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from tilelang.errors import InternalError

__all__ = ["Barriers", "CopyGroups", "TensorUnit"]


class CopyGroups:
    """cp.async of one thread: copies, in groups, completed in order."""

    def __init__(self) -> None:
        self.open: list[Callable[[], None]] = []
        self.groups: deque[list[Callable[[], None]]] = deque()

    def issue(self, count: int, dst: Any, src: Any, pred: Any = True) -> None:
        target = dst.bytes(count)
        if pred:
            source = src.bytes(count)
            self.open.append(lambda: target.__setitem__(slice(None), source))
        else:
            self.open.append(lambda: target.__setitem__(slice(None), 0))

    def commit(self) -> None:
        self.groups.append(self.open)
        self.open = []

    def wait(self, pending: int) -> None:
        """Until at most `pending` groups have not been completed."""
        while len(self.groups) > pending:
            for copy in self.groups.popleft():
                copy()

    def finish(self) -> None:
        self.commit()
        self.wait(0)


class _Barrier:
    """An mbarrier: arrivals and bytes still expected in this phase (PTX ISA, mbarrier)."""

    __slots__ = ("bytes", "count", "left", "phase")

    def __init__(self, count: int) -> None:
        self.count = self.left = count
        self.bytes = 0
        self.phase = 0

    def update(self, arrivals: int, tx: int) -> None:
        self.left -= arrivals
        self.bytes += tx
        if self.left < 0:
            raise InternalError("an mbarrier got more arrivals than its count in one phase")
        if self.left == 0 and self.bytes == 0:
            self.phase += 1
            self.left = self.count


class Barriers:
    """Named barriers and mbarriers of a block. Operations take the calling thread first."""

    def __init__(self) -> None:
        self.named: dict[int, int] = {}
        self.bars: dict[tuple[int, int], _Barrier] = {}

    def arrived(self, name: int) -> int:
        return self.named.get(name, 0)

    def clear(self, name: int) -> None:
        self.named[name] = 0

    def named_barrier_arrive(self, me: Any, name: int, count: int) -> None:
        self.named[name] = self.named.get(name, 0) + 1

    @staticmethod
    def _key(pointer: Any) -> tuple[int, int]:
        return (pointer.memory.flat.__array_interface__["data"][0], pointer.offset)

    def find(self, pointer: Any) -> _Barrier:
        bar = self.bars.get(self._key(pointer))
        if bar is None:
            raise InternalError(f"mbarrier {pointer.memory.buffer.name} is used before mbar_init")
        return bar

    def declare(self, memory: Any, count: Any) -> None:
        """Barriers that `T.alloc_barrier` initialises itself."""
        address = memory.flat.__array_interface__["data"][0]
        counts = list(count) if isinstance(count, (list, tuple)) else [count] * len(memory.flat)
        for i, n in enumerate(counts):
            self.bars.setdefault((address, i), _Barrier(int(n)))

    def mbar_init(self, me: Any, bar: Any, count: int) -> None:
        self.bars[self._key(bar)] = _Barrier(count)

    def mbar_arrive(self, me: Any, bar: Any) -> None:
        self.find(bar).update(1, 0)

    def mbar_expect_tx(self, me: Any, bar: Any, count: int) -> None:
        self.find(bar).update(0, count)
        self.find(bar).update(1, 0)

    def mbar_announce(self, me: Any, bar: Any, count: int) -> None:
        self.find(bar).update(0, count)

    def passed(self, bar: Any, parity: int) -> bool:
        """Has the phase of this parity completed?"""
        return self.find(bar).phase % 2 != parity % 2

    def fence_mbar_init(self, me: Any) -> None:
        """Order is already total here."""

    fence_proxy_async = fence_mbar_init
    wgmma_fence = fence_mbar_init

    def prefetch_tensormap(self, me: Any, desc: Any) -> None:
        """Changes nothing that a program can see."""

    setmaxnreg_inc = setmaxnreg_dec = prefetch_tensormap

    def reg_fence(self, me: Any, count: int, regs: Any) -> None:
        """The compiler's business."""

    def trap(self, me: Any) -> None:
        raise AssertionError("the kernel executed a trap")

    def print(self, me: Any, text: str, *args: Any) -> None:
        print(text % args if args else text)


class TensorUnit:
    """Bulk copies of boxes of global tensors, described by a `TensorMap`."""

    def __init__(self, barriers: Barriers) -> None:
        self.barriers = barriers
        self.pending: deque[Callable[[], None]] = deque()

    def step(self) -> bool:
        """Completes the oldest operation; False if there is none."""
        if not self.pending:
            return False
        self.pending.popleft()()
        return True

    def finish(self) -> None:
        while self.step():
            pass

    def tma_load(self, me: Any, dst: Any, desc: Any, bar: Any, *at: int) -> None:
        count = int(np.prod(desc.box))
        barrier = self.barriers.find(bar)

        def complete() -> None:
            target = dst.span(0, count)
            target[desc.places()] = desc.read(at)
            barrier.update(0, -count * target.itemsize)

        self.pending.append(complete)

    def tma_store(self, me: Any, desc: Any, src: Any, *at: int) -> None:
        values = src.span(0, int(np.prod(desc.box)))[desc.places()].copy()
        self.pending.append(lambda: desc.write(at, values))

    def tma_store_commit(self, me: Any) -> None:
        """Operations are completed in order anyway."""

    def tma_store_wait(self, me: Any, pending: int) -> None:
        self.finish()
