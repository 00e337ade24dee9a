# SPDX-License-Identifier: Apache-2.0
"""`tilelang.env` as a module: `from tilelang.env import env`, `tilelang.env.TILELANG_CACHE_DIR`."""

from __future__ import annotations

from typing import Any

from tilelang.config import env

__all__ = ["env"]


def __getattr__(name: str) -> Any:
    return getattr(env, name)
