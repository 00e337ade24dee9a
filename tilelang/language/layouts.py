# SPDX-License-Identifier: Apache-2.0
"""`T.Layout` and `T.Fragment`: layouts as users write them, from functions of the coordinates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilelang import layout as lay
from tilelang.errors import LayoutError, ShapeError
from tilelang.ir import Buffer

from .tensor import as_shape
from .trace import Trace, maybe_current


def _sizes(shape: Any, what: str) -> tuple[int, ...]:
    dims = as_shape(shape, what)
    if not all(isinstance(d, int) for d in dims):
        t = maybe_current()
        raise ShapeError(
            f"{what}: a layout needs constant sizes, got ({', '.join(map(str, dims))})",
            code="TL0316",
            span=None if t is None else t.span(),
            help="give the layout of one tile",
        )
    return dims


def Layout(shape: Any, forward_fn: Callable[..., Any] | Sequence[Any], *rest: Any) -> Any:
    """Where the elements of a tile lie: `forward_fn(i, j)` gives an address or coordinates."""
    if callable(forward_fn):
        return lay.layout_from_function(_sizes(shape, "T.Layout"), forward_fn)
    return lay.Layout(shape, forward_fn, *rest)


def Fragment(
    shape: Any,
    forward_fn: Callable[..., Any] | None = None,
    forward_thread_fn: Callable[..., Any] | None = None,
    replicate: int = 1,
    forward_index_fn: Callable[..., Any] | None = None,
) -> Any:
    """Which thread holds which element, and in which register.

    forward_fn(i, j[, rep]) gives (thread, register); or forward_thread_fn the thread and
    forward_index_fn(i, j) the register (left out: a thread's elements in row-major order).
    """
    sizes = _sizes(shape, "T.Fragment")
    if (forward_fn is None) == (forward_thread_fn is None):
        raise LayoutError(
            "T.Fragment needs forward_fn or forward_thread_fn",
            code="TL1120",
            help="forward_fn=lambda i, j: (thread, register)",
        )
    if forward_fn is None and forward_thread_fn is not None:
        return lay.fragment_from_functions(sizes, forward_thread_fn, forward_index_fn, replicate)
    rep = (0,) if replicate > 1 else ()
    both: Any = forward_fn
    return lay.fragment_from_functions(
        sizes, lambda *at: both(*at)[0], lambda *at: both(*at, *rep)[1], replicate
    )


def layout_of_threads(layout: Any) -> bool:
    """Does it say which thread holds what?"""
    return isinstance(layout, (lay.Fragment, lay.FragmentTable))


def resolved(t: Trace, buffer: Buffer, layout: Any) -> Any:
    """A layout annotation as an object of the layout package; it must be of the buffer's shape."""
    fragments = (lay.Fragment, lay.FragmentTable)
    layouts = (lay.Layout, lay.LayoutTable)
    if callable(layout) and not isinstance(layout, (*fragments, *layouts)):
        make = Fragment if buffer.is_fragment else Layout
        layout = make(buffer.shape, layout)
    wanted, word = (fragments, "T.Fragment") if buffer.is_fragment else (layouts, "T.Layout")
    if not isinstance(layout, wanted):
        raise t.error(
            f"`{buffer.name}` is {buffer.scope}: its layout is a {word}, got {layout!r}",
            "TL1121",
            f"give a {word} or a function of its coordinates",
            LayoutError,
        )
    if buffer.static_shape is not None and tuple(layout.shape) != buffer.static_shape:
        raise t.error(
            f"the layout is for {list(layout.shape)}, `{buffer.name}` has the shape "
            f"{list(buffer.static_shape)}",
            "TL1122",
            "make the layout from the buffer's shape",
            LayoutError,
            notes=[repr(buffer)],
        )
    return layout
