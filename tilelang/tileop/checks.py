# SPDX-License-Identifier: Apache-2.0
"""What the `check()` of an op needs to say what is wrong: places, buffers described with theirs.

In: the target, the span of the statement and of its arguments (`TileStmt.annotations["spans"]`,
field name -> span, as the front end recorded them). Out: texts and notes for `TileError`s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilelang.errors import Note, Span
from tilelang.ir import Const, Region, Scope

if TYPE_CHECKING:
    from tilelang.ir import Buffer, Expr
    from tilelang.target import Target

__all__ = ["CheckContext", "describe", "differ", "same", "shape_text"]

_SCOPE_NAMES = {
    Scope.SHARED: "shared", Scope.SHARED_STATIC: "static shared", Scope.FRAGMENT: "fragment",
    Scope.LOCAL: "local", Scope.VAR: "variable", Scope.GLOBAL: "global", Scope.BARRIER: "barrier",
    Scope.REDUCER: "reducer",
}  # fmt: skip


@dataclass(frozen=True)
class CheckContext:
    """target: None while it is not known. span: of the call. spans: of its arguments, by field."""

    target: Target | None = None
    span: Span | None = None
    spans: Mapping[str, Span] = field(default_factory=dict)

    def marks(self, *fields: str) -> tuple[Span, ...]:
        """The arguments to underline."""
        return tuple(self.spans[f] for f in fields if f in self.spans)


def scope_name(buffer: Buffer) -> str:
    return _SCOPE_NAMES.get(buffer.scope, buffer.scope)


def shape_text(extents: tuple[Expr, ...]) -> str:
    return ", ".join(str(e) for e in extents)


def describe(item: Region | Buffer) -> Note:
    """`A_shared: shared float16[128, 64], allocated at gemm.py:22`; a part says which."""
    buffer = item.buffer if isinstance(item, Region) else item
    text = f"{buffer.name}: {scope_name(buffer)} {buffer.dtype}[{shape_text(buffer.shape)}]"
    if isinstance(item, Region) and not item.is_whole:
        text += f", of which {item!r} ({shape_text(item.extents)})"
    return Note(text, buffer.span, "declared" if buffer.is_global else "allocated")


def differ(a: Expr, b: Expr) -> bool:
    """Are the two certainly different? (Symbolic extents are not judged.)"""
    return type(a) is Const and type(b) is Const and a.value != b.value


def same(a: Expr, b: Expr) -> bool:
    """Are the two certainly equal?"""
    return a is b or (type(a) is Const and type(b) is Const and a.value == b.value)
