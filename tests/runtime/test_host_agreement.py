# SPDX-License-Identifier: Apache-2.0
"""The packed entry, the Python launcher, the generated CPython function and the extension judge
calls alike."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilelang.codegen.host import host_llvm
from tilelang.codegen.host_python import host_python, python_entry
from tilelang.engine import DeviceModule, HostModule
from tilelang.errors import TileError
from tilelang.ir import Buffer, DType, Expr, HostProgram, Kernel, Seq, Var, ceildiv, const
from tilelang.jit.adapter.cython import Launch
from tilelang.jit.adapter.native import native_function
from tilelang.runtime import llvm_jit
from tilelang.runtime import tvm_ffi as ffi
from tilelang.runtime.call_spec import call_spec
from tilelang.runtime.dlpack import CPU
from tilelang.runtime.launch import CallSpec
from tilelang.target import Target

torch = pytest.importorskip("torch")
LLVM = Target("llvm")
ONE = const(1)
SYMBOLS = tuple(Var(n, DType("int64")) for n in "mn")
DTYPES = ("float32", "float16", "int32", "uint8")


@st.composite
def programs(draw: st.DrawFn) -> HostProgram:
    """Up to three tensors over two symbols, and a scalar; a kernel that gets the bound symbols."""
    m, n = SYMBOLS
    sizes: list[Expr] = [m, n, const(4), m * 2, ceildiv(n, 2), m + n]
    params: list[Any] = []
    for name in "ABC"[: draw(st.integers(1, 3))]:
        rank = draw(st.integers(1, 3))
        shape = [draw(st.sampled_from(sizes)) for _ in range(rank)]
        params.append(Buffer(name, shape, draw(st.sampled_from(DTYPES))))
    if draw(st.booleans()):
        params.append(Var("s", DType(draw(st.sampled_from(("int32", "float32", "bool"))))))
    params = draw(st.permutations(params))
    dims = [e for p in params if isinstance(p, Buffer) for e in p.shape]
    missing = [v for v in SYMBOLS if not any(e is v for e in dims)]
    params += [Buffer("Z", missing, "float32")] if missing else []
    run = Kernel(
        "f_kernel", SYMBOLS, Seq(()), (ONE, ONE, ONE), (1, 1, 1),
        (Var("x"), Var("y"), Var("z")), (Var("u"), Var("v"), Var("w")),
    )  # fmt: skip
    return HostProgram("f", tuple(params), (), (run,))


def argument(draw: st.DrawFn, p: Any, values: dict[Any, int]) -> Any:
    """Mostly right; sometimes one thing is wrong with it."""
    wrong = draw(st.sampled_from([None] * 6 + ["kind", "rank", "dtype", "size", "stride"]))
    if isinstance(p, Var):
        right = {"int32": 7, "float32": 1.5, "bool": True}[str(p.dtype)]
        return draw(st.sampled_from([right, right, 3, True, 2**40, "x"]))
    if wrong == "kind":
        return draw(st.sampled_from(["x", 5, 2.5]))  # None may stand for what no kernel reads
    shape = [_size(e, values) for e in p.shape]
    if wrong == "rank":
        shape.append(1)
    if wrong == "size":
        shape[draw(st.integers(0, len(shape) - 1))] += 1
    dtype = str(p.dtype) if wrong != "dtype" else draw(st.sampled_from(DTYPES))
    made = torch.zeros([2 * s for s in shape] if wrong == "stride" else shape).to(
        getattr(torch, dtype)
    )
    return made[tuple(slice(None, None, 2) for _ in shape)] if wrong == "stride" else made


@st.composite
def arguments(draw: st.DrawFn, program: HostProgram, values: dict[Any, int]) -> list[Any]:
    return [argument(draw, p, values) for p in program.params]


def _size(e: Expr, values: dict[Any, int]) -> int:
    m, n = SYMBOLS
    known = {m: values[m], n: values[n]}
    spec = call_spec(HostProgram("g", (Buffer("A", (e,), "int8"), m, n), (), ()))
    from tilelang.runtime.launch import evaluate

    return evaluate(spec.params[0].shape[0], {v.name: k for v, k in known.items()})


class Calls:
    """One program behind all four; each records the symbols that its kernel was given."""

    def __init__(self, program: HostProgram) -> None:
        self.spec: CallSpec = call_spec(program)
        self.seen: list[tuple[int, ...]] = []
        kind = ctypes.CFUNCTYPE(ctypes.c_void_p, *[ctypes.c_int64] * 4)
        self.recorder = kind(lambda m, n, first, last: self.seen.append((m, n)))
        address = ctypes.cast(self.recorder, ctypes.c_void_p).value or 0
        ffi.tvm_ffi()
        code = llvm_jit.compile_module(host_llvm(program, LLVM), opt=0)
        module = llvm_jit.load(code, ["__tvm_ffi_f"], {**ffi.symbols(), "f_kernel": address})
        self.entry = ffi.function_at(module.address("__tvm_ffi_f"), module)
        self.native = self.make_native(program, address)
        self.cython = self.make_cython()

    def make_cython(self) -> Any:
        def record(slots: Any, first: int, last: int) -> None:
            self.seen.append((slots[0], slots[1]))

        pointer = ctypes.POINTER(ctypes.c_int64)
        kind = ctypes.CFUNCTYPE(ctypes.c_void_p, pointer, ctypes.c_int64, ctypes.c_int64)
        self.slots_recorder = kind(record)
        address = ctypes.cast(self.slots_recorder, ctypes.c_void_p).value or 0
        return Launch(self.spec, _NoDevice(self), lambda name: address, b"").function

    def make_native(self, program: HostProgram, address: int) -> Any:
        # The kernel is a jump to the recorder, so that the module is complete by itself.
        kernel = (
            "define ptr @f_kernel(i64 %m, i64 %n, i64 %a, i64 %b) {\n"
            f"  %f = inttoptr i64 {address} to ptr\n"
            "  %r = call ptr %f(i64 %m, i64 %n, i64 %a, i64 %b)\n  ret ptr %r\n}\n"
        )
        text = host_python(program, LLVM, kernel)
        code = llvm_jit.compile_module(text, opt=0)
        module = HostModule("llvm", text, python_entry("f"), code)
        module.import_module(DeviceModule("llvm", ""))
        return native_function(module, self.spec, self.by_python, LLVM)

    def by_python(self, *args: Any) -> None:
        bound = self.spec.bind(args)
        self.seen.append((bound.symbols["m"], bound.symbols["n"]))

    def outcome(self, call: Any, args: Any) -> Any:
        """The error's code, or what the kernel was given."""
        self.seen.clear()
        try:
            call(*args)
        except TileError as error:
            return error.code
        (seen,) = self.seen
        return seen


class _NoDevice:
    """A CPU whose kernels tell the symbols that Python gives them."""

    device_type = CPU

    def __init__(self, calls: Calls) -> None:
        self.calls = calls

    def run(self, kernel: Any, grid: Any, args: Any, ranges: Any, device: int) -> None:
        self.calls.seen.append(tuple(a.value for a in args))


@settings(max_examples=25)
@given(st.data())
def test_all_ways_agree(data: st.DataObject) -> None:
    program = data.draw(programs())
    calls = Calls(program)
    for _ in range(6):
        m, n = (data.draw(st.integers(1, 4)) for _ in SYMBOLS)
        values = {SYMBOLS[0]: m, SYMBOLS[1]: n}
        args = data.draw(arguments(program, values))
        want = calls.outcome(calls.by_python, args)
        assert calls.outcome(calls.entry, args) == want
        assert calls.outcome(calls.native, args) == want
        assert calls.outcome(calls.cython, args) == want
        if all(isinstance(x, torch.Tensor) for x in args):
            arrays = [x.numpy() for x in args]
            assert calls.outcome(calls.entry, arrays) == want
            assert calls.outcome(calls.cython, arrays) == want
            assert all(isinstance(a, np.ndarray) for a in arrays)
