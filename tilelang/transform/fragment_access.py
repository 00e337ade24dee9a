# SPDX-License-Identifier: Apache-2.0
"""Which elements of which fragments a statement touches."""

from __future__ import annotations

from dataclasses import dataclass

from tilelang.ir import (
    Buffer,
    Expr,
    Load,
    Stmt,
    Store,
    walk,
)

__all__ = ["FragmentAccess", "fragment_accesses"]


@dataclass(frozen=True)
class FragmentAccess:
    buffer: Buffer
    indices: tuple[Expr, ...]
    writes: bool


def fragment_accesses(s: Stmt | Expr) -> list[FragmentAccess]:
    """Element accesses of fragments below `s`, stores first."""
    loads: list[FragmentAccess] = []
    stores: list[FragmentAccess] = []
    for x in walk(s):
        if type(x) is Load and x.buffer.is_fragment:
            loads.append(FragmentAccess(x.buffer, x.indices, False))
        elif type(x) is Store and x.buffer.is_fragment:
            stores.append(FragmentAccess(x.buffer, x.indices, True))
    return stores + loads
