# SPDX-License-Identifier: Apache-2.0
"""Tensors to tune on, given by the program: `with set_autotune_inputs(a, b): kernel = f(...)`."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar, Token
from typing import Any

__all__ = ["get_autotune_inputs", "set_autotune_inputs"]

_inputs: ContextVar[tuple[Any, ...] | None] = ContextVar("tilelang_autotune_inputs", default=None)


class set_autotune_inputs:
    """The tensors (or one list of them) that kernels are tuned on within the `with`: all inputs of
    the kernel, in the order of its parameters, without the outputs that it allocates."""

    def __init__(self, *tensors: Any) -> None:
        only = tensors[0] if len(tensors) == 1 else None
        self.tensors = tuple(only) if isinstance(only, (list, tuple)) else tensors
        self._tokens: list[Token[tuple[Any, ...] | None]] = []

    def __enter__(self) -> set_autotune_inputs:
        self._tokens.append(_inputs.set(self.tensors))
        return self

    def __exit__(self, *_: object) -> None:
        _inputs.reset(self._tokens.pop())


def get_autotune_inputs() -> Sequence[Any] | None:
    """What `set_autotune_inputs` around this call gives; None without it."""
    return _inputs.get()
