# SPDX-License-Identifier: Apache-2.0
"""The simulator's own library (`runtime/*.cc`), built on first use and called through ctypes."""

from __future__ import annotations

import ctypes
import functools
import subprocess
from pathlib import Path

from tilelang.errors import InternalError

from .toolchain import build_once, host_compiler, run_compiler, runtime_folder

__all__ = ["COUNTERS", "SITE_KINDS", "Range", "Request", "Site", "runtime_library"]

RUNTIME_FOLDER = Path(__file__).parent / "runtime"
_INCLUDE_FOLDER = Path(__file__).parent / "include"
_FLAGS = ("-std=c++17", "-O2", "-march=native", "-fPIC", "-Wall", "-Wextra", "-pthread")

_PARTS = 2

# Counters of `runtime/report.h`, in its order.
COUNTERS = (
    "threads",
    "accesses",
    "barriers",
    "named_barriers",
    "warp_syncs",
    "shuffles",
    "ldmatrix",
    "stmatrix",
    "mma",
    "wgmma",
    "cp_async",
    "cp_async_bytes",
    "tma_loads",
    "tma_stores",
    "tma_bytes",
    "mbarrier_waits",
    "atomics",
    "flops",
    "flops_tf32",
    "flops_narrow",
    "flops_double",
    "wgmma_shared_bytes",
)

# SiteKind of `runtime/report.h`, in its order.
SITE_KINDS = (
    "global read",
    "global write",
    "shared read",
    "shared write",
    "mma",
    "wgmma",
    "barrier",
    "mbarrier wait",
    "atomic",
    "TMA load",
    "TMA store",
    "shuffle",
)


class Range(ctypes.Structure):
    """TlsimRange of `runtime/launch.cc`."""

    _fields_ = (
        ("begin", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("writable", ctypes.c_int),
        ("defined", ctypes.c_void_p),
        ("read", ctypes.c_uint64),
        ("written", ctypes.c_uint64),
    )


class Site(ctypes.Structure):
    """TlsimSite of `runtime/launch.cc`."""

    _fields_ = (
        ("site", ctypes.c_uint32),
        ("kind", ctypes.c_uint32),
        ("requests", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("units", ctypes.c_uint64),
        ("ideal", ctypes.c_uint64),
    )


class Request(ctypes.Structure):
    """TlsimRequest of `runtime/launch.cc`."""

    _fields_ = (
        ("entry", ctypes.c_void_p),
        ("args", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("cluster", ctypes.c_uint * 3),
        ("cooperative", ctypes.c_int),
        ("together", ctypes.c_int),
        ("shared_bytes", ctypes.c_uint64),
        ("check", ctypes.c_int),
        ("count_traffic", ctypes.c_int),
        ("host_threads", ctypes.c_int),
        ("time_limit", ctypes.c_double),
        ("ranges", ctypes.POINTER(Range)),
        ("range_count", ctypes.c_int),
        ("error", ctypes.c_char_p),
        ("error_kind", ctypes.c_char_p),
        ("error_size", ctypes.c_int),
        ("counters", ctypes.POINTER(ctypes.c_uint64)),
        ("sites", ctypes.POINTER(Site)),
        ("site_capacity", ctypes.c_int),
        ("site_count", ctypes.c_int),
        ("blocks_done", ctypes.c_uint64),
    )


@functools.cache
def runtime_library() -> ctypes.CDLL:
    """The loaded library; kernels find its functions by its soname."""
    sources = sorted(RUNTIME_FOLDER.glob("*.cc"))
    headers = sorted([*RUNTIME_FOLDER.glob("*.h"), *(_INCLUDE_FOLDER / "tlsim").glob("*.h")])
    texts = [p.read_text(encoding="utf-8") for p in (*sources, *headers)]
    path = build_once(
        runtime_folder(), [*_FLAGS, *texts], lambda scratch, out: _make(sources, scratch, out)
    )
    library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    library.tlsim_launch.argtypes = [ctypes.POINTER(Request)]
    if library.tlsim_counter_count() != len(COUNTERS):
        raise InternalError("sim/library.py and sim/runtime/report.h disagree about the counters")
    return library


def _make(sources: list[Path], scratch: Path, output: Path) -> None:
    """Compiles the sources in two parts side by side, each as one text: reading the headers is most
    of the work."""
    parts = [scratch / f"part{i}.cc" for i in range(_PARTS)]
    running = []
    for i, part in enumerate(parts):
        includes = [f'#include "{path}"\n' for path in sources[i::_PARTS]]
        part.write_text("".join(includes), encoding="utf-8")
        command = [
            host_compiler().path,
            *_FLAGS,
            "-c",
            str(part),
            "-o",
            str(part.with_suffix(".o")),
        ]
        running.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
    complaints = [process.communicate()[1] for process in running]
    if any(process.returncode for process in running):
        raise InternalError("the simulator does not compile:\n" + "\n".join(complaints))
    objects = [str(part.with_suffix(".o")) for part in parts]
    refused = run_compiler(["-shared", "-pthread", "-o", str(output), *objects])
    if refused:
        raise InternalError(f"the simulator does not link:\n{refused}")
