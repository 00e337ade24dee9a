# SPDX-License-Identifier: Apache-2.0
"""Options of the language that nothing here follows: whoever gives one is told so, once.

In: what was given, and why it changes nothing. Out: a `CompatWarning` at the user's line, the first
time in a process. Only what leaves the meaning of a kernel as it is may be answered like this;
anything else is an `OptionError`.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from typing import Any

from tilelang.errors import CompatWarning, OptionError, TypeMismatchError
from tilelang.ir import const_int

from .trace import Trace, current, maybe_current
from .values import plain

__all__ = ["ONE_EXCHANGE", "access_width", "count", "known_notes", "no_effect"]

ONE_EXCHANGE = "the compiler decides what threads exchange at once"

_SAID: set[str] = set()
"""What has been said in this process."""


def no_effect(what: str, why: str) -> None:
    """Says that `what` does nothing, because of `why`."""
    if what in _SAID:
        return
    _SAID.add(what)
    t = maybe_current()
    span = None if t is None else t.span()
    text = f"{what} is accepted but has no effect: {why}"
    if span is None:
        warnings.warn(text, CompatWarning, stacklevel=3)
    else:
        warnings.warn_explicit(text, CompatWarning, span.file, span.line)


def known_notes(
    what: str, annotations: Mapping[str, Any] | None, known: Collection[str] = ()
) -> dict[str, Any]:
    """Of the `annotations=` of a call those that mean something to it."""
    if annotations is not None and not isinstance(annotations, Mapping):
        raise current(what).error(
            f"{what}: annotations must be a dictionary, got {annotations!r}",
            "TL0247",
            "{'name': value}",
            TypeMismatchError,
        )
    given = {str(k): v for k, v in (annotations or {}).items()}
    for name in given:
        if name not in known:
            no_effect(f"{what}: annotation {name!r}", "no such annotation is known")
    return {k: v for k, v in given.items() if k in known}


def count(t: Trace, what: str, value: Any, least: int = 1) -> int:
    """A hint that is a number known while tracing."""
    n = const_int(plain(value))
    if n is None or n < least:
        raise t.error(
            f"{what} must be a constant >= {least}, got {value!r}",
            "TL0564",
            "use a Python number, or leave it out",
            OptionError,
        )
    return n


def access_width(t: Trace, what: str, width: Any) -> int | None:
    """`coalesced_width`: elements per access that the user wants."""
    if width is None:
        return None
    n = count(t, f"{what}: coalesced_width", width)
    no_effect(f"{what}: coalesced_width", "the widest legal access is always chosen")
    return n
