# SPDX-License-Identifier: Apache-2.0
"""Reductions of tiles: `T.reduce_sum` and its family, and single-value queries of whole buffers."""

from __future__ import annotations

from typing import Any

from tilelang.errors import OptionError
from tilelang.ir import const_int
from tilelang.tileop import Reduce

from .hints import ONE_EXCHANGE, count, no_effect
from .operands import emit_op, region
from .trace import current
from .values import plain

KINDS = ("sum", "max", "min", "absmax", "abssum", "bitand", "bitor", "bitxor")


def reduce(
    buffer: Any,
    out: Any,
    type: str,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = False,
) -> None:
    """out = reduction of `buffer` along `dim` (combined with the old `out` if not `clear`).

    batch: accepted, without an effect.
    """
    what = f"T.reduce_{type}"
    t = current(what)
    if count(t, f"{what}: batch", batch) > 1:
        no_effect(f"{what}: batch", ONE_EXCHANGE)
    if type not in KINDS:
        raise t.error(
            f"T.reduce: unknown kind {type!r}", "TL0540", f"one of {', '.join(KINDS)}", OptionError
        )
    src, dst = region(t, buffer, f"{what}: buffer"), region(t, out, f"{what}: out")
    at = const_int(plain(dim))
    if at is None:
        raise t.error(
            f"{what}: dim must be a compile-time number, got {dim}",
            "TL0541",
            "e.g. dim=1",
            OptionError,
        )
    emit_op(
        t,
        Reduce(src, dst, type, at, bool(plain(clear)), bool(nan_propagate)),
        ("src", "dst", "dim"),
    )


def reduce_sum(buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1) -> None:
    """out = sum of `buffer` along `dim`."""
    reduce(buffer, out, "sum", dim, clear, batch)


def reduce_max(
    buffer: Any,
    out: Any,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = False,
) -> None:
    """out = maximum of `buffer` along `dim`; NaN is ignored unless `nan_propagate`."""
    reduce(buffer, out, "max", dim, clear, batch, nan_propagate)


def reduce_min(
    buffer: Any,
    out: Any,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = False,
) -> None:
    """out = minimum of `buffer` along `dim`; NaN is ignored unless `nan_propagate`."""
    reduce(buffer, out, "min", dim, clear, batch, nan_propagate)


def reduce_absmax(
    buffer: Any,
    out: Any,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = False,
) -> None:
    """out = largest magnitude in `buffer` along `dim`."""
    reduce(buffer, out, "absmax", dim, clear, batch, nan_propagate)


def reduce_abssum(buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1) -> None:
    """out = sum of the magnitudes in `buffer` along `dim`."""
    reduce(buffer, out, "abssum", dim, clear, batch)


def reduce_bitand(buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1) -> None:
    """out = bitwise and of `buffer` along `dim`."""
    reduce(buffer, out, "bitand", dim, clear, batch)


def reduce_bitor(buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1) -> None:
    """out = bitwise or of `buffer` along `dim`."""
    reduce(buffer, out, "bitor", dim, clear, batch)


def reduce_bitxor(buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1) -> None:
    """out = bitwise exclusive or of `buffer` along `dim`."""
    reduce(buffer, out, "bitxor", dim, clear, batch)
