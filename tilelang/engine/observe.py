# SPDX-License-Identifier: Apache-2.0
"""What the environment asks to see of a compilation: dumps, times, an early stop.

In: TILELANG_DUMP (`after:PASS`, `all`, `source`), TILELANG_DUMP_DIR, TILELANG_TIME,
TILELANG_STOP_AFTER. Out: an observer for `run_passes`, and text on standard error or in files. All
of it costs nothing when nothing is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from tilelang.config import env
from tilelang.errors import OptionError, did_you_mean
from tilelang.ir import HostProgram, Kernel, PrimFunc, TensorMap, stmt_text
from tilelang.transform import PIPELINE

__all__ = ["Observer", "dump_source", "is_observed", "observer", "print_times"]

Observer = Callable[[str, Any], None]


def is_observed() -> bool:
    """Does the environment ask to see a compilation? Then a kernel from a cache will not do."""
    return bool(env.TILELANG_DUMP or env.TILELANG_STOP_AFTER or env.TILELANG_TIME)


def observer(given: Observer | None) -> Observer | None:
    """`given`, and what the environment asks for."""
    dumped = _dumped_passes()
    stop = env.TILELANG_STOP_AFTER
    _check_names([stop] if stop else [], "TILELANG_STOP_AFTER")
    if not dumped and not stop:
        return given
    counter = iter(range(1, 1000))

    def observe(name: str, result: Any) -> None:
        number = next(counter)
        if given is not None:
            given(name, result)
        if name in dumped:
            _write(f"{result.name}.{number:02}.{name}.py", _text(result))
        if name == stop:
            _write(f"{result.name}.{number:02}.{name}.py", _text(result))
            raise OptionError(
                f"stopped after {name}, as TILELANG_STOP_AFTER says",
                code="TL0590",
                help="unset TILELANG_STOP_AFTER to compile to the end",
            )

    return observe


def _dumped_passes() -> set[str]:
    words = env.TILELANG_DUMP
    if "all" in words:
        return {p.name for p in PIPELINE}
    named = [w.removeprefix("after:") for w in words if w.startswith("after:")]
    _check_names(named, "TILELANG_DUMP")
    return set(named)


def _check_names(names: list[str], variable: str) -> None:
    known = [p.name for p in PIPELINE]
    for name in names:
        if name not in known:
            raise OptionError(
                f"{variable} names {name!r}, which is no pass",
                code="TL0591",
                help=did_you_mean(name, known) or f"passes are {', '.join(known)}",
            )


def _text(result: Any) -> str:
    """A function as text; a lowered one as its kernels."""
    if isinstance(result, PrimFunc):
        return result.script()
    if isinstance(result, HostProgram):
        return "\n".join(_kernel_text(k) for k in result.launches)
    return str(result)


def _kernel_text(k: Kernel) -> str:
    args = ", ".join(a.var.name if isinstance(a, TensorMap) else a.name for a in k.args)
    grid = ", ".join(map(str, k.grid))
    head = f"# {k.name}({args}): grid ({grid}), block {k.block}, {k.dynamic_smem} bytes shared"
    return f"{head}\n{stmt_text(k.body)}"


def dump_source(name: str, source: str, suffix: str) -> None:
    """The generated source, if it is asked for."""
    words = env.TILELANG_DUMP
    if "source" in words or "all" in words:
        _write(f"{name}{suffix}", source)


def print_times(name: str, timings: Mapping[str, float]) -> None:
    """The time of each pass, if it is asked for."""
    if not env.TILELANG_TIME:
        return
    least = env.TILELANG_PASS_PROFILE_THRESHOLD_MS
    total = 1e3 * sum(timings.values())
    rows = [f"{pass_:24} {1e3 * t:9.2f} ms" for pass_, t in timings.items() if 1e3 * t >= least]
    print("\n".join([f"passes of {name}", *rows, f"{'all':24} {total:9.2f} ms"]), file=sys.stderr)


def _write(name: str, text: str) -> None:
    folder = env.TILELANG_DUMP_DIR
    if folder is None:
        print(f"# --- {name}\n{text}", file=sys.stderr)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
