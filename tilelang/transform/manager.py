# SPDX-License-Identifier: Apache-2.0
"""Runs passes: in order, timed, verified, dumped, stoppable."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilelang.config import env

if TYPE_CHECKING:
    from tilelang.config import Options
    from tilelang.target import Target


@dataclass
class PassContext:
    """What every pass may ask: target and options; and where it leaves notes for `show("why")`.

    assumptions: conditions on the call's arguments that hold for the version being compiled.
    """

    target: Target
    options: Options
    assumptions: tuple[Any, ...] = ()
    notes: list[str] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)

    def note(self, text: str) -> None:
        self.notes.append(text)


@dataclass(frozen=True)
class Pass:
    """A row of PIPELINE. establishes: the stage that holds after it.

    `run` maps a PrimFunc to a PrimFunc; the last pass gives the HostProgram.
    """

    name: str
    run: Callable[[Any, PassContext], Any]
    when: Callable[[PassContext], bool] = lambda ctx: True
    establishes: str | None = None


def run_passes(
    func: Any,
    ctx: PassContext,
    passes: Sequence[Pass],
    observe: Callable[[str, Any], None] | None = None,
    stop_after: str | None = None,
    stage: str = "TILE",
) -> Any:
    """Runs the passes whose `when` holds; `observe(name, func)` sees the result of each.

    `stage` is the one that `func` is at; with TILELANG_VERIFY=1 every result is checked against the
    invariants of the stage it must be at.
    """
    for p in passes:
        if not p.when(ctx):
            continue
        start = time.perf_counter()
        func = p.run(func, ctx)
        ctx.timings[p.name] = ctx.timings.get(p.name, 0.0) + time.perf_counter() - start
        stage = p.establishes or stage
        if env.TILELANG_VERIFY:
            from tilelang.ir.verify import verify

            verify(func, stage, after=p.name)
        if observe is not None:
            observe(p.name, func)
        if p.name == stop_after:
            break
    return func
