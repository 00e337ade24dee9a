# SPDX-License-Identifier: Apache-2.0
"""Host time of a call: four checked tensors by each execution backend, an eager call that allocates
its output, a kernel with three TMA descriptors; beside what is not ours.

On a GPU the baseline is a loop in C (peers/launch.c, built with the host's compiler when this runs)
that launches the same kernel with the same arguments on the same stream and checks nothing. On a
CPU it is a tvm-ffi function that does nothing with its tensors, and a torch call.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tilelang
import tilelang.language as T
from tilelang.errors import ToolchainError
from tilelang.target import Target

HERE = Path(__file__).parent
PEER = HERE / "peers" / "launch.c"
# Fewer calls in a row than a stream's queue holds (1024): that it stalls is no cost of a call.
CALLS, ROUNDS = 500, 60
BARE, EMPTY = "bare cuLaunchKernelEx in C", "torch.empty"
EAGER = "eager f(a, b)"
# name -> (microseconds, of which other rows are to be taken away)
GPU_BARS: dict[str, tuple[float, tuple[str, ...]]] = {
    "tvm_ffi, 4 tensors": (0.9, (BARE,)),
    "cython, 4 tensors": (0.6, (BARE,)),
    "nvrtc, 4 tensors": (1.2, (BARE,)),
    "torch, 4 tensors": (5.0, (BARE,)),
    "tvm_ffi, 3 descriptors": (0.3, ("tvm_ffi, 4 tensors",)),
    "cython, 3 descriptors": (0.3, ("cython, 4 tensors",)),
    "nvrtc, 3 descriptors": (0.3, ("nvrtc, 4 tensors",)),
    EAGER: (1.5, (BARE, EMPTY)),
}
CPU_BARS: dict[str, tuple[float, tuple[str, ...]]] = {
    "tvm_ffi, 4 tensors": (0.9, ()),
    "cython, 4 tensors": (0.6, ()),
    "ctypes, 4 tensors": (2.7, ()),
    "tvm_ffi, 4 numpy arrays": (1.4, ()),
    EAGER: (1.5, (EMPTY,)),
}


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


def add(A, B):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    B: T.Tensor((N,), "float32")
    C = T.empty((N,), "float32")
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            C[i] = A[i] + B[i]
    return C


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


def calls(target: Target) -> dict[str, Callable[[], Any]]:
    """What is timed by calling it: ours, and torch's."""
    import torch

    from tilelang.engine import BACKENDS

    device = "cuda" if target.is_cuda else "cpu"
    tensors = [torch.zeros(64, device=device) for _ in range(4)]
    a, b, _, d = tensors
    out: dict[str, Callable[[], Any]] = {}
    program = small.get_tir()
    for backend in BACKENDS[target.kind].execution:
        kernel = _compiled(program, target, backend)
        if kernel is not None:
            out[f"{backend}, 4 tensors"] = _call(kernel, tensors)
    out[EAGER] = _call(tilelang.jit(target=target)(add), [a, b])
    out[EMPTY] = lambda: torch.empty(64, dtype=torch.float32, device=a.device)
    out["torch.add(a, b, out=c)"] = lambda: torch.add(a, b, out=d)
    if target.is_cuda and target.arch >= 90:
        out |= descriptor_calls(target)
    return out


def descriptor_calls(target: Target) -> dict[str, Callable[[], Any]]:
    """Calls of a kernel of four tensors, three of which TMA copies."""
    import torch

    sys.path.insert(0, str(HERE.parent / "examples"))
    import matmul

    program = matmul.matmul.get_tir(256, 256, 64, "float16", bias=False, **matmul.blocks(
        str(target), "float16"
    ))  # fmt: skip
    shapes = [(256, 64), (64, 256), (256,), (256, 256)]
    tensors = [torch.zeros(s, dtype=torch.float16, device="cuda") for s in shapes]
    out = {}
    for backend in ("tvm_ffi", "cython", "nvrtc"):
        kernel = _compiled(program, target, backend)
        if kernel is not None:
            assert [len(k.maps) for k in kernel.artifact.call.kernels] == [3]
            out[f"{backend}, 3 descriptors"] = _call(kernel, tensors)
    return out


def _compiled(program: Any, target: Target, backend: str) -> Any:
    """The kernel; None (and a line) where what the backend needs is not installed."""
    try:
        return tilelang.compile(program, target=target, execution_backend=backend)
    except ToolchainError as error:
        print(f"  no {backend}: {error.message}", file=sys.stderr, flush=True)
        return None


def _call(f: Callable[..., Any], args: list[Any]) -> Callable[[], Any]:
    return lambda: f(*args)


def best_of(
    contestants: dict[str, Callable[[], float]], settle: Callable[[], None], rounds: int = ROUNDS
) -> dict[str, float]:
    """The best of interleaved rounds: other load on the machine only ever adds."""
    out = dict.fromkeys(contestants, float("inf"))
    for _ in range(rounds):
        for name, run in contestants.items():
            settle()
            out[name] = min(out[name], run())
    return out


def cpu_costs() -> dict[str, float]:
    """Microseconds per call on the CPU."""
    import numpy
    import tvm_ffi
    from torch import zeros

    target = Target("llvm")
    timed = calls(target)
    arrays = [numpy.zeros(64, numpy.float32) for _ in range(4)]
    timed["tvm_ffi, 4 numpy arrays"] = _call(
        tilelang.compile(small.get_tir(), target=target), arrays
    )
    nothing = tvm_ffi.get_global_func("testing.nop")
    timed["tvm-ffi no-op, 4 tensors"] = _call(nothing, [zeros(64) for _ in range(4)])
    runs = {name: lambda f=f: host_us(f) for name, f in timed.items()}
    for f in timed.values():
        for _ in range(3):
            f()
    return best_of(runs, lambda: None)


def launch_cost() -> dict[str, float]:
    """Microseconds of host time per call on this GPU, and which bars they keep; printed."""
    import torch

    target = Target(tilelang.target.determine_target("cuda"))
    timed = calls(target)
    kernel = tilelang.compile(small.get_tir(), target=target)
    tensors = [torch.zeros(64, device="cuda") for _ in range(4)]
    for f in timed.values():
        for _ in range(3):
            f()
    runs = {BARE: bare_launch(kernel, tensors)}
    runs |= {name: lambda f=f: host_us(f) for name, f in timed.items()}
    out = best_of(runs, torch.cuda.synchronize)
    torch.cuda.synchronize()
    for name, us in out.items():
        print(f"  host time {name:<40} {us:6.2f} us", flush=True)
    for name, above, limit in kept(out, GPU_BARS):
        verdict = "ok  " if above <= limit else "MISS"
        print(f"  {verdict} {name:<50} {above:6.2f} us <= {limit:g}", flush=True)
        out[name] = above
    return out


def kept(
    costs: dict[str, float], bars: dict[str, tuple[float, tuple[str, ...]]]
) -> list[tuple[str, float, float]]:
    """(what, microseconds, limit) of every bar whose rows were measured."""
    out = []
    for name, (limit, less) in bars.items():
        if name in costs:
            what = f"{name}, above {' + '.join(less)}" if less else name
            out.append((what, costs[name] - sum(costs[base] for base in less), limit))
    return out
