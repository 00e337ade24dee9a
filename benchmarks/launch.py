# SPDX-License-Identifier: Apache-2.0
"""Host time of a launch: four checked tensors through our entry, beside a bare loop in C.

Both launch the same kernel with the same arguments on the same stream; the loop in C
(peers/launch.c, built with the host's compiler when this runs) checks nothing.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tilelang
import tilelang.language as T

PEER = Path(__file__).parent / "peers" / "launch.c"
CALLS, ROUNDS = 2000, 7


@tilelang.jit
def small():
    @T.prim_func
    def main(
        A: T.Tensor((64,), "float32"),
        B: T.Tensor((64,), "float32"),
        C: T.Tensor((64,), "float32"),
        D: T.Tensor((64,), "float32"),
    ):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                D[i] = A[i] + B[i] + C[i]

    return main


def build_peer() -> Any:
    """peers/launch.c as a function."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "launch.so"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", str(PEER), "-o", str(library)], check=True)
        function = ctypes.CDLL(str(library)).launch_us
    function.restype = ctypes.c_double
    function.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_int]
    return function


def bare_launch(kernel: Any, tensors: list[Any]) -> Callable[[], float]:
    """Microseconds per launch of our own cubin by the loop in C."""
    import torch

    from tilelang.runtime.cuda_driver import LaunchConfig, driver

    peer = build_peer()
    spec = kernel.artifact.call.kernels[0]
    handle = driver().load(kernel.artifact.codegen_mod.binary).kernel(spec.name)
    values = [ctypes.c_void_p(t.data_ptr()) for t in tensors]
    pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
    config = LaunchConfig()
    config.grid[:], config.block[:] = (1, 1, 1), (64, 1, 1)
    config.stream = torch.cuda.current_stream().cuda_stream
    entry = driver().address_of("cuLaunchKernelEx")

    def run() -> float:
        _ = values, handle  # they must outlive the launches
        return float(peer(entry, ctypes.addressof(config), handle.handle, pointers, CALLS))

    return run


def host_us(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - start) / CALLS * 1e6


def launch_cost() -> dict[str, float]:
    """Microseconds of host time per call, best of interleaved rounds (a stall of the queue is not
    a cost of the call)."""
    import torch

    kernel = small()
    tensors = [torch.zeros(64, device="cuda") for _ in range(4)]
    kernel(*tensors)
    bare = bare_launch(kernel, tensors)
    contestants: dict[str, Callable[[], float]] = {
        "bare cuLaunchKernelEx in C": bare,
        "ours tvm_ffi, 4 tensors": lambda: host_us(lambda: kernel(*tensors)),
        "torch x.copy_(y)": lambda: host_us(lambda: tensors[0].copy_(tensors[1])),
    }
    out = dict.fromkeys(contestants, float("inf"))
    for _ in range(ROUNDS):
        for name, run in contestants.items():
            torch.cuda.synchronize()
            out[name] = min(out[name], run())
    torch.cuda.synchronize()
    out["ours above bare"] = out["ours tvm_ffi, 4 tensors"] - out["bare cuLaunchKernelEx in C"]
    for name, us in out.items():
        print(f"  host time {name:<40} {us:6.2f} us", flush=True)
    return out
