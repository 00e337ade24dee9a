# SPDX-License-Identifier: Apache-2.0
"""One kernel, checked and timed.

In: a JITKernel, what to run it on, what to compare it with. Out: milliseconds; an exception where
the kernel fails, gives wrong results, or takes longer than it may.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilelang.jit import JITKernel
from tilelang.profiler import TensorSupplyType

from .inputs import get_autotune_inputs

__all__ = ["ProfileArgs", "Trials"]


@dataclass(frozen=True)
class ProfileArgs:
    """warmup, rep: milliseconds of each. timeout: seconds that a configuration may take to be
    checked and timed. ref_prog: gives the right results for the same inputs; supply_prog: makes the
    inputs from `kernel.params`. early_stop: a configuration whose first runs take
    `early_stop_factor` times as long as the best one so far is not timed further."""

    warmup: int = 25
    rep: int = 100
    timeout: float = 100
    supply_type: TensorSupplyType = TensorSupplyType.Auto
    ref_prog: Callable[..., Any] | None = None
    supply_prog: Callable[..., Any] | None = None
    rtol: float = 1e-2
    atol: float = 1e-2
    max_mismatched_ratio: float = 0.01
    skip_check: bool = False
    manual_check_prog: Callable[..., Any] | None = None
    cache_input_tensors: bool = False
    backend: str = "event"
    early_stop: bool = False
    early_stop_factor: float = 2.0


@dataclass
class Trials:
    """The trials of one tuning. given: what a call of an eager function passed: the kernels run on
    copies of it."""

    profile: ProfileArgs
    given: Sequence[Any] | None = None
    best: float | None = None
    ref_latency: float | None = None
    _kept: list[Any] | None = field(default=None, repr=False)

    def run(self, kernel: JITKernel) -> float:
        """Milliseconds of a call of `kernel`, whose results are right."""
        latency = _within(self.profile.timeout, lambda: self._measure(kernel))
        self.best = latency if self.best is None else min(self.best, latency)
        return latency

    def _measure(self, kernel: JITKernel) -> float:
        p = self.profile
        profiler = kernel.get_profiler(p.supply_type)
        inputs = self._inputs(kernel, profiler)
        if p.ref_prog is not None and not p.skip_check:
            self._check(profiler, inputs)
        if p.ref_prog is not None and self.ref_latency is None:
            self.ref_latency = self._time(profiler, inputs, p.ref_prog)
        stop = None if self.best is None or not p.early_stop else self.best * p.early_stop_factor
        return self._time(profiler, inputs, None, stop)

    def _check(self, profiler: Any, inputs: list[Any]) -> None:
        p = self.profile
        if p.manual_check_prog is not None:
            profiler.manual_assert_close(p.ref_prog, inputs, p.manual_check_prog)
        else:
            profiler.assert_allclose(p.ref_prog, inputs, p.atol, p.rtol, p.max_mismatched_ratio)

    def _time(
        self, profiler: Any, inputs: list[Any], func: Any = None, stop: float | None = None
    ) -> float:
        p = self.profile
        milliseconds: float = profiler.do_bench(
            func, warmup=p.warmup, rep=p.rep, input_tensors=inputs, backend=p.backend,
            early_stop_baseline=stop,
        )  # fmt: skip
        return milliseconds

    def _inputs(self, kernel: JITKernel, profiler: Any) -> list[Any]:
        p = self.profile
        if self.given is not None:
            return [_copy(x) for x in self.given]
        if self._kept is not None:
            return self._kept
        own = get_autotune_inputs()
        if own is not None:
            inputs = [_copy(x) for x in own]
        elif p.supply_prog is not None:
            inputs = list(p.supply_prog(kernel.params))
        else:
            inputs = profiler.get_inputs()
        if p.cache_input_tensors:
            self._kept = inputs
        return inputs


def _copy(x: Any) -> Any:
    """A kernel may write what it is given: the caller's own tensors are not run on."""
    if hasattr(x, "clone"):
        return x.clone()
    return x.copy() if hasattr(x, "dtype") and hasattr(x, "copy") else x


def _within(seconds: float, work: Callable[[], float]) -> float:
    """The result of `work`. A thread cannot be stopped: one that takes longer is left behind."""
    result: list[float] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            result.append(work())
        except BaseException as error:
            failure.append(error)

    around = contextvars.copy_context()
    thread = threading.Thread(target=around.run, args=(run,), name="tl-autotune", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError(f"it takes longer than {seconds:g} s to be checked and timed")
    if failure:
        raise failure[0]
    return result[0]
