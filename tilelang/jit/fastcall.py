# SPDX-License-Identifier: Apache-2.0
"""The quick way through an eager call: arguments -> kernel, by one dictionary lookup.

In: what the slow way found out about a function (which arguments are compiled in, where T.const
sizes are read). Out: a function of the positional arguments that gives the lookup key. It is one
generated expression, because a loop over roles would cost more than the kernel's launch:

    lambda a0, a1, a2: (a0.shape[0], a0.shape[1], a2.__class__, a2)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from numbers import Number
from typing import Any

from tilelang.language.eager import ConstMatcher, EagerFunction

__all__ = ["is_told_apart", "key_function"]


def is_told_apart(value: Any) -> bool:
    """Is every compile-time argument that equals this one, and is of its class, the same argument?
    (1,) equals (1.0,), and 0.0 equals -0.0."""
    if isinstance(value, (tuple, frozenset)):
        return False
    return isinstance(value, (int, str)) or not isinstance(value, Number) or abs(value) > 0  # type: ignore[arg-type]


def key_function(
    eager: EagerFunction, names: Sequence[str], matchers: Iterable[ConstMatcher]
) -> Callable[..., Any] | None:
    """The key of a call whose arguments are these parameters, in this order; None where only the
    slow way will do.

    Different spellings of one call may have different keys; equal keys mean the same kernel.
    """
    runtime = eager.runtime_names
    if set(runtime) - set(names) or set(names) - set(eager.signature.parameters):
        return None
    parts: list[str] = []
    for at, name in enumerate(names):
        if name not in runtime:
            parts += [f"a{at}.__class__", f"a{at}"]
        elif name in eager.bare_names:
            parts += [f"tuple(a{at}.shape)", f"a{at}.dtype"]
    for m in matchers:
        if m.kind != "shape":
            return None
        parts.append(f"a{list(names).index(runtime[m.index])}.shape[{m.dim}]")
    return _compiled(len(names), parts)


def _compiled(count: int, parts: Sequence[str]) -> Callable[..., Any]:
    """Only our own names and numbers are in the text."""
    params = ", ".join(f"a{i}" for i in range(count))
    items = "".join(f"{p}, " for p in parts)
    made: Callable[..., Any] = eval(f"lambda {params}: ({items})", {"tuple": tuple})
    return made
