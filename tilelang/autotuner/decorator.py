# SPDX-License-Identifier: Apache-2.0
"""`@tilelang.autotune`, above `@tilelang.jit`: a call tunes the parameters that it leaves open.

A lazy function's call gives the best kernel, an eager one's runs it, on the call's own tensors.
Each set of other arguments is tuned once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tilelang.errors import ArgumentTypeError, did_you_mean
from tilelang.jit import JITImpl, JITKernel, jit
from tilelang.profiler import TensorSupplyType

from .trial import ProfileArgs, Trials
from .tuner import AutotuneResult, as_configs, tune, tuning_key

__all__ = ["TunedFunction", "autotune"]

PASS_CONFIGS = "pass_configs"
"""An entry of a configuration that is no argument: it goes to the compiler."""


def autotune(
    func: Any = None,
    *,
    configs: Iterable[Mapping[str, Any]] | Callable[..., Iterable[Mapping[str, Any]]],
    warmup: int = 25,
    rep: int = 100,
    timeout: float = 100,
    supply_type: TensorSupplyType = TensorSupplyType.Auto,
    ref_prog: Callable[..., Any] | None = None,
    supply_prog: Callable[..., Any] | None = None,
    rtol: float = 1e-2,
    atol: float = 1e-2,
    max_mismatched_ratio: float = 0.01,
    skip_check: bool = False,
    manual_check_prog: Callable[..., Any] | None = None,
    cache_input_tensors: bool = False,
    do_not_specialize: Iterable[str] | None = None,
    early_stop: bool = False,
    early_stop_factor: float = 2.0,
) -> Any:
    """configs: keyword arguments to try, as dicts; or what gives them for the call's arguments. An
    entry `pass_configs` goes to the compiler. do_not_specialize: arguments whose value does not
    matter for the choice. The others are those of `ProfileArgs`."""
    profile = ProfileArgs(
        warmup, rep, timeout, supply_type, ref_prog, supply_prog, rtol, atol, max_mismatched_ratio,
        skip_check, manual_check_prog, cache_input_tensors, "event", early_stop, early_stop_factor,
    )  # fmt: skip
    ignored = frozenset(do_not_specialize or ())

    def tuned(f: Any) -> TunedFunction:
        impl = f if isinstance(f, JITImpl) else jit(f)
        return TunedFunction(impl, configs, profile, ignored)

    return tuned if func is None else tuned(func)


class TunedFunction:
    """A function under `@tilelang.jit` whose open parameters are tuned. It has the attributes of
    the function too."""

    def __init__(
        self, impl: JITImpl, configs: Any, profile: ProfileArgs, ignored: frozenset[str]
    ) -> None:
        self.jit_impl = impl
        # an iterator would be at its end at the second call
        self.configs = list(configs) if isinstance(configs, Iterator) else configs
        self.profile = profile
        self._ignored = ignored
        self._results: dict[Any, AutotuneResult] = {}
        self._variants: dict[str, JITImpl] = {}
        self.__name__ = impl.__name__
        self.__doc__ = impl.__doc__
        self.__wrapped__ = impl.__wrapped__

    def __getattr__(self, name: str) -> Any:
        return getattr(self.jit_impl, name)

    def __repr__(self) -> str:
        return f"<@tilelang.autotune {self.jit_impl!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self._tuned(args, kwargs)
        if result is None:
            return self.jit_impl(*args, **kwargs)
        if self.jit_impl.is_lazy_mode():
            return result.kernel
        impl, entries = self._split(result.config or {})
        return impl(*args, **{**kwargs, **entries})

    def compile(self, *args: Any, **kwargs: Any) -> JITKernel:
        """The best kernel for these arguments."""
        result = self._tuned(args, kwargs)
        if result is None:
            return self.jit_impl.compile(*args, **kwargs)
        assert result.kernel is not None
        return result.kernel

    def tune(self, *args: Any, **kwargs: Any) -> AutotuneResult | None:
        """What tuning for these arguments found; None if they leave nothing open."""
        return self._tuned(args, kwargs)

    def _tuned(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> AutotuneResult | None:
        configs = as_configs(self._proposed(args, kwargs))
        parameters = self._check_names(configs)
        given = {*parameters[: len(args)], *kwargs}
        tunable = {n for c in configs for n in c if n != PASS_CONFIGS}
        if tunable and tunable <= given:
            return None
        open_ = [{n: v for n, v in c.items() if n not in given} for c in configs]
        eager = not self.jit_impl.is_lazy_mode()
        call = self._call_key(parameters, args, kwargs, open_[0])
        key = (call, repr(open_))
        if key not in self._results:
            trials = Trials(self.profile, self._runtime(args, kwargs, open_[0]) if eager else None)
            on_disk = tuning_key(self.jit_impl, open_, self.profile, repr(call))
            self._results[key] = tune(
                lambda config: self._compiled(args, kwargs, config), open_, trials, on_disk
            )
        return self._results[key]

    def _proposed(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The configurations. A function of them gets the call's arguments, without keywords that
        it has no parameter for: those are the tunable ones."""
        if not callable(self.configs):
            return self.configs
        parameters = inspect.signature(self.configs).parameters.values()
        if all(p.kind is not p.VAR_KEYWORD for p in parameters):
            names = {p.name for p in parameters}
            kwargs = {n: v for n, v in kwargs.items() if n in names}
        return self.configs(*args, **kwargs)

    def _check_names(self, configs: list[dict[str, Any]]) -> list[str]:
        """The function's parameters; every entry of the configurations must be one."""
        signature = self.jit_impl.signature or inspect.Signature()
        names = list(signature.parameters)
        kinds = {p.kind for p in signature.parameters.values()}
        for n in dict.fromkeys(n for c in configs for n in c):
            known = n in names or n == PASS_CONFIGS or inspect.Parameter.VAR_KEYWORD in kinds
            if not known:
                raise ArgumentTypeError(
                    f"autotune: {self.__name__} has no parameter `{n}`",
                    code="TL0988",
                    help=did_you_mean(n, names) or f"its parameters are: {', '.join(names)}",
                )
        return names

    def _call_key(
        self,
        parameters: list[str],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        config: Mapping[str, Any],
    ) -> Any:
        """What the choice depends on: the kernel that the call would give, but for the arguments
        that do not matter."""
        impl, entries = self._split(config)
        key = impl.parse_cache_key(*args, **{**kwargs, **entries})
        if not self._ignored:
            return key
        named = {**dict(zip(parameters, args, strict=False)), **kwargs}
        kept = {n: v for n, v in named.items() if n not in self._ignored and _plain(v)}
        return (repr(sorted(kept.items())), *key[1:])

    def _split(self, config: Mapping[str, Any]) -> tuple[JITImpl, dict[str, Any]]:
        """(the function with the configuration's own compiler settings, its arguments)."""
        entries = dict(config)
        own = entries.pop(PASS_CONFIGS, None)
        if not own:
            return self.jit_impl, entries
        base, name = self.jit_impl, repr(sorted(own.items()))
        if name not in self._variants:
            merged = {**dict(base.pass_configs or {}), **own}
            self._variants[name] = base.with_pass_configs(merged)
        return self._variants[name], entries

    def _compiled(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], config: Mapping[str, Any]
    ) -> JITKernel:
        impl, entries = self._split(config)
        return impl.compile(*args, **{**kwargs, **entries})

    def _runtime(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], config: Mapping[str, Any]
    ) -> list[Any] | None:
        """The tensors and scalars of an eager call; None if it passes none."""
        impl, entries = self._split(config)
        values = impl.runtime_arguments(*args, **{**kwargs, **entries})
        return None if any(v is None for v in values) else values


def _plain(value: Any) -> bool:
    return not hasattr(value, "shape")
