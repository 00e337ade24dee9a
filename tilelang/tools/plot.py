# SPDX-License-Identifier: Apache-2.0
"""`plot_layout`: a picture of where the elements of a tile lie.

In: a layout (of memory) or a fragment (of threads and registers). Out: files with one cell for each
element: its offset, or its thread and register. Cells of one memory bank, or of one thread, have
one colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilelang.errors import ArgumentTypeError, ArgumentValueError, ToolchainError
from tilelang.layout import Fragment, FragmentTable, Layout, LayoutTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["plot_layout"]

FORMATS = ("pdf", "png", "svg")
VIEWS = ("input", "output")
_CELL = 0.5  # inches
_MOST_CELLS = 1 << 14
_COLOURS = 32  # as many as there are memory banks, and threads in a warp


def plot_layout(
    layout: Any,
    save_directory: str | Path = "./tmp",
    name: str = "layout",
    colormap: str | None = None,
    verbose: bool = False,
    formats: str | Sequence[str] = "pdf",
    view: str = "input",
    grid_shape: tuple[int, int] | None = None,
) -> list[Path]:
    """Draws `layout` into `save_directory`/`name`.* and gives the files. formats: pdf, png, svg,
    several with commas between them or as a list, or "all". view: "input" shows the tile, "output"
    where its elements went: rows of 32 words of memory, or a row for each thread. grid_shape: rows
    and columns of the picture. colormap: one of matplotlib's."""
    kinds = _formats(formats)
    if view not in VIEWS:
        raise ArgumentValueError(
            f"plot_layout: view must be 'input' or 'output', got {view!r}", code="TL0956"
        )
    labels, colours = _cells(layout, view)
    rows, columns = grid_shape or _grid(labels.shape)
    if rows * columns != labels.size or labels.size > _MOST_CELLS:
        raise ArgumentValueError(
            f"plot_layout: {labels.size} elements do not make a picture of {rows} x {columns} cells"
            if rows * columns != labels.size
            else f"plot_layout: {labels.size} elements are too many to be read",
            code="TL0957",
            help=f"at most {_MOST_CELLS}, and rows * columns must be their number",
        )
    if verbose:
        print("\n".join("  ".join(row) for row in labels.reshape(rows, columns)))
    folder = Path(save_directory)
    folder.mkdir(parents=True, exist_ok=True)
    figure = _figure(labels.reshape(rows, columns), colours.reshape(rows, columns), name, colormap)
    files = [folder / f"{name}.{kind}" for kind in kinds]
    for file in files:
        figure.savefig(file, bbox_inches="tight")
    return files


def _formats(formats: str | Sequence[str]) -> list[str]:
    asked = formats.split(",") if isinstance(formats, str) else list(formats)
    kinds = [f.strip().lower() for f in asked]
    if kinds == ["all"]:
        return list(FORMATS)
    wrong = [k for k in kinds if k not in FORMATS]
    if wrong or not kinds:
        raise ArgumentValueError(
            f"plot_layout: formats must be among {', '.join(FORMATS)} and all, got {formats!r}",
            code="TL0958",
        )
    return kinds


def _grid(shape: tuple[int, ...]) -> tuple[int, int]:
    columns = shape[-1] if shape else 1
    return int(np.prod(shape[:-1], dtype=int)), columns


def _cells(layout: Any, view: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """The text and the colour number of each cell."""
    if isinstance(layout, (Fragment, FragmentTable)):
        return _fragment_cells(layout, view)
    if not isinstance(layout, (Layout, LayoutTable)):
        raise ArgumentTypeError(
            f"plot_layout draws layouts and fragments, got {type(layout).__name__}",
            code="TL0949",
            help="make one with T.Layout(shape, fn) or T.Fragment(shape, ...)",
        )
    coords = np.indices(layout.shape)
    address = np.broadcast_to(np.asarray(layout.address_at(list(coords))), layout.shape)
    if view == "input":
        return np.vectorize(str)(address), address % _COLOURS
    size = -(-(int(address.max(initial=-1)) + 1) // _COLOURS) * _COLOURS
    text = np.full(size, "", dtype=object)
    for at in np.ndindex(*layout.shape):
        text[address[at]] = ",".join(map(str, at))
    shape = (size // _COLOURS, _COLOURS)
    return text.reshape(shape), np.arange(size).reshape(shape) % _COLOURS


def _fragment_cells(fragment: Any, view: str) -> tuple[NDArray[Any], NDArray[Any]]:
    owners = fragment.owner_table()
    if view == "output":
        text = np.full((int(owners.max(initial=0)) + 1, fragment.regs), "", dtype=object)
        for at in np.ndindex(*fragment.shape):
            for owner in owners[(slice(None), *at)]:
                text[owner, int(fragment.reg_at(at))] = ",".join(map(str, at))
        return text, np.broadcast_to(np.arange(len(text))[:, None] % _COLOURS, text.shape)
    text = np.empty(fragment.shape, dtype=object)
    for at in np.ndindex(*fragment.shape):
        threads = sorted({int(t) for t in owners[(slice(None), *at)]})
        shown = ",".join(map(str, threads[:4])) + (",…" if len(threads) > 4 else "")
        text[at] = f"T{shown}\nR{int(fragment.reg_at(at))}"
    return text, owners.min(axis=0) % _COLOURS


def _figure(labels: NDArray[Any], colours: NDArray[Any], name: str, colormap: str | None) -> Any:
    try:
        from matplotlib import colormaps
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ToolchainError(
            "plot_layout needs matplotlib, which is not there",
            code="TL0871", help="pip install matplotlib",
        ) from error  # fmt: skip

    rows, columns = labels.shape
    figure = Figure(figsize=(max(columns * _CELL, 2), max(rows * _CELL, 2)))
    axes = figure.add_subplot()
    axes.set_title(name)
    axes.imshow(
        colours, cmap=colormaps[colormap or "Spectral"], vmin=0, vmax=_COLOURS - 1, alpha=0.6
    )
    for (i, j), text in np.ndenumerate(labels):
        axes.text(j, i, text, ha="center", va="center", fontsize=6)
    axes.set_xticks(range(columns))
    axes.set_yticks(range(rows))
    axes.tick_params(labelsize=6)
    return figure
