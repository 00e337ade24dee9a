# SPDX-License-Identifier: Apache-2.0
"""Targets: spellings, features, the current target, refusals."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from tilelang.config import env
from tilelang.errors import TargetError
from tilelang.target import ARCHES, Target, canon_target_host, determine_target
from tilelang.target import cpu as cpu_module


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("cuda -arch=sm_90", "cuda -arch=sm_90a"),
        ("cuda -arch=sm_90a", "cuda -arch=sm_90a"),
        ("cuda --arch=80", "cuda -arch=sm_80"),
        ({"kind": "cuda", "arch": "sm_89"}, "cuda -arch=sm_89"),
        ("cuda-sim", "cuda-sim -arch=sm_80"),
        ("cuda-sim -arch=sm_90a", "cuda-sim -arch=sm_90a"),
        ("llvm", "llvm"),
        ("llvm -mcpu=native", "llvm"),
        ("llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64-v3"),
        ({"kind": "c", "mattr": ["+avx2", "-avx512f"]}, "c -mattr=+avx2,-avx512f"),
        (Target("c"), "c"),
    ],
)
def test_spellings(spec: object, text: str) -> None:
    target = Target(spec)
    assert str(target) == text
    assert Target(text) == target
    assert hash(Target(text)) == hash(target)
    assert pickle.loads(pickle.dumps(target)) == target


def test_features_follow_the_architecture() -> None:
    ampere, hopper, llvm = Target("cuda", "sm_80"), Target("cuda-sim", 90), Target("llvm")
    assert (ampere.arch, ampere.max_smem) == (80, 166912)
    assert (ampere.has_cp_async, ampere.has_mma, ampere.has_tma) == (True, True, False)
    assert (hopper.arch, hopper.max_smem) == (90, 232448)
    assert (hopper.has_tma, hopper.has_wgmma, hopper.has_mbarrier) == (True, True, True)
    assert Target("cuda -arch=sm_89").max_smem == 101376
    assert not Target("cuda -arch=sm_100").has_wgmma
    assert hopper.is_cuda
    assert hopper.is_sim
    assert not ampere.is_sim
    assert llvm.is_cpu
    assert (llvm.arch, llvm.has_mma, llvm.arch_name) == (0, False, "")
    with pytest.raises(TargetError, match="no CUDA architecture"):
        _ = llvm.max_smem


def test_every_architecture_is_found_by_its_number() -> None:
    for row in ARCHES.values():
        assert Target("cuda", row.number).cuda is row
        assert Target("cuda", row.name).num_sms > 0


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("cudaa", "did you mean 'cuda'"),
        ("webgpu", "known are auto, cuda"),
        ("cuda-sm90", "is an option, e.g. cuda -arch=sm_90a"),
        ("", "is not supported"),
        ("cuda -arch=sm_91", "unknown CUDA architecture 'sm_91'"),
        ("cuda -arch=sm_10", "known are sm_70, sm_75"),
        ("cuda -arhc=sm_90", "did you mean 'arch'"),
        ("cuda sm_90", "cannot read 'sm_90'"),
        (90, "not int"),
        ({"arch": "sm_90"}, "is not supported"),
    ],
)
def test_refusals(spec: object, message: str) -> None:
    with pytest.raises(TargetError) as caught:
        Target(spec)
    assert message in str(caught.value)


def test_immutable() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        Target("llvm").kind = "c"  # type: ignore[misc]


def test_current_target_nests_and_decides_auto() -> None:
    outer, inner = Target("c"), Target("cuda", 80)
    assert Target.current() is None
    with outer:
        with inner:
            assert determine_target("auto", return_object=True) is inner
        assert Target.current() is outer
        assert determine_target(None) == "c"
    assert Target.current() is None


def test_default_target_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "cuda-sim")
    assert determine_target("auto") == "cuda-sim -arch=sm_80"
    assert env.TILELANG_DEFAULT_TARGET == "cuda-sim"


def test_target_host() -> None:
    assert canon_target_host("c").kind == "c"
    assert canon_target_host(Target("cuda", 80)).kind == "llvm"
    assert canon_target_host("cuda -arch=sm_80", "c").kind == "c"
    with pytest.raises(TargetError, match="not a CPU"):
        canon_target_host("c", "cuda -arch=sm_80")


def test_cpu_features() -> None:
    v3 = Target("llvm -mcpu=x86-64-v3")
    assert (v3.cpu, v3.vector_bits, v3.vector_registers) == ("x86-64-v3", 256, 16)
    assert Target("llvm -mcpu=x86-64").vector_bits == 128
    assert Target("llvm -mcpu=x86-64-v4").vector_bits == 512
    assert Target("llvm -mcpu=x86-64-v4 -mattr=-avx512f").vector_bits == 256
    native = Target("llvm")
    assert native.is_native
    assert native.cpu_features == cpu_module.host_features()
    assert native.key_text().startswith("llvm\n")


def test_parsing_loads_no_llvm() -> None:
    code = (
        "import sys; from tilelang.target import Target; Target('llvm').vector_bits;"
        "sys.exit('llvmlite' in sys.modules or 'torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
