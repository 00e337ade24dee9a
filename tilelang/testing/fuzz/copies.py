# SPDX-License-Identifier: Apache-2.0
"""Statements that move values: between global tensors, shared tiles and fragments, whole, ragged,
repeated, turned, through other dtypes, layouts and views.

In: a `Writer`. Out: its lines, and the tiles that they give values.
"""

from __future__ import annotations

from .program import CONVERTIBLE, EXACT, SMALL, Tile, Writer

__all__ = ["box", "convert", "fill", "load", "load_elements", "masked_rows", "reshaped", "store",
           "through_shared"]  # fmt: skip


def _rows_of_block(p: Writer) -> str:
    return f"bx * {p.m} : bx * {p.m} + {p.m}"


def load(p: Writer) -> None:
    """A ragged piece of a tensor, perhaps through shared memory."""
    dtype = p.dtype if p.choices.flag() else p.choices.pick(["float16", "int8", "float32"])
    g, t = p.tensor(f"{p.rows}, {p.n}", dtype), p.tile()
    if not p.choices.flag():
        p.emit(f"T.copy({g}[{_rows_of_block(p)}, :], {t.name})")
        return
    s = p.shared(dtype)
    p.emit(f"T.copy({g}[{_rows_of_block(p)}, :], {s})", f"T.copy({s}, {t.name})")


def load_elements(p: Writer) -> None:
    """Elements of a tensor, shifted: outside of it they are zero."""
    g, t = p.tensor(f"{p.rows}, {p.n}", p.dtype), p.tile()
    down, right = p.choices.pick([0, 1, -1, 2, -2]), p.choices.pick([0, 1, -1, 2])
    value = p.cast(f"{g}[bx * {p.m} + i + {down}, j - {right}]", p.dtype)
    with p.nest():
        p.emit(f"{t.name}[i, j] = {value}")


def convert(p: Writer) -> None:
    """Through another dtype and back."""
    dtype = p.choices.pick(["float32", "float16", "bfloat16", "int8", "int32", "int16", "int64",
                            "float8_e4m3fn", "float8_e5m2", "float64"])  # fmt: skip
    t = p.some()
    p.bound(t, CONVERTIBLE[dtype] * 3 // 4)
    other = p.shared(dtype) if p.choices.flag() else p.fragment(dtype)
    p.emit(f"T.copy({t.name}, {other})", f"T.copy({other}, {t.name})")
    t.limit = min(t.limit * 5 // 4 + 1, EXACT)


def _layout(p: Writer, s: str) -> None:
    """Where the shared tile's elements are: swizzled, padded, column-major, or as it likes."""
    forms = ["", f"T.Layout({s}.shape, lambda i, j: i * {p.n + 8} + j)",
             f"T.Layout({s}.shape, lambda i, j: j * {p.m} + i)",
             f"tilelang.layout.make_linear_layout({s})"]  # fmt: skip
    if p.n % 32 == 0 and p.m % 8 == 0:
        forms.append(f"tilelang.layout.make_swizzled_layout({s})")
    form = p.choices.pick(forms)
    if form:
        p.emit(f"T.annotate_layout({{{s}: {form}}})")


def through_shared(p: Writer) -> None:
    """To shared memory, and the turned elements back."""
    t, s = p.some(), p.shared(p.acc)
    if p.depth == 0:
        _layout(p, s)
    p.emit(f"T.copy({t.name}, {s})")
    row = p.choices.pick(["i", f"{p.m - 1} - i", f"(i + 1) % {p.m}"])
    column = p.choices.pick(["j", f"{p.n - 1} - j", f"(j + 3) % {p.n}"])
    with p.nest():
        p.emit(f"{t.name}[i, j] = {s}[{row}, {column}]")


def reshaped(p: Writer) -> None:
    """A shared tile read through a view of another shape."""
    t, s = p.some(), p.shared(p.acc)
    size, shift = p.m * p.n, p.choices.number(p.n)
    view = p.choices.pick([f"T.reshape({s}, ({size},))", f"T.view({s}, ({size},))"])
    name = f"w{s}"
    p.emit(f"T.copy({t.name}, {s})", f"{name} = {view}")
    with p.nest():
        p.emit(f"{t.name}[i, j] = {name}[(i * {p.n} + j + {shift}) % {size}]")


def box(p: Writer) -> None:
    """A part of a shared tile, repeated along one dimension, over a whole one."""
    t, s, u = p.some(), p.shared(p.acc), p.shared(p.acc)
    row, high = p.choices.number(p.m - 1), p.choices.between(1, p.m)
    p.emit(
        f"T.copy({t.name}, {s})", f"T.copy({t.name}, {u})",
        f"T.copy({s}[{row}, :], {u}[0:{high}, :])", f"T.copy({u}, {t.name})",
    )  # fmt: skip


def fill(p: Writer) -> None:
    t, value = p.some(), p.choices.pick([0, 1, -1, 2, -2])
    p.emit(f"T.fill({t.name}, {value})" if value else f"T.clear({t.name})")


def masked_rows(p: Writer) -> None:
    """Rows that a table names, added where a mask is set: the copy may be conditional."""
    steps, t = p.choices.between(1, 4), p.some()
    mask, g = p.tensor(f"{steps},", "int32"), p.tensor(f"{4 * steps}, {p.n}", p.dtype)
    s = p.alloc(f"{p.n},", p.dtype, "shared")
    row = p.choices.pick(["k * 2", f"{mask}[k] + 3"])
    always = p.choices.flag()
    copy = f"T.copy({g}[{row}, :], {s})"
    p.bound(t, EXACT // 2)
    value = f"{t.name}[i, j] + {p.cast(f'{s}[j]', p.dtype)}"
    with p.block(f"for k in T.Pipelined({steps}, num_stages={p.choices.between(0, 3)}):"):
        if always:
            p.emit(copy)
        with p.block(f"if {mask}[k] > 0:"):
            if not always:
                p.emit(copy)
            with p.nest():
                p.emit(f"{t.name}[i, j] = {value}")
    t.limit += steps * SMALL


def store(p: Writer, t: Tile, *, vector: bool = False) -> None:
    """To a new output, as a copy, a narrow one too, element by element, or added atomically."""
    how = 0 if vector else p.choices.number(3)
    narrow = how == 3 and p.acc == "float32"
    if narrow:
        p.bound(t, CONVERTIBLE["float16"])
    shape = f"{p.rows}," if vector else f"{p.rows}, {p.n}"
    g = p.tensor(shape, "float16" if narrow else p.acc)
    if how in (0, 3):
        p.emit(f"T.copy({t.name}, {g}[{_rows_of_block(p)}{'' if vector else ', :'}])")
    elif how == 1:
        with p.nest():
            p.emit(f"{g}[bx * {p.m} + i, j] = {t.name}[i, j]")
    else:
        p.emit(f"T.atomic_add({g}[{_rows_of_block(p)}, :], {t.name})")
