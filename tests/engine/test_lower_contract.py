# SPDX-License-Identifier: Apache-2.0
"""`lower` and the table of backends: what each flag makes, and who may ask for what."""

from __future__ import annotations

from typing import Any

import pytest

import tilelang
import tilelang.language as T
from tilelang.config import Options
from tilelang.engine import BACKENDS, CompiledArtifact, HostModule, resolve_execution_backend
from tilelang.engine import lower as lower_function
from tilelang.engine.artifact import KernelParam, params_of
from tilelang.engine.callback import (
    register_cuda_postproc,
    register_cuda_postproc_callback,
    unregister_postproc,
)
from tilelang.engine.lower import lower
from tilelang.errors import OptionError
from tilelang.ir import HostProgram, IRModule, Kernel, PrimFunc
from tilelang.jit.adapter import adapter_class
from tilelang.runtime.launch import CallSpec
from tilelang.target import Target

LLVM, SIM = Target("llvm"), Target("cuda-sim -arch=sm_80")


def double(n: Any = 64) -> PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), s: T.float32):
        with T.Kernel(T.ceildiv(n, 32), threads=32) as bx:
            for i in T.Parallel(32):
                B[bx * 32 + i] = A[bx * 32 + i] * s

    return main


def test_source_only() -> None:
    artifact = lower(double(), SIM)
    assert isinstance(artifact, CompiledArtifact)
    assert "main_kernel" in artifact.kernel_source
    assert artifact.kernel_source == artifact.codegen_mod.inspect_source()
    assert artifact.rt_mod is None
    assert artifact.codegen_mod.binary is None
    assert isinstance(artifact.host_mod, IRModule)
    assert (artifact.target, artifact.target_host) == (SIM, LLVM)


def test_host_and_device_parts_are_apart_on_cuda_and_together_on_llvm() -> None:
    cuda, cpu = lower(double(), SIM), lower(double(), LLVM)
    assert [type(f) for f in cuda.host_mod.functions.values()] == [HostProgram]
    assert [type(f) for f in cuda.device_mod.functions.values()] == [Kernel]
    assert {type(f) for f in cpu.host_mod.functions.values()} == {HostProgram, Kernel}
    assert cpu.device_mod.functions == {}


def test_host_codegen_imports_the_kernels() -> None:
    artifact = lower(double(), LLVM, enable_host_codegen=True, enable_device_compile=True)
    assert isinstance(artifact.rt_mod, HostModule)
    assert artifact.rt_mod is artifact.host_mod
    assert artifact.rt_mod.imported_modules == [artifact.codegen_mod]
    assert artifact.rt_mod.entry == "__tvm_ffi_main"
    assert artifact.rt_mod.binary[:4] == b"\x7fELF"
    assert "__tvm_ffi_main" in artifact.rt_mod.inspect_source()
    assert artifact.kernel_source in artifact.rt_mod.inspect_source()


def test_c_host_code() -> None:
    artifact = lower(double(), SIM, "c", enable_host_codegen=True)
    assert artifact.rt_mod.form == "c"
    assert "int __tvm_ffi_main(" in artifact.rt_mod.source


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_cubin_is_made_where_there_is_no_gpu(arch: str) -> None:
    pytest.importorskip("nvidia.cu13")
    artifact = lower(double(), f"cuda -arch={arch}", enable_device_compile=True)
    assert artifact.codegen_mod.binary[:4] == b"\x7fELF"


def test_params() -> None:
    n = T.dynamic("n")
    artifact = lower(double(n), LLVM)
    assert [(p.name, str(p.dtype), p.shape, p.is_scalar) for p in artifact.params] == [
        ("A", "float32", ("n",), False),
        ("B", "float32", ("n",), False),
        ("s", "float32", (), True),
    ]
    assert lower(double(), LLVM, runtime_only=True).params is None
    for p in artifact.params:
        assert KernelParam.from_json(p.as_json()) == p
    assert params_of(double()) == lower(double(), LLVM).params


def test_a_module_is_lowered_too() -> None:
    func = double()
    assert lower(IRModule({"main": func}), LLVM).kernel_source == lower(func, LLVM).kernel_source
    assert lower_function is lower
    assert tilelang.lower is lower


def test_every_pass_is_observed() -> None:
    seen: list[str] = []
    lower(double(), LLVM, observe=lambda name, result: seen.append(name))
    assert seen[0] == "check_kernel"
    assert seen[-1] == "split_host_device"


def test_the_call_as_data_survives_json() -> None:
    import json

    call = lower(double(T.dynamic("n")), SIM).call
    assert CallSpec.from_json(json.loads(json.dumps(call.as_json()))) == call
    assert call.kernels[0].block == (32, 1, 1)
    assert call.kernels[0].writes == (1,)


def test_options_reach_the_kernels() -> None:
    plain = lower(double(), SIM).kernel_source
    aliased = lower(double(), SIM, options=Options(noalias=False)).kernel_source
    assert "__restrict__" in plain
    assert "__restrict__" not in aliased


def test_hooks_edit_the_source() -> None:
    @register_cuda_postproc_callback
    def edit(code: str, target: Target) -> str:
        assert target == SIM
        return f"// edited\n{code}"

    try:
        assert lower(double(), SIM).kernel_source.startswith("// edited\n")
        with pytest.raises(OptionError, match="already registered"):
            register_cuda_postproc(edit, override=False)
    finally:
        unregister_postproc("cuda")
    assert not lower(double(), SIM).kernel_source.startswith("// edited\n")


@pytest.mark.parametrize(("target", "first"), [("llvm", "tvm_ffi"), ("cuda", "tvm_ffi")])
def test_default_execution_backends(target: str, first: str) -> None:
    found = Target(target) if target == "llvm" else Target("cuda -arch=sm_80")
    for nothing in (None, "auto"):
        assert resolve_execution_backend(nothing, found) == first
    for name in BACKENDS[found.kind].execution:
        assert resolve_execution_backend(name, found) == name
        assert adapter_class(name).name == name


def test_execution_backends_that_do_not_fit() -> None:
    with pytest.raises(OptionError, match="invalid execution backend 'nvrtc' for target 'llvm'"):
        resolve_execution_backend("nvrtc", LLVM)
    with pytest.raises(ValueError, match="did you mean 'tvm_ffi'"):
        resolve_execution_backend("tvm-ffi", LLVM)
    for target in (LLVM, Target("c"), Target("cuda -arch=sm_90a")):
        assert resolve_execution_backend("cython", target) == "cython"


# ---------------------------------------------------------------------------------- looking inside


def test_dumps_after_a_pass(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    monkeypatch.setenv("TILELANG_DUMP", "after:lower_tile_ops,source")
    lower(double(), LLVM)
    text = capsys.readouterr().err
    assert "lower_tile_ops.py" in text
    assert "main.llvm" in text
    assert "check_kernel.py" not in text
    monkeypatch.setenv("TILELANG_DUMP", "all")
    monkeypatch.setenv("TILELANG_DUMP_DIR", str(tmp_path / "dump"))
    lower(double(), LLVM)
    names = sorted(p.name for p in (tmp_path / "dump").iterdir())
    assert names[0].startswith("main.01.check_kernel")
    assert any("split_host_device" in n for n in names)
    assert "main.llvm" in names


def test_times(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TILELANG_TIME", "1")
    lower(double(), LLVM)
    text = capsys.readouterr().err
    assert "passes of main" in text
    assert "lower_tile_ops" in text


def test_stopping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_STOP_AFTER", "guard_bounds")
    with pytest.raises(OptionError, match="stopped after guard_bounds"):
        lower(double(), LLVM)
    monkeypatch.setenv("TILELANG_STOP_AFTER", "guard_bound")
    with pytest.raises(OptionError, match="did you mean 'guard_bounds'"):
        lower(double(), LLVM)


def test_one_function_is_compiled_for_two_targets_at_once() -> None:
    from concurrent.futures import ThreadPoolExecutor

    func = double(T.dynamic("n"))
    targets = ["cuda-sim -arch=sm_80", "llvm"] * 6
    alone = {t: lower(func, t).kernel_source for t in targets[:2]}
    with ThreadPoolExecutor(4) as pool:
        sources = list(pool.map(lambda t: lower(func, t).kernel_source, targets))
    assert sources == [alone[t] for t in targets]
