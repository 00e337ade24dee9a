# SPDX-License-Identifier: Apache-2.0
"""Statements over elements: arithmetic, reductions, atomic updates, and the control flow around
them.

In: a `Writer`. Out: its lines, and the tiles and vectors that they give values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .copies import convert, fill, through_shared
from .products import loop_head, more_product
from .program import EXACT, SMALL, Tile, Writer

__all__ = ["conditional", "counted", "elementwise", "histogram", "reduce", "repeated"]

Statement = Callable[[Writer], None]


def elementwise(p: Writer) -> None:
    f, g = p.some(), p.some()
    value, limit = _value(p, f, g)
    value, limit = p.stored(value, limit)
    with p.nest():
        store = f"{f.name}[i, j] = {value}"
        guard = p.choices.pick(["", f"bx + i < {p.choices.number(p.m)}", "(i + j) % 3 != 0"])
        if guard:
            with p.block(f"if {guard}:"):
                p.emit(store)
        else:
            p.emit(store)
    f.limit = max(f.limit, limit)


def _value(p: Writer, f: Tile, g: Tile) -> tuple[str, int]:
    x, y, both = f"{f.name}[i, j]", f"{g.name}[i, j]", max(f.limit, g.limit)
    i, j = p.cast("i * 2 - j", "int32"), p.cast("(i + j) // 3 % 5", "int32")
    options = [
        (f"{x} + {y}", f.limit + g.limit), (f"{x} - {y}", f.limit + g.limit),
        (f"T.min({x}, {y}) - 1", both + 1), (f"T.max({x}, {y})", both), (f"-{x}", f.limit),
        (f"{x} + {i}", f.limit + 3 * max(p.m, p.n)), (f"{x} + {j}", f.limit + 5),
        (f"T.if_then_else(j % 3 == 1, {x}, {y})", both), (f"T.abs({x})", f.limit),
        (f"{x} * 2", 2 * f.limit), (f"T.min({x}, 0) - 4", f.limit + 4),
        (f"T.if_then_else({x} > {y}, {x}, 2)", both + 2),
    ]  # fmt: skip
    options += [(f"{x} - {v.name}[i]", f.limit + v.limit) for v in p.row_vectors]
    options += [(f"T.min({x}, {v.name}[j])", f.limit + v.limit) for v in p.column_vectors]
    return p.choices.pick(options)


def reduce(p: Writer) -> None:
    kind = p.choices.pick(["sum", "max", "min", "absmax", "abssum"])
    dim = p.choices.pick([1, 0, -1])
    t, extent = p.some(), p.m if dim == 0 else p.n
    if kind.endswith("sum"):
        p.bound(t, EXACT // 128)
    out = Tile(p.alloc(f"{p.n if dim == 0 else p.m},", p.acc, "fragment"))
    out.limit = 1 + t.limit * (extent if kind.endswith("sum") else 1)
    keep = kind in ("sum", "max", "min") and p.choices.flag()
    if keep:
        p.emit(f"T.fill({out.name}, 1)")
    clear = ", clear=False" if keep else ""
    p.emit(f"T.reduce_{kind}({t.name}, {out.name}, dim={dim}{clear})")
    (p.column_vectors if dim == 0 else p.row_vectors).append(out)


def histogram(p: Writer) -> None:
    """Atomic updates of shared memory by value, then of global memory."""
    t, bins = p.some(), p.choices.between(1, 9)
    s, g = p.alloc(f"{bins},", "int32", "shared"), p.tensor(f"{bins},", "int32")
    p.emit(f"T.clear({s})")
    update = p.choices.pick(["T.atomic_add({}, 1)", "T.atomic_max({}, i - j)"])
    place = f'{s}[T.cast(T.abs({t.name}[i, j]), "int32") % {bins}]'
    with p.nest():
        p.emit(update.format(place))
    p.emit(f"T.atomic_add({g}, {s})" if "add" in update else f"T.atomic_max({g}, {s})")


# ------------------------------------------------------------------------------ control flow

INNER: Sequence[Statement] = (elementwise, fill, through_shared, convert, more_product)


def _inner(p: Writer) -> None:
    for t in p.tiles:
        t.limit = max(t.limit, 1000)  # of what a loop adds, the sum is cut there
    p.choices.pick(INNER)(p)


def repeated(p: Writer) -> None:
    """A loop or a pipeline around statements, pipelines too."""
    var = f"r{len(p.lines)}"
    with p.block(loop_head(p, var, p.choices.between(0, 3), around=True), repeats=True):
        _inner(p)
        p.choices.repeat(1, lambda: _inner(p))
        if p.choices.number(3) == 3:
            with p.block(f"if {var} == {p.choices.number(2)}:"):
                p.emit(p.choices.pick(["break", "continue"]))
            elementwise(p)


def conditional(p: Writer) -> None:
    """A block takes a branch, or another one."""
    with p.block(p.choices.pick(["if bx > 0:", f"if {p.scalar(1)} > bx:"])):
        _inner(p)
    if p.choices.flag():
        with p.block("else:"):
            elementwise(p)


def counted(p: Writer) -> None:
    """A while loop over a variable that the nest reads."""
    v, t = p.variable(), p.some()
    p.bound(t, EXACT // 2)
    with p.block(f"while {v} < {p.choices.number(4)}:"):
        p.emit(f"{v} = {v} * 2 + 1")
        with p.nest():
            p.emit(f"{t.name}[i, j] = {t.name}[i, j] + {p.cast(v, 'int32')}")
    t.limit += 7 * SMALL
