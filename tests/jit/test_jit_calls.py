# SPDX-License-Identifier: Apache-2.0
"""Programs of both styles, called with numpy, torch and DLPack tensors on the CPU."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import threading
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    OptionError,
    TargetError,
    ToolchainError,
)
from tilelang.ir import PrimFunc
from tilelang.jit import JITImpl, JITKernel
from tilelang.jit.verify import _compare
from tilelang.profiler import profiler
from tilelang.runtime import cuda_driver

torch = pytest.importorskip("torch")


def adder(m: Any, n: Any, dtype: str = "float32", block: int = 32) -> PrimFunc:
    @T.prim_func
    def add(A: T.Tensor((m, n), dtype), B: T.Tensor((m, n), dtype), C: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(m, block), T.ceildiv(n, block)) as (bx, by):
            for i, j in T.Parallel(block, block):
                C[bx * block + i, by * block + j] = (
                    A[bx * block + i, by * block + j] + B[bx * block + i, by * block + j]
                )

    return add


@tilelang.jit(out_idx=[-1], target="llvm")
def lazy_add(m, n, dtype="float32"):
    return adder(m, n, dtype)


@tilelang.jit(target="llvm")
def eager_add(A, B, block: int = 16):
    M, N = T.const("M N")
    A: T.Tensor((M, N), "float32")
    B: T.Tensor((M, N), "float32")
    C = T.empty((M, N), "float32")
    with T.Kernel(T.ceildiv(M, block), T.ceildiv(N, block)) as (bx, by):
        for i, j in T.Parallel(block, block):
            C[bx * block + i, by * block + j] = (
                A[bx * block + i, by * block + j] + B[bx * block + i, by * block + j]
            )
    return C


def pair(m: int, n: int, dtype: Any = np.float32) -> tuple[Any, Any]:
    random = np.random.default_rng(m + n)
    return random.random((m, n)).astype(dtype), random.random((m, n)).astype(dtype)


SHAPES = [(64, 64), (33, 47), (1, 1), (0, 5), (5, 0)]


@pytest.mark.parametrize(("m", "n"), SHAPES)
def test_lazy(m: int, n: int) -> None:
    kernel = lazy_add(m, n)
    assert isinstance(kernel, JITKernel)
    a, b = pair(m, n)
    out = kernel(a, b)
    assert isinstance(out, np.ndarray)
    np.testing.assert_array_equal(out, a + b)
    out = kernel(torch.from_numpy(a), torch.from_numpy(b))
    assert isinstance(out, torch.Tensor)
    np.testing.assert_array_equal(out.numpy(), a + b)


@pytest.mark.parametrize(("m", "n"), SHAPES)
def test_eager(m: int, n: int) -> None:
    a, b = pair(m, n)
    np.testing.assert_array_equal(eager_add(a, b), a + b)
    out = eager_add(torch.from_numpy(a), B=torch.from_numpy(b), block=8)
    np.testing.assert_array_equal(out.numpy(), a + b)


def test_same_arguments_give_the_same_kernel() -> None:
    assert lazy_add(64, 64) is lazy_add(64, n=64)
    assert lazy_add(64, 64) is lazy_add(64, 64, torch.float32)
    assert lazy_add(64, 64) is not lazy_add(64, 64, "float16")


def test_one_kernel_for_all_sizes() -> None:
    kernel = tilelang.compile(adder(T.dynamic("m"), T.dynamic("n")), out_idx=-1, target="llvm")
    for m, n in SHAPES:
        a, b = pair(m, n)
        np.testing.assert_array_equal(kernel(a, b), a + b)
    with pytest.raises(ArgumentValueError, match=r"B: shape\[0\]: expected 3 \(m, from A.shape"):
        kernel(np.zeros((3, 4), "f"), np.zeros((4, 4), "f"))


def test_without_outputs_the_caller_passes_everything() -> None:
    kernel = tilelang.compile(adder(8, 8), target="llvm")
    a, b = pair(8, 8)
    c = np.zeros_like(a)
    assert kernel(a, b, c) is None
    np.testing.assert_array_equal(c, a + b)


def test_a_decorated_function_is_no_primfunc() -> None:
    with pytest.raises(ArgumentTypeError, match="lazy_add is a function under") as caught:
        tilelang.compile(lazy_add, target="llvm")
    assert "lazy_add.get_tir(...)" in str(caught.value)
    assert repr(lazy_add).startswith("<@tilelang.jit lazy_add(m, n, dtype) for llvm: call it")


@pytest.mark.parametrize(("version", "what"), [(None, "driver"), ((13, 0), "device")])
def test_a_machine_without_gpu_is_named(
    version: Any, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_driver, "device_count", lambda: 0)
    monkeypatch.setattr(cuda_driver, "driver_version", lambda: version)
    kernel = tilelang.compile(adder(32, 32), target="cuda -arch=sm_90a")
    a = torch.zeros(32, 32)
    with pytest.raises(ArgumentValueError, match=f"this machine has no CUDA {what}") as caught:
        kernel(a, a, a)
    assert "target 'llvm'" in str(caught.value)
    assert "'cuda-sim'" in str(caught.value)


def test_arguments_by_name() -> None:
    a, b = pair(8, 8)
    c = np.zeros_like(a)
    kernel = tilelang.compile(adder(8, 8), target="llvm")
    assert kernel(a, C=c, B=b) is None
    np.testing.assert_array_equal(c, a + b)
    with pytest.raises(ArgumentValueError, match=r"expected 3 arguments \(A, B, C\), got 2"):
        kernel(A=a, C=c)
    with pytest.raises(TypeError, match="kernel add: there is no parameter D"):
        kernel(a, b, D=c)
    made = lazy_add(8, 8)
    np.testing.assert_array_equal(made(B=b, A=a), a + b)
    np.testing.assert_array_equal(made(B=torch.from_numpy(b), A=torch.from_numpy(a)), a + b)
    made(a, b, c)
    for given in ({"A": a}, {"B": b}):
        with pytest.raises(ArgumentValueError, match=r"expected 2 arguments \(A, B\), got 1"):
            made(**given)


@pytest.mark.parametrize("backend", ["tvm_ffi", "ctypes"])
def test_several_outputs_come_as_a_list(backend: str) -> None:
    @T.prim_func
    def two(
        A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32"), C: T.Tensor((2, 8), "int32")
    ):
        with T.Kernel(1):
            for i in T.Parallel(8):
                B[i] = A[i] * 2.0
                C[1, i] = T.cast(A[i], "int32")
                C[0, i] = 7

    kernel = tilelang.compile(two, out_idx=[2, 1], target="llvm", execution_backend=backend)
    x = np.arange(8, dtype=np.float32)
    for c, b in (kernel(x), kernel(torch.from_numpy(x))):
        np.testing.assert_array_equal(np.asarray(b), x * 2)
        np.testing.assert_array_equal(np.asarray(c), [[7] * 8, list(range(8))])


@pytest.mark.parametrize("backend", ["tvm_ffi", "ctypes"])
def test_an_output_without_any_input(backend: str) -> None:
    @T.prim_func
    def count(n: T.int32, A: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                A[i] = n + i

    kernel = tilelang.compile(count, out_idx=-1, target="llvm", execution_backend=backend)
    np.testing.assert_array_equal(np.asarray(kernel(3)), np.arange(3, 11))


@pytest.mark.parametrize("backend", ["tvm_ffi", "ctypes"])
@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float64", "int8", "int32"]
)
def test_dtypes(backend: str, dtype: str) -> None:
    kernel = tilelang.compile(
        adder(5, 7, dtype), out_idx=-1, target="llvm", execution_backend=backend
    )
    numpy_dtype = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    a = np.arange(35).reshape(5, 7).astype(numpy_dtype)
    out = kernel(a, a)
    assert out.dtype == numpy_dtype
    np.testing.assert_array_equal(out.astype(np.float64), (a + a).astype(np.float64))
    x = torch.arange(35).reshape(5, 7).to(getattr(torch, dtype))
    want = (x.double() + x.double()).to(x.dtype)  # torch does not add 8-bit floats
    assert torch.equal(kernel(x, x).double(), want.double())


def test_other_dlpack_tensors() -> None:
    import tvm_ffi

    kernel = tilelang.compile(adder(8, 8), target="llvm")
    a, b = pair(8, 8)
    c = np.zeros_like(a)
    kernel(tvm_ffi.from_dlpack(a), tvm_ffi.from_dlpack(b), tvm_ffi.from_dlpack(c))
    np.testing.assert_array_equal(c, a + b)
    kernel = tilelang.compile(adder(8, 8), out_idx=-1, target="llvm")
    out = kernel(tvm_ffi.from_dlpack(a), tvm_ffi.from_dlpack(b))
    np.testing.assert_array_equal(np.asarray(out), a + b)


def test_read_only_arrays() -> None:
    kernel = tilelang.compile(adder(8, 8), target="llvm")
    a, b = pair(8, 8)
    c = np.zeros_like(a)
    a.flags.writeable = False
    kernel(a, b, c)
    np.testing.assert_array_equal(c, a + b)
    c.flags.writeable = False
    with pytest.raises(ArgumentValueError, match="parameter C is written by the kernel"):
        kernel(a, b, c)


@pytest.mark.parametrize("backend", ["tvm_ffi", "ctypes"])
@pytest.mark.parametrize(
    ("bad", "kind", "text"),
    [
        (lambda a: (a,), ArgumentValueError, "expected 2 arguments (A, B), got 1"),
        (lambda a: (a, 1), ArgumentTypeError, "parameter B: expected a tensor, got int"),
        (lambda a: (a, None), ArgumentTypeError, "parameter B: expected a tensor, got None"),
        (lambda a: (a[0], a), ArgumentValueError, "parameter A: expected 2 dimensions, got 1"),
        (lambda a: (a.double(), a), ArgumentTypeError, "expected dtype float32, got float64"),
        (lambda a: (a, a[:5]), ArgumentValueError, "B: shape[0]: expected 8, got 5"),
        (lambda a: (a, a.T), ArgumentValueError, "stride[1]: expected 1, got 8"),
        (lambda a: (a, a.to("meta")), ArgumentValueError, "parameter B: "),
    ],
)
def test_refusals_are_the_same_for_all_backends(
    backend: str, bad: Any, kind: type, text: str
) -> None:
    kernel = tilelang.compile(adder(8, 8), out_idx=-1, target="llvm", execution_backend=backend)
    with pytest.raises(kind) as caught:
        kernel(*bad(torch.zeros(8, 8)))
    assert text in str(caught.value)
    assert caught.value.message.startswith("kernel add: ")


def test_arrays_of_no_numeric_dtype_are_refused() -> None:
    kernel = tilelang.compile(adder(8, 8), out_idx=-1, target="llvm")
    with pytest.raises(ArgumentTypeError, match="expected dtype float32"):
        kernel(np.full((8, 8), None), np.full((8, 8), None))


def test_kernels_are_called_from_threads() -> None:
    kernel = lazy_add(64, 64)
    a, b = pair(64, 64)
    wrong: list[Any] = []

    def work() -> None:
        wrong.extend(n for n in range(50) if not np.array_equal(kernel(a, b), a + b))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_a_function_outlives_its_kernel() -> None:
    kernel = tilelang.compile(adder(8, 8), out_idx=-1, target="llvm")
    function = kernel.func
    tilelang.cache.clear_memory()
    del kernel
    gc.collect()
    a, b = pair(8, 8)
    np.testing.assert_array_equal(function(a, b), a + b)


def test_scalars_and_keywords_of_the_factory() -> None:
    @tilelang.jit(target="llvm")
    def scale(n, *, by=2.0):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), s: T.float32, k: T.int32, flag: T.bool):
            with T.Kernel(1):
                for i in T.Parallel(n):
                    if flag:
                        A[i] = A[i] * s * by + k

        return main

    kernel = scale(4, by=3.0)
    a = np.ones(4, np.float32)
    kernel(a, 2, 1, False)
    np.testing.assert_array_equal(a, np.ones(4))
    kernel(a, 2, 1, True)
    np.testing.assert_array_equal(a, np.full(4, 7.0))


# ------------------------------------------------------------------------------------ decorator


def test_fields_of_the_decorator() -> None:
    impl = tilelang.jit(out_idx=[-1], target="llvm", pass_configs={"tl.enable_fast_math": True})(
        adder
    )
    assert isinstance(impl, JITImpl)
    assert (impl.func, impl.out_idx, impl.target, impl.lazy_jit) == (adder, [-1], "llvm", False)
    assert list(impl.signature.parameters) == ["m", "n", "dtype", "block"]
    assert "T.prim_func" in impl.func_source
    assert tilelang.lazy_jit(adder).lazy_jit is True
    assert eager_add.mode == "eager"
    assert lazy_add.is_lazy_mode()


def test_a_prim_func_under_the_decorator() -> None:
    impl = tilelang.jit(out_idx=-1, target="llvm")(adder(8, 8))
    a, b = pair(8, 8)
    np.testing.assert_array_equal(impl(a, b), a + b)
    assert isinstance(impl(), JITKernel)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(ValueError, match="Invalid function type"):
        tilelang.jit(target="llvm")(3).get_tir()

    @tilelang.jit(target="llvm")
    def nothing():
        return 5

    with pytest.raises(TypeError, match="nothing must return a PrimFunc, got int"):
        nothing()


@pytest.mark.parametrize("bad", [3, -4])
def test_out_idx_out_of_range(bad: int) -> None:
    with pytest.raises(ValueError, match="out_idx should be an integer between -3 and 2"):
        tilelang.compile(adder(8, 8), out_idx=bad, target="llvm")


def test_out_idx_with_an_eager_function() -> None:
    impl = tilelang.jit(out_idx=-1, target="llvm")(eager_add.func)
    with pytest.raises(ValueError, match="out_idx"):
        impl(*pair(8, 8))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(OptionError, match="unknown pass config"):
        tilelang.compile(adder(8, 8), target="llvm", pass_configs={"tl.fast_mth": 1})
    with pytest.raises(OptionError, match="invalid execution backend 'nvrtc' for target 'llvm'"):
        tilelang.compile(adder(8, 8), target="llvm", execution_backend="nvrtc")
    with pytest.raises(TargetError):
        tilelang.compile(adder(8, 8), target="lvm")


def test_the_current_target_is_used() -> None:
    with tilelang.target.Target("llvm"):
        assert tilelang.compile(adder(8, 8)).target.kind == "llvm"


def test_par_compile_keeps_the_order() -> None:
    kernels = tilelang.par_compile([adder(n, 8) for n in (3, 1, 2)], out_idx=-1, target="llvm")
    for kernel, n in zip(kernels, (3, 1, 2), strict=True):
        assert kernel(*pair(n, 8)).shape == (n, 8)
    some = lazy_add.par_compile([{"m": 4, "n": 4}, (5, 5)])
    assert [k.params[0].shape for k in some] == [(4, 4), (5, 5)]
    bad = tilelang.par_compile([adder(2, 2)], out_idx=9, target="llvm", ignore_error=True)
    assert bad == [None]


# ------------------------------------------------------------------------------------ kernel object


def test_what_a_kernel_shows(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    kernel = tilelang.compile(adder(8, 8), out_idx=-1, target="llvm")
    assert "add_kernel" in kernel.get_kernel_source()
    assert "__tvm_ffi_add" in kernel.get_host_source()
    assert [p.shape for p in kernel.params] == [(8, 8)] * 3
    assert kernel.out_idx == [2]
    kernel.show("ir")
    assert "def add(" in capsys.readouterr().out
    kernel.export_sources(str(tmp_path / "k.ll"), str(tmp_path / "h.ll"))
    assert "add_kernel" in (tmp_path / "k.ll").read_text()
    with pytest.raises(ValueError, match="show takes one of"):
        kernel.show("everything")


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2", "uint1", "float4_e2m1fn"])
def test_parts_of_a_byte_are_packed(dtype: str, target: str) -> None:
    @T.prim_func
    def main(
        A: T.Tensor((4, 8), dtype), B: T.Tensor((4, 8), "float32"), C: T.Tensor((4, 8), dtype)
    ):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(4, 8):
                B[i, j] = T.cast(A[i, j], "float32")
            for i, j in T.Parallel(4, 8):
                C[i, j] = A[i, j]

    width = T.dtype(dtype).bits
    a = np.random.default_rng(0).integers(0, 256, (4, width), np.uint8)
    kernel = tilelang.compile(main, out_idx=[1, 2], target=target)
    kernel.verify(a)
    np.testing.assert_array_equal(kernel(a)[1].view(np.uint8), a)
    apart = np.zeros((4, 8), T.dtype(dtype).as_numpy())
    with pytest.raises(ArgumentTypeError, match="a byte for each"):
        kernel(apart)


def test_verify() -> None:
    kernel = tilelang.compile(adder(9, 5), out_idx=-1, target="llvm")
    kernel.verify(*pair(9, 5))
    kernel.verify(*(torch.from_numpy(x) for x in pair(9, 5)))


@pytest.mark.parametrize("large", [1000, 2**60])
def test_verify_compares_integers_exactly(large: int) -> None:
    func = adder(2, 2)
    want = np.full((2, 2), large)
    got = want + np.array([[0, 0], [0, 1]])
    with pytest.raises(ValueError, match=rf"C\[1, 1\] is {large + 1}, the program means {large} "):
        _compare(func, "C", got, want, None, None)
    _compare(func, "C", got, want, None, 1)
    _compare(func, "C", got, want, 1e-2, None)
    _compare(func, "C", got.astype(np.float32), want.astype(np.float32), None, None)


def test_profiler() -> None:
    kernel = tilelang.compile(adder(64, 64), out_idx=-1, target="llvm")
    profiler = kernel.get_profiler()
    assert 0 < profiler.do_bench(warmup=1, rep=2) < 1000
    profiler.assert_allclose(lambda a, b: a + b)
    with pytest.raises(AssertionError, match="elements differ"):
        profiler.assert_allclose(lambda a, b: a - b)
    profiler.assert_consistent(2)
    low, high = profiler.do_bench(warmup=1, rep=2, quantiles=[0.1, 0.9])
    assert low <= high


def test_the_profiler_says_that_there_is_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler, "driver", partial(cuda_driver.Driver, "libno-such-driver.so"))
    kernel = tilelang.compile(adder(8, 8), out_idx=-1, target="cuda -arch=sm_80")
    with pytest.raises(ToolchainError, match="no CUDA driver"):
        kernel.get_profiler().do_bench()


def test_a_numpy_user_loads_neither_torch_nor_what_other_targets_need() -> None:
    code = textwrap.dedent(
        """
        import sys, numpy as np
        sys.path.insert(0, {folder!r})
        import kernels
        a = np.ones((4, 4), np.float32)
        assert (kernels.add(a, a) == 2).all()
        others = ("layout", "runtime.cuda_driver", "transform.vectorize_cuda", "jit.pool")
        assert not [m for m in others if "tilelang." + m in sys.modules]
        assert "torch" not in sys.modules
        import torch
        x = torch.ones(4, 4)
        assert torch.equal(kernels.add(x, x), x + x)
        """
    )
    program = textwrap.dedent(
        """
        import tilelang
        import tilelang.language as T

        @tilelang.jit(target="llvm")
        def add(A, B):
            M, N = T.const("M N")
            A: T.Tensor((M, N), "float32")
            B: T.Tensor((M, N), "float32")
            C = T.empty((M, N), "float32")
            with T.Kernel(1):
                for i, j in T.Parallel(M, N):
                    C[i, j] = A[i, j] + B[i, j]
            return C
        """
    )
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "kernels.py").write_text(program)
        text = code.format(folder=folder)
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# ------------------------------------------------------------------------------------ the quick way


def count_slow_calls(impl: JITImpl, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    slow: list[int] = []
    original = impl._call_eager

    def counting(*args: Any) -> Any:
        slow.append(1)
        return original(*args)

    monkeypatch.setattr(impl, "_call_eager", counting)
    return slow


def test_a_repeated_eager_call_takes_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    impl = tilelang.jit(target="llvm")(eager_add.func)
    slow = count_slow_calls(impl, monkeypatch)
    a, b = pair(8, 8)
    for _ in range(3):
        np.testing.assert_array_equal(impl(a, b), a + b)
        np.testing.assert_array_equal(impl(a, b, block=4), a + b)
        np.testing.assert_array_equal(impl(B=b, A=a), b + a)
    assert len(slow) == 3
    c, d = pair(3, 4)
    np.testing.assert_array_equal(impl(c, d), c + d)
    np.testing.assert_array_equal(impl(c, d, 2), c + d)
    assert len(slow) == 5
    with pytest.raises(ValueError, match=r"B: shape\[1\]: expected 4, got 8"):
        impl(c, a[:3])
    with pytest.raises(TypeError):
        impl(c, d, [1])
    with pytest.raises(TypeError, match="blocc"):
        impl(c, d, blocc=4)


def test_the_quick_way_tells_values_of_different_types_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @tilelang.jit(target="llvm")
    def store(A, value=1):
        A: T.Tensor((2,), "float32")
        with T.Kernel(1):
            for i in T.Parallel(2):
                A[i] = 5.0 if value is True else value

    a = np.zeros(2, np.float32)
    for value, stored in ((1, 1.0), (True, 5.0), (1.0, 1.0), (2, 2.0)) * 2:
        store(a, value)
        assert a[0] == stored


def test_the_quick_way_follows_the_current_target() -> None:
    impl = tilelang.jit(eager_add.func)
    a, b = pair(8, 8)
    kinds = []
    for target in ("llvm", "llvm -mcpu=x86-64-v3", "llvm"):
        with tilelang.target.Target(target):
            impl(a, b)
            kinds.append(str(impl.compile(a, b).target))
    assert kinds == ["llvm", "llvm -mcpu=x86-64-v3", "llvm"]


# ---------------------------------------------------------------------------------- older spellings


def test_a_bare_tensor_takes_its_type_from_the_call() -> None:
    import tilelang as tl

    @tl.jit(target="llvm")
    @tl.prim_func
    def double(A: tl.tensor, B: tl.tensor):
        with T.Kernel(1):
            for i, j in T.Parallel(A.shape[0], A.shape[1]):
                B[i, j] = A[i, j] * 2

    for dtype in (np.float32, np.int32):
        a = np.ones((3, 4), dtype)
        b = np.zeros_like(a)
        double(a, b)
        assert (b == 2).all()
    assert len(double._kernel_cache) == 2


def test_a_fully_typed_prim_func_gives_its_kernel() -> None:
    import tilelang as tl

    @tl.jit(target="llvm")
    @tl.prim_func
    def negate(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(4):
                A[i] = -A[i]

    kernel = negate()
    assert isinstance(kernel, JITKernel)
    a = np.ones(4, np.float32)
    kernel(a)
    assert (a == -1).all()
    negate(a)
    assert (a == 1).all()


@tilelang.jit(target="llvm")
def described(A, value: Any = 1):
    A: T.Tensor((1,), "float32")
    C = T.empty((1,), "float32")
    what = value[0] if isinstance(value, tuple) else value
    kinds = [int, float, bool, np.float32, np.int64]
    with T.Kernel(1, threads=1):
        C[0] = A[0] + kinds.index(type(what)) * 2 + (str(what)[0] == "-")
    return C


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: (x,)])
def test_equal_values_of_different_kinds_are_different_arguments(wrap: Any) -> None:
    """Called again and again, so that the quick way is taken where there is one."""
    zero = np.zeros(1, "float32")
    values = [(0, 0), (0.0, 2), (-0.0, 3), (False, 4), (np.float32(0), 6), (np.float32(-0.0), 7)]
    for value, want in [*values, *values, *reversed(values), (1, 0), (True, 4), (1.0, 2)]:
        assert described(zero, wrap(value))[0] == want
        assert described(zero, value=wrap(value))[0] == want
