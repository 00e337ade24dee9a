# SPDX-License-Identifier: Apache-2.0
"""Backend cython: how its extension comes to be, what it does itself, its two options."""

from __future__ import annotations

import ctypes
import gc
import inspect
import subprocess
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilelang
import tilelang.language as T
from tilelang.errors import ArgumentTypeError, ArgumentValueError, ToolchainError
from tilelang.jit.adapter import launcher as extension
from tilelang.jit.adapter.cython import Launch
from tilelang.jit.adapter.plan import _OPERATIONS
from tilelang.runtime import cc
from tilelang.runtime.dlpack import CPU
from tilelang.runtime.launch import CallSpec, KernelSpec, ParamSpec, evaluate
from tilelang.runtime.python_launch import PythonLauncher

torch = pytest.importorskip("torch")
n = T.dynamic("n")


@T.prim_func
def affine(
    A: T.Tensor((n, 4), "float32"), s: T.float32, k: T.int16, flag: T.bool, d: T.float64,
    B: T.Tensor((n, 4), "float32"),
):  # fmt: skip
    with T.Kernel(n, threads=32) as bx:
        for j in T.Parallel(4):
            if flag:
                B[bx, j] = A[bx, j] * s + k + T.cast(d, "float32")
            else:
                B[bx, j] = -1.0


@pytest.fixture(params=["llvm", "c"])
def kernel(request: pytest.FixtureRequest) -> Any:
    return tilelang.compile(affine, target=request.param, execution_backend="cython")


@pytest.fixture
def no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PythonLauncher, "launch", lambda *a, **k: pytest.fail("through Python"))


@pytest.mark.usefixtures("no_python")
@pytest.mark.parametrize("of", [torch.from_numpy, np.asarray], ids=["torch", "numpy"])
def test_the_extension_does_the_call(kernel: Any, of: Callable[[Any], Any]) -> None:
    for rows in (3, 1, 8, 0):
        a, b = np.random.default_rng(rows).random((rows, 4), np.float32), np.empty((rows, 4), "f4")
        for s, k, d in ((2.5, -3, 0.5), (1, 32767, -1.0), (True, -32768, 7)):
            assert kernel(of(a), s, k, True, d, of(b)) is None
            np.testing.assert_array_equal(b, a * np.float32(s) + np.float32(k) + np.float32(d))
        kernel(of(a), 1.0, 1, 0, 0.0, of(b))
        assert (b == -1).all()


@pytest.mark.usefixtures("no_python")
def test_parameters_and_layouts(kernel: Any) -> None:
    b = torch.zeros(2, 4)
    kernel(torch.nn.Parameter(torch.ones(2, 4)), 1.0, 1, True, 1.0, b)
    assert (b == 3).all()
    one = torch.ones(4, 1, 4)[:, 0][:1]  # strides of dimensions of one element mean nothing
    kernel(one, 1.0, 0, True, 0.0, b[:1])
    assert (b[0] == 1).all()
    wide = np.ones((2, 8), np.float32)
    with pytest.raises(pytest.fail.Exception, match="through Python"):
        kernel(wide[:, ::2], 1.0, 0, True, 0.0, b)


def test_what_it_does_not_handle_goes_to_python(kernel: Any) -> None:
    b = np.zeros((2, 4), np.float32)
    kernel(np.ones((2, 4), np.float32), np.float64(2), np.int64(1), np.bool_(True), 2**70, b)
    assert (b == np.float32(2.0**70)).all()


def test_a_call_leaks_nothing(kernel: Any) -> None:
    import sys

    a, b = torch.ones(2, 4), np.zeros((2, 4), np.float32)
    kernel(a, 1.0, 1, True, 1.0, b)
    before = [sys.getrefcount(x) for x in (a, b, None)]
    for _ in range(1000):
        kernel(a, 1.0, 1, True, 1.0, b)
        with pytest.raises(TypeError):
            kernel(a, "x", 1, True, 1.0, b)
    after = [sys.getrefcount(x) for x in (a, b, None)]
    assert after[:2] == before[:2]
    assert abs(after[2] - before[2]) < 100


def test_the_function_owns_its_code_and_is_freed() -> None:
    kernel = tilelang.compile(affine, target="llvm", execution_backend="cython")
    call, (launch,) = kernel.func, [x for x in kernel.adapter.plan.owned if isinstance(x, Launch)]
    alive = weakref.ref(launch)
    tilelang.cache.clear_memory()
    del kernel, launch
    gc.collect()
    a, b = torch.ones(2, 4), torch.zeros(2, 4)
    call(a, 1.0, 1, True, 1.0, b)
    assert (b == 3).all()
    del call
    gc.collect()
    assert alive() is None


def test_a_signature_and_a_docstring() -> None:
    call = tilelang.compile(affine, target="llvm", execution_backend="cython").func
    assert list(inspect.signature(call).parameters) == [
        "A", "s", "k", "flag", "d", "B", "stream", "skip_tensor_validation",
    ]  # fmt: skip
    assert call.__doc__ == "Runs the kernel."
    assert call.__name__ == "affine"


# ------------------------------------------------------------------------------------ options


@pytest.mark.parametrize("out_idx", [None, -1], ids=["in place", "with an output"])
def test_skip_tensor_validation(out_idx: Any) -> None:
    """An int32 tensor for a float32 one: refused, or taken for what it is not."""
    kernel = tilelang.compile(affine, out_idx=out_idx, target="llvm", execution_backend="cython")
    bits = torch.full((2, 4), 0x40000000, dtype=torch.int32)  # 2.0
    out = torch.zeros(2, 4)
    args = (bits, 1.0, 1, True, 0.0) if out_idx else (bits, 1.0, 1, True, 0.0, out)
    with pytest.raises(ArgumentTypeError, match="expected dtype float32, got int32"):
        kernel(*args)
    with pytest.raises(ArgumentTypeError, match="expected dtype float32, got int32"):
        kernel(*args, skip_tensor_validation=False)
    for _ in range(2):
        got = kernel(*args, skip_tensor_validation=True)
        assert ((got if out_idx else out) == 3).all()
    with pytest.raises(ArgumentValueError, match="expected 2 dimensions, got 1"):
        kernel(bits[0], *args[1:], skip_tensor_validation=True)
    with pytest.raises(ArgumentTypeError, match="expected a tensor, got None"):
        kernel(None, *args[1:], skip_tensor_validation=True)


def test_options_that_make_no_sense(kernel: Any) -> None:
    args = torch.ones(2, 4), 1.0, 1, True, 0.0, torch.zeros(2, 4)
    kernel(*args, stream=None)
    kernel(*args, stream=-1)  # the original's default
    with pytest.raises(ArgumentValueError) as caught:
        kernel(*args, stream=7)
    assert str(caught.value) == (
        "[TL0978] kernel affine: stream= is for CUDA; this kernel runs on the CPU\n"
        "   = help: leave out stream="
    )
    with pytest.raises(ArgumentTypeError) as caught:
        kernel(*args, skip_tensor_validation=1)
    assert str(caught.value) == (
        "[TL0977] kernel affine: skip_tensor_validation is True or False, not 1"
    )
    with pytest.raises(ArgumentTypeError) as caught:
        kernel(*args, streams=None)
    assert str(caught.value) == (
        "[TL0973] kernel affine: there is no parameter streams\n   = help: did you mean 'stream'?"
    )


# ------------------------------------------------------------------------------------ the build


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which nothing is built."""
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(extension, "is_cache_enabled", lambda: True)
    return tmp_path


def test_it_is_built_once(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = extension._binary()
    monkeypatch.setattr(extension, "compile_library", lambda *a: pytest.fail("built again"))
    assert extension._binary() == binary
    (file,) = fresh.rglob("launcher-*.json")
    text = file.read_text(encoding="utf-8")
    for damaged in (text[: len(text) // 2], text.replace('"library": "f0VM', '"library": "f0VA')):
        file.write_text(damaged, encoding="utf-8")
        with pytest.raises(pytest.fail.Exception, match="built again"):
            extension._binary()
    monkeypatch.undo()


def test_without_a_compiler(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = extension._binary()
    monkeypatch.setattr(cc.shutil, "which", lambda name: None)
    cc._find.cache_clear()
    try:
        assert extension._binary() == binary
        next(fresh.rglob("launcher-*.json")).unlink()
        with pytest.raises(ToolchainError) as caught:
            extension._binary()
    finally:
        cc._find.cache_clear()
    assert str(caught.value).startswith(
        "[TL0862] execution backend cython builds its launcher once per machine, which needs a C"
        " compiler, and there is none"
    )
    assert "install gcc or clang, let CC name one" in str(caught.value)


def test_the_extension_needs_no_header_and_gives_no_warning(tmp_path: Path) -> None:
    strict = ["-Wall", "-Wextra", "-Werror", "-nostdinc", "-O2", "-shared", "-fPIC"]
    command = [*cc.find_compiler(), *strict, str(extension._SOURCE), "-o", str(tmp_path / "l.so")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# ------------------------------------------------------------------------------------ sizes

_OPERANDS = st.one_of(st.integers(-9, 9), st.sampled_from(["a", "b"]))
_BINARY = [name for name in _OPERATIONS if name not in (":not", ":neg", ":if", "<<", ">>")]


def _operations(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.tuples(st.sampled_from(_BINARY), inner, inner),
        st.tuples(st.sampled_from(["<<", ">>"]), inner, st.integers(0, 3)),
        st.tuples(st.sampled_from([":not", ":neg"]), inner),
        st.tuples(st.just(":if"), inner, inner, inner),
    ).map(list)


@settings(max_examples=150)
@given(st.recursive(_OPERANDS, _operations, max_leaves=8), st.integers(-9, 9), st.integers(-9, 9))
def test_sizes_are_computed_as_by_python(size: Any, a: int, b: int) -> None:
    """A grid of this size; the kernel is told how many blocks there are."""
    seen: list[int] = []

    class Device:
        device_type = CPU

    pointer = ctypes.POINTER(ctypes.c_int64)
    kind = ctypes.CFUNCTYPE(ctypes.c_void_p, pointer, ctypes.c_int64, ctypes.c_int64)
    run = kind(lambda slots, begin, end: seen.append(end - begin))
    scalars = tuple(ParamSpec(name, "scalar", "int64", symbol=name) for name in "ab")
    kernel = KernelSpec("k", (), (size, 1, 1), (1, 1, 1), 0)
    spec = CallSpec("f", scalars, (), (kernel,))
    address = ctypes.cast(run, ctypes.c_void_p).value or 0
    Launch(spec, Device(), lambda name: address, b"").function(a, b)
    want = evaluate(size, {"a": a, "b": b})
    assert seen == ([want] if want > 0 else [])
