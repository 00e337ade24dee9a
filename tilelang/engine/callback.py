# SPDX-License-Identifier: Apache-2.0
"""Hooks that rewrite generated source before it is compiled.

@register_cuda_postproc_callback
def my_edit(code: str, target) -> str: ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilelang.errors import OptionError

if TYPE_CHECKING:
    from tilelang.target import Target

__all__ = [
    "postproc_key",
    "postprocess",
    "register_c_postproc",
    "register_c_postproc_callback",
    "register_cuda_postproc",
    "register_cuda_postproc_callback",
    "unregister_postproc",
]  # fmt: skip

Hook = Callable[..., str]
_hooks: dict[str, Hook] = {}


def _register(kind: str, func: Hook, override: bool) -> Hook:
    if kind in _hooks and not override:
        raise OptionError(
            f"a post-processing hook for {kind} is already registered",
            code="TL0511",
            help="pass override=True to replace it",
        )
    _hooks[kind] = func
    return func


def register_cuda_postproc(func: Hook, override: bool = True) -> Hook:
    """`func(code, target) -> code` sees all CUDA source before it is compiled."""
    return _register("cuda", func, override)


def register_c_postproc(func: Hook, override: bool = True) -> Hook:
    """The same for C source."""
    return _register("c", func, override)


def _decorator(register: Callable[[Hook, bool], Hook]) -> Callable[..., Any]:
    def decorate(func: Hook | None = None, override: bool = True) -> Any:
        if func is None:
            return lambda f: register(f, override)
        return register(func, override)

    return decorate


register_cuda_postproc_callback = _decorator(register_cuda_postproc)
register_c_postproc_callback = _decorator(register_c_postproc)


def unregister_postproc(kind: str) -> None:
    """Forgets the hook of a kind, if there is one."""
    _hooks.pop(kind, None)


def _kind(target: Target) -> str:
    return "cuda" if target.is_cuda else target.kind


def postprocess(source: str, target: Target) -> str:
    """`source` as the hook for this target leaves it."""
    hook = _hooks.get(_kind(target))
    return source if hook is None else hook(source, target)


def postproc_key(target: Target) -> str | None:
    """ "" without a hook; None with one, because what it does cannot be a cache key."""
    return None if _kind(target) in _hooks else ""
