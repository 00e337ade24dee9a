# SPDX-License-Identifier: Apache-2.0
"""Does a program mean the same everywhere? In: its text, or the function, and targets. Out: the
first target that disagrees with the oracle, and how; None if all agree.

What a target refuses for its size (shared memory, registers) is no failure; any other error is one,
what the simulator finds too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilelang.errors import ResourceError, SimulatorError
from tilelang.interp import tile
from tilelang.ir import Buffer, Const, PrimFunc
from tilelang.jit import compile as compile_kernel
from tilelang.language import remember_source
from tilelang.sim import Session, use_session

__all__ = [
    "TARGETS",
    "Failure",
    "arguments",
    "failure_of",
    "failure_of_function",
    "function_of",
]

TARGETS = ("llvm", "c", "cuda-sim -arch=sm_80", "cuda-sim -arch=sm_90a")
_SECONDS = 60.0  # that a simulated kernel may take
_ORACLE = "oracle"


@dataclass(frozen=True)
class Failure:
    """kind: `result`, or the class of the error, with what kind of fault the simulator found."""

    target: str
    kind: str
    message: str


def function_of(text: str) -> PrimFunc:
    """The kernel `program` of a text."""
    file = f"<program {hashlib.sha256(text.encode()).hexdigest()[:12]}>"
    remember_source(text, file)
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(text, file, "exec"), names)
    found: PrimFunc = names["program"]
    return found


def failure_of(
    text: str, sizes: Mapping[str, int], targets: Sequence[str] = TARGETS
) -> Failure | None:
    try:
        func = function_of(text)
    except Exception as error:
        return Failure(_ORACLE, _kind(error), _message(error))
    return failure_of_function(func, sizes, targets)


def failure_of_function(
    func: PrimFunc, sizes: Mapping[str, int], targets: Sequence[str] = TARGETS
) -> Failure | None:
    try:
        want = arguments(func, sizes)
        tile.run(func, *want)
    except Exception as error:
        return Failure(_ORACLE, _kind(error), _message(error))
    for target in targets:
        got = arguments(func, sizes)
        try:
            kernel = compile_kernel(func, target=target)
            with use_session(Session(host_threads=1, time_limit=_SECONDS)):
                kernel(*got)
        except ResourceError:
            continue
        except Exception as error:
            return Failure(target, _kind(error), _message(error))
        difference = _difference(func, got, want)
        if difference:
            return Failure(target, "result", difference)
    return None


def arguments(func: PrimFunc, sizes: Mapping[str, int]) -> list[Any]:
    """Small numbers for every parameter."""
    rng = np.random.default_rng(0)
    out: list[Any] = []
    for p in func.params:
        if isinstance(p, Buffer):
            shape = [e.value if type(e) is Const else sizes[str(e)] for e in p.shape]
            low = 0 if p.dtype.kind == "uint" else -3
            out.append(rng.integers(low, 4, shape).astype(p.dtype.as_numpy()))
        else:
            out.append(sizes[p.name])
    return out


def _difference(func: PrimFunc, got: Sequence[Any], want: Sequence[Any]) -> str:
    for p, x, y in zip(func.params, got, want, strict=True):
        if isinstance(x, np.ndarray) and x.tobytes() != y.tobytes():
            a, b = x.astype(np.float64), y.astype(np.float64)
            places = np.argwhere((a != b) & ~(np.isnan(a) & np.isnan(b)))
            if len(places):
                at = tuple(int(i) for i in places[0])
                return (
                    f"{p.name}{list(at)} is {a[at]:g}, the oracle has {b[at]:g}; "
                    f"{len(places)} of {x.size} elements differ"
                )
    return ""


def _kind(error: Exception) -> str:
    fault = f" {error.kind}" if isinstance(error, SimulatorError) else ""
    return type(error).__name__ + fault


def _message(error: Exception) -> str:
    render = getattr(error, "render", None)
    return str(render() if render is not None else error)
