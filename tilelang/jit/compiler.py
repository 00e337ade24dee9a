# SPDX-License-Identifier: Apache-2.0
"""`compile` and `par_compile`: from PrimFuncs to JITKernels, through the cache.

In: a PrimFunc (or an `IRModule` of one), options as users write them. Out: a JITKernel. What the
function itself annotates (compile flags, pass configs) is merged here.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tilelang.cache import cached
from tilelang.config import Options, env
from tilelang.engine import resolve_execution_backend
from tilelang.engine.depth import deep_expressions
from tilelang.errors import ArgumentTypeError, ArgumentValueError
from tilelang.ir import Buffer, IRModule, PrimFunc
from tilelang.target import canon_target_host, determine_target
from tilelang.utils import fewer_collections

from .impl import JITImpl
from .install import check_installation
from .kernel import JITKernel

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["compile", "logger", "merged_options", "par_compile", "with_out_idx"]

logger = logging.getLogger("tilelang")
# Starting a process takes as long as lowering a few light kernels.
_KERNELS_PER_PROCESS = 2
OutIdx = int | Sequence[int] | None


def compile(
    func: PrimFunc | IRModule,
    out_idx: OutIdx = None,
    execution_backend: str | None = None,
    target: Any = None,
    target_host: Any = None,
    verbose: bool | None = None,
    pass_configs: Mapping[str, Any] | None = None,
    compile_flags: Sequence[str] | str | None = None,
) -> JITKernel:
    """Compiles a PrimFunc, or takes it from the cache."""
    check_installation()
    env.warn_ignored()
    func = _one_function(func)
    found = determine_target(target, return_object=True)
    host = canon_target_host(found, target_host)
    requested = execution_backend or env.TILELANG_EXECUTION_BACKEND
    backend = resolve_execution_backend(requested, found)
    func = with_out_idx(func, out_idx)
    options = merged_options(func, pass_configs, compile_flags)
    loud = env.TILELANG_VERBOSE if verbose is None else verbose
    with deep_expressions(func.name), fewer_collections():
        kernel: JITKernel = cached(
            func, list(func.outputs), backend, found, host, loud, pass_configs, compile_flags,
            options=options,
        )  # fmt: skip
    return kernel


def _one_function(func: Any) -> PrimFunc:
    if isinstance(func, PrimFunc):
        return func
    if isinstance(func, IRModule) and len(func.functions) == 1:
        return next(iter(func.functions.values()))
    if isinstance(func, JITImpl):
        name = func.__name__
        raise ArgumentTypeError(
            f"tilelang.compile needs a PrimFunc, and {name} is a function under @tilelang.jit",
            code="TL0969",
            help=f"{name}(...) compiles by itself; for its PrimFunc: {name}.get_tir(...)",
        )
    raise ArgumentTypeError(
        f"tilelang.compile needs a PrimFunc, got {type(func).__name__}",
        code="TL0960",
        help="pass what @T.prim_func returns, or call the function under @tilelang.jit",
    )


def merged_options(
    func: PrimFunc | None,
    pass_configs: Mapping[str, Any] | None,
    compile_flags: Sequence[str] | str | None,
) -> Options:
    """The caller's settings, then those that the function annotates itself."""
    attrs = {} if func is None else func.attrs
    configs = {**dict(pass_configs or {}), **dict(attrs.get("pass_configs", {}))}
    options = Options.from_pass_configs(configs)
    for flags in (compile_flags, attrs.get("compile_flags")):
        if flags:
            more = Options(compile_flags=flags).compile_flags  # type: ignore[arg-type]
            options = replace(options, compile_flags=(*options.compile_flags, *more))
    return options


def with_out_idx(func: PrimFunc, out_idx: OutIdx) -> PrimFunc:
    """The function with these parameters as outputs."""
    if out_idx is None or out_idx == []:
        return func
    if func.outputs:
        raise ArgumentValueError(
            f"out_idx conflicts with the outputs that {func.name} declares itself by T.empty",
            code="TL0961",
            help="leave out out_idx",
        )
    count = len(func.params)
    given = list(out_idx) if isinstance(out_idx, Iterable) else [out_idx]
    outputs = []
    for index in given:
        if not isinstance(index, int) or isinstance(index, bool):
            raise ArgumentTypeError(
                f"out_idx must be an int or a list of ints, got {index!r}",
                code="TL0962",
                help="e.g. out_idx=[-1]",
            )
        if not -count <= index < count:
            raise ArgumentValueError(
                f"out_idx should be an integer between {-count} and {count - 1}, got {index}",
                code="TL0963",
                help="it counts the parameters, from 0 or back from -1",
            )
        position = index % count
        param = func.params[position]
        if not isinstance(param, Buffer):
            raise ArgumentValueError(
                f"out_idx {index} is the scalar {param.name}; only tensors can be outputs",
                code="TL0964",
                help="give the index of a tensor",
            )
        if position in outputs:
            raise ArgumentValueError(
                f"out_idx names parameter {param.name} twice",
                code="TL0965",
                help="name each output once",
            )
        outputs.append(position)
    return replace(func, outputs=tuple(outputs))


def par_compile(
    funcs: Iterable[PrimFunc],
    out_idx: OutIdx = None,
    execution_backend: str | None = None,
    target: Any = None,
    target_host: Any = None,
    verbose: bool | None = None,
    pass_configs: Mapping[str, Any] | None = None,
    compile_flags: Sequence[str] | str | None = None,
    num_workers: int | None = None,
    ignore_error: bool = False,
) -> list[JITKernel | None]:
    """Compiles many functions at once, in order; with `ignore_error` a failure becomes None.
    num_workers: threads, and at most as many processes; by default as many as there are processors.
    """
    found = determine_target(target, return_object=True)

    def one(func: PrimFunc) -> JITKernel:
        return compile(
            func, out_idx, execution_backend, found, target_host, verbose, pass_configs,
            compile_flags,
        )  # fmt: skip

    return run_in_threads([functools.partial(one, f) for f in funcs], num_workers, ignore_error)


def run_in_threads(
    tasks: Sequence[Callable[[], Any]], num_workers: int | None, ignore_error: bool
) -> list[Any]:
    """Results in order. Threads wait for device compilers and for the processes that lower."""
    if num_workers is not None and (isinstance(num_workers, bool) or num_workers < 1):
        raise ArgumentValueError(
            f"par_compile: num_workers must be 1 or more, got {num_workers}",
            code="TL0959",
            help="leave it out for one worker per processor",
        )
    from concurrent.futures import ThreadPoolExecutor  # a single kernel needs neither threads...

    from .pool import LoweringPool, processors  # ...nor processes

    size = min(len(tasks) // _KERNELS_PER_PROCESS, processors(), num_workers or len(tasks))
    with (
        LoweringPool(size) as pool,
        ThreadPoolExecutor(num_workers, thread_name_prefix="tl-par-comp") as threads,
    ):

        def run(task: Callable[[], Any]) -> Any:
            with pool.entered():
                return task()

        futures = [threads.submit(run, task) for task in tasks]
        try:
            return [_result(f, ignore_error, n, len(futures)) for n, f in enumerate(futures, 1)]
        except BaseException:
            for future in futures:
                future.cancel()
            pool.stop()
            raise


def _result(future: Future[Any], ignore_error: bool, number: int, total: int) -> Any:
    """What a task gave; None if it failed and that is to be ignored."""
    try:
        result = future.result()
    except Exception as error:
        if not ignore_error:
            raise
        logger.warning("one of the functions did not compile: %s", error)
        result = None
    _progress(number, total)
    return result


def _progress(done: int, total: int) -> None:
    """A bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        return
    filled = 30 * done // total
    end = "\n" if done == total else ""
    bar = "#" * filled + "." * (30 - filled)
    print(f"\rcompiling [{bar}] {done}/{total}", end=end, file=sys.stderr, flush=True)
