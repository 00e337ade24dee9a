# SPDX-License-Identifier: Apache-2.0
"""Random numbers: `T.rng_init`, `T.rng_rand`, `T.rng_rand_float`.

Each thread has a generator of its own, whose state lies in private memory. The generators
(`rng_generators`) are written in the kernel language itself, in integers, so every target gives the
same numbers: those of cuRAND's device API for the same seed, sequence and offset. Uniform floats
are the same bits too; the normal distribution (Box and Muller 1958) goes through log, sin and cos,
whose last bits differ from target to target.
"""

from __future__ import annotations

import math
from typing import Any

from tilelang import ir
from tilelang.errors import LanguageError, OptionError
from tilelang.ir import DType, Expr, Var, call, const

from .kernel import get_block_bindings, get_block_extents, get_thread_extents
from .math import operand
from .rng_base import F32, F64, U64, Generator
from .rng_generators import GENERATORS
from .threads import linear_thread
from .trace import Trace, kernel_trace

_DISTRIBUTIONS = ("uniform", "normal")


def rng_init(
    seed: Any, seq: Any = None, off: Any = 0, generator: str = "curandStatePhilox4_32_10_t"
) -> None:
    """Starts the calling thread's generator. seq: which of the independent sequences, by default
    the index of the thread in the grid; off: how many numbers of it are skipped."""
    t, launch = kernel_trace("T.rng_init")
    kind = GENERATORS.get(generator)
    if kind is None:
        raise t.error(
            f"T.rng_init: unknown generator {generator!r}",
            "TL0535",
            f"one of {', '.join(GENERATORS)}",
            OptionError,
        )
    sequence = _grid_thread() if seq is None else operand(seq, "T.rng_init: seq")
    state = kind(t)
    state.start(
        *(
            t.bind(name, ir.cast(e, U64))
            for name, e in (
                ("seed", operand(seed, "T.rng_init: seed")),
                ("sequence", sequence),
                ("offset", operand(off, "T.rng_init: off")),
            )
        )
    )
    launch.generator = state


def _grid_thread() -> Expr:
    x, y, z = get_thread_extents()
    block: Expr = const(0, U64)
    for index, extent in reversed(
        list(zip(get_block_bindings(), get_block_extents(), strict=True))
    ):
        block = block * ir.cast(operand(extent, "a grid"), U64) + ir.cast(index, U64)
    return block * const(x * y * z, U64) + ir.cast(linear_thread(), U64)


def _generator(what: str) -> tuple[Trace, Generator]:
    t, launch = kernel_trace(what)
    if launch.generator is None:
        raise t.error(
            f"{what} before T.rng_init", "TL0193", "call T.rng_init(seed) first", LanguageError
        )
    if t.parallel_region() is not None and math.prod(launch.threads) > 1:
        raise t.error(
            f"{what} inside T.Parallel: which thread takes which element is not said",
            "TL0194",
            "let each thread loop over elements of its own with T.serial",
            LanguageError,
        )
    return t, launch.generator


def rng_rand() -> Var:
    """The next 32 random bits of the calling thread, as uint32."""
    t, state = _generator("T.rng_rand")
    return t.bind("random", state.draw())


def rng_rand_float(bit: int = 32, dist: str = "uniform") -> Expr:
    """A random float32 or float64 of the calling thread: uniform in (0, 1], or normal with mean 0
    and deviation 1."""
    t, state = _generator("T.rng_rand_float")
    if bit not in (32, 64) or dist not in _DISTRIBUTIONS:
        raise t.error(
            f"T.rng_rand_float: bit={bit!r}, dist={dist!r}",
            "TL0536",
            "bit is 32 or 64, dist one of " + ", ".join(_DISTRIBUTIONS),
            OptionError,
        )
    dtype = F32 if bit == 32 else F64
    if dist == "uniform":
        return t.bind("uniform", state.uniform(dtype))
    return _normal(state, dtype)


def _normal(state: Generator, dtype: DType) -> Expr:
    """Normal numbers come in pairs; the second one is kept for the next call."""
    spare, has_spare = state.spare(dtype)
    out = state.array(1, dtype)

    def take() -> None:
        state.put(out, 0, state.get(spare, 0))
        state.put(has_spare, 0, const(0, has_spare.dtype))

    def make() -> None:
        u, angle = state.polar(dtype)
        length = call("sqrt", [const(-2.0, dtype) * call("log", [u], dtype)], dtype)
        radius = state.t.bind("radius", length)
        state.put(out, 0, call("sin", [angle], dtype) * radius)
        state.put(spare, 0, call("cos", [angle], dtype) * radius)
        state.put(has_spare, 0, const(1, has_spare.dtype))

    state.either(state.get(has_spare, 0) != const(0, has_spare.dtype), take, make)
    return state.t.bind("normal", state.get(out, 0))


__all__ = ["rng_init", "rng_rand", "rng_rand_float"]
