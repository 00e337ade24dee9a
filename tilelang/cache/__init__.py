# SPDX-License-Identifier: Apache-2.0
"""The kernel cache: `cached` looks in memory, then on disk, then compiles."""

from .cached import cached, clear_cache, clear_memory
from .switch import disable_cache, enable_cache, is_cache_enabled

__all__ = [
    "cached", "clear_cache", "clear_memory", "disable_cache", "enable_cache", "is_cache_enabled",
]  # fmt: skip
