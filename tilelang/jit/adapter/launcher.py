# SPDX-License-Identifier: Apache-2.0
"""The extension of execution backend `cython`: runtime/csrc/launcher.c, built once per machine.

In: a C compiler, the first time; after that the library in the cache. Out: the library, told how to
recognise and read the tensors of the frameworks that the program has imported.
"""

from __future__ import annotations

import base64
import binascii
import ctypes
import functools
import hashlib
import json
import platform
import sys
import threading
from pathlib import Path
from typing import Any

from tilelang.cache import is_cache_enabled
from tilelang.cache.store import remember, remembered
from tilelang.errors import ToolchainError
from tilelang.runtime.cc import compile_library, compiler_version, load_library

from .exchange import exchange_table

__all__ = ["CALL", "CALL_ON", "address_of", "attach_frameworks", "launcher"]

CALL, CALL_ON = "tl_call", "tl_call_on"
_SOURCE = Path(__file__).parents[2] / "runtime" / "csrc" / "launcher.c"
_lock = threading.Lock()
_attached: set[str] = set()


class _Shared(ctypes.Structure):
    """`tl_shared` of launcher.c."""

    _fields_ = (
        ("tensor_type", ctypes.c_void_p), ("parameter_type", ctypes.c_void_p),
        ("array_type", ctypes.c_void_p), ("int_type", ctypes.c_void_p),
        ("float_type", ctypes.c_void_p), ("bool_type", ctypes.c_void_p),
        ("tensor_of", ctypes.c_void_p), ("stream_of", ctypes.c_void_p),
        ("type_offset", ctypes.c_longlong), ("none", ctypes.c_void_p),
    )  # fmt: skip


def launcher() -> ctypes.CDLL:
    """The library."""
    with _lock:
        return _library()


@functools.cache
def _library() -> ctypes.CDLL:
    library = load_library(_binary())
    shared = _shared(library)
    shared.int_type, shared.float_type, shared.bool_type = id(int), id(float), id(bool)
    shared.none = id(None)
    shared.type_offset = object.__basicsize__ - ctypes.sizeof(ctypes.c_void_p)
    return library


def _shared(library: ctypes.CDLL) -> _Shared:
    return _Shared.in_dll(library, "tl_shared")


def address_of(name: str) -> int:
    """The address of an entry."""
    return ctypes.cast(getattr(launcher(), name), ctypes.c_void_p).value or 0


def attach_frameworks() -> None:
    """Tells the launcher of torch and numpy, once they are imported."""
    if len(_attached) == 2:
        return
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and "numpy" not in _attached and hasattr(numpy, "ndarray"):
        _attached.add("numpy")
        _shared(launcher()).array_type = id(numpy.ndarray)
    table = exchange_table(torch) if "torch" not in _attached else None
    if table is not None and torch is not None:
        _attached.add("torch")
        shared = _shared(launcher())
        shared.tensor_of, shared.stream_of = table.tensor_of, table.stream_of
        shared.parameter_type = id(torch.nn.Parameter)
        shared.tensor_type = id(torch.Tensor)  # last: it says that the others are there


def _binary() -> bytes:
    """From the cache, or built now."""
    source = _SOURCE.read_text(encoding="utf-8")
    machine = f"{sys.platform}-{platform.machine()}"
    key = hashlib.sha256(f"{machine}\0{source}".encode()).hexdigest()[:32]
    name = f"launcher-{key}.json"
    found = _kept(remembered(name)) if is_cache_enabled() else None
    if found is None:
        found = _built(source)
        if is_cache_enabled():
            text = base64.b64encode(found).decode()
            remember(name, json.dumps({"sha256": _digest(found), "library": text}))
    return found


def _kept(row: Any) -> bytes | None:
    """The library of a cache entry; None if that is damaged."""
    try:
        data = base64.b64decode(row["library"], validate=True)
        return data if _digest(data) == row["sha256"] else None
    except (TypeError, KeyError, ValueError, binascii.Error):
        return None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _built(source: str) -> bytes:
    try:
        compiler_version()
    except ToolchainError as error:
        raise ToolchainError(
            "execution backend cython builds its launcher once per machine, which needs a C"
            " compiler, and there is none",
            code="TL0862",
            notes=[error.message],
            help="install gcc or clang, let CC name one, or choose another execution backend",
        ) from error
    return compile_library([source], None, None)
