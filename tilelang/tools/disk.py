# SPDX-License-Identifier: Apache-2.0
"""The kernels on disk: listed, explained, removed. Only those of this version and platform are
listed; the size is that of all of them.

`explain` says what the key of an entry is made of, and whether a compilation of today could find
it; of two entries, what makes them different.
"""

from __future__ import annotations

import difflib
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tilelang.cache.key import hashed, sources_hash, tool_versions
from tilelang.cache.room import MANIFEST, Entry
from tilelang.cache.room import entries as all_entries
from tilelang.cache.store import KEY, cache_root, clear_disk
from tilelang.config import env
from tilelang.errors import OptionError, TileError
from tilelang.target import Target

__all__ = ["cache_folder", "clear_disk", "entries", "explain"]

_SHOWN = 12  # digits of a key: enough to tell the entries of a cache apart
_NOT_SHOWN = ("format", "program", "sources of tilelang")


def cache_folder() -> Path:
    """Where the entries are."""
    return cache_root() / "kernels"


def _here() -> list[Entry]:
    folder = cache_folder()
    found = (e for e in all_entries(env.TILELANG_CACHE_DIR) if e.folder.parent == folder)
    return sorted(found, key=lambda e: e.folder.name)


def _read(folder: Path, name: str) -> Any:
    """A JSON file of an entry; None if it is damaged."""
    try:
        return json.loads((folder / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _what(folder: Path) -> str:
    facts = _read(folder, MANIFEST)
    if not isinstance(facts, dict) or "kernel" not in facts or "target" not in facts:
        return "damaged"
    return f"{facts['kernel']} for {facts['target']}"


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def entries() -> Iterator[str]:
    """A line per kernel: key, size, last use, name, target; and the size of all."""
    for e in _here():
        name = e.folder.name[:_SHOWN]
        yield f"{name} {e.size:>10,} bytes  {_when(e.used)}  {_what(e.folder)}"
    total = sum(e.size for e in all_entries(env.TILELANG_CACHE_DIR))
    limit = env.TILELANG_CACHE_SIZE
    most = "no limit" if limit is None else f"at most {limit:,}"
    yield f"{total:,} bytes in {env.TILELANG_CACHE_DIR} ({most}: TILELANG_CACHE_SIZE)"


# ------------------------------------------------------------------------------------ explain


def explain(prefixes: list[str]) -> Iterator[str]:
    """Lines about one entry, or about what tells two apart."""
    found = [_find(p) for p in prefixes]
    if len(found) == 1:
        yield from _one(found[0])
    else:
        yield from _two(*found)


def _find(prefix: str) -> Entry:
    matches = [e for e in _here() if e.folder.name.startswith(prefix)]
    if len(matches) != 1:
        many = ", ".join(e.folder.name[:_SHOWN] for e in matches)
        raise OptionError(
            f"{len(matches)} kernels have a key that begins with {prefix!r}"
            + (f": {many}" if many else ""),
            code="TL0517",
            help="python -m tilelang cache ls lists them",
        )
    return matches[0]


def _parts(entry: Entry) -> dict[str, str]:
    """What the key is made of; empty if the entry does not say so truly."""
    parts = _read(entry.folder, KEY)
    good = isinstance(parts, dict) and all(isinstance(v, str) for v in parts.values())
    return parts if good and hashed(parts) == entry.folder.name else {}


def _one(entry: Entry) -> Iterator[str]:
    yield f"{entry.folder.name}: {_what(entry.folder)}"
    yield f"last used {_when(entry.used)}, {entry.size:,} bytes in {entry.folder}"
    parts = _parts(entry)
    if not parts:
        yield "damaged: it will be compiled again and replaced"
        return
    yield _verdict(entry, parts)
    for name, value in parts.items():
        if name not in _NOT_SHOWN and value:
            yield f"{name}: {', '.join(value.splitlines())}"
    yield f"program:\n{parts['program']}"


def _verdict(entry: Entry, parts: Mapping[str, str]) -> str:
    """Could it be found now?"""
    changed = []
    if parts["sources of tilelang"] != sources_hash():
        changed.append("tilelang's own sources have changed since")
    try:
        tools = tool_versions(Target(_read(entry.folder, MANIFEST)["target"]))
    except (TileError, KeyError, TypeError) as error:
        changed.append(f"its target cannot be used here ({error})")
    else:
        if parts["tools"] != tools:
            now = ", ".join(tools.splitlines())
            changed.append(f"the tools are others now: {now}")
    if changed:
        return f"never found again: {'; '.join(changed)}"
    return "found by a compilation of this program with these options and this target"


def _two(a: Entry, b: Entry) -> Iterator[str]:
    names = [e.folder.name[:_SHOWN] for e in (a, b)]
    one, other = _parts(a), _parts(b)
    if not one or not other:
        bad = [name for name, parts in zip(names, (one, other), strict=True) if not parts]
        yield f"damaged: {', '.join(bad)}"
        return
    for name in one:
        if one[name] != other.get(name):
            yield f"{name} differs:"
            a_lines, b_lines = (x.get(name, "").splitlines() for x in (one, other))
            yield from difflib.unified_diff(a_lines, b_lines, names[0], names[1], lineterm="", n=1)
