# SPDX-License-Identifier: Apache-2.0
"""`JITImpl`: what `@tilelang.jit` makes of a function. Calling it compiles on a miss and, for an
eager function, runs.

Two styles. A lazy function is a factory: its arguments are compiled in, it returns a PrimFunc, and
a call gives the JITKernel. An eager function is the kernel: tensors and scalars are passed on, the
other arguments are compiled in, and a call runs it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from numbers import Number
from typing import TYPE_CHECKING, Any

from tilelang.errors import ArgumentTypeError, ArgumentValueError
from tilelang.ir import DType, PrimFunc
from tilelang.language.capture import note_source
from tilelang.language.entry import EagerFunction, PrimFuncCreater, detect_mode
from tilelang.runtime.dlpack import is_torch
from tilelang.target import Target, determine_target
from tilelang.utils import fewer_collections

from .fastcall import is_told_apart, key_function

if TYPE_CHECKING:
    from .compiler import OutIdx
    from .kernel import JITKernel

__all__ = ["JITImpl"]


class JITImpl:
    """A function to be compiled for the arguments of its calls."""

    def __init__(
        self,
        func: Any,
        out_idx: OutIdx = None,
        execution_backend: str | None = None,
        target: Any = None,
        target_host: Any = None,
        verbose: bool | None = None,
        pass_configs: Mapping[str, Any] | None = None,
        debug_root_path: str | None = None,
        compile_flags: Sequence[str] | str | None = None,
        lazy_jit: bool = False,
        outer: Mapping[str, Any] | None = None,
    ) -> None:
        self.func = func
        self.out_idx = out_idx
        self.execution_backend = execution_backend
        self.target = target
        self.target_host = target_host
        self.verbose = verbose
        self.pass_configs = pass_configs
        self.debug_root_path = debug_root_path
        self.compile_flags = compile_flags
        self.lazy_jit = lazy_jit
        self._outer = outer
        origin = getattr(func, "orig_func", func)
        note_source(origin)
        self.__name__ = getattr(origin, "__name__", getattr(func, "name", "kernel"))
        self.__doc__ = getattr(origin, "__doc__", None)
        self.__wrapped__ = origin
        self.signature: inspect.Signature | None = None
        if isinstance(origin, PrimFunc):
            self.signature = _signature(origin)
        elif callable(origin):
            self.signature = inspect.signature(origin)
        self._kernel_cache: dict[Any, JITKernel] = {}
        self._mode: str | None = "lazy" if lazy_jit else None
        self._eager: EagerFunction | None = None
        self._plans: dict[Any, Any] = {}
        self._quick: dict[Any, _Quick] = {}

    def __repr__(self) -> str:
        of = "" if self.signature is None else ", ".join(self.signature.parameters)
        where = "" if self.target is None else f" for {self.target}"
        ways = "call it, or .compile(...), .get_tir(...)"
        return f"<@tilelang.jit {self.__name__}({of}){where}: {ways}>"

    @property
    def func_source(self) -> str:
        """Text of the function."""
        try:
            return inspect.getsource(self.__wrapped__)
        except (OSError, TypeError):
            return self.func.script() if isinstance(self.func, PrimFunc) else ""

    # ------------------------------------------------------------------------------ mode

    @property
    def mode(self) -> str:
        """lazy or eager."""
        return self.initialize_jit_mode()

    def is_lazy_mode(self) -> bool:
        return self.mode == "lazy"

    def initialize_jit_mode(self, *_: Any, **__: Any) -> str:
        """Decides the mode once."""
        if self._mode is None:
            if isinstance(self.func, (PrimFunc, PrimFuncCreater)):
                self._mode = "lazy"
            elif not callable(self.func):
                raise self._invalid()
            else:
                self._mode = detect_mode(self.func)
            if self._mode == "eager":
                self._eager = EagerFunction(self.func, self._outer)
                if self.out_idx is not None:
                    raise ArgumentValueError(
                        "out_idx is for lazy functions; an eager one declares outputs with T.empty",
                        code="TL0966",
                        help="leave out_idx out",
                    )
        return self._mode

    def _invalid(self) -> ArgumentValueError:
        return ArgumentValueError(
            f"Invalid function type: {type(self.func)}",
            code="TL0972",
            help="put @tilelang.jit above a function, or give it a PrimFunc",
        )

    # ------------------------------------------------------------------------------ calling

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        form: Any = (len(args), *kwargs) if kwargs else len(args)
        quick = self._quick.get(form)
        if quick is not None and (self.target is not None or quick.target is Target.current()):
            values = (*args, *kwargs.values()) if kwargs else args
            try:
                func = quick.table[quick.key(*values)]
            except (AttributeError, IndexError, KeyError, TypeError):
                return self._call_eager(args, kwargs)
            order = quick.order
            result = func(*values) if order is None else func(*[values[i] for i in order])
            return [] if result is None else result
        mode = self._mode or self.initialize_jit_mode()
        if mode == "eager":
            return self._call_eager(args, kwargs)
        if isinstance(self.func, PrimFuncCreater):
            return self._call_creator(args, kwargs)
        if isinstance(self.func, PrimFunc) and (args or kwargs):
            return self.compile()(*args, **kwargs)
        return self._kernel(args, kwargs)

    def _kernel(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> JITKernel:
        key = self.parse_cache_key(*args, **kwargs)
        kernel = self._kernel_cache.get(key)
        if kernel is None:
            kernel = self._kernel_cache[key] = self._compile(self.get_tir(*args, **kwargs))
        return kernel

    def parse_cache_key(self, *args: Any, **kwargs: Any) -> Any:
        """What a call's compile-time arguments are: equal keys share one kernel."""
        tune = kwargs.pop("__tune_params", None)
        if self.mode == "eager":
            compile_time, consts, metas, _ = self._eager_key(args, kwargs)
            values: Any = (_frozen_strict(compile_time), tuple(consts.items()), _meta_key(metas))
        elif isinstance(self.func, PrimFuncCreater):
            values = _meta_key(self._creator_metas(args, kwargs))
        elif isinstance(self.func, PrimFunc) or self.signature is None:
            values = ()
        else:
            bound = self.signature.bind(*args, **kwargs)
            bound.apply_defaults()
            values = _frozen(dict(bound.arguments))
        where = determine_target(self.target, return_object=True)
        return (values, where, _frozen(self.out_idx), _frozen(tune))

    def get_tir(self, *args: Any, **kwargs: Any) -> PrimFunc:
        """The PrimFunc for these arguments."""
        func = self.func
        if self.mode == "eager":
            assert self._eager is not None
            compile_time, consts, metas, _ = self._eager_key(args, kwargs)
            return self._eager.trace(compile_time, consts, metas or None)
        if isinstance(func, PrimFuncCreater):
            return func(**self._creator_metas(args, kwargs))
        if isinstance(func, PrimFunc):
            return func
        if not callable(func):
            raise self._invalid()
        out = func(*args, **kwargs)
        if isinstance(out, PrimFuncCreater):
            out = out()
        if not isinstance(out, PrimFunc):
            raise ArgumentTypeError(
                f"{self.__name__} must return a PrimFunc, got {type(out).__name__}",
                code="TL0967",
                help="return the function under @T.prim_func",
            )
        return out

    def compile(self, *args: Any, **kwargs: Any) -> JITKernel:
        """The kernel for these arguments, without running it."""
        return self._kernel(args, kwargs)

    def get_kernel_source(self, *args: Any, **kwargs: Any) -> str:
        return self.compile(*args, **kwargs).get_kernel_source()

    def par_compile(
        self,
        configs: Iterable[Mapping[str, Any] | Sequence[Any]],
        num_workers: int | None = None,
        ignore_error: bool = False,
    ) -> list[JITKernel | None]:
        """One kernel for each of `configs` (keyword dicts or argument tuples), in order."""
        from .compiler import run_in_threads  # on first use, as above

        with determine_target(self.target, return_object=True) as target:
            traced = [self._traced(config, ignore_error) for config in configs]

        def one(key: Any, func: PrimFunc | Exception) -> JITKernel:
            if isinstance(func, Exception):
                raise func
            with target:
                if key not in self._kernel_cache:
                    self._kernel_cache[key] = self._compile(func)
                return self._kernel_cache[key]

        tasks = [partial(one, key, func) for key, func in traced]
        return run_in_threads(tasks, num_workers, ignore_error)

    def _traced(
        self, config: Mapping[str, Any] | Sequence[Any], ignore_error: bool
    ) -> tuple[Any, PrimFunc | Exception]:
        """Key and function of one config, or what its trace raised if that may be."""
        args, kwargs = ((), dict(config)) if isinstance(config, Mapping) else (config, {})
        try:
            return self.parse_cache_key(*args, **kwargs), self.get_tir(*args, **kwargs)
        except Exception as error:
            if not ignore_error:
                raise
            return None, error

    def _compile(self, func: PrimFunc) -> JITKernel:
        with fewer_collections():
            from .compiler import compile  # on first use: decorating a function needs no compiler

            kernel = compile(
                func, self.out_idx, self.execution_backend, self.target, self.target_host,
                self.verbose, self.pass_configs, self.compile_flags,
            )  # fmt: skip
        if self.debug_root_path is not None:
            _write_debug_files(self.debug_root_path, func, kernel)
        return kernel

    def with_pass_configs(self, pass_configs: Mapping[str, Any]) -> JITImpl:
        """The same function, compiled with other settings."""
        return JITImpl(
            self.func, self.out_idx, self.execution_backend, self.target, self.target_host,
            self.verbose, pass_configs, self.debug_root_path, self.compile_flags, self.lazy_jit,
            self._outer,
        )  # fmt: skip

    # ------------------------------------------------------------------------------ eager

    def runtime_arguments(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Of a call of an eager function: what the kernel gets, None for what was left out."""
        self.initialize_jit_mode()
        return self._eager_key(args, kwargs)[3]

    def _call_eager(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        compile_time, consts, metas, runtime = self._eager_key(args, kwargs)
        where = determine_target(self.target, return_object=True)
        values = (_frozen_strict(compile_time), tuple(consts.items()), _meta_key(metas))
        key = (values, where, None, None)
        kernel = self._kernel_cache.get(key)
        if kernel is None:
            assert self._eager is not None
            func = self._eager.trace(compile_time, consts, metas or None)
            kernel = self._kernel_cache[key] = self._compile(func)
        if any(r is None for r in runtime):
            missing = [n for n, r in zip(self._names(), runtime, strict=True) if r is None]
            if len(missing) == len(runtime):
                return kernel
            self._check_given(missing, args, kwargs)
        else:
            self._remember(args, kwargs, compile_time, metas, kernel)
        result = kernel(*runtime)
        return [] if result is None else result

    def _check_given(
        self, missing: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Some run-time arguments have no value: were they left out?"""
        assert self._eager is not None
        parameters = self._eager.signature.parameters
        given = {*list(parameters)[: len(args)], *kwargs}
        absent = [n for n in missing if n not in given]
        if absent:
            raise ArgumentTypeError(
                f"`{self._eager.__name__}` needs the argument `{absent[0]}`",
                code="TL0998",
                help=f"its parameters are: {', '.join(parameters)}",
            )

    def _remember(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        compile_time: Mapping[str, Any],
        metas: Mapping[str, Any],
        kernel: JITKernel,
    ) -> None:
        """Lets the next call like this one take the quick way. Which T.const sizes there are may
        depend on the compile-time arguments, so there is one table for each set of names."""
        assert self._eager is not None
        if not all(map(is_told_apart, compile_time.values())):
            return
        plan = self._plans[(_frozen_strict(compile_time), _meta_key(metas))]
        form: Any = (len(args), *kwargs) if kwargs else len(args)
        values = (*args, *kwargs.values())
        quick = self._quick.get(form)
        if quick is None or quick.target is not Target.current():
            names = [*list(self._eager.signature.parameters)[: len(args)], *kwargs]
            matchers = [places[0] for places in plan.matchers.values()]
            key = key_function(self._eager, names, matchers)
            if key is None:
                return
            order = [names.index(n) for n in self._names()]
            in_order = order == list(range(len(names)))
            quick = _Quick(key, plan.names, Target.current(), None if in_order else order)
            self._quick[form] = quick
        if quick.names == plan.names:
            quick.add(values, kernel)

    def _names(self) -> tuple[str, ...]:
        assert self._eager is not None
        return self._eager.runtime_names

    def _eager_key(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, int], dict[str, Any], list[Any]]:
        """(compile-time arguments, T.const values, bare tensors' shape and dtype, run-time
        ones)."""
        assert self._eager is not None
        compile_time, runtime, extra = self._eager.split(args, kwargs)
        bare = self._eager.bare_names
        metas = {
            n: _Meta.of(n, r)
            for n, r in zip(self._names(), runtime, strict=True)
            if n in bare and r is not None
        }
        plan_key = (_frozen_strict(compile_time), _meta_key(metas))
        plan = self._plans.get(plan_key)
        if plan is None:
            plan = self._plans[plan_key] = self._eager.plan(compile_time, metas or None)
        if extra:
            self._eager.check_keywords(plan, extra)
        return compile_time, plan.values(runtime, extra), metas, runtime

    # ------------------------------------------------------------------------------ bare tensors

    def _creator_metas(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        assert self.signature is not None
        bound = self.signature.bind_partial(*args, **kwargs)
        return {n: _Meta.of(n, x) for n, x in bound.arguments.items() if hasattr(x, "shape")}

    def _call_creator(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        assert self.signature is not None
        kernel = self._kernel(args, kwargs)
        bound = self.signature.bind_partial(*args, **kwargs)
        return kernel(*bound.arguments.values())


def _signature(func: PrimFunc) -> inspect.Signature:
    """That of a call of the compiled function."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([inspect.Parameter(p.name, kind) for p in func.params])


class _Quick:
    """Calls of one form (how many arguments by position, which by name): key of a call -> the
    kernel's function. names: of the T.const sizes in the key. target: the current one. order:
    positions of the run-time arguments, if not all."""

    def __init__(
        self,
        key: Callable[..., Any],
        names: tuple[str, ...],
        target: Target | None,
        order: list[int] | None,
    ) -> None:
        self.key = key
        self.names = names
        self.target = target
        self.order = order
        self.table: dict[Any, Callable[..., Any]] = {}

    def add(self, args: tuple[Any, ...], kernel: JITKernel) -> None:
        try:
            self.table[self.key(*args)] = kernel.func
        except (AttributeError, IndexError, TypeError):
            return  # no key for such arguments: they take the slow way each time


class _Meta:
    """Shape and dtype of an argument."""

    def __init__(self, shape: tuple[int, ...], dtype: DType) -> None:
        self.shape = shape
        self.dtype = dtype

    @classmethod
    def of(cls, name: str, x: Any) -> _Meta:
        try:
            return cls(tuple(int(s) for s in x.shape), DType(x.dtype))
        except (AttributeError, TypeError):
            dtype = getattr(x, "dtype", None)
            got = type(x).__name__ if dtype is None else f"one of {dtype}"
            raise ArgumentTypeError(
                f"parameter {name}: expected a tensor of numbers, got {got}",
                code="TL0997",
                help="pass an array or a tensor of numbers",
            ) from None

    def key(self) -> tuple[Any, ...]:
        return (self.shape, str(self.dtype))


def _meta_key(metas: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple((name, m.key()) for name, m in metas.items())


def _frozen(value: Any) -> Any:
    """A hashable form: containers become tuples, dtypes of all frameworks one spelling."""
    if isinstance(value, dict):
        return ("dict", *((k, _frozen(v)) for k, v in value.items()))
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *map(_frozen, value))
    if isinstance(value, (set, frozenset)):
        return ("set", *sorted(map(_frozen, value), key=repr))
    if type(value).__module__.startswith("torch") and type(value).__name__ == "dtype":
        return ("dtype", str(DType(value)))
    if isinstance(value, str):
        return str(value)
    if type(value) is int:
        return value
    if isinstance(value, Number) or value is None:  # 1, 1.0 and True are different arguments,
        return (type(value).__name__, repr(value))  # and so are 0.0 and -0.0
    return value


def _frozen_strict(values: Mapping[str, Any]) -> Any:
    """As `_frozen`, for an eager function, whose compile-time arguments must be hashable."""
    for name, value in values.items():
        if isinstance(value, (list, dict, set)) or is_torch(value) or not _hashable(value):
            raise ArgumentTypeError(
                f"argument `{name}` cannot be a {type(value).__name__}: compile-time arguments"
                " of an eager function must be hashable",
                code="TL0968",
                help="a tensor is passed at run time where its parameter is annotated with T.Tensor"
                if hasattr(value, "shape")
                else "pass a tuple",
            )
    return _frozen(dict(values))


def _hashable(value: Any) -> bool:
    try:
        hash(_frozen(value))
    except TypeError:
        return False
    return True


def _write_debug_files(folder: str, func: PrimFunc, kernel: JITKernel) -> None:
    """The function and its generated source, for people to read."""
    from pathlib import Path

    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    suffix = {"cuda": "cu", "cuda-sim": "cu", "llvm": "ll", "c": "c"}[kernel.target.kind]
    (root / f"tilelang_jit_program_{func.name}.py").write_text(func.script(), encoding="utf-8")
    text = kernel.get_kernel_source()
    (root / f"tilelang_jit_kernel_{func.name}.{suffix}").write_text(text, encoding="utf-8")
