# SPDX-License-Identifier: Apache-2.0
"""`host_codegen`: the passes over host code, each with a program on which it has work to do."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang import ir
from tilelang.codegen.host import host_c, host_llvm
from tilelang.codegen.llvm import llvm_ir
from tilelang.engine import lower
from tilelang.engine.lower import host_codegen
from tilelang.errors import TargetError
from tilelang.ir import Call, HostProgram, IRModule, Kernel, Load, PrimFunc, Store, walk
from tilelang.target import Target
from tilelang.testing.kernels import ZOO
from tilelang.transform.host import HOST_PIPELINE, lowered_kernels, run_host_passes

LLVM, C, SIM = Target("llvm"), Target("c"), Target("cuda-sim -arch=sm_90a")
NAMES = [
    "BindTarget", "FP8StorageLegalize", "BF16StorageLegalize", "LowerTVMBuiltin",
    "LowerCustomDatatypes", "LowerIntrin", "LowerDeviceStorageAccessInfo", "CombineContextCall",
]  # fmt: skip


def around(name: str, func: PrimFunc, target: Target = LLVM) -> tuple[IRModule, IRModule]:
    """The host module before and after one pass."""
    mod = lower(func, target).host_mod
    seen = {"": mod}
    with ir.session():
        run_host_passes(mod, LLVM, lambda n, m: seen.update({n: m}))
    before = NAMES[NAMES.index(name) - 1] if name != NAMES[0] else ""
    return seen[before], seen[name]


def kernel_of(mod: IRModule) -> Kernel:
    (kernel,) = (f for f in mod.functions.values() if isinstance(f, Kernel))
    return kernel


def entry_of(mod: IRModule) -> HostProgram:
    (program,) = (f for f in mod.functions.values() if isinstance(f, HostProgram))
    return program


def nodes(kernel: Kernel, kind: type) -> list[Any]:
    return [n for n in walk(kernel.body) if type(n) is kind]


def unary(dtype: str, compute: Any, n: int = 64, out: str = "") -> PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((n,), dtype), B: T.Tensor((n,), out or dtype)):
        with T.Kernel(1):
            for i in T.Parallel(n):
                B[i] = compute(A[i])

    return main


# ------------------------------------------------------------------------------------ host_codegen


def test_the_passes_and_their_order() -> None:
    assert [p.name for p in HOST_PIPELINE] == NAMES


def test_host_codegen_runs_the_passes_and_then_the_builder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import sys

    module = sys.modules["tilelang.engine.lower"]
    order: list[str] = []

    def noting(mod: IRModule, host: Target) -> IRModule:
        return run_host_passes(mod, host, lambda name, _: order.append(name))

    def building(program: HostProgram, *rest: Any) -> Any:
        order.append("builder")
        assert program.attrs["target"] == LLVM
        return "built"

    monkeypatch.setattr(module, "run_host_passes", noting)
    monkeypatch.setitem(module._HOST_BUILDERS, "llvm", building)
    assert host_codegen(lower(ZOO["add"](), SIM).host_mod, LLVM) == "built"
    assert order == [*NAMES, "builder"]


@pytest.mark.parametrize("host", ["llvm", "c"])
@pytest.mark.parametrize("device", ["same", "cuda-sim -arch=sm_80"])
def test_a_host_module_and_its_target_are_enough(host: str, device: str) -> None:
    target = Target(host if device == "same" else device)
    artifact = lower(ZOO["add"](), target, host)
    module = host_codegen(artifact.host_mod, host)
    whole = lower(ZOO["add"](), target, host, enable_host_codegen=True).rt_mod
    assert (module.form, module.entry) == (whole.form, whole.entry)
    assert module.inspect_source() == whole.inspect_source()
    assert module.binary[:4] == b"\x7fELF"


def test_other_hosts_are_refused() -> None:
    mod = lower(ZOO["add"](), SIM).host_mod
    with pytest.raises(ValueError, match="Target host cuda is not supported"):
        host_codegen(mod, Target("cuda -arch=sm_90a"))
    with pytest.raises(TargetError, match="kernels for llvm cannot be called by host code for c"):
        lower(ZOO["add"](), LLVM, "c", enable_host_codegen=True)
    with pytest.raises(TargetError, match="kernels for c cannot be called by host code for llvm"):
        lower(ZOO["add"](), C, "llvm", enable_host_codegen=True)


# ------------------------------------------------------------------------------------ BindTarget


def test_bind_target_gives_the_entry_the_hosts_target() -> None:
    before, after = around("BindTarget", ZOO["add"](), SIM)
    assert entry_of(before).attrs.get("target") is None
    assert entry_of(after).attrs["target"] == LLVM
    assert entry_of(after).launches[0].attrs["target"] == SIM


def test_a_bound_target_is_what_the_code_is_compiled_for() -> None:
    old = Target("llvm -mcpu=x86-64")
    mod = lower(ZOO["add"](), old).host_mod
    assert kernel_of(run_host_passes(mod, LLVM)).attrs["target"] == old
    mod.functions["extra"] = ir.Kernel(
        "extra", (), ir.Seq(()), (ir.const(1),) * 3, (1, 1, 1), *((ir.Var("x"),) * 3,) * 2
    )
    assert run_host_passes(mod, LLVM)["extra"].attrs["target"] == LLVM


# ------------------------------------------------------------------------------------ storage


STORAGE = [
    ("FP8StorageLegalize", "float8_e4m3fn", "uint8"),
    ("FP8StorageLegalize", "float8_e5m2", "uint8"),
    ("BF16StorageLegalize", "bfloat16", "uint16"),
]


@pytest.mark.parametrize(("name", "dtype", "word"), STORAGE)
def test_storage_is_legalized(name: str, dtype: str, word: str) -> None:
    func = unary(dtype, lambda x: x * 2)
    before, after = (kernel_of(m) for m in around(name, func))
    for kernel, expected in ((before, dtype), (after, word)):
        touched = {str(n.buffer.dtype) for n in nodes(kernel, Load) + nodes(kernel, Store)}
        assert touched == {expected}
    casts = [n for n in nodes(after, Call) if n.op == "reinterpret"]
    assert {str(n.dtype.element) for n in casts} == {dtype, word}
    assert after.args == before.args  # the entry checks the dtype that the user wrote
    assert all(n.buffer.view_of in after.args for n in nodes(after, Store))


def held(dtype: str, n: int = 48) -> PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1):
            s = T.alloc_shared((n,), dtype)
            T.copy(A, s)
            for i in T.Parallel(n):
                B[i] = T.cast(s[n - 1 - i], "float32") + T.cast(s[i], "float32")

    return main


@pytest.mark.parametrize(("name", "dtype", "word"), STORAGE)
def test_memory_of_the_kernels_own_is_allocated_as_integers(
    name: str, dtype: str, word: str
) -> None:
    before, after = (kernel_of(m) for m in around(name, held(dtype)))
    allocated = [{str(n.buffer.dtype) for n in nodes(k, ir.Alloc)} for k in (before, after)]
    assert dtype in allocated[0]
    assert dtype not in allocated[1]
    assert word in allocated[1]


@pytest.mark.parametrize(("name", "dtype", "word"), STORAGE)
def test_legalized_storage_means_the_same(name: str, dtype: str, word: str) -> None:
    x = np.linspace(-9, 9, 48, dtype=np.float32)
    kernel = tilelang.compile(held(dtype), out_idx=-1, target="llvm")
    s = x.astype(getattr(ml_dtypes, dtype)).astype(np.float32)
    np.testing.assert_array_equal(kernel(x), s[::-1] + s)


def test_a_buffer_whose_address_is_taken_keeps_its_dtype() -> None:
    @T.prim_func
    def main(A: T.Tensor((8,), "bfloat16"), B: T.Tensor((8,), "bfloat16")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                T.atomic_add(B[i], A[i])

    after = kernel_of(around("BF16StorageLegalize", main)[1])
    assert {str(n.buffer.dtype) for n in nodes(after, Load)} == {"bfloat16", "uint16"}
    a = np.arange(8).astype(ml_dtypes.bfloat16)
    b = np.ones(8, ml_dtypes.bfloat16)
    tilelang.compile(main, target="llvm")(a, b)
    np.testing.assert_array_equal(b.astype("f"), np.arange(8) + 1)


# ------------------------------------------------------------------------------------ contexts


def two_launches() -> PrimFunc:
    return ZOO["two_kernels"]()


def test_builtins_a_launch_becomes_a_context_and_a_launch() -> None:
    before, after = (entry_of(m) for m in around("LowerTVMBuiltin", two_launches(), SIM))
    assert [k.attrs.get("context") for k in before.launches] == [None, None]
    assert [k.attrs.get("context") for k in after.launches] == [True, True]
    on_cpu = entry_of(around("LowerTVMBuiltin", two_launches())[1])
    assert [k.attrs.get("context") for k in on_cpu.launches] == [None, None]


@pytest.mark.parametrize("printer", [host_llvm, host_c])
def test_contexts_of_one_call_are_combined(printer: Any) -> None:
    cuda = Target("cuda -arch=sm_90a")
    before, after = (entry_of(m) for m in around("CombineContextCall", two_launches(), cuda))
    assert [k.attrs["context"] for k in after.launches] == [True, False]
    asked = [printer(p, cuda).count("TVMFFIEnvGetStream(") for p in (before, after)]
    assert asked[0] == asked[1] + 1
    whole = host_codegen(lower(two_launches(), cuda).host_mod, "llvm").inspect_source()
    assert whole == host_llvm(after, cuda)


# ------------------------------------------------------------------------------------ operations


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_custom_datatypes_are_computed_in_float32(dtype: str) -> None:
    def compute(x: Any) -> Any:
        return T.if_then_else(x < T.cast(1.5, dtype), x * x, x + x)

    before, after = (kernel_of(m) for m in around("LowerCustomDatatypes", unary(dtype, compute)))
    for kind in (ir.Mul, ir.Add, ir.LT):
        assert [str(n.a.dtype.element) for n in nodes(before, kind)].count(dtype) == 1, kind
        floats = [n for n in nodes(after, kind) if n.a.dtype.is_float]
        assert {str(n.a.dtype.element) for n in floats} == {"float32"}, kind
    x = np.arange(64, dtype=np.uint8).view(getattr(ml_dtypes, dtype))
    got = tilelang.compile(unary(dtype, compute), out_idx=-1, target="llvm")(x)
    want = np.where(x < 1.5, x * x, x + x)
    np.testing.assert_array_equal(got.astype("f"), want.astype("f"))


def test_intrinsics_of_a_gpu_become_those_of_a_cpu() -> None:
    func = unary("float32", lambda x: T.__exp(x))
    before, after = (kernel_of(m) for m in around("LowerIntrin", func))
    assert {n.op for n in nodes(before, Call)} == {"fast_exp"}
    assert {n.op for n in nodes(after, Call)} == {"exp"}


def call_kernel(op: str, dtype: str, result: str) -> Kernel:
    """B[0] = op(A[0])"""
    a, b = ir.Buffer("A", (1,), dtype), ir.Buffer("B", (1,), result)
    zero = ir.const(0)
    body = Store(b, (zero,), ir.call(op, [Load(a, (zero,))], result))
    three = (ir.Var("x"), ir.Var("y"), ir.Var("z"))
    return Kernel("k", (a, b), body, (ir.const(1),) * 3, (1, 1, 1), three, three)


@pytest.mark.parametrize(
    ("op", "dtype", "text"),
    [
        ("fast_rcp", "float32", "1.0) / A[0]"),
        ("sigmoid", "float64", "1.0) / (T.call('exp', -A[0], dtype='float64') + T.float64(1.0))"),
        ("rsqrt", "float64", "1.0) / T.call('sqrt', A[0], dtype='float64')"),
        ("isnan", "int32", "False"),
        ("isfinite", "int32", "True"),
    ],
)
def test_intrinsics_that_are_expressions(op: str, dtype: str, text: str) -> None:
    kernel = call_kernel(op, dtype, dtype if dtype.startswith("float") else "bool")
    with ir.session():
        (lowered,) = lowered_kernels([kernel], LLVM)
        assert text in ir.stmt_text(lowered.body)
        llvm_ir([lowered], LLVM)  # and it can be printed


def test_memories_of_a_gpu_become_memory_of_the_block() -> None:
    before, after = (kernel_of(m) for m in around("LowerDeviceStorageAccessInfo", held("float32")))
    assert "shared.dyn" in {n.buffer.scope for n in nodes(before, ir.Alloc)}
    assert {n.buffer.scope for n in nodes(after, ir.Alloc)} == {"local"}
    touched = {n.buffer for n in nodes(after, Load) + nodes(after, Store)}
    assert {b.scope for b in touched} == {"global", "local"}


@pytest.mark.parametrize("name", list(ZOO))
def test_every_program_goes_through(name: str) -> None:
    """Nothing of another machine is left, and a second time changes nothing."""
    mod = lower(ZOO[name](), LLVM).host_mod
    with ir.session():
        once = run_host_passes(mod, LLVM)
        again = run_host_passes(once, LLVM)
    for kernel in (f for f in once.functions.values() if isinstance(f, Kernel)):
        for n in walk(kernel.body):
            if type(n) is Call:
                assert not n.op.startswith("fast_")
            if type(n) in (Load, Store) and n.buffer.dtype.is_narrow:
                assert str(n.buffer.dtype) == "float16"
        assert ir.stmt_text(again[kernel.name].body) == ir.stmt_text(kernel.body)
