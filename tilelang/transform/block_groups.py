# SPDX-License-Identifier: Apache-2.0
"""What the blocks of a grid have in common, and how many of them to run in step.

In: a `Launch` at TILE stage. Out: `Dependence`, which says for every name and buffer of the block
on which dimensions of the grid its value depends, and `factors`, the blocks per group. Both know
only effects: no shape of program is looked for. See `group_blocks`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from tilelang.ir import (
    Alloc,
    Assert,
    Bind,
    Break,
    Buffer,
    Continue,
    Evaluate,
    Expr,
    For,
    Launch,
    Load,
    Region,
    Return,
    Stmt,
    Store,
    TileStmt,
    Var,
    const_int,
    effects,
    flatten,
    mentions,
    walk,
)  # fmt: skip
from tilelang.target.cpu import cpu_threads
from tilelang.utils import ceildiv, prod

__all__ = ["Dependence", "Dims", "factors"]

_CACHE = 3 << 18  # bytes of a second-level cache that the buffers of a group may take
_FACTORS = (1, 2, 3, 4, 6, 8)
_LOADS = {"copy": 1, "pack": 2}  # the cost of a byte: a packed one is also converted
_GROUPS = 2  # at least that many remain for each thread

Dims = frozenset[int]
"""Dimensions of the grid, x first."""
NONE: Dims = frozenset()


@dataclass
class Dependence:
    """dims: per name and buffer of the block, the dimensions on which its value depends. allocs:
    the buffers that live longer than a statement. steps: loops that all blocks of a group may walk
    in step."""

    launch: Launch
    dims: dict[Any, Dims] = field(default_factory=dict)
    allocs: dict[Buffer, Alloc] = field(default_factory=dict)
    steps: dict[Stmt, None] = field(default_factory=dict)

    def found(self) -> bool:
        """Does the analysis; False where a statement may not stand beside another block's."""
        if not self._separable():
            return False
        for n, v in enumerate(self.launch.block_vars):
            self.dims[v] = frozenset((n,))
        while True:
            before = dict(self.dims)
            self._pass(self.launch.body)
            if before == self.dims:
                return True

    def _separable(self) -> bool:
        threads = set(self.launch.thread_vars)
        for x in walk(self.launch.body):
            t: Any = type(x)
            if t is Return or t is Launch or (t is Var and x in threads):
                return False
            if t is Alloc and not _plain(x.buffer):  # type: ignore[attr-defined]
                return False
        e = effects(self.launch.body)
        self._written = {a.buffer.root() for a in e.writes}
        return not (e.opaque or e.barrier) and self._find_steps(self.launch.body)

    def _find_steps(self, body: Stmt) -> bool:
        """False where a name would not keep its value until its last use."""
        for x in flatten(body):
            if type(x) is Bind and not self._constant(x.value):
                return False
            if type(x) is Alloc:
                self.allocs[x.buffer] = x
                self.dims[x.buffer] = NONE
            if type(x) is For and _has_gemm(x) and not _jumps(x) and self._constant(x.extent):
                self.steps[x] = None
                if not self._find_steps(x.body):
                    return False
        return True

    def _constant(self, e: Expr) -> bool:
        """Does it read only memory that the kernel does not write?"""
        read = [x for x in mentions(e) if type(x) is Buffer]
        return not any(b in self.allocs or b.root() in self._written for b in read)

    # ------------------------------------------------------------------------------ dependence

    def of_expr(self, e: Expr) -> Dims:
        out = NONE
        for x in mentions(e):
            out |= self.dims.get(x, NONE)
        return out

    def of_stmt(self, s: Stmt) -> Dims:
        """The dimensions of all that is mentioned; those of the grid where the outside sees it."""
        out = NONE
        for x in walk(s):
            t: Any = type(x)
            if t is Var:
                out |= self.dims.get(x, NONE)
            elif t is Load or t is Region or t is Store:
                out |= self.dims.get(x.buffer, NONE)  # type: ignore[attr-defined]
            elif t is Assert or t is Evaluate:
                out |= frozenset(range(len(self.launch.grid)))
        if any(a.buffer not in self.allocs for a in effects(s).writes):
            out |= frozenset(range(len(self.launch.grid)))
        return out

    def _pass(self, body: Stmt) -> None:
        """One round of the least solution: what a statement writes depends on all that it uses."""
        for x in flatten(body):
            if type(x) is Bind:
                self.dims[x.var] = self.of_expr(x.value)
            elif self.in_step(x):
                self._pass(x.body)  # type: ignore[attr-defined]
            elif type(x) is not Alloc:
                here, e = self.of_stmt(x), effects(x)
                for b in {a.buffer for a in e.writes} & self.allocs.keys():
                    self.dims[b] |= here

    def in_step(self, x: Stmt) -> bool:
        """Is it a loop whose trips are the same for all blocks?"""
        return x in self.steps and not (
            self.of_expr(x.start) | self.of_expr(x.extent)  # type: ignore[attr-defined]
        )


def _plain(b: Buffer) -> bool:
    """Can it be allocated in several parts?"""
    if b.view_of is not None or b.data is not None or b.strides is not None:
        return False
    return bool(b.static_shape) and (b.is_shared or b.is_fragment or b.is_local)


def _has_gemm(s: Stmt) -> bool:
    return any(type(x) is TileStmt and x.op.name == "gemm" for x in walk(s))


def _jumps(s: Stmt) -> bool:
    return any(type(x) in (Break, Continue) for x in walk(s))


# ------------------------------------------------------------------------------ how many


def _size(b: Buffer) -> int:
    return max(prod(b.static_shape or (0,)) * b.dtype.bits // 8, 1)


def factors(plan: Dependence) -> tuple[int, ...]:
    """Blocks per group in each dimension: those with the fewest bytes to copy for a block."""
    copies = list(_copies(plan.launch.body, plan))
    known = [const_int(e) for e in plan.launch.grid]
    grid = [None if n is None else max(n, 1) for n in known]  # an empty one is as good as one block
    choices = [
        [f for f in _FACTORS if any(n not in d for _, d in copies) and (g is None or f <= g)] or [1]
        for n, g in enumerate(grid)
    ]

    least = _GROUPS * max(cpu_threads(), 2)

    def times(dims: Dims, f: Sequence[int]) -> int:
        return prod(f[d] for d in dims)

    def fits(f: Sequence[int]) -> bool:
        parts = zip(grid, f, strict=True)
        if None not in grid and prod(ceildiv(g or 1, x) for g, x in parts) < least:
            return False
        return sum(_size(b) * times(plan.dims[b], f) for b in plan.allocs) <= _CACHE

    def cost(f: Sequence[int]) -> tuple[float, int]:
        """The mean over the grid: where it ends, groups are smaller."""
        mean = [g / ceildiv(g, x) if g else x for g, x in zip(grid, f, strict=True)]
        return sum(n * math.prod(mean[d] for d in dims) for n, dims in copies) / math.prod(
            mean
        ), prod(f)

    return min((f for f in product(*choices) if prod(f) == 1 or fits(f)), key=cost)


def _copies(body: Stmt, plan: Dependence) -> Iterator[tuple[int, Dims]]:
    """(bytes, dimensions) of what is loaded in the loops that are walked in step."""
    for x in flatten(body):
        if plan.in_step(x):
            yield from _copies(x.body, plan)  # type: ignore[attr-defined]
        elif body is not plan.launch.body and type(x) is TileStmt and x.op.name in _LOADS:
            dst: Buffer = x.op.dst.buffer  # type: ignore[attr-defined]
            if dst in plan.allocs:
                yield _LOADS[x.op.name] * _size(dst), plan.dims[dst]
