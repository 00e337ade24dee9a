# SPDX-License-Identifier: Apache-2.0
"""Runs passes: in order, timed, verified, dumped, stoppable."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from tilelang.config import Options, env
from tilelang.errors import CompatWarning, TileError
from tilelang.target import Target, determine_target

_OPT_LEVEL = 3
_entered: ContextVar[tuple[PassContext, ...]] = ContextVar("tilelang_pass_contexts", default=())


def _current_target() -> Target:
    found: Target = determine_target(return_object=True)
    return found


@dataclass
class PassContext:
    """What every pass may ask: target and options; and where it leaves notes for `show("why")`.

    assumptions: conditions on the call's arguments that hold for the version being compiled.

    `with PassContext(opt_level=3, config=pass_configs):` makes it the one that `lower` follows.
    config: `pass_configs`, as users write them; they count where `options` are the defaults.
    """

    target: Target = field(default_factory=_current_target)
    options: Options = field(default_factory=Options)
    assumptions: tuple[Any, ...] = ()
    notes: list[str] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)
    _: KW_ONLY
    opt_level: int = _OPT_LEVEL
    config: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.config and self.options == Options():
            self.options = Options.from_pass_configs(self.config)
        if self.opt_level != _OPT_LEVEL:
            warnings.warn(
                f"PassContext: opt_level={self.opt_level} is accepted but has no effect: passes"
                " are left out by pass_configs only",
                CompatWarning,
                stacklevel=3,
            )

    @staticmethod
    def current() -> PassContext | None:
        """That of the innermost `with`, or None."""
        stack = _entered.get()
        return stack[-1] if stack else None

    def __enter__(self) -> PassContext:
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(self, *exc: object) -> None:
        _entered.set(_entered.get()[:-1])

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
        try:
            func = p.run(func, ctx)
        except TileError as error:  # a pass that knows no statement: the function's first
            error.at(getattr(getattr(func, "body", None), "span", None))
            raise
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
