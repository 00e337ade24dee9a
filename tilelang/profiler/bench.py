# SPDX-License-Identifier: Apache-2.0
"""`do_bench`: the time of a function in milliseconds.

In: a function without arguments, and for how long to warm up and to measure. Out: milliseconds: the
mean, another statistic, or a list of quantiles. On CUDA the device is timed with events and the L2
cache is flushed before each run; on a CPU the clock of the process is read.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tilelang.errors import OptionError, did_you_mean

__all__ = ["do_bench"]

_STATISTICS: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean, "min": min, "max": max, "median": statistics.median,
}  # fmt: skip
_BACKENDS = ("event", "cudagraph", "cupti")
_ESTIMATE_RUNS = 5


class _Timer(Protocol):
    """Times `runs` calls, each in milliseconds."""

    def times(self, fn: Callable[[], Any], runs: int) -> list[float]: ...


class _CpuTimer:
    def times(self, fn: Callable[[], Any], runs: int) -> list[float]:
        out = []
        for _ in range(runs):
            start = time.perf_counter()
            fn()
            out.append(1e3 * (time.perf_counter() - start))
        return out


class _EventTimer:
    """CUDA events around each run, with a flushed L2."""

    def __init__(self, device: Any, cache_bytes: int) -> None:
        import torch  # a CUDA tensor can only be somebody's who has it

        self.cuda = torch.cuda
        self.device = device
        count = max(cache_bytes // 4, 1)
        self.flush = torch.empty(count, dtype=torch.int32, device=device or "cuda")

    def times(self, fn: Callable[[], Any], runs: int) -> list[float]:
        pairs = []
        for _ in range(runs):
            self.flush.zero_()
            start, end = (self.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            fn()
            end.record()
            pairs.append((start, end))
        self.cuda.synchronize(self.device)
        return [start.elapsed_time(end) for start, end in pairs]


class _GraphTimer(_EventTimer):
    """As `_EventTimer`, with the function captured in a graph: no launch time between kernels."""

    def times(self, fn: Callable[[], Any], runs: int) -> list[float]:
        fn()
        self.cuda.synchronize(self.device)
        graph = self.cuda.CUDAGraph()
        with self.cuda.graph(graph):
            fn()
        return super().times(graph.replay, runs)


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    _n_warmup: int = 0,
    _n_repeat: int = 0,
    quantiles: Sequence[float] | None = None,
    fast_flush: bool = True,
    backend: str = "event",
    return_mode: str = "mean",
    device: Any = None,
    cache_size: int = 256,
    early_stop_baseline: float | None = None,
) -> float | list[float]:
    """Milliseconds of `fn()`.

    warmup, rep: milliseconds; _n_warmup, _n_repeat: numbers of runs instead. cache_size: MiB to
    write before each run (`fast_flush` writes them as integers; there is no slower way). A function
    slower than `early_stop_baseline` milliseconds is measured only for the estimate.
    """
    if return_mode not in _STATISTICS:
        raise OptionError(
            f"return_mode is one of {', '.join(_STATISTICS)}, not {return_mode!r}",
            code="TL0520",
            help=did_you_mean(str(return_mode), _STATISTICS) or "leave it out for the mean",
        )
    timer = _timer(backend, device, cache_size * 2**20)
    fn()
    estimate = statistics.fmean(timer.times(fn, _ESTIMATE_RUNS))
    if early_stop_baseline is not None and estimate > early_stop_baseline:
        return estimate
    timer.times(fn, _n_warmup or _runs(warmup, estimate))
    times = timer.times(fn, _n_repeat or _runs(rep, estimate))
    if quantiles is not None:
        return [_quantile(sorted(times), q) for q in quantiles]
    return _STATISTICS[return_mode](times)


def _timer(backend: str, device: Any, cache_bytes: int) -> _Timer:
    if backend not in _BACKENDS:
        raise OptionError(
            f"backend is one of {', '.join(_BACKENDS)}, not {backend!r}",
            code="TL0521",
            help=did_you_mean(str(backend), _BACKENDS) or "leave it out for events",
        )
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or str(device) == "cpu":
        return _CpuTimer()
    if backend == "cudagraph":
        return _GraphTimer(device, cache_bytes)
    return _EventTimer(device, cache_bytes)


def _runs(milliseconds: float, estimate: float) -> int:
    return max(1, int(milliseconds / max(estimate, 1e-6)))


def _quantile(ordered: Sequence[float], q: float) -> float:
    """Linear between the two nearest values."""
    position = q * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)
