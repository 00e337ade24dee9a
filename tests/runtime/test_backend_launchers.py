# SPDX-License-Identifier: Apache-2.0
"""Each backend calls through its own launcher, and works where the packages of the others are
absent."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import ArgumentValueError, ToolchainError
from tilelang.runtime.python_launch import PythonLauncher

torch = pytest.importorskip("torch")
SM90 = "cuda -arch=sm_90a"
# What makes the launcher of each backend.
LAUNCHERS = {
    "tvm_ffi": ("tvm_ffi", "load_entry"),
    "ctypes": ("ctypes", "quick_first"),
    "cython": ("cython", "make_plan"),
    "torch": ("torch", "_register"),
    "nvrtc": ("nvrtc", "native_function"),
}


@T.prim_func
def double(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            B[i] = A[i] * 2.0


class Used(Exception):
    """A launcher that was not to be made."""


def forbid(monkeypatch: pytest.MonkeyPatch, backends: Any) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise Used

    for backend in backends:
        module, name = LAUNCHERS[backend]
        monkeypatch.setattr(import_module(f"tilelang.jit.adapter.{module}"), name, refuse)


def compiled(backend: str, target: str) -> Any:
    tilelang.cache.clear_memory()  # an adapter of its own
    return tilelang.compile(double, target=target, execution_backend=backend)


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("backend", [b for b in LAUNCHERS if b != "nvrtc"])
def test_its_own_launcher_and_no_other(
    backend: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid(monkeypatch, set(LAUNCHERS) - {backend})
    kernel, a, b = compiled(backend, target), torch.arange(8.0), torch.zeros(8)
    kernel(a, b)
    assert torch.equal(b, a * 2)
    with monkeypatch.context() as patch:
        patch.setattr(PythonLauncher, "launch", lambda *a, **k: pytest.fail("Python"))
        kernel(a + 1, b)
    assert torch.equal(b, a * 2 + 2)
    forbid(monkeypatch, [backend])
    with pytest.raises(Used):
        compiled(backend, target)(a, b)


@pytest.fixture
def nvrtc() -> None:
    from tilelang.runtime.nvrtc import nvrtc

    try:
        nvrtc()
    except ToolchainError as error:
        pytest.skip(error.message)


@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("backend", ["tvm_ffi", "nvrtc", "cython"])
def test_its_own_launcher_on_cuda(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forbid(monkeypatch, set(LAUNCHERS) - {backend})
    assert compiled(backend, SM90).adapter.name == backend
    forbid(monkeypatch, [backend])
    with pytest.raises(Used):
        compiled(backend, SM90)


@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("backend", LAUNCHERS)
def test_a_cpu_tensor_for_a_gpu_kernel(backend: str) -> None:
    kernel = compiled(backend, SM90)
    for a in (np.zeros(8, np.float32), torch.zeros(8)):
        with pytest.raises(ArgumentValueError) as caught:
            kernel(a, a)
        text = "kernel double: parameter A: expected a tensor on a CUDA device, got one on cpu:0"
        assert caught.value.message.startswith(text)
        assert caught.value.code == "TL0907"


# ------------------------------------------------------------------------------------ absences

PROGRAM = """
import sys
from importlib.machinery import PathFinder

sys.path.insert(0, sys.argv.pop(1))

class Without:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            return None
        return PathFinder.find_spec(name, path, target)

BLOCKED = set(sys.argv[1].split(","))
sys.meta_path[sys.meta_path.index(PathFinder)] = Without

import numpy as np
import tilelang
import tilelang.language as T

@T.prim_func
def double(A: T.Tensor((4096, 256), "float32"), B: T.Tensor((4096, 256), "float32")):
    with T.Kernel(4096, threads=32) as bx:  # large enough for several threads
        for i in T.Parallel(256):
            B[bx, i] = A[bx, i] * 2.0

a = np.arange(2.0**20, dtype=np.float32).reshape(4096, 256)
for case in sys.argv[2:]:
    backend, _, target = case.partition(":")
    try:
        kernel = tilelang.compile(double, out_idx=-1, target=target, execution_backend=backend)
        for _ in range(2):
            np.testing.assert_array_equal(kernel(a), a * 2)
            b = np.zeros_like(a)
            kernel(a, B=b)
            np.testing.assert_array_equal(b, a * 2)
        print(case, "ran")
    except tilelang.errors.TileError as error:
        print(case, str(error).splitlines()[0])
loaded = BLOCKED & {name for name, module in sys.modules.items() if module is not None}
print("loaded:", sorted(loaded))
"""


def run_without(tmp_path: Any, blocked: str, *cases: str) -> list[str]:
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(PROGRAM), encoding="utf-8")
    root = str(Path(tilelang.__file__).parents[1])
    command = [sys.executable, str(file), root, blocked, *cases]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "loaded: []"
    return lines[:-1]


@pytest.mark.parametrize(
    ("blocked", "cases"),
    [
        (
            "torch,tvm_ffi,Cython",
            ["ctypes:llvm", "ctypes:c", "cython:llvm", "cython:c"],
        ),
        ("torch,tvm_ffi,Cython,llvmlite", ["ctypes:c", "cython:c"]),
        ("torch,Cython", ["tvm_ffi:llvm", "tvm_ffi:c"]),
        ("torch,Cython,llvmlite", ["tvm_ffi:c"]),
        ("tvm_ffi,Cython", ["torch:llvm", "torch:c"]),
        ("tvm_ffi,Cython,llvmlite", ["torch:c"]),
    ],
)
def test_the_packages_of_other_backends_are_not_needed(
    tmp_path: Any, blocked: str, cases: list[str]
) -> None:
    assert run_without(tmp_path, blocked, *cases) == [f"{case} ran" for case in cases]


@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("blocked", ["torch,tvm_ffi,Cython", "torch,tvm_ffi,Cython,llvmlite"])
def test_gpu_kernels_compile_without_the_others_packages(tmp_path: Any, blocked: str) -> None:
    cases = [f"{backend}:{SM90}" for backend in ("nvrtc", "ctypes", "cython")]
    for case, line in zip(cases, run_without(tmp_path, blocked, *cases), strict=True):
        assert line.startswith(
            f"{case} [TL0907] kernel double: parameter A: expected a tensor on a"
        )


def test_what_is_missing_is_named(tmp_path: Any) -> None:
    cases = ["tvm_ffi:llvm", "torch:llvm"]
    assert run_without(tmp_path, "torch,tvm_ffi", *cases) == [
        "tvm_ffi:llvm [TL0860] execution backend tvm_ffi needs apache-tvm-ffi, which cannot be"
        " imported",
        "torch:llvm [TL0861] execution backend torch needs torch, which cannot be imported",
    ]
