# SPDX-License-Identifier: Apache-2.0
"""Exported libraries, used by a process that never imports tilelang."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import tilelang
import tilelang.language as T
from tilelang.jit.export import _cuda_library
from tilelang.target import Target

FAKE = Path(__file__).parents[1] / "runtime" / "fake_libcuda.c"


def double() -> Any:
    n = T.dynamic("n")

    @T.prim_func
    def double(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 32), threads=32) as bx:
            for i in T.Parallel(32):
                B[bx * 32 + i] = A[bx * 32 + i] * 2.0

    return double


def run(code: str, **paths: str) -> str:
    text = textwrap.dedent(code).format(**paths)
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_a_cpu_kernel(target: str, tmp_path: Path) -> None:
    library = tmp_path / "double.so"
    tilelang.compile(double(), out_idx=-1, target=target).export_library(library)
    out = run(
        """
        import sys
        sys.modules["torch"] = None
        import numpy as np, tvm_ffi
        f = tvm_ffi.load_module({library!r}).double
        a, b = np.arange(40, dtype=np.float32), np.zeros(40, np.float32)
        f(a, b)
        assert (b == 2 * a).all()
        try:
            f(a, b[:5])
        except ValueError as error:
            print(error)
        assert "tilelang" not in sys.modules
        """,
        library=str(library),
    )
    assert (
        out.strip()
        == "kernel double: parameter B: shape[0]: expected 40 (n, from A.shape[0]), got 5"
    )


def test_a_loaded_library_survives_the_next_export(tmp_path: Path) -> None:
    library = tmp_path / "double.so"
    kernel = tilelang.compile(double(), out_idx=-1, target="c")
    kernel.export_library(library)
    first = library.read_bytes()
    with library.open("rb") as loaded:  # what a loader maps is the file, not its name
        kernel.export_library(library)
        assert loaded.read() == first
        assert library.stat().st_ino != os.fstat(loaded.fileno()).st_ino
    assert [path.name for path in tmp_path.iterdir()] == ["double.so"]


def test_a_cuda_kernel_loads_itself(tmp_path: Path) -> None:
    pytest.importorskip("nvidia.cu13")
    library, driver = tmp_path / "double.so", tmp_path / "libcuda.so.1"
    library.write_bytes(
        _cuda_library(double(), Target("cuda -arch=sm_80"), tilelang.config.Options())
    )
    from tilelang.runtime.cc import find_compiler

    command = [*find_compiler(), "-shared", "-fPIC", "-w", str(FAKE), "-o", str(driver)]
    subprocess.run([*command, "-Wl,-soname,libcuda.so.1"], check=True)
    run(
        """
        import ctypes, sys
        sys.modules["torch"] = None
        fake = ctypes.CDLL({driver!r})  # its soname makes it the driver of this process
        import tvm_ffi
        f = tvm_ffi.load_module({library!r}).double

        class Managed(ctypes.Structure):
            P, I = ctypes.c_void_p, ctypes.c_int
            _fields_ = [("data", P), ("type", I), ("id", I), ("ndim", I), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", P), ("strides", P),
                ("offset", ctypes.c_uint64), ("context", P), ("free", P)]

        keep = []
        class Tensor:
            def __init__(self, address):
                shape = (ctypes.c_int64 * 1)(100)
                where = ctypes.addressof(shape)
                self.m = Managed(address, 2, 0, 1, 2, 32, 1, where, None, 0, None, None)
                keep.extend((shape, self.m))
            def __dlpack__(self, **_):
                new = ctypes.pythonapi.PyCapsule_New
                new.restype = ctypes.py_object
                new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
                return new(ctypes.addressof(self.m), b"dltensor", None)
            def __dlpack_device__(self):
                return (2, 0)

        a, b = Tensor(0x1000), Tensor(0x2000)
        for _ in range(2):
            f(tvm_ffi.from_dlpack(a), tvm_ffi.from_dlpack(b))
        number = lambda name: ctypes.c_int.in_dll(fake, name).value
        assert number("fake_num_loads") == 1
        assert number("fake_num_launches") == 2
        """,
        library=str(library),
        driver=str(driver),
    )
