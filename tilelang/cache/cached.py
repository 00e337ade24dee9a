# SPDX-License-Identifier: Apache-2.0
"""`cached`: memory, then disk, then `build`.

In: a function and everything its compilation depends on. Out: a kernel. Two threads that want the
same kernel compile it once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilelang.config import Options, env
from tilelang.engine import is_observed
from tilelang.ir import PrimFunc
from tilelang.target import Target

from .key import hashed, key_parts
from .store import clear_disk, load_artifact, save_artifact
from .switch import is_cache_enabled

__all__ = ["cached", "clear_cache", "clear_memory"]

logger = logging.getLogger("tilelang")
_memory: dict[str, Any] = {}
_locks: dict[str, threading.Lock] = {}
_guard = threading.Lock()


def cached(
    func: PrimFunc,
    out_idx: Sequence[int],
    execution_backend: str,
    target: Target,
    target_host: Target,
    verbose: bool = False,
    pass_configs: Mapping[str, Any] | None = None,
    compile_flags: Sequence[str] | str | None = None,
    *,
    options: Options | None = None,
) -> Any:
    """The JITKernel. options: what pass_configs and compile_flags mean, if the caller knows."""
    from tilelang.jit.kernel import JITKernel  # it is made here, and by `jit` through here

    if options is None:
        options = Options.from_pass_configs(pass_configs)

    def make(artifact: Any = None) -> Any:
        return JITKernel(
            func, out_idx, execution_backend, target, target_host, verbose, pass_configs,
            _flag_list(compile_flags), options=options, artifact=artifact,
        )  # fmt: skip

    if is_observed() or not is_cache_enabled():
        return _compiled(make, func.name)
    parts = key_parts(func, out_idx, execution_backend, target, target_host, options)
    if parts is None:
        return _compiled(make, func.name)
    key = hashed(parts)
    with _guard:
        lock = _locks.setdefault(key, threading.Lock())
    with lock:
        kernel = _memory.get(key)
        if kernel is None:
            artifact = load_artifact(key, target, target_host)
            if artifact is not None:
                _diagnose("disk", func.name, key)
                kernel = make(artifact)
            else:
                kernel = _compiled(make, func.name)
                save_artifact(key, kernel.artifact, str(target), parts)
            _memory[key] = kernel
        else:
            _diagnose("memory", func.name, key)
    return kernel


def _flag_list(flags: Sequence[str] | str | None) -> list[str]:
    return [flags] if isinstance(flags, str) else list(flags or ())


def _compiled(make: Callable[[], Any], name: str) -> Any:
    if env.TILELANG_PRINT_ON_COMPILATION:
        logger.info("TileLang begins to compile kernel `%s`", name)
    kernel = make()
    if env.TILELANG_PRINT_ON_COMPILATION:
        logger.info("TileLang completes to compile kernel `%s`", name)
    return kernel


def _diagnose(where: str, name: str, key: str) -> None:
    if env.TILELANG_JIT_DIAGNOSTICS:
        logger.warning("kernel `%s` comes from the %s cache (%s)", name, where, key[:12])


def clear_memory() -> None:
    """Forgets the kernels that this process holds."""
    with _guard:
        _memory.clear()
        _locks.clear()


def clear_cache() -> None:
    """Forgets all kernels, also those on disk."""
    clear_memory()
    clear_disk()
