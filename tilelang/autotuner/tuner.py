# SPDX-License-Identifier: Apache-2.0
"""`AutoTuner`: compiles all configurations, measures each, keeps the fastest.

In: something that makes a PrimFunc or a JITKernel for a configuration, and the configurations. Out:
an `AutotuneResult`. A configuration that does not compile, gives wrong results or takes too long is
left out, with a line in the log. What won is remembered on disk.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilelang.cache import is_cache_enabled
from tilelang.cache.store import remember, remembered
from tilelang.config import env
from tilelang.errors import ArgumentTypeError, ArgumentValueError, TuningError
from tilelang.ir import PrimFunc
from tilelang.jit import JITImpl, JITKernel, compile
from tilelang.jit.compiler import run_in_threads
from tilelang.jit.pool import processors
from tilelang.profiler import TensorSupplyType
from tilelang.target import determine_target

from .trial import ProfileArgs, Trials

__all__ = ["AutoTuner", "AutotuneResult", "as_configs", "tune", "tuning_key"]

logger = logging.getLogger("tilelang")
FAILED = (
    "Auto-tuning failed: No configuration successfully compiled and passed benchmarking/validation."
)


@dataclass(frozen=True)
class AutotuneResult:
    """latency, ref_latency: milliseconds of a call of the kernel, of the reference (None without
    one). config: what won. libcode: source of the kernel. func: its PrimFunc."""

    latency: float | None
    config: dict[str, Any] | None
    ref_latency: float | None
    libcode: str | None
    func: PrimFunc | None
    kernel: JITKernel | None


class AutoTuner:
    """Tunes a function of the configuration's entries:

    AutoTuner.from_kernel(f, configs).set_compile_args(out_idx=-1).run().kernel
    """

    def __init__(self, fn: Callable[..., Any], configs: Any) -> None:
        self.fn = fn
        self.configs = as_configs(configs() if callable(configs) else configs)
        self.profile = ProfileArgs()
        self.compile_args: dict[str, Any] = {}

    @classmethod
    def from_kernel(cls, kernel: Callable[..., Any], configs: Any) -> AutoTuner:
        """kernel: gives, for the entries of a configuration, a PrimFunc or a JITKernel (what is
        under @tilelang.jit)."""
        return cls(kernel, configs)

    def set_compile_args(
        self,
        out_idx: int | Sequence[int] | None = None,
        target: Any = "auto",
        execution_backend: str | None = None,
        target_host: Any = None,
        verbose: bool | None = None,
        pass_configs: Mapping[str, Any] | None = None,
    ) -> AutoTuner:
        """How PrimFuncs are compiled; see `tilelang.compile`."""
        self.compile_args = {
            "out_idx": out_idx, "target": target, "execution_backend": execution_backend,
            "target_host": target_host, "verbose": verbose, "pass_configs": pass_configs,
        }  # fmt: skip
        return self

    def set_profile_args(
        self,
        warmup: int = 25,
        rep: int = 100,
        timeout: float = 30,
        supply_type: TensorSupplyType = TensorSupplyType.Auto,
        ref_prog: Callable[..., Any] | None = None,
        supply_prog: Callable[..., Any] | None = None,
        rtol: float = 1e-2,
        atol: float = 1e-2,
        max_mismatched_ratio: float = 0.01,
        skip_check: bool = False,
        manual_check_prog: Callable[..., Any] | None = None,
        cache_input_tensors: bool = False,
        backend: str = "event",
    ) -> AutoTuner:
        """How kernels are checked and timed; see `ProfileArgs`."""
        self.profile = ProfileArgs(
            warmup, rep, timeout, supply_type, ref_prog, supply_prog, rtol, atol,
            max_mismatched_ratio, skip_check, manual_check_prog, cache_input_tensors, backend,
        )  # fmt: skip
        return self

    def run(
        self, warmup: int | None = None, rep: int | None = None, timeout: float | None = None
    ) -> AutotuneResult:
        """Tunes; raises TuningError (a RuntimeError) if no configuration is left."""
        given = {"warmup": warmup, "rep": rep, "timeout": timeout}
        profile = replace(self.profile, **{k: v for k, v in given.items() if v is not None})  # type: ignore[arg-type]
        target = determine_target(self.compile_args.get("target"), return_object=True)
        key = tuning_key(self.fn, self.configs, profile, (str(target), repr(self.compile_args)))
        return tune(self._compiled, self.configs, Trials(profile), key)

    def _compiled(self, config: Mapping[str, Any]) -> JITKernel:
        options = dict(self.compile_args)
        entries = dict(config)
        own = entries.pop("pass_configs", None)
        if own:
            options["pass_configs"] = {**(options.get("pass_configs") or {}), **own}
        made = self.fn(**entries)
        if isinstance(made, JITKernel):
            return made
        return compile(made, **options)


def as_configs(configs: Iterable[Any]) -> list[dict[str, Any]]:
    """Configurations as dicts."""
    out = []
    for c in configs if isinstance(configs, Iterable) else [configs]:
        if not isinstance(c, Mapping):
            raise ArgumentTypeError(
                f"a configuration must be a dict of keyword arguments, got {type(c).__name__}",
                code="TL0985",
                help="configs=[{'block_M': 64}, {'block_M': 128}]",
            )
        out.append(dict(c))
    if not out:
        raise ArgumentValueError(
            "autotune: there are no configurations",
            code="TL0987",
            help="configs must be a list of dicts with at least one entry, or a function that "
            "returns one",
        )
    return out


def tune(
    compiled: Callable[[Mapping[str, Any]], JITKernel],
    configs: Sequence[dict[str, Any]],
    trials: Trials,
    key: str | None,
) -> AutotuneResult:
    """The fastest of `configs`. key: under which a result is remembered on disk; None: not."""
    stored = _stored(key)
    if stored is not None and stored["config"] in configs:
        return _result(compiled(stored["config"]), stored["config"], stored)
    kernels = run_in_threads(
        [lambda c=c: compiled(c) for c in configs],  # type: ignore[misc]
        _workers(),
        ignore_error=True,
    )
    best: tuple[float, int] | None = None
    for n in _shown(range(len(configs))):
        if kernels[n] is None:  # the log has the reason
            continue
        try:
            latency = trials.run(kernels[n])
        except Exception as error:
            logger.warning("autotune: %s is left out: %s", configs[n], error)
            continue
        logger.debug("autotune: %s takes %.4f ms", configs[n], latency)
        if best is None or latency < best[0]:
            best = (latency, n)
    if best is None:
        raise TuningError(
            FAILED,
            code="TL1401",
            help=f"the log says what was wrong with each of the {len(configs)} configurations",
        )
    latency, n = best
    found = {"config": configs[n], "latency": latency, "ref_latency": trials.ref_latency}
    _store(key, found)
    return _result(kernels[n], configs[n], found)


def _result(kernel: JITKernel, config: dict[str, Any], found: Mapping[str, Any]) -> AutotuneResult:
    latency, reference = found["latency"], found["ref_latency"]
    kernel.update_tuner_result(latency, config, reference)
    source = kernel.get_kernel_source()
    return AutotuneResult(latency, config, reference, source, kernel.prim_func, kernel)


def _workers() -> int:
    """Threads that compile, as the environment has it."""
    count: int = env.TILELANG_AUTO_TUNING_CPU_COUNTS
    if count <= 0:
        count = int(processors() * env.TILELANG_AUTO_TUNING_CPU_UTILITIES)
    limit: int = env.TILELANG_AUTO_TUNING_MAX_CPU_COUNT
    return max(1, min(count, limit) if limit > 0 else count)


def _shown(steps: Sequence[int]) -> Iterable[int]:
    """A bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        return steps
    from rich.console import Console
    from rich.progress import track

    return track(steps, "tuning", console=Console(stderr=True), transient=True)


# ------------------------------------------------------------------------------ what is remembered


def tuning_key(
    fn: Any, configs: Sequence[Mapping[str, Any]], profile: ProfileArgs, more: Any
) -> str | None:
    """Names a tuning across processes; None if it cannot be named."""
    origin = fn.__wrapped__ if isinstance(fn, JITImpl) else fn
    closed = inspect.getclosurevars(origin).nonlocals if inspect.isfunction(origin) else None
    try:
        source = inspect.getsource(origin)
    except (OSError, TypeError):
        return None
    checked = profile.ref_prog is not None and not profile.skip_check  # what won unchecked may fail
    text = json.dumps([source, configs, repr(closed), checked, more], default=repr, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _stored(key: str | None) -> dict[str, Any] | None:
    if key is None or not _remembers():
        return None
    found = remembered(f"tuned-{key}.json")
    keys = {"config", "latency", "ref_latency"}
    return found if isinstance(found, dict) and keys <= found.keys() else None


def _store(key: str | None, found: Mapping[str, Any]) -> None:
    if key is None or not _remembers():
        return
    try:
        text = json.dumps(found)
    except TypeError:  # a configuration of other things than numbers and names
        return
    remember(f"tuned-{key}.json", text)


def _remembers() -> bool:
    return is_cache_enabled() and not env.TILELANG_AUTO_TUNING_DISABLE_CACHE
