# SPDX-License-Identifier: Apache-2.0
"""The kernels on disk: listed and removed. Only entries of this version and platform are seen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tilelang.cache.store import cache_root, clear_disk

__all__ = ["cache_folder", "clear_disk", "entries"]


def cache_folder() -> Path:
    """Where the entries are."""
    return cache_root() / "kernels"


def _folders() -> list[Path]:
    root = cache_folder()
    return sorted(p for p in root.iterdir() if p.is_dir()) if root.is_dir() else []


def entries() -> Iterator[str]:
    """A line per kernel: key, size, name, target."""
    for folder in _folders():
        size = sum(p.stat().st_size for p in folder.iterdir())
        try:
            facts = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
            what = f"{facts['kernel']} for {facts['target']}"
        except (OSError, ValueError, KeyError, TypeError):
            what = "damaged"
        yield f"{folder.name[:12]} {size:>10,} bytes  {what}"
