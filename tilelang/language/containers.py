# SPDX-License-Identifier: Apache-2.0
"""Lists, dicts and sets of Python in a kernel: they live while tracing, once.

In: an object that a statement is about to change. Out: a LanguageError where the change stands in a
loop or a branch that is decided at run time and the object was made outside of it: the loop is
traced once and both branches are, so the change could not mean what it says. (`Trace.made` holds
what was made inside of which loop or branch.)
"""

from __future__ import annotations

from collections.abc import MutableMapping, MutableSequence, MutableSet
from typing import Any

from .trace import Trace

__all__ = ["MUTATORS", "check_change", "is_container", "note_made"]

MUTATORS = frozenset((
    "add", "append", "appendleft", "clear", "difference_update", "discard", "extend", "insert",
    "intersection_update", "pop", "popitem", "popleft", "remove", "reverse", "setdefault", "sort",
    "symmetric_difference_update", "update",
))  # fmt: skip
_KINDS = (MutableSequence, MutableMapping, MutableSet)


def is_container(value: Any) -> bool:
    """A mutable collection of Python's (or an array of numpy's)."""
    return isinstance(value, _KINDS) or type(value).__module__ == "numpy"


def note_made(t: Trace, value: Any) -> None:
    """`value` was made here, with what is inside it."""
    region = t.runtime_region()
    if region is None:
        return
    items = value.values() if isinstance(value, dict) else value
    if is_container(value):
        if id(value) in t.made and t.made[id(value)][0] is value:
            return
        t.made[id(value)] = (value, region)
    if isinstance(value, (list, tuple, dict)):
        for item in items:
            note_made(t, item)


def check_change(t: Trace, value: Any, what: str) -> None:
    """Refuses the change of a container; `what` says which."""
    region = t.runtime_region()
    if region is None or not is_container(value):
        return
    known = t.made.get(id(value))
    if known is not None and known[0] is value and known[1] is region:
        return
    raise t.error(
        f"{what} inside a loop or branch that is decided when the kernel runs",
        "TL0173",
        "a Python object changes once, while tracing: make what changes at run time mutable with "
        "T.alloc_var(dtype), or T.alloc_local((n,), dtype) for several values",
    )
