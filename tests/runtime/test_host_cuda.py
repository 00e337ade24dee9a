# SPDX-License-Identifier: Apache-2.0
"""Launches by the packed entry, by the Python launcher and by the extension of backend cython,
against a driver that records them."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tilelang.codegen.host import host_c, host_llvm, needed_alignment
from tilelang.codegen.host_python import host_python, python_entry
from tilelang.config import Options
from tilelang.engine import DeviceModule, HostModule
from tilelang.ir import (
    Buffer,
    DType,
    Expr,
    HostProgram,
    Kernel,
    Load,
    Ramp,
    Seq,
    Store,
    TensorMap,
    Var,
    ceildiv,
    const,
)
from tilelang.jit.adapter import native
from tilelang.jit.adapter.cython import Launch as Launch_
from tilelang.jit.adapter.exchange import ExchangeTable
from tilelang.jit.adapter.native import native_function
from tilelang.jit.adapter.tvm_ffi import load_entry
from tilelang.runtime import cuda_driver, dlpack, llvm_jit
from tilelang.runtime import tvm_ffi as ffi
from tilelang.runtime.call_spec import call_spec
from tilelang.runtime.cc import compile_library, find_compiler
from tilelang.runtime.dlpack import CUDA, View
from tilelang.runtime.python_launch import CudaDevice, PythonLauncher
from tilelang.target import Target

SM90 = Target("cuda -arch=sm_90a")
ONE = const(1)
CUBIN = b"\x7fELF a cubin"


class Config(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("smem", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint),
    )  # fmt: skip


class Launch(ctypes.Structure):
    _fields_ = (
        ("config", Config), ("attributes", ctypes.c_char * 288), ("kernel", ctypes.c_void_p),
        ("device", ctypes.c_int), ("params", ctypes.c_ulonglong * 16),
    )  # fmt: skip


class Map(ctypes.Structure):
    _fields_ = (
        ("out", ctypes.c_void_p), ("type", ctypes.c_int), ("rank", ctypes.c_uint),
        ("address", ctypes.c_void_p), ("dims", ctypes.c_ulonglong * 5),
        ("strides", ctypes.c_ulonglong * 4), ("box", ctypes.c_uint * 5), ("swizzle", ctypes.c_int),
    )  # fmt: skip


class Fake:
    """The recording driver."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        self.driver = cuda_driver.Driver(path)

    def number(self, name: str) -> int:
        return ctypes.c_int.in_dll(self.library, name).value

    def set(self, name: str, value: int) -> None:
        ctypes.c_int.in_dll(self.library, name).value = value

    @property
    def launches(self) -> list[Launch]:
        all_ = (Launch * 64).in_dll(self.library, "fake_launches")
        return list(all_[: self.number("fake_num_launches")])

    @property
    def maps(self) -> list[Map]:
        return list((Map * 64).in_dll(self.library, "fake_maps")[: self.number("fake_num_maps")])


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    source = Path(__file__).with_name("fake_libcuda.c")
    output = tmp_path_factory.mktemp("cuda") / "libfakecuda.so"
    command = [*find_compiler(), "-shared", "-fPIC", "-w", str(source), "-o", str(output)]
    subprocess.run(command, check=True)
    return str(output)


@pytest.fixture
def fake(library: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fake:
    copy = tmp_path / "libcuda.so"  # a fresh one: its counters start at 0
    copy.write_bytes(Path(library).read_bytes())
    fake = Fake(str(copy))
    monkeypatch.setattr(cuda_driver, "driver", lambda: fake.driver)
    return fake


def zeros(*shape: int, dtype: str = "float32", device: int = 0, address: int = 0) -> Any:
    """A tensor that claims to be on a CUDA device; nobody touches its memory."""
    return _FakeTensor(shape, dtype, device, address or _next_address())


_addresses = iter(range(0x700000000000, 0x7FFFFFFF0000, 0x100000))


def _next_address() -> int:
    return next(_addresses)


class _FakeTensor:
    def __init__(self, shape: tuple[int, ...], dtype: str, device: int, address: int) -> None:
        self.shape, self.dtype, self.device_id, self.address = shape, dtype, device, address

    def strides(self) -> tuple[int, ...]:
        out, step = [], 1
        for n in reversed(self.shape):
            out.insert(0, step)
            step *= n
        return tuple(out)

    def view(self) -> View:
        where = (CUDA, self.device_id)
        return View(self.address, self.shape, self.strides(), self.dtype, where, self)

    def ffi(self) -> Any:
        exported = object.__new__(dlpack._Exported)
        code, bits = DType(self.dtype).row.dlpack
        exported.shape = (ctypes.c_int64 * len(self.shape))(*self.shape)
        exported.strides = (ctypes.c_int64 * len(self.shape))(*self.strides())
        exported.managed = dlpack._DLManagedTensor()
        t = exported.managed.tensor
        t.data, t.device_type, t.device_id, t.ndim = (
            self.address,
            CUDA,
            self.device_id,
            len(self.shape),
        )
        t.code, t.bits, t.lanes = code, bits, 1
        t.shape = ctypes.cast(exported.shape, ctypes.POINTER(ctypes.c_int64))
        t.strides = ctypes.cast(exported.strides, ctypes.POINTER(ctypes.c_int64))
        t_deleter = ctypes.cast(dlpack._release, ctypes.c_void_p)
        exported.managed.deleter = t_deleter
        return ffi.tvm_ffi().from_dlpack(_OnCuda(exported, self.device_id))


class _OnCuda:
    def __init__(self, exported: Any, device: int) -> None:
        self.exported, self.device = exported, device

    def __dlpack__(self, **_: object) -> Any:
        return self.exported.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (CUDA, self.device)


Run = Callable[[HostProgram], Callable[..., Any]]


def entry_module(program: HostProgram, form: str = "llvm", cubin: bytes = CUBIN) -> HostModule:
    name = f"__tvm_ffi_{program.name}"
    if form == "llvm":
        text = host_llvm(program, SM90)
        host = HostModule("llvm", text, name, llvm_jit.compile_module(text))
    else:
        text = host_c(program, SM90)
        host = HostModule("c", text, name, compile_library([text], Target("c"), Options()))
    host.import_module(DeviceModule("cuda", "", "sm_90a", cubin))
    return host


class Extension:
    """The extension, told that `_FakeTensor` is torch's tensor and 77 the current stream."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from tilelang.jit.adapter import cython
        from tilelang.jit.adapter import launcher as extension
        from tilelang.runtime import launch, python_launch

        def tensor_of(address: int, out: int) -> int:
            x = ctypes.cast(address, ctypes.py_object).value
            self.shapes = [(ctypes.c_int64 * 8)(*x.shape), (ctypes.c_int64 * 8)(*x.strides())]
            t = dlpack._DLTensor.from_address(out)
            t.data, t.device_type, t.device_id = x.address, CUDA, x.device_id
            (t.code, t.bits), t.lanes, t.ndim = DType(x.dtype).row.dlpack, 1, len(x.shape)
            pointer = ctypes.POINTER(ctypes.c_int64)
            t.shape, t.strides = (ctypes.cast(s, pointer) for s in self.shapes)
            t.byte_offset = 0
            self.kept.append(self.shapes)
            return 0

        def stream_of(kind: int, device: int, out: int) -> int:
            ctypes.c_void_p.from_address(out).value = 77
            return 0

        self.kept: list[Any] = []
        self.tensor_of = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(tensor_of)
        self.stream_of = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_int] * 2, ctypes.c_void_p)(
            stream_of
        )
        functions = (self.tensor_of, self.stream_of)
        addresses = [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in functions]
        self.table = ExchangeTable(*addresses)
        extension.attach_frameworks()
        shared = extension._shared(extension.launcher())
        for name, value in (
            ("tensor_type", id(_FakeTensor)),
            ("tensor_of", self.table.tensor_of),
            ("stream_of", self.table.stream_of),
        ):
            monkeypatch.setattr(shared, name, value)

        def view(x: Any) -> Any:
            return x.view() if isinstance(x, _FakeTensor) else None

        monkeypatch.setattr(launch, "view_of", view)
        monkeypatch.setattr(cython, "view_of", view)
        monkeypatch.setattr(native, "view_of", view)
        monkeypatch.setattr(python_launch, "_current_of_torch", lambda device: 77)

    def __call__(self, program: HostProgram, cubin: bytes = CUBIN) -> Launch_:
        spec = call_spec(program, needed_alignment(program, SM90))
        return Launch_(spec, CudaDevice(cubin), lambda name: 0, cubin)


@pytest.fixture
def extension(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> Extension:
    return Extension(monkeypatch)


@pytest.fixture(params=["llvm", "c", "python", "cython", "nvrtc"])
def run(request: pytest.FixtureRequest, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Program -> callable, by the generated entry or by the Python launcher."""

    def by_entry(program: HostProgram) -> Callable[..., Any]:
        host = entry_module(program, request.param)
        entry = load_entry(host, call_spec(program, needed_alignment(program, SM90)), True)

        def call(*args: Any) -> Any:
            with ffi.tvm_ffi().use_raw_stream(ffi.tvm_ffi().device("cuda", args_device(args)), 77):
                return entry(*(a.ffi() if isinstance(a, _FakeTensor) else a for a in args))

        return call

    def by_python(program: HostProgram) -> Callable[..., Any]:
        from tilelang.runtime import launch, python_launch

        def view(x: Any) -> Any:
            return x.view() if isinstance(x, _FakeTensor) else None

        monkeypatch.setattr(launch, "view_of", view)
        monkeypatch.setattr(python_launch, "current_stream", lambda device: 77)
        spec = call_spec(program, needed_alignment(program, SM90))
        return PythonLauncher(spec, CudaDevice(CUBIN))

    def by_extension(program: HostProgram) -> Callable[..., Any]:
        return Extension(monkeypatch)(program).function

    def by_native(program: HostProgram) -> Callable[..., Any]:
        extension = Extension(monkeypatch)
        monkeypatch.setattr(native, "exchange_table", lambda torch: extension.table)
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=_FakeTensor))
        text = host_python(program, SM90)
        code = llvm_jit.compile_module(text)
        module = HostModule("llvm", text, python_entry(program.name), code)
        module.import_module(DeviceModule("cuda", "", "sm_90a", CUBIN))
        spec = call_spec(program, needed_alignment(program, SM90))
        return native_function(module, spec, PythonLauncher(spec, CudaDevice(CUBIN)), SM90)

    ways = {"python": by_python, "cython": by_extension, "nvrtc": by_native}
    return ways.get(request.param, by_entry)


def args_device(args: tuple[Any, ...]) -> int:
    return next((a.device_id for a in args if isinstance(a, _FakeTensor)), 0)


def kernel(name: str, args: tuple[Any, ...], grid: tuple[Expr, ...], **more: Any) -> Kernel:
    blocks, threads = [Var(n) for n in "xyz"], [Var(n) for n in "uvw"]
    full = (*grid, ONE, ONE, ONE)[:3]
    made = Kernel(name, args, Seq(()), full, (128, 1, 1), tuple(blocks), tuple(threads))
    return replace(made, **more)


def simple(**more: Any) -> HostProgram:
    n = Var("N")
    a = Buffer("A", (n, 8), "float32")
    s = Var("s", DType("float32"))
    return HostProgram("f", (a, s), (), (kernel("k0", (a, s, n), (ceildiv(n, 4), ONE), **more),))


def test_a_launch(fake: Fake, run: Run) -> None:
    f = run(simple(dynamic_smem=100_000))
    fake.set("fake_num_params", 3)
    a = zeros(10, 8)
    f(a, 0.5)
    (launch,) = fake.launches
    assert list(launch.config.grid) == [3, 1, 1]
    assert list(launch.config.block) == [128, 1, 1]
    assert launch.config.smem == 100_000
    assert launch.config.stream == 77
    assert launch.config.count == 0
    assert launch.kernel == ord("0")
    assert launch.params[0] == a.address
    assert launch.params[1] & 0xFFFFFFFF == 0x3F000000
    assert launch.params[2] & 0xFFFFFFFF == 10
    assert list((ctypes.c_int * 2).in_dll(fake.library, "fake_smem")) == [100_000, 0]


def test_the_module_is_loaded_once(fake: Fake, run: Run) -> None:
    f = run(simple())
    fake.set("fake_num_params", 3)
    for _ in range(3):
        f(zeros(4, 8), 1.0)
    assert fake.number("fake_num_loads") == 1
    assert len(fake.launches) == 3


def test_each_device_gets_its_context(fake: Fake, run: Run) -> None:
    f = run(simple())
    fake.set("fake_num_params", 3)
    for device in (0, 1, 0):
        f(zeros(4, 8, device=device), 1.0)
    assert [launch.device for launch in fake.launches] == [0, 1, 0]


def test_the_entry_leaves_the_callers_context_alone(fake: Fake) -> None:
    entry = load_entry(entry_module(simple()), call_spec(simple()), True)
    fake.set("fake_current", 0)
    entry(zeros(4, 8, device=1).ffi(), 1.0)
    assert fake.launches[0].device == 1
    assert fake.number("fake_current") == 0


def test_an_empty_grid_launches_nothing(fake: Fake, run: Run) -> None:
    f = run(simple())
    f(zeros(0, 8), 1.0)
    assert fake.launches == []


def test_attributes(fake: Fake, run: Run) -> None:
    f = run(simple(attrs={"cluster_dims": (2, 1, 1), "cooperative": True, "pdl": True}))
    fake.set("fake_num_params", 3)
    f(zeros(8, 8), 1.0)
    (launch,) = fake.launches
    assert launch.config.count == 3
    raw = bytes(
        (ctypes.c_char * 288).from_address(ctypes.addressof(launch) + Launch.attributes.offset)
    )
    found = {}
    for n in range(3):
        id_ = int.from_bytes(raw[72 * n : 72 * n + 4], "little")
        found[id_] = [int.from_bytes(raw[72 * n + 8 + 4 * i :][:4], "little") for i in range(3)]
    assert found[4] == [2, 1, 1]
    assert found[2][0] == 1
    assert found[6][0] == 1


def test_tensors_on_different_devices_are_refused(fake: Fake, run: Run) -> None:
    n = Var("N")
    a, b = Buffer("A", (n,), "float32"), Buffer("B", (n,), "float32")
    f = run(HostProgram("f", (a, b), (), (kernel("k0", (a, b), (ONE,)),)))
    with pytest.raises(ValueError, match=r"TL0913.*parameter B: expected a tensor on device 0"):
        f(zeros(4), zeros(4, device=1))


def test_cpu_tensors_are_refused(fake: Fake) -> None:
    import numpy as np

    entry = load_entry(entry_module(simple()), call_spec(simple()), True)
    with pytest.raises(ValueError, match="expected a tensor on a CUDA device, got one on cpu:0"):
        entry(np.zeros((4, 8), np.float32), 1.0)


def test_a_failed_launch_is_explained(fake: Fake, run: Run) -> None:
    f = run(simple())
    f(zeros(0, 8), 1.0)
    fake.set("fake_fail", 1)
    with pytest.raises(RuntimeError, match=r"(TL0812|TL0815).*fake failure"):
        f(zeros(4, 8), 1.0)


def test_no_cubin_is_explained(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = load_entry(entry_module(simple(), cubin=b"not a cubin"), call_spec(simple()), True)
    with pytest.raises(RuntimeError, match="kernel f: cuLibraryLoadData failed"):
        entry(zeros(4, 8).ffi(), 1.0)


def test_the_extension_launches_by_itself_once_the_module_is_loaded(
    fake: Fake, extension: Extension, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = extension(simple(dynamic_smem=100_000))
    fake.set("fake_num_params", 3)
    launch.function(zeros(4, 8), 1.0)
    monkeypatch.setattr(PythonLauncher, "launch", lambda *a, **k: pytest.fail("through Python"))
    fake.set("fake_current", 1)
    a = zeros(10, 8)
    launch.function(a, 0.5)
    last = fake.launches[-1]
    assert list(last.config.grid) == [3, 1, 1]
    assert (last.config.smem, last.config.stream, last.params[0]) == (100_000, 77, a.address)
    assert last.device == 0
    assert fake.number("fake_current") == 1  # the caller's context is the current one again
    launch.function(a, s=2, stream=5)
    launch.function(a, s=2, stream=0, skip_tensor_validation=True)
    launch.function(zeros(10, 7), s=2, skip_tensor_validation=True)  # the caller's own fault
    assert [x.config.stream for x in fake.launches[-3:]] == [5, None, 77]
    launch.function(zeros(0, 8), 1.0)
    assert len(fake.launches) == 5


def test_options_of_the_extension_before_the_module_is_loaded(
    fake: Fake, extension: Extension
) -> None:
    fake.set("fake_num_params", 3)
    extension(simple()).function(zeros(4, 8), 1.0, stream=9)
    extension(simple()).function(zeros(4, 7), s=1.0, skip_tensor_validation=True)
    assert [x.config.stream for x in fake.launches] == [9, 77]


def test_a_failed_launch_of_the_extension_is_explained(fake: Fake, extension: Extension) -> None:
    launch = extension(simple())
    fake.set("fake_num_params", 3)
    launch.function(zeros(4, 8), 1.0)
    fake.set("fake_fail", 1)
    with pytest.raises(RuntimeError, match=r"kernel k0: cuLaunchKernelEx failed: .*fake"):
        launch.function(zeros(4, 8), 1.0)


# ------------------------------------------------------------------------------------ TMA


def tma_program() -> HostProgram:
    m, n = Var("M"), Var("N")
    a = Buffer("A", (m, n), "float16")
    desc = TensorMap(Var("d", DType("handle")), a, (n, m), (ONE, n), (64, 32), 128)
    return HostProgram("f", (a,), (), (kernel("k0", (desc,), (m,)),))


def test_a_descriptor_is_encoded(fake: Fake, run: Run) -> None:
    f = run(tma_program())
    fake.set("fake_num_params", 1)
    a = zeros(40, 64, dtype="float16")
    f(a)
    (m,) = fake.maps
    assert (m.type, m.rank, m.address, m.swizzle) == (6, 2, a.address, 3)
    assert list(m.dims)[:2] == [64, 40]
    assert list(m.strides)[:1] == [128]
    assert list(m.box)[:2] == [64, 32]
    assert fake.launches[0].params[0] == 0x4141414141414141


def test_the_entry_encodes_a_descriptor_only_when_something_changed(fake: Fake) -> None:
    entry = load_entry(entry_module(tma_program()), call_spec(tma_program()), True)
    fake.set("fake_num_params", 1)
    a = zeros(40, 64, dtype="float16")
    for _ in range(3):
        entry(a.ffi())
    assert len(fake.maps) == 1
    entry(zeros(20, 64, dtype="float16", address=a.address).ffi())
    assert len(fake.maps) == 2
    entry(zeros(20, 64, dtype="float16", address=a.address + 4096).ffi())
    assert len(fake.maps) == 3
    patterns = [launch.params[0] & 0xFF for launch in fake.launches]
    assert patterns == [0x41, 0x41, 0x41, 0x42, 0x43]


def test_the_extension_encodes_a_descriptor_only_when_something_changed(
    fake: Fake, extension: Extension
) -> None:
    call = extension(tma_program()).function
    fake.set("fake_num_params", 1)
    call(zeros(8, 64, dtype="float16"))
    first = len(fake.maps)
    a = zeros(40, 64, dtype="float16")
    for _ in range(3):
        call(a)
    assert len(fake.maps) == first + 1
    call(zeros(20, 64, dtype="float16", address=a.address))
    call(zeros(20, 64, dtype="float16", address=a.address + 4096))
    assert len(fake.maps) == first + 3
    m = fake.maps[first]
    assert (m.type, m.rank, m.address, m.swizzle) == (6, 2, a.address, 3)
    assert list(m.dims)[:2] == [64, 40]
    assert list(m.strides)[:1] == [128]
    assert m.out % 64 == 0
    patterns = [launch.params[0] & 0xFF for launch in fake.launches[1:]]
    assert patterns == [0x42, 0x42, 0x42, 0x43, 0x44]
    fake.set("fake_fail", 1)
    for _ in range(2):  # a failure is not remembered as a success
        with pytest.raises(RuntimeError, match="cuTensorMapEncodeTiled failed"):
            call(zeros(8, 64, dtype="float16"))


def test_an_empty_tensor_is_not_described(fake: Fake, run: Run) -> None:
    """The driver refuses extents of 0; the launch itself is not at fault (K = 0 in a matmul)."""
    f = run(tma_program())
    fake.set("fake_num_params", 1)
    f(zeros(4, 0, dtype="float16"))
    assert not fake.maps
    assert fake.launches[0].params[0] == 0


def test_a_refused_descriptor_is_explained(fake: Fake) -> None:
    entry = load_entry(entry_module(tma_program()), call_spec(tma_program()), True)
    fake.set("fake_fail", 1)
    a = zeros(40, 64, dtype="float16")
    for _ in range(2):  # a failure is not remembered as a success
        with pytest.raises(
            ValueError, match=r"TL0916.*parameter A: the tensor cannot be described"
        ):
            entry(a.ffi())


def test_alignment_is_demanded_where_accesses_are_wide(fake: Fake, run: Run) -> None:
    n = Var("N")
    a, b = Buffer("A", (n,), "float32"), Buffer("B", (n,), "float32")
    wide = Ramp(const(0), ONE, 4)
    body = Store(b, (const(0),), Load(a, (wide,)))
    program = HostProgram("f", (a, b), (), (kernel("k0", (a, b), (ONE,), body=body),))
    assert needed_alignment(program, SM90) == {a: 16}
    assert needed_alignment(program, Target("llvm")) == {}
    f = run(program)
    base = _next_address()
    f(zeros(4, address=base), zeros(4, address=base + 4))
    with pytest.raises(ValueError, match="parameter A: data must be aligned to 16 bytes, got addr"):
        f(zeros(4, address=base + 8), zeros(4))
