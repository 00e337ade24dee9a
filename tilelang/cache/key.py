# SPDX-License-Identifier: Apache-2.0
"""The cache key: everything that a compiled kernel depends on, hashed.

A pure function of the IR's text (and the content of what it only names), the outputs, the options,
the target (features of the CPU included), the versions of the tools, the ABI and our own sources:
the same in every process, and complete.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tilelang.config import Options
from tilelang.engine import BACKENDS
from tilelang.engine.callback import postproc_key
from tilelang.ir import PrimFunc
from tilelang.ir.printer import Printer
from tilelang.target import Target
from tilelang.target.cpu import cpu_threads
from tilelang.utils import installed_version

__all__ = ["KeyParts", "cache_key", "hashed", "key_parts", "sources_hash"]

# Raise it when the files of an entry change their meaning.
FORMAT = 2
KeyParts = dict[str, str]
_PACKAGE = Path(__file__).parents[1]
_SUFFIXES = (".py", ".cuh", ".h", ".cc", ".c")


def cache_key(
    func: PrimFunc,
    out_idx: Sequence[int],
    execution_backend: str,
    target: Target,
    target_host: Target,
    options: Options,
) -> str | None:
    """The key; None if the kernel must not be cached."""
    parts = key_parts(func, out_idx, execution_backend, target, target_host, options)
    return None if parts is None else hashed(parts)


def key_parts(
    func: PrimFunc,
    out_idx: Sequence[int],
    execution_backend: str,
    target: Target,
    target_host: Target,
    options: Options,
) -> KeyParts | None:
    """What the key is made of, by name; None if the kernel must not be cached: a hook edits its
    source, or it depends on an object whose content is unknown."""
    printer = Printer()
    text = printer.func(func)
    opaque = [_content(v) for v in printer.opaque]
    if postproc_key(target) is None or None in opaque:
        return None
    return {
        "format": str(FORMAT),
        "program": text,
        "tables": "\n".join(map(str, opaque)),
        "outputs": repr(list(out_idx)),
        "execution backend": execution_backend,
        "target": target.key_text(),
        "target host": target_host.key_text(),
        "options": options.key_text(),
        "threads": str(cpu_threads()) if target.is_cpu else "",
        "tools": tool_versions(target),
        "sources of tilelang": sources_hash(),
    }


def hashed(parts: KeyParts) -> str:
    """The key that these parts make."""
    text = "\0".join(f"{name}\1{value}" for name, value in parts.items())
    return hashlib.sha256(text.encode()).hexdigest()


def _content(value: Any) -> str | None:
    """A hash of what the text prints as `T.opaque`; None for what is no layout table."""
    from tilelang.layout import FragmentTable, LayoutTable  # few kernels name a table

    if isinstance(value, LayoutTable | FragmentTable):
        return hashlib.sha256(value.content()).hexdigest()
    return None


@functools.cache
def tool_versions(target: Target) -> str:
    """Tools and ABI."""
    abi = installed_version("apache-tvm-ffi") or "none"
    return "\n".join(
        [BACKENDS[target.kind].versions(target), abi, platform.machine(), sys.platform]
    )


@functools.cache
def sources_hash() -> str:
    """A hash of our own sources. It is remembered in a file beside the kernels by the modification
    times and sizes of the sources, so that only their list is read."""
    root = str(_PACKAGE)
    files = sorted((f.path[len(root) :], f) for f in _source_files(root))
    seen = [f"{name} {f.stat().st_mtime_ns} {f.stat().st_size}" for name, f in files]
    stamp = hashlib.sha256("\n".join([root, *seen]).encode()).hexdigest()
    from .store import remember, remembered

    known = remembered("sources.json")
    if (
        isinstance(known, dict)
        and known.get("stamp") == stamp
        and isinstance(known.get("hash"), str)
    ):
        return str(known["hash"])
    digest = hashlib.sha256()
    for name, f in files:
        with open(f.path, "rb", buffering=0) as file:  # hundreds of them: each step counts
            text = file.read()
        digest.update(f"{name}\0{len(text)}\0".encode())
        digest.update(text)
    remember("sources.json", json.dumps({"stamp": stamp, "hash": digest.hexdigest()}))
    return digest.hexdigest()


def _source_files(folder: str) -> Iterator[os.DirEntry[str]]:
    for entry in os.scandir(folder):
        if entry.name.endswith(_SUFFIXES):
            yield entry
        elif entry.is_dir() and entry.name != "__pycache__":
            yield from _source_files(entry.path)
