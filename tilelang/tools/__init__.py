# SPDX-License-Identifier: Apache-2.0
"""What one does with the compiler from a shell (`python -m tilelang --help`), and pictures."""

from __future__ import annotations

from typing import Any

__all__ = ["plot_layout"]


def __getattr__(name: str) -> Any:
    if name != "plot_layout":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .plot import plot_layout  # on first use: the commands need no numpy

    return plot_layout
