# SPDX-License-Identifier: Apache-2.0
"""Are two functions the same up to the names of their variables and buffers?"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Mapping
from typing import Any

from tilelang.ir import Buffer, Const, Node, PrimFunc, Seq, Stmt, Var, flatten

_IGNORED = ("span",)
_HIDDEN = ("spans", "global_symbol")  # not printed


def difference(a: PrimFunc, b: PrimFunc) -> str | None:
    """Where the two functions differ, in words; None if they are alpha-equivalent."""
    return _Compare().func(a, b)


class _Compare:
    def __init__(self) -> None:
        self.pairs: dict[Any, Any] = {}
        self.back: dict[Any, Any] = {}

    def func(self, a: PrimFunc, b: PrimFunc) -> str | None:
        if a.name != b.name or tuple(a.outputs) != tuple(b.outputs):
            return f"{a.name}{a.outputs} and {b.name}{b.outputs}"
        return (
            self.sequence("params", a.params, b.params)
            or self.stmts(_flat(a.body), _flat(b.body))
            or self.value("attrs", dict(a.attrs), dict(b.attrs))
        )

    def sequence(self, what: str, a: Any, b: Any) -> str | None:
        if len(a) != len(b):
            return f"{what}: {len(a)} and {len(b)} items"
        return next((d for x, y in zip(a, b, strict=True) if (d := self.value(what, x, y))), None)

    def stmts(self, a: list[Stmt], b: list[Stmt]) -> str | None:
        return self.sequence("statements", a, b)

    def identity(self, what: str, a: Any, b: Any) -> str | None:
        if a in self.pairs or b in self.back:
            return None if self.pairs.get(a) is b else f"{what}: {a.name} is not {b.name}"
        self.pairs[a], self.back[b] = b, a
        if isinstance(a, Buffer):
            return (
                self.value(f"shape of {a.name}", a.shape, b.shape)
                or self.value(
                    f"dtype of {a.name}", (str(a.dtype), a.scope), (str(b.dtype), b.scope)
                )
                or self.value(f"strides of {a.name}", a.strides, b.strides)
                or self.value(f"view_of of {a.name}", a.view_of, b.view_of)
                or self.value(f"data of {a.name}", a.data, b.data)
            )
        return (
            None if a.dtype is b.dtype else f"{what}: {a.name} is {a.dtype}, {b.name} is {b.dtype}"
        )

    def value(self, what: str, a: Any, b: Any) -> str | None:
        if isinstance(a, (Var, Buffer)) and type(a) is type(b):
            return self.identity(what, a, b)
        if (
            isinstance(a, Stmt)
            and isinstance(b, Stmt)
            and ("Seq" in (type(a).__name__, type(b).__name__))
        ):
            return self.stmts(_flat(a), _flat(b))
        if isinstance(a, Const) and isinstance(b, Const):
            same = a.dtype is b.dtype and _bits(a.value) == _bits(b.value)
            return None if same else f"{what}: {a!r} {a.dtype} and {b!r} {b.dtype}"
        if isinstance(a, Node) and type(a) is type(b):
            names = [f for f in type(a).fields if f not in _IGNORED]
            return next(
                (
                    d
                    for f in names
                    if (d := self.value(f"{type(a).__name__}.{f}", getattr(a, f), getattr(b, f)))
                ),
                None,
            )
        if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
            return self.sequence(what, a, b)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            x, y = ({k: v for k, v in m.items() if k not in _HIDDEN} for m in (a, b))
            return self.sequence(what, list(x.items()), list(y.items()))
        if dataclasses.is_dataclass(a) and type(a) is type(b) and not isinstance(a, type):
            names = [f.name for f in dataclasses.fields(a)]
            return next(
                (
                    d
                    for f in names
                    if (d := self.value(f"{what}.{f}", getattr(a, f), getattr(b, f)))
                ),
                None,
            )
        if callable(a) or callable(b) or type(b).__name__ == "Opaque":
            return None  # printed by name only
        same = type(a) is type(b) and a == b
        return None if same else f"{what}: {a!r} and {b!r}"


def _flat(s: Stmt) -> list[Stmt]:
    """The statements of a body; how they are grouped makes no difference."""
    return [x for c in flatten(s) for x in ([c] if type(c) is not Seq else _flat(c))]


def _bits(v: Any) -> Any:
    return struct.pack("<d", v) if isinstance(v, float) else v
