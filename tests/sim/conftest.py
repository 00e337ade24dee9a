# SPDX-License-Identifier: Apache-2.0
"""How tests of the simulator run a kernel text."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilelang.errors import SimulatorError
from tilelang.sim import SimModule, SimReport, build

KERNELS = Path(__file__).parent / "kernels"


@functools.cache
def module(source: str, kernel: str) -> SimModule:
    """One build per text and session, though each test has an empty cache directory."""
    return build(source, [kernel])


class Runner:
    """Runs kernels on numpy arrays; other arguments are ctypes values or ints."""

    @staticmethod
    def kernel_file(name: str, fault: int = 0) -> str:
        """A file of tests/sim/kernels with one of its faults planted."""
        return (
            (KERNELS / name)
            .read_text(encoding="utf-8")
            .replace("FAULT ", f"{fault} ")
            .replace("FAULT)", f"{fault})")
        )

    @staticmethod
    def kernel(parameters: str, body: str, headers: str = "", name: str = "k") -> str:
        """The text of a kernel, in the form that code generation prints."""
        includes = "".join(f"#include <tl/{h}.h>\n" for h in ("core", *headers.split()))
        shared = "  extern __shared__ __align__(1024) unsigned char buf_dyn_shmem[];\n"
        body = shared * ("buf_dyn_shmem" in body) + body
        return f'{includes}\nextern "C" __global__ void {name}({parameters}) {{\n{body}\n}}\n'

    @staticmethod
    def run(
        source: str, *args: Any, kernel: str = "k", grid: Any = (1,), block: Any = (32,),
        smem: int = 0, read_only: str = "", **options: Any,
    ) -> SimReport:  # fmt: skip
        """Arrays become pointers named A, B, C, … in the order of the arguments."""
        values, ranges = [], []
        for a in args:
            if isinstance(a, np.ndarray):
                name = chr(ord("A") + len(ranges))
                ranges.append((a.ctypes.data, a.nbytes, name, name not in read_only))
                values.append(ctypes.c_void_p(a.ctypes.data))
            elif isinstance(a, int):
                values.append(ctypes.c_int(a))
            elif isinstance(a, tuple):  # a descriptor and the array that it describes
                ranges.append((a[1].ctypes.data, a[1].nbytes, f"map{len(ranges)}", True))
                values.append(a[0])
            else:
                values.append(a)
        return module(source, kernel).launch(kernel, grid, block, smem, values, ranges, **options)

    def fault(self, kind: str, source: str, *args: Any, **options: Any) -> SimulatorError:
        """Runs a kernel that must fail this check."""
        with pytest.raises(SimulatorError) as caught:
            self.run(source, *args, **options)
        assert caught.value.kind == kind, caught.value
        return caught.value


@pytest.fixture
def sim() -> Runner:
    return Runner()
