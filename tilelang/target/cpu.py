# SPDX-License-Identifier: Apache-2.0
"""What the CPU can do: features, vector width, number of vector registers.

In: the `-mcpu` and `-mattr` of a target, or nothing for this machine. Out: names as LLVM has them.
This machine's features come from the operating system, so that parsing a target never loads LLVM.
"""

from __future__ import annotations

import functools
import os
import platform
from pathlib import Path

from tilelang.config import env

__all__ = [
    "cpu_threads", "features_of", "host_features", "host_name", "vector_bits", "vector_registers",
]  # fmt: skip

# /proc/cpuinfo -> LLVM, where they differ (LLVM: X86.td, AArch64Features.td).
_RENAMED = {
    "pni": "sse3", "sse4_1": "sse4.1", "sse4_2": "sse4.2", "abm": "lzcnt", "avx_vnni": "avxvnni",
    "avx512_vnni": "avx512vnni", "avx512_bf16": "avx512bf16", "avx512_fp16": "avx512fp16",
    "avx512_vbmi2": "avx512vbmi2", "avx512_bitalg": "avx512bitalg",
    "avx512_vpopcntdq": "avx512vpopcntdq", "amx_tile": "amx-tile", "amx_bf16": "amx-bf16",
    "amx_int8": "amx-int8", "asimd": "neon", "asimddp": "dotprod", "asimdhp": "fullfp16",
}  # fmt: skip
_V2 = ("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt")
_V3 = (*_V2, "avx", "avx2", "fma", "f16c", "bmi1", "bmi2", "lzcnt", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
# Features of a CPU named by the user, where it is not this machine: the x86-64 psABI levels.
_LEVELS = {"x86-64": (), "x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}


@functools.cache
def host_features() -> frozenset[str]:
    """Features of this machine's CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return _features_by_llvm()
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(_RENAMED.get(flag, flag) for flag in value.split())
    return _features_by_llvm()


def _features_by_llvm() -> frozenset[str]:
    from llvmlite import binding  # large: only where the system has no /proc/cpuinfo

    return frozenset(name for name, present in binding.get_host_cpu_features().items() if present)


@functools.cache
def host_name() -> str:
    """This machine's CPU as LLVM names it."""
    from llvmlite import binding  # large: only the code generator asks

    return str(binding.get_host_cpu_name())


def features_of(cpu: str, attributes: tuple[str, ...]) -> frozenset[str]:
    """Features of `-mcpu=cpu -mattr=+x,-y`; an empty or "native" cpu is this machine."""
    base = host_features() if cpu in ("", "native") else frozenset(_LEVELS.get(cpu, ()))
    added = {name[1:] for name in attributes if name.startswith("+")}
    removed = {name[1:] for name in attributes if name.startswith("-")}
    return (base | added) - removed


def vector_bits(features: frozenset[str]) -> int:
    """Width of the widest vector registers worth using; SSE2 and NEON have 128 bits."""
    if "avx512f" in features:
        return 512
    return 256 if "avx2" in features else 128


def vector_registers(features: frozenset[str]) -> int:
    """Number of them: AVX-512 and NEON have 32, older x86 has 16."""
    arm = platform.machine().lower() in ("aarch64", "arm64")
    return 32 if "avx512f" in features or "neon" in features or arm else 16


def cpu_threads() -> int:
    """How many threads a kernel may use: TILELANG_CPU_THREADS, else the cores of this process."""
    chosen = env.TILELANG_CPU_THREADS
    if chosen:
        return chosen
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
