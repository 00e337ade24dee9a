# SPDX-License-Identifier: Apache-2.0
"""A Python function of a kernel's own parameters, so that a call may name them.

In: the call as data and what the function does. Out: a function whose text is generated: Python
itself then puts keywords in their places, which a call by position does not pay for.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilelang.runtime.named import by_position

if TYPE_CHECKING:
    from tilelang.runtime.launch import CallSpec

__all__ = ["given", "with_parameters"]


class _Nothing:
    """Stands for an argument that the caller left out."""


_NOTHING = _Nothing()


def given(args: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments that the caller passed."""
    return tuple(x for x in args if x is not _NOTHING)


def with_parameters(
    spec: CallSpec,
    native: Callable[..., Any],
    retry: Callable[[Exception, tuple[Any, ...]], Any],
    numpy_first: tuple[int, type, Callable[..., Any]] | None = None,
) -> Callable[..., Any] | None:
    """`native` of these parameters and further ones by position; what it refuses goes to `retry`.
    None for names that Python does not take.

    numpy_first: (position, class, function): the function is called if that argument is of that
    class.
    """
    parameters = [spec.params[i].name for i in spec.inputs]
    usable = all(p.isidentifier() and not keyword.iskeyword(p) for p in parameters)
    if not parameters or not usable or any(p.startswith("_") for p in parameters):
        return None
    args = ", ".join(parameters)
    defaults = ", ".join(f"{p}=_nothing" for p in parameters)
    lines = [
        f"def _call({defaults}, *_rest, **_named):",
        f"  if _named: return _call(*_ordered(({args},), _rest, _named))",
    ]
    if numpy_first is not None:
        first = parameters[numpy_first[0]]
        lines += [
            f"  try: _is_array = {first}.__class__ is _array",
            f"  except ReferenceError as _error: return _retry(_error, ({args}, *_rest))",
            "  if _is_array:",
            f"    if {parameters[-1]} is _nothing: return _other(*_given(({args},)))",
            f"    return _other({args}, *_rest)",
        ]
    lines += [
        "  if _rest:",
        f"    try: return _native({args}, *_rest)",
        f"    except Exception as _error: return _retry(_error, ({args}, *_rest))",
        f"  try: return _native({args})",
        f"  except Exception as _error: return _retry(_error, ({args},))",
    ]

    def ordered(
        values: tuple[Any, ...], rest: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[Any, ...]:
        """A call that names something else than an input: an output, or nothing that there is."""
        if rest:
            return by_position(spec, (*values, *rest), named)
        known = zip(parameters, values, strict=True)
        return by_position(spec, (), {p: v for p, v in known if v is not _NOTHING} | named)

    names: dict[str, Any] = {
        "_nothing": _NOTHING, "_given": given, "_native": native, "_retry": retry,
        "_ordered": ordered,
    }  # fmt: skip
    if numpy_first is not None:
        _, names["_array"], names["_other"] = numpy_first
    exec("\n".join(lines), names)
    made: Callable[..., Any] = names["_call"]
    made.__name__ = made.__qualname__ = spec.name
    return made
