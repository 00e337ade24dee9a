# SPDX-License-Identifier: Apache-2.0
"""Torch's own C functions for its tensors (dlpack.h, DLPackExchangeAPI), without importing torch.

In: the module torch, if the program has it. Out: addresses of functions, for native launchers.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

__all__ = ["ExchangeTable", "exchange_table"]

_TENSOR_OF, _CURRENT_STREAM = 40, 48  # offsets in the table


class ExchangeTable(NamedTuple):
    """tensor_of(object, DLTensor*); stream_of(device type, device, void**)."""

    tensor_of: int
    stream_of: int


def exchange_table(torch: Any) -> ExchangeTable | None:
    """The functions; None without torch, or of a torch that has none."""
    capsule = getattr(getattr(torch, "Tensor", None), "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return None
    table = capsule if isinstance(capsule, int) else _pointer_of(capsule)
    functions = [
        ctypes.c_uint64.from_address(table + at).value for at in (_TENSOR_OF, _CURRENT_STREAM)
    ]
    return ExchangeTable(*functions) if all(functions) else None


def _pointer_of(capsule: Any) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return int(get(capsule, b"dlpack_exchange_api"))
