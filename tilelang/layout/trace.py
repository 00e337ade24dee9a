# SPDX-License-Identifier: Apache-2.0
"""Layouts given as Python functions of the coordinates.

In: a shape and a function. It is called once, on variables; what it returns is compared with digits
(and an XOR swizzle). Out: a `Layout` or `Fragment` of digits where that is what the function means,
else a table that keeps the function's expression. Two coordinates in one place are an error that
names both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from tilelang.arith import Facts
from tilelang.errors import LayoutError
from tilelang.ir import Expr, Var, as_expr, substitute
from tilelang.ir.evaluate import evaluate_arrays

from . import digits as dg
from .digits import Digit
from .fragment import Fragment
from .layout import Layout
from .swizzle import Swizzle
from .table import FragmentTable, LayoutTable

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MOST_ELEMENTS = 1 << 22  # domains up to this size are tabulated to be matched and checked


def layout_from_function(
    shape: Sequence[int], function: Callable[..., Any]
) -> Layout | LayoutTable:
    """A memory layout; the function returns an address, or physical coordinates (row-major)."""
    shape = tuple(int(s) for s in shape)
    variables = [Var(f"i{d}") for d in range(len(shape))]
    formula = _flat(shape, variables, function(*variables))
    addresses = _tabulated(shape, variables, formula)
    _check_one_place_each(shape, addresses.ravel(), "address")
    found = match_layout(addresses)
    if found is not None:
        return found
    why = "the function is no sum of digits of its arguments, swizzled or not"
    return LayoutTable(shape, addresses, why, formula=lambda at: _at(formula, variables, at))


def fragment_from_functions(
    shape: Sequence[int],
    thread: Callable[..., Any],
    register: Callable[..., Any] | None = None,
    replicate: int = 1,
    threads: int | None = None,
) -> Fragment | FragmentTable:
    """A fragment from `thread(*coords, rep)` (without `rep` if there is one replica) and
    `register(*coords)`; without `register`, each thread's elements are numbered in row-major order.
    `threads` defaults to the highest thread used, plus one.
    """
    import numpy as np

    shape = tuple(int(s) for s in shape)
    variables = [Var(f"i{d}") for d in range(len(shape))]
    rep = Var("rep")
    arguments = [*variables, rep] if replicate > 1 else variables
    owner_formula = as_expr(_single(thread(*arguments)))
    owner = _tabulated((*shape, replicate), [*variables, rep], owner_formula)
    if register is None:
        place = _numbered(owner[..., 0])
        place_formula = None
    else:
        place_formula = _flat(shape, variables, register(*variables))
        place = _tabulated(shape, variables, place_formula)
    count = int(owner.max(initial=0)) + 1 if threads is None else threads
    regs = int(place.max(initial=0)) + 1
    for r in range(replicate):
        _check_one_place_each(shape, (owner[..., r] * regs + place).ravel(), "thread and register")
    found = _match_fragment(shape, replicate, count, owner, place)
    if found is not None:
        return found
    why = "the functions are no sums of digits of their arguments"
    table = FragmentTable(shape, count, np.moveaxis(owner, -1, 0), place, why)
    table.formulas = (
        lambda at, r: _at(owner_formula, [*variables, rep], [*at, r]),
        None if place_formula is None else lambda at: _at(place_formula, variables, at),
    )
    return table


def _single(result: Any) -> Any:
    if isinstance(result, (list, tuple)):
        if len(result) != 1:
            raise LayoutError(
                f"a fragment's thread is one number, the function returned {len(result)}",
                code="TL1101",
                help="one function gives the thread, another the register",
            )
        return result[0]
    return result


def _at(formula: Expr, variables: Sequence[Var], coords: Sequence[Any]) -> Any:
    out = substitute(formula, {v: as_expr(x) for v, x in zip(variables, coords, strict=True)})
    assert isinstance(out, Expr)
    return out


def _flat(shape: Sequence[int], variables: Sequence[Var], result: Any) -> Expr:
    """Physical coordinates flattened in row-major order; their extents follow from the shape."""
    if not isinstance(result, (list, tuple)):
        return as_expr(result)
    parts = [as_expr(r) for r in result]
    f = Facts()
    for v, s in zip(variables, shape, strict=True):
        f.bind(v, 0, s)
    out: Expr = as_expr(0)
    for n, p in enumerate(parts):
        low, high = f.bounds(p)
        if n and (high is None or low is None or low < 0):
            raise LayoutError(
                f"the range of the physical coordinate `{p}` is not known",
                code="TL1102",
                help="make it a sum of the coordinates times constants, // and % constants",
            )
        out = out * (1 if high is None else high + 1) + p if n else p
    return out


def _tabulated(shape: Sequence[int], variables: Sequence[Var], formula: Expr) -> Array:
    import numpy as np

    if prod(shape) > MOST_ELEMENTS:
        raise LayoutError(
            f"a layout over {prod(shape)} elements cannot be given as a function",
            code="TL1103",
            help="give the layout of one tile",
        )
    grid = np.indices(tuple(shape), dtype=np.int64, sparse=True)
    values = evaluate_arrays(formula, dict(zip(variables, grid, strict=True)))
    return np.broadcast_to(np.asarray(values, dtype=np.int64), tuple(shape))


def _check_one_place_each(shape: Sequence[int], places: Array, what: str) -> None:
    import numpy as np

    if places.size and places.min() < 0:
        at = _element(shape, int(places.argmin()))
        raise LayoutError(
            f"element {at} has the negative {what} {places.min()}",
            code="TL1104",
            help="let the function count from 0",
        )
    order = np.argsort(places, kind="stable")
    same = np.nonzero(np.diff(places[order]) == 0)[0]
    if len(same):
        first, second = (_element(shape, int(order[same[0] + n])) for n in (0, 1))
        raise LayoutError(
            f"the layout is not one-to-one: elements {first} and {second} have the same {what}",
            code="TL1105",
            help="give every element a place of its own, e.g. lambda i, j: i * columns + j",
        )


def _element(shape: Sequence[int], flat: int) -> tuple[int, ...]:
    return tuple(int(x) for x in dg.unflatten(flat, shape))


def _numbered(owner: Array) -> Array:
    """Each element's number among those of its thread, in row-major order."""
    import numpy as np

    flat = owner.ravel()
    order = np.argsort(flat, kind="stable")
    first = np.searchsorted(flat[order], flat[order])
    out = np.empty_like(flat)
    out[order] = np.arange(flat.size) - first
    return out.reshape(owner.shape)


# --------------------------------------------------------------------------------------- matching


def match_layout(addresses: Array) -> Layout | None:
    """The digits (and swizzle) that give these addresses, if there are any."""
    for swizzle in (None, *_swizzles(int(addresses.max(initial=0)))):
        plain = addresses if swizzle is None else swizzle.apply(addresses)
        fitted = fit(plain)
        if fitted is not None:
            digits, offset = fitted
            return Layout(addresses.shape, digits, swizzle, offset)
    return None


def _swizzles(highest: int) -> list[Swizzle]:
    """Swizzles whose source bits addresses up to `highest` have, the widest first."""
    bits = highest.bit_length()
    return [
        Swizzle(n, base, shift)
        for n in (3, 2, 1, 4)
        for base in range(8)
        for shift in range(n, 9)
        if base + shift < bits
    ]


def fit(values: Array) -> tuple[list[Digit], int] | None:
    """(digits, offset) with values[coords] == offset + sum of digits, or None."""
    import numpy as np

    if values.size == 0:
        return [Digit(d, 1, s, 0) for d, s in enumerate(values.shape)], 0
    origin: tuple[Any, ...] = (0,) * values.ndim
    offset = int(values[origin])
    total = np.asarray(offset)
    digits: list[Digit] = []
    for d, extent in enumerate(values.shape):
        line = values[(*origin[:d], slice(None), *origin[d + 1 :])] - offset
        found = _fit_line(line, d, 1)
        if found is None:
            return None
        digits += found
        total = total + line.reshape((extent,) + (1,) * (values.ndim - d - 1))
    return (
        (digits, offset) if np.array_equal(np.broadcast_to(total, values.shape), values) else None
    )


def _fit_line(line: Array, dim: int, div: int) -> list[Digit] | None:
    """Digits of one coordinate: line[x] as a function of x, starting at `div`."""
    import numpy as np

    if len(line) <= 1:
        return []
    stride = int(line[1])
    wrong = np.nonzero(line != np.arange(len(line)) * stride)[0]
    run = int(wrong[0]) if len(wrong) else len(line)
    if stride < 0:
        return None
    if run == len(line):
        return [Digit(dim, div, run, stride)]
    outer = line[::run]
    if not np.array_equal(
        line, np.repeat(outer, run)[: len(line)] + np.arange(len(line)) % run * stride
    ):
        return None
    rest = _fit_line(outer, dim, div * run)
    return None if rest is None else [Digit(dim, div, run, stride), *rest]


def _match_fragment(
    shape: Sequence[int], replicate: int, threads: int, owner: Array, place: Array
) -> Fragment | None:
    """Thread and register as digits that together make up each coordinate exactly once."""
    from tilelang.errors import InternalError

    thread_fit, reg_fit = fit(owner), fit(place)
    if thread_fit is None or reg_fit is None or thread_fit[1] or reg_fit[1]:
        return None
    rep_dim = len(shape)
    replicas = [(d.extent, d.stride) for d in thread_fit[0] if d.dim == rep_dim and d.stride]
    if prod(e for e, _ in replicas) != replicate:
        return None
    owners = [d for d in thread_fit[0] if d.dim != rep_dim and d.stride]
    registers = [d for d in reg_fit[0] if d.stride]
    try:
        return Fragment(shape, threads, owners, registers, replicas)
    except InternalError:  # digits that overlap or leave holes: no mixed radix
        return None
