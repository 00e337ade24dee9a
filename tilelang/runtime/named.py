# SPDX-License-Identifier: Apache-2.0
"""Arguments by name, put in their places: what every backend does with the keywords of a call.

In: the call as data, arguments by position, arguments by name. Out: all of them by position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilelang.errors import ArgumentTypeError, ArgumentValueError, did_you_mean

from .launch import CODES

if TYPE_CHECKING:
    from .launch import CallSpec

__all__ = ["by_position"]


def by_position(
    spec: CallSpec, args: Sequence[Any], named: Mapping[str, Any], options: Sequence[str] = ()
) -> tuple[Any, ...]:
    """The arguments of the inputs, or of all parameters if that is what the caller passes. options:
    keywords that the caller has taken out of `named`."""
    everything = [p.name for p in spec.params]
    inputs = [everything[i] for i in spec.inputs]
    with_outputs = len(args) > len(inputs) or any(
        name in everything and name not in inputs for name in named
    )
    order = everything if with_outputs else inputs
    for name in named:
        if name not in order[len(args) :]:
            raise _misplaced(spec, name, order, options)
    left = [name for name in order[len(args) :] if name in named]
    if len(args) + len(left) != len(order):
        raise ArgumentValueError(
            f"kernel {spec.name}: expected {len(order)} arguments ({', '.join(order)}),"
            f" got {len(args) + len(left)}",
            code=CODES["count"],
        )
    return (*args, *(named[name] for name in left))


def _misplaced(
    spec: CallSpec, name: str, order: Sequence[str], options: Sequence[str]
) -> ArgumentTypeError:
    if name in order:
        return ArgumentTypeError(
            f"kernel {spec.name}: parameter {name} is given by position and by name",
            code="TL0971",
            help="pass it once",
        )
    return ArgumentTypeError(
        f"kernel {spec.name}: there is no parameter {name}",
        code="TL0973",
        help=did_you_mean(name, [*order, *options]) or f"the parameters are {', '.join(order)}",
    )
