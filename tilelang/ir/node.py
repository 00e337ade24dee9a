# SPDX-License-Identifier: Apache-2.0
"""`@node`: annotated fields -> a slotted, immutable IR class.

In: a class whose annotations name its fields. Out: the same class with `__slots__`, a generated
`__new__`, `children`, `map_children` and `__match_args__`.

An `Expr` subclass is hash-consed: inside a `session()` two structurally equal expressions are the
same object, so `is` compares them and they make fast dictionary keys. Outside a session nothing is
interned (a module-level `T.dynamic` must not leak into a compile on another thread); each compiler
entry point makes a copy of its own (`ir.own_copy`). A `Stmt` keeps its identity and may
carry a span.

Immutability is checked by the type checker, not at run time: a `__setattr__` would cost 60 % more
per node built (measured).
"""

from __future__ import annotations

import operator
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_table: ContextVar[dict[Any, Any] | None] = ContextVar("tilelang_intern_table", default=None)

NODES: dict[str, type] = {}
"""Every node class by name: what `Visitor` and `Rewriter` check their method names against."""


@contextmanager
def session() -> Iterator[None]:
    """Opens a fresh interning table for this thread of control; nested sessions share the outer
    one."""
    if _table.get() is not None:
        yield
        return
    token = _table.set({})
    try:
        yield
    finally:
        _table.reset(token)


@contextmanager
def fresh_session() -> Iterator[None]:
    """Opens a table of its own even inside a session (a compile started from within a trace)."""
    token = _table.set({})
    try:
        yield
    finally:
        _table.reset(token)


def in_session() -> bool:
    return _table.get() is not None


def session_memo(name: str) -> dict[Any, Any]:
    """Answers about nodes (which never change), kept as long as the session; outside of one, a new
    dictionary."""
    table = _table.get()
    if table is None:
        return {}
    memo: dict[Any, Any] | None = table.get(name)
    if memo is None:
        memo = table[name] = {}
    return memo


class Node:
    """Root of all IR classes."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()
    fields: ClassVar[tuple[str, ...]] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, f) for f in self.fields)

    @property
    def children(self) -> tuple[Any, ...]:
        return ()

    def map_children(self, f: Callable[[Any], Any]) -> Any:
        """This node with `f` applied to each child; the same object if no child changed."""
        return self


_ONE = {"Expr", "Stmt", "Expr | None", "Stmt | None", "Region", "Region | None", "TileOp"}
_MANY = {"tuple[Expr, ...]", "tuple[Stmt, ...]", "tuple[Region, ...]"}


@dataclass_transform(frozen_default=True, eq_default=False)
def node(cls: type) -> type:
    """Class decorator: see the module docstring.

    A class may define `_infer(self) -> DType` (computes the `dtype` slot), `_key(...)` (a static
    method: the interning key from the field values, where plain equality would merge too much),
    and `_defaults` (field -> default value).
    """
    annotations = get_annotations(cls)
    own = tuple(f for f in annotations if not str(annotations[f]).startswith("ClassVar"))
    inherited: tuple[str, ...] = tuple(getattr(cls, "fields", ()))
    fields = inherited + own
    kinds: dict[str, str] = dict(getattr(cls, "_kinds", {}))
    kinds.update({f: str(annotations[f]) for f in own})
    body = {
        k: v
        for k, v in cls.__dict__.items()
        if k not in ("__dict__", "__weakref__", "__annotations__", *own)
    }
    defaults = {
        **getattr(cls, "_defaults", {}),
        **{f: cls.__dict__[f] for f in own if f in cls.__dict__},
    }
    needs_dtype = hasattr(cls, "_infer") and "dtype" not in own and not _has_slot(cls, "dtype")
    slots = own + (("dtype",) if needs_dtype else ())
    body.update(
        __slots__=slots,
        __match_args__=fields,
        fields=fields,
        _kinds=kinds,
        _defaults=defaults,
        __annotations__=annotations,
    )
    out = type(cls.__name__, cls.__bases__, body)
    interned = getattr(out, "_interned", False)
    _generate(out, fields, kinds, defaults, interned)
    NODES[cls.__name__] = out
    return out


def _has_slot(cls: type, name: str) -> bool:
    return any(name in getattr(base, "__slots__", ()) for base in cls.__mro__[1:])


def _generate(
    cls: Any,
    fields: tuple[str, ...],
    kinds: dict[str, str],
    defaults: dict[str, Any],
    interned: bool,
) -> None:
    """Compiles `__new__`, `children` and `map_children` for one class."""
    one = [f for f in fields if kinds[f] in _ONE]
    many = [f for f in fields if kinds[f] in _MANY]
    env: dict[str, Any] = {
        "cls": cls,
        "alloc": object.__new__,
        "is_": operator.is_,
        "table": _table.get,
        "defaults": defaults,
    }
    text = _new_text(cls, fields, defaults, interned) + _children_text(fields, one, many)
    exec(compile(text, f"<node {cls.__name__}>", "exec"), env)
    cls.__new__ = staticmethod(env["__new__"])
    cls.children = property(env["children"])
    cls.map_children = env["map_children"]


def _new_text(cls: Any, fields: tuple[str, ...], defaults: dict[str, Any], interned: bool) -> str:
    params = ", ".join(f"{f}=defaults[{f!r}]" if f in defaults else f for f in fields)
    lines = [f"def __new__(_cls, {params}):"]
    if interned:
        key = (
            f"_cls._key({', '.join(fields)})"
            if hasattr(cls, "_key")
            else "".join(f"{f}, " for f in fields)
        )
        lines += [
            "  memo = table()",
            "  if memo is not None:",
            f"    key = (_cls, {key})",
            "    self = memo.get(key)",
            "    if self is not None: return self",
        ]
    lines.append("  self = alloc(_cls)")
    lines += [f"  self.{f} = {f}" for f in fields]
    if hasattr(cls, "_infer"):
        lines.append("  self.dtype = self._infer()")
    if hasattr(cls, "_check"):
        lines.append("  self._check()")
    if interned:
        lines.append("  if memo is not None: memo[key] = self")
    lines.append("  return self")
    return "\n".join(lines) + "\n"


def _children_text(fields: tuple[str, ...], one: list[str], many: list[str]) -> str:
    items = [f"*(() if self.{f} is None else (self.{f},)), " for f in one] + [
        f"*self.{f}, " for f in many
    ]
    lines = [f"def children(self): return ({''.join(items)})", "def map_children(self, f):"]
    for f in one:
        lines += [f"  o_{f} = self.{f}", f"  {f} = o_{f} if o_{f} is None else f(o_{f})"]
    for f in many:
        lines += [f"  o_{f} = self.{f}", f"  {f} = tuple([f(x) for x in o_{f}])"]
    same = [f"{f} is o_{f}" for f in one]
    same += [f"len({f}) == len(o_{f}) and all(map(is_, {f}, o_{f}))" for f in many]
    if same:
        rebuilt = ", ".join(f if f in one or f in many else f"self.{f}" for f in fields)
        lines += [f"  if {' and '.join(same)}: return self", f"  return cls({rebuilt})"]
    else:
        lines.append("  return self")
    return "\n".join(lines) + "\n"
