# SPDX-License-Identifier: Apache-2.0
"""Whether kernels are cached in this process."""

from __future__ import annotations

from tilelang.config import env

__all__ = ["disable_cache", "enable_cache", "is_cache_enabled"]

_state = {"enabled": True}


def enable_cache() -> None:
    """Caches kernels (the default); TILELANG_DISABLE_CACHE=1 wins over it."""
    _state["enabled"] = True


def disable_cache() -> None:
    """Compiles every kernel anew."""
    _state["enabled"] = False


def is_cache_enabled() -> bool:
    return _state["enabled"] and not env.TILELANG_DISABLE_CACHE
