# SPDX-License-Identifier: Apache-2.0
"""What native host code knows about the driver: filled in per device, from Python.

In: a cubin. Out: the shared memory of `codegen.host_cuda.STATE` with the addresses of driver
functions, the kernels' handles and the contexts.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilelang.codegen.host_cuda import STATE, STATE_ENTRIES
from tilelang.errors import TileError

if TYPE_CHECKING:
    from tilelang.runtime.launch import CallSpec

__all__ = ["CudaState", "put"]

_LOADER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)


def put(address: int, value: int) -> None:
    """Writes a pointer."""
    ctypes.c_uint64.from_address(address).value = value


class CudaState:
    """Fills the state of one program. `loader` is the address of a function that native code may
    call for it; an error that it meets goes to `report(message)`."""

    def __init__(self, cubin: bytes, spec: CallSpec, report: Callable[[str], None]) -> None:
        self._cubin = cubin
        self._spec = spec
        self._report = report
        self._lock = threading.Lock()
        self._library: Any = None
        self._callback = _LOADER(self._load)  # lives as long as this object
        self.loader = ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def _load(self, state: int, device: int) -> int:
        try:
            self.fill(state, device)
        except TileError as error:
            self._report(f"kernel {self._spec.name}: {error.message}")
            return -1
        return 0

    def fill(self, state: int, device: int) -> None:
        """Loads the module for a device; the flag that says so is written last."""
        from tilelang.runtime.cuda_driver import driver

        with self._lock:
            cuda = driver()
            context = cuda.primary_context(device)
            if self._library is None:
                with cuda.on_device(device):
                    self._library = cuda.load(self._cubin)
            for name, offset in STATE_ENTRIES.items():
                put(state + offset, cuda.address_of(name))
            for n, kernel in enumerate(self._spec.kernels):
                handle = self._library.kernel(kernel.name)
                handle.allow_shared(kernel.dynamic_smem, device)
                put(state + STATE["kernels"] + 8 * n, handle.handle.value)
            put(state + STATE["contexts"] + 8 * device, context.value or 0)
            ctypes.c_int8.from_address(state + STATE["ready"] + device).value = 1
