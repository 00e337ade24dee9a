# SPDX-License-Identifier: Apache-2.0
"""The simulator's own library (`runtime/*.cc`), built on first use and called through ctypes."""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
from pathlib import Path

from tilelang.errors import InternalError

from .toolchain import build_once, host_compiler, run_compiler, runtime_folder

__all__ = ["COUNTERS", "Range", "Request", "Site", "runtime_library"]

RUNTIME_FOLDER = Path(__file__).parent / "runtime"
_INCLUDE_FOLDER = Path(__file__).parent / "include"
_FLAGS = ("-std=c++17", "-O2", "-march=native", "-fPIC", "-Wall", "-Wextra", "-pthread")

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
)


class Range(ctypes.Structure):
    """TlsimRange of `runtime/launch.cc`."""

    _fields_ = (
        ("begin", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("writable", ctypes.c_int),
    )


class Site(ctypes.Structure):
    """TlsimSite of `runtime/launch.cc`."""

    _fields_ = (
        ("site", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
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
    """Compiles the sources, a few at a time, and links them."""
    compiler = host_compiler()
    waiting = list(sources)
    running: list[subprocess.Popen[str]] = []
    objects = [str(scratch / f"{p.stem}.o") for p in sources]
    while waiting or running:
        while waiting and len(running) < (os.cpu_count() or 1):
            source = waiting.pop()
            command = [
                compiler.path,
                *_FLAGS,
                "-c",
                str(source),
                "-o",
                str(scratch / f"{source.stem}.o"),
            ]
            running.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        done = running.pop(0)
        _, complaints = done.communicate()
        if done.returncode != 0:
            for other in running:
                other.kill()
                other.communicate()
            raise InternalError(f"the simulator does not compile:\n{complaints}")
    complaints = run_compiler(["-shared", "-pthread", "-o", str(output), *objects])
    if complaints:
        raise InternalError(f"the simulator does not link:\n{complaints}")
