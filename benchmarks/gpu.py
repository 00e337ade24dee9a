# SPDX-License-Identifier: Apache-2.0
"""The GPU benchmarks: our example programs beside cuBLAS, a hand-written kernel, and a device
copy."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cpu
import measure
from launch import launch_cost
from measure import Contestant, Row, compete

import tilelang
from tilelang.config import Options

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "examples"))

NO_ROLES = {
    "tl.disable_warp_specialized": True,
    "tl.disable_wgmma": True,
    "tl.disable_tma_lower": True,
}
"""The Ampere path on a Hopper GPU: cp.async rings and mma.sync."""


def variant(impl: Any, pass_configs: dict[str, Any]) -> Any:
    """An example's factory under other pass configs."""
    return tilelang.jit(impl.func, out_idx=impl.out_idx, pass_configs=pass_configs)


def norm_error(got: Any, want: Any) -> float:
    g, w = got.float(), want.float()
    return float((g - w).norm() / w.norm())


def guarded(f: Callable[[], list[Row]]) -> list[Row]:
    """A group that fails says why and does not stop the others."""
    try:
        return f()
    except Exception as e:
        print(f"  FAILED: {type(e).__name__}: {str(e)[:1500]}", flush=True)
        return []


# ---------------------------------------------------------------------------------- matmul


def hand_written(a: Any, b: Any, c: Any) -> tuple[Callable[[], Any], Any]:
    """gemm_sm80style.cu: cp.async + ldmatrix + mma.sync, 128x256x64, three stages."""
    import torch

    from tilelang.runtime.cuda_driver import driver
    from tilelang.runtime.nvrtc import compile_cubin

    text = "#define TL_INLINED 1\n" + (HERE / "peers/tl_hopper.cuh").read_text().replace(
        "#pragma once", ""
    )
    text += (HERE / "peers/gemm_sm80style.cu").read_text()
    cubin = compile_cubin(text, "sm_90a", Options(), {})
    kernel = driver().load(cubin.data).kernel("gemm80")
    smem = 3 * (128 + 256) * 64 * 2
    kernel.allow_shared(smem)
    m, k = a.shape
    n = b.shape[1]
    import ctypes

    args = [ctypes.c_void_p(x.data_ptr()) for x in (a, b, c)] + [ctypes.c_int(x) for x in (m, n, k)]
    grid = (-(-m // 128) * -(-n // 256), 1, 1)
    return (
        lambda: kernel.launch(
            grid, (256, 1, 1), args, smem, torch.cuda.current_stream().cuda_stream
        )
    ), kernel


def matmul_group(
    n: int, dtype: str, variants: list[tuple[str, dict[str, Any], dict[str, Any]]]
) -> list[Row]:
    import matmul as example
    import torch

    t = getattr(torch, dtype)
    a, b = (torch.randn(n, n, device="cuda").to(t) for _ in range(2))
    bias = torch.zeros(n, device="cuda", dtype=t)
    want = torch.mm(a, b)
    out = torch.empty_like(want)
    contestants = [
        Contestant("cuBLAS", lambda: torch.mm(a, b, out=out), lambda: norm_error(out, want))
    ]
    if dtype == "float16":
        peer_out = torch.full_like(want, float("nan"))
        call, _ = hand_written(a, b, peer_out)
        contestants.append(
            Contestant("hand-written sm_80 style", call, lambda: norm_error(peer_out, want))
        )
    for name, configs, blocks in variants:
        start = time.perf_counter()
        kernel = variant(example.matmul, configs)(n, n, n, dtype, **{"bias": False, **blocks})
        seconds = time.perf_counter() - start
        first = kernel(a, b, bias)
        contestants.append(
            Contestant(
                name,
                lambda k=kernel: k(a, b, bias),
                lambda f=first: norm_error(f, want),
                {
                    "compile_s": round(seconds, 3),
                    "registers": kernel.n_regs,
                    "spills": kernel.n_spills,
                },
            )
        )
    return compete(f"matmul {dtype} {n}^3", 2 * n**3 / 1e9, "TFLOP/s", contestants)


AMPERE = {"block_M": 128, "block_N": 128, "block_K": 32, "threads": 128, "stages": 4}
HOPPER = {"block_M": 128, "block_N": 256, "block_K": 64, "threads": 256, "stages": 4}


def matmuls() -> list[Row]:
    variants = [("mma.sync path", NO_ROLES, AMPERE), ("Hopper path", {}, HOPPER)]
    rows: list[Row] = []
    for n in (4096, 8192):
        rows += guarded(lambda n=n: matmul_group(n, "float16", variants))
    return rows + guarded(lambda: matmul_group(4096, "bfloat16", variants))


# ---------------------------------------------------------------------------------- memory-bound


def add_group(dtype: str) -> list[Row]:
    import elementwise_add as example
    import torch

    n = 1 << 28
    t = getattr(torch, dtype)
    a, b = (torch.randn(n, device="cuda").to(t) for _ in range(2))
    c = torch.empty_like(a)
    big = torch.empty(3 * n // 2, device="cuda", dtype=t)
    copy = torch.empty_like(big)
    kernel = example.add
    first = kernel(a, b, dtype=dtype)
    want = a + b
    moved = 3 * n * a.element_size() / 1e6
    return compete(
        f"add {dtype} 2^28",
        moved,
        "GB/s",
        [
            Contestant("device copy of the same bytes", lambda: copy.copy_(big), lambda: 0.0),
            Contestant("torch.add", lambda: torch.add(a, b, out=c), lambda: norm_error(c, want)),
            Contestant("ours", lambda: kernel(a, b, dtype=dtype), lambda: norm_error(first, want)),
        ],
    )


def softmax_group(dtype: str) -> list[Row]:
    import softmax as example
    import torch

    rows, cols = 32768, 8192
    x = torch.randn(rows, cols, device="cuda").to(getattr(torch, dtype))
    y = torch.empty_like(x)
    want = torch.softmax(x.float(), 1)
    contestants = [Contestant("device copy of the same bytes", lambda: y.copy_(x), lambda: 0.0)]
    for threads in (256, 512):
        kernel = example.softmax(rows, cols, dtype, threads=threads)
        first = kernel(x)
        contestants.append(
            Contestant(
                f"ours, {threads} threads",
                lambda k=kernel: k(x),
                lambda f=first: norm_error(f, want),
                {"registers": kernel.n_regs},
            )
        )
    return compete(
        f"softmax {dtype} {rows}x{cols}",
        2 * x.numel() * x.element_size() / 1e6,
        "GB/s",
        contestants,
    )


# ---------------------------------------------------------------------------------- attention


def attention_group(causal: bool) -> list[Row]:
    import flash_attention as example
    import torch

    B, S, H, D = 4, 4096, 16, 128
    q, k, v = (torch.randn(B, S, H, D, device="cuda").half() for _ in range(3))
    x, y, z = (t.transpose(1, 2) for t in (q, k, v))
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def sdpa(which: Any) -> Any:
        with sdpa_kernel(which):
            return torch.nn.functional.scaled_dot_product_attention(x, y, z, is_causal=causal)

    want = sdpa(SDPBackend.FLASH_ATTENTION).transpose(1, 2)
    contestants = [
        Contestant("torch FlashAttention-2", lambda: sdpa(SDPBackend.FLASH_ATTENTION), lambda: 0.0),
        Contestant("torch cuDNN", lambda: sdpa(SDPBackend.CUDNN_ATTENTION), lambda: 0.0),
    ]
    for name, configs, blocks in (
        ("ours, mma.sync path, 128x64", NO_ROLES, {"block_M": 128, "block_N": 64, "threads": 128}),
        ("ours, 128x128, 2 warpgroups", {}, {"block_M": 128, "block_N": 128, "threads": 256}),
        ("ours, 128x64, 2 warpgroups", {}, {"block_M": 128, "block_N": 64, "threads": 256}),
        ("ours, 192x128, 3 warpgroups", {}, {"block_M": 192, "block_N": 128, "threads": 384}),
    ):
        kernel = variant(example.attention, configs)(B, S, H, D, causal, stages=2, **blocks)
        first = kernel(q, k, v)
        contestants.append(
            Contestant(
                name,
                lambda f=kernel: f(q, k, v),
                lambda f=first: norm_error(f, want),
                {"registers": kernel.n_regs, "spills": kernel.n_spills},
            )
        )
    work = 4 * B * H * S * S * D / (2 if causal else 1) / 1e9
    return compete(
        f"attention fwd {'causal ' if causal else ''}fp16 b{B} h{H} s{S} d{D}",
        work,
        "TFLOP/s",
        contestants,
    )


def host() -> dict[str, float]:
    """launch_cost, which must not cost the other groups their results."""
    try:
        return launch_cost()
    except Exception as e:
        print(f"  FAILED: {type(e).__name__}: {str(e)[:1500]}", flush=True)
        return {}


def cold() -> dict[str, float]:
    """Seconds of a cold compile of the matmul for this GPU, up to its result: a new process each,
    median of 5."""
    target = str(tilelang.target.Target(tilelang.target.determine_target("cuda")))
    out = cpu.repeated("cold_compile", target)
    print(f"  cold compile of the matmul, {target}  {out['seconds']:.3f} s", flush=True)
    return out


def main() -> None:
    which = sys.argv[1:] or ["host", "cold", "matmul", "row", "attention"]
    print(measure.machine(), flush=True)
    folder = Path(os.environ.get("OUT", HERE / "results"))
    rows: list[Row] = []
    groups: dict[str, Callable[[], list[Row]]] = {
        "matmul": matmuls,
        "row": lambda: [
            row
            for d in ("float32", "bfloat16")
            for f in (add_group, softmax_group)
            for row in guarded(lambda f=f, d=d: f(d))
        ],
        "attention": lambda: [
            row for c in (False, True) for row in guarded(lambda c=c: attention_group(c))
        ],
    }
    extra = {"host_us": host()} if "host" in which else {}
    if "cold" in which:
        extra["cold_compile"] = cold()
    for name in which:
        if name in groups:
            rows += groups[name]()
        measure.save(folder / "gpu.json", rows, **extra)  # after each: a limit may end the run


if __name__ == "__main__":
    main()
