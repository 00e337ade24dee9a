# SPDX-License-Identifier: Apache-2.0
"""Small layout questions of inference: defaults, restrictions, vector runs.

In: fragments and nests. Out: fragments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tilelang.ir import Buffer, Expr, Load, Parallel, Stmt, Store, Var, walk
from tilelang.layout import Fragment
from tilelang.tileop.distribute import solve
from tilelang.utils import prod

__all__ = [
    "ACCESS_BYTES",
    "default_fragment",
    "reduce_layout",
    "registers_in_row",
    "restrict",
    "vector_run",
]

ACCESS_BYTES = 16  # the widest access of one thread (PTX ISA, ld.global.v4.b32)


def restrict(loop: Fragment, dims: Sequence[int]) -> Fragment:
    """The layout of a fragment indexed by loop variables `dims`: the other variables' threads hold
    copies, their registers fall away."""
    out = loop
    kept = list(range(len(loop.shape)))
    for d in reversed(range(len(loop.shape))):
        if d not in dims:
            out = out.reduce(d)
            kept.remove(d)
    order = [kept.index(d) for d in dims]
    return out if order == sorted(order) else out.permute(order)


def reduce_layout(src: Fragment, op: Any) -> Fragment:
    """The layout of a reduction's result: src's without the reduced dimension (or with 1 there)."""
    out = src.reduce(op.axis)
    if len(op.dst.extents) == len(op.src.extents):
        out = out.expand(op.axis, 1)
    if not out.shape and len(op.dst.extents) == 1:
        out = out.expand(0, 1)
    return out


def vector_run(layout: Fragment, index: Sequence[Expr], loop_vars: Sequence[Var]) -> int:
    """Registers 0 … n-1 that walk the last loop variable one by one."""
    if not index:
        return 1
    if solve(index[-1], loop_vars) is None:
        return 1
    run = registers_in_row(layout)
    while run > ACCESS_BYTES or layout.regs % run:
        run //= 2
    return max(run, 1)


def registers_in_row(layout: Fragment) -> int:
    """How many registers from 0 on hold consecutive elements of the last dimension."""
    if layout.why_no_digits is not None:  # a table: not known without searching it
        return 1
    run = 1
    for g in sorted(layout.reg_digits, key=lambda g: g.stride):
        if g.stride != run or g.dim != len(layout.shape) - 1 or g.div != run:
            break
        run *= g.extent
    return run


def default_fragment(
    what: Buffer | Stmt,
    threads: int,
    nests: Sequence[Parallel],
    shape: tuple[int, ...] | None = None,
) -> Fragment:
    """Chunks of up to 16 bytes dealt round-robin to the threads: coalesced, and no thread idles
    while another has two chunks. The chunk is as wide as the narrowest row of memory it meets
    allows."""
    if shape is None:
        assert isinstance(what, Buffer)
        shape = what.static_shape
        if shape is None:
            raise AssertionError(f"fragment {what.name} has a symbolic shape")
    widest = _element_bytes(what, nests)
    vector = max(1, ACCESS_BYTES // widest)
    total = prod(shape)
    inner = shape[-1] if shape else 1
    while vector > 1 and (inner % vector or total // vector < min(threads, total)):
        vector //= 2
    return Fragment.row_major_vector(shape, threads, vector)


def _element_bytes(what: Buffer | Stmt, nests: Sequence[Parallel]) -> int:
    """The widest element that moves between memory and the fragment (or in the nest)."""
    touched = [n for n in nests if n is what or (isinstance(what, Buffer) and _uses(n, what))]
    nodes: Iterator[Any] = (x for n in touched for x in walk(n))
    sizes = [x.buffer.dtype.bytes for x in nodes if _memory(x)]
    if not sizes:
        sizes = [what.dtype.bytes] if isinstance(what, Buffer) else [4]
    return max(sizes)


def _memory(x: Any) -> bool:
    return type(x) in (Load, Store) and (x.buffer.is_global or x.buffer.is_shared)


def _uses(n: Parallel, b: Buffer) -> bool:
    return any(isinstance(x, (Load, Store)) and x.buffer is b for x in walk(n))
