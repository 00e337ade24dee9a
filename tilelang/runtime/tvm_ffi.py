# SPDX-License-Identifier: Apache-2.0
"""tvm-ffi, imported on first use and without torch: addresses and functions of its stable C ABI.

In: the address of a packed entry. Out: a `tvm_ffi.Function` that Python calls with tensors of any
framework. The errors that our entries report by code become our own classes.

`import tvm_ffi` imports torch where it is installed (2 s), which a numpy user must not pay for:
torch is hidden during the import unless it is there already. A torch that comes later is served
through the DLPack exchange API that its tensors carry.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from tilelang.errors import ArgumentTypeError, ArgumentValueError, ToolchainError

__all__ = [
    "HELP_SEPARATOR",
    "LAUNCH_FAILED",
    "abi_version",
    "function_at",
    "preload",
    "set_error",
    "soon",
    "symbols",
    "tvm_ffi",
]

# Between the message and the help line of an error that an entry reports (codegen.host_errors).
HELP_SEPARATOR = "\x1f"
_TYPE_ERRORS = ("TL0902", "TL0904", "TL0910")
_VALUE_ERRORS = (
    "TL0901", "TL0903", "TL0905", "TL0906", "TL0907", "TL0908", "TL0909", "TL0911", "TL0912",
    "TL0913", "TL0914", "TL0916", "TL0995",
)  # fmt: skip
LAUNCH_FAILED = "TL0815"
_RUNTIME_ERRORS = ("TL0813", "TL0814", "TL0815", "TL0817")
_SYMBOLS = (
    "TVMFFIErrorSetRaisedFromCStr", "TVMFFIEnvTensorAlloc", "TVMFFIEnvGetStream",
    "TVMFFIObjectDecRef",
)  # fmt: skip
_lock = threading.Lock()


@contextmanager
def _without_torch() -> Iterator[None]:
    """Hides torch from imports, unless it has been imported."""
    if "torch" in sys.modules:
        yield
        return
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if sys.modules.get("torch", 0) is None:
            del sys.modules["torch"]


@functools.cache
def tvm_ffi() -> Any:
    """The module, with our error classes registered."""
    with _lock:
        try:
            with _without_torch():
                import tvm_ffi as module
        except ImportError as error:
            raise ToolchainError(
                "execution backend tvm_ffi needs apache-tvm-ffi, which cannot be imported",
                code="TL0860",
                notes=[str(error)],
                help="pip install apache-tvm-ffi, or choose another execution backend",
            ) from error
        table = module.core.ERROR_NAME_TO_TYPE
        for codes, error_class in (
            (_TYPE_ERRORS, ArgumentTypeError),
            (_VALUE_ERRORS, ArgumentValueError),
            (_RUNTIME_ERRORS, ToolchainError),
        ):
            for code in codes:
                table[code] = _maker(error_class, code)
        return module


_soon = ContextVar("tilelang_tvm_ffi_soon", default=False)


@contextmanager
def soon() -> Iterator[None]:
    """What is compiled inside will be loaded by tvm-ffi right after."""
    token = _soon.set(True)
    try:
        yield
    finally:
        _soon.reset(token)


def preload() -> None:
    """Imports the module on another thread while a compiler runs, if it is needed `soon`: a third
    of a first call's time otherwise."""
    if _soon.get() and "tvm_ffi" not in sys.modules:
        threading.Thread(target=_quietly, daemon=True).start()


def _quietly() -> None:
    with suppress(ToolchainError):  # who needs the module says so
        tvm_ffi()


def _maker(error_class: Callable[..., Exception], code: str) -> type:
    """A class that makes our error from tvm-ffi's message: its table takes only classes."""

    def new(cls: type, message: str) -> Exception:
        text, _, help_line = message.partition(HELP_SEPARATOR)
        return error_class(text, code=code, help=help_line or None)

    return type(code, (), {"__new__": new})


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(tvm_ffi().libinfo.find_libtvm_ffi())


@functools.cache
def symbols() -> dict[str, int]:
    """Addresses of the functions that entries call."""
    library = _library()
    found = {}
    for name in _SYMBOLS:
        found[name] = ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
    return found


@functools.cache
def abi_version() -> str:
    """Version of the library: part of the cache key of what was built against it."""
    return str(tvm_ffi().__version__)


def function_at(address: int, keep_alive: object) -> Any:
    """The packed entry at `address` as a Python callable that owns `keep_alive`."""
    return tvm_ffi().Function.__from_extern_c__(address, keep_alive_object=keep_alive)


def set_error(code: str, message: str) -> None:
    """Reports an error from a callback that native code has called."""
    _library().TVMFFIErrorSetRaisedFromCStr(code.encode(), message.encode())
