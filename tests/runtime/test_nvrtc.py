# SPDX-License-Identifier: Apache-2.0
"""NVRTC and nvcc: results, reports, and what a user sees when something is missing or wrong."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tilelang.config import Options, env
from tilelang.errors import ToolchainError
from tilelang.runtime import nvcc, nvrtc
from tilelang.runtime.device_compiler import KernelUsage, common_flags, parse_usage

HEADERS = {
    "tl/half.h": "#pragma once\n__device__ float half_of(float x) {\n  return x * 0.5f;\n}\n"
}
GOOD = """\
#include <tl/half.h>
extern "C" __global__ void f(float* p) {
  __shared__ float s[32];
  s[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = half_of(s[threadIdx.x ^ 1]);
}
extern "C" __global__ void g(int* p) { p[0] = 1; }
"""
BAD = """\
extern "C" __global__ void f(float* p) {
  int a = 1;
  p[0] = undefined_thing;
  p[1] = a;
  p[2] = another_thing;
}
"""


@pytest.fixture(autouse=True)
def fresh_choice() -> Iterator[None]:
    yield
    nvrtc._choose.cache_clear()


def compilers() -> list[object]:
    found = [pytest.param(nvrtc.compile_cubin, id="nvrtc")]
    missing = pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")
    return [*found, pytest.param(nvcc.compile_cubin, id="nvcc", marks=missing)]


@pytest.mark.parametrize("compile_cubin", compilers())
def test_cubin_and_report(compile_cubin: Callable[..., nvrtc.Cubin]) -> None:
    made = compile_cubin(GOOD, "sm_90a", Options(), HEADERS)
    assert made.data.startswith(b"\x7fELF")
    assert set(made.usage) == {"f", "g"}
    assert made.usage["f"].smem == 128
    assert 0 < made.usage["g"].registers < 32
    assert made.usage["f"].spills == 0


def test_ptx() -> None:
    text = nvrtc.compile_ptx(GOOD, "sm_80", Options(), HEADERS)
    assert ".target sm_80" in text
    assert text.isprintable() or "\0" not in text


@pytest.mark.parametrize("compile_cubin", compilers())
def test_errors_show_the_lines(compile_cubin: Callable[..., nvrtc.Cubin]) -> None:
    with pytest.raises(ToolchainError) as caught:
        compile_cubin(BAD, "sm_80", Options(), {})
    error = caught.value
    assert error.code == "TL0801"
    assert 'refused the generated code: identifier "undefined_thing" is undefined' in error.message
    assert len(error.notes) == 2
    assert "> 3 |   p[0] = undefined_thing;" in str(error.notes[0])
    assert "  5 |   p[2] = another_thing;" in str(error.notes[0])
    assert "kernel.cu:5:" in str(error.notes[1])


@pytest.mark.parametrize("compile_cubin", compilers())
def test_errors_in_a_header(compile_cubin: Callable[..., nvrtc.Cubin]) -> None:
    broken = {"tl/half.h": HEADERS["tl/half.h"].replace("0.5f", "nothing")}
    with pytest.raises(ToolchainError) as caught:
        compile_cubin(GOOD, "sm_80", Options(), broken)
    assert "> 3 |   return x * nothing;" in str(caught.value.notes[0])


def test_errors_keep_to_the_first_few() -> None:
    lines = "\n".join(f"  p[{i}] = nothing_{i};" for i in range(9))
    source = 'extern "C" __global__ void f(float* p) {\n' + lines + "\n}\n"
    with pytest.raises(ToolchainError) as caught:
        nvrtc.compile_cubin(source, "sm_80", Options(), {})
    assert str(caught.value.notes[-1]) == "and 6 more"


def test_errors_follow_line_directives() -> None:
    source = BAD.replace("  p[0]", '#line 31 "user.py"\n  p[0]')
    with pytest.raises(ToolchainError) as caught:
        nvrtc.compile_cubin(source, "sm_80", Options(), {})
    assert str(caught.value.notes[0]).startswith("user.py:31: ")


def test_ptxas_errors_are_reported() -> None:
    source = 'extern "C" __global__ void f() { asm volatile("nonsense;"); }'
    with pytest.raises(ToolchainError, match=r"failed: ptxas .*nonsense"):
        nvrtc.compile_cubin(source, "sm_80", Options(), {})


def test_unknown_architecture() -> None:
    with pytest.raises(ToolchainError, match="failed: invalid value for --gpu-architecture"):
        nvrtc.compile_cubin(GOOD, "sm_12345", Options(), HEADERS)


def test_flags() -> None:
    options = Options(
        fast_math=True,
        line_directives=True,
        ptxas_register_usage_level=5,
        compile_flags=("-DX=1",),
    )
    flags = common_flags(options)
    assert "--use_fast_math" in flags
    assert "-lineinfo" in flags
    assert "--ptxas-options=--register-usage-level=5" in flags
    assert flags[-1] == "-DX=1"
    nvrtc.compile_cubin(GOOD, "sm_90a", options, HEADERS)
    nvrtc.compile_cubin(GOOD, "sm_90a", Options(fast_compile=True), HEADERS)


def test_no_nvrtc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "find_libraries", lambda: iter(["libnvrtc-not-there.so"]))
    nvrtc._choose.cache_clear()
    with pytest.raises(ToolchainError, match="there is no NVRTC") as caught:
        nvrtc.compile_cubin(GOOD, "sm_80", Options(), HEADERS)
    assert "pip install tilelang-py[cuda]" in str(caught.value.help)


def test_nvrtc_newer_than_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "driver_version", lambda: (11, 4))
    with pytest.raises(ToolchainError, match=r"is newer than the driver, .*CUDA 11\.4"):
        nvrtc.nvrtc()


def test_a_driver_as_new_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    version = nvrtc.nvrtc().version
    monkeypatch.setattr(nvrtc, "driver_version", lambda: version)
    assert nvrtc.nvrtc().version == version


def test_no_nvcc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(env, "CUDA_HOME", tmp_path)
    with pytest.raises(ToolchainError, match="nvcc was asked for"):
        nvcc.find_nvcc()


def test_report_of_a_spilling_kernel() -> None:
    log = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'main_kernel' for 'sm_90a'
ptxas info    : Function properties for helper
    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Function properties for main_kernel
    264 bytes stack frame, 1300 bytes spill stores, 1556 bytes spill loads
ptxas info    : Used 255 registers, used 3 barriers, 4096 bytes smem
"""
    assert parse_usage(log) == {
        "main_kernel": KernelUsage("main_kernel", 255, 264, 1300, 1556, 4096, 3)
    }
    assert parse_usage(log)["main_kernel"].spills == 2856
    assert nvrtc.Cubin(b"", "ptxas info    : (C7510) Potential Performance Loss").serialized_wgmma
    assert not nvrtc.Cubin(b"", log).serialized_wgmma
    (problem,) = nvrtc.Cubin(b"", log).problems
    assert problem == "main_kernel: 2856 bytes of registers are spilled to memory"
