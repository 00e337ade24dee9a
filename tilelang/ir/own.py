# SPDX-License-Identifier: Apache-2.0
"""`own_copy`: a PrimFunc -> an equal one that shares no buffer and no expression with it.

In: a function of any session, perhaps being compiled by another thread at this moment. Out: a copy
whose expressions are interned in the current session and whose buffers are new, wherever they are
named: in parameters, accesses, allocations, views, annotations and attributes. Variables are
identities without content and are kept; spans are kept too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from .buffer import Buffer
from .expr import Expr, Var
from .func import PrimFunc
from .node import Node

__all__ = ["own_copy"]


def own_copy(func: PrimFunc) -> PrimFunc:
    """The function, for one compilation alone."""
    value = _Copy().value
    return dataclasses.replace(
        func,
        params=tuple(value(p) for p in func.params),
        body=value(func.body),
        attrs={k: value(v) for k, v in func.attrs.items()},
    )


class _Copy:
    """What has been copied. Keys are identities: nothing here is compared by content."""

    def __init__(self) -> None:
        self.exprs: dict[int, Expr] = {}
        self.buffers: dict[int, Buffer] = {}
        self.plain: dict[int, Any] = {}
        self.kept: list[Any] = []  # an identity means nothing once its object is gone

    def value(self, v: Any) -> Any:
        """A copy of whatever may stand in a field."""
        if isinstance(v, Node):
            return self.node(v)
        if isinstance(v, Buffer):
            return self.buffer(v)
        if type(v) is tuple:
            return tuple([self.value(x) for x in v])
        if type(v) is list:
            return [self.value(x) for x in v]
        if isinstance(v, Mapping):
            return {self.value(k): self.value(x) for k, x in v.items()} if v else v
        if dataclasses.is_dataclass(v) and not isinstance(v, type):
            return self.data(v)
        return v

    def node(self, n: Node) -> Any:
        if not isinstance(n, Expr):
            return type(n)(*[self.value(getattr(n, f)) for f in n.fields])
        hit = self.exprs.get(id(n))
        if hit is None:
            hit = n if type(n) is Var else type(n)(*[self.value(getattr(n, f)) for f in n.fields])
            self.exprs[id(n)] = hit
            self.kept.append(n)
        return hit

    def buffer(self, b: Buffer) -> Buffer:
        hit = self.buffers.get(id(b))
        if hit is None:
            hit = self.buffers[id(b)] = Buffer(
                b.name, self.value(b.shape), b.dtype, b.scope, self.value(b.strides),
                self.value(b.view_of), b.span, self.value(b.data),
            )  # fmt: skip
            self.kept.append(b)
        return hit

    def data(self, v: Any) -> Any:
        """A dataclass (a layout, a span): itself, unless a buffer is in one of its fields."""
        hit = self.plain.get(id(v))
        if hit is None:
            fields = {f.name: getattr(v, f.name) for f in dataclasses.fields(v) if f.init}
            held = {k: x for k, x in fields.items() if _holds_buffer(x)}
            hit = (
                dataclasses.replace(v, **{k: self.value(x) for k, x in held.items()}) if held else v
            )
            self.plain[id(v)] = hit
            self.kept.append(v)
        return hit


def _holds_buffer(v: Any) -> bool:
    if isinstance(v, Mapping):
        return any(_holds_buffer(x) for x in (*v, *v.values()))
    if isinstance(v, (tuple, list)):
        return any(_holds_buffer(x) for x in v)
    return isinstance(v, Buffer)
