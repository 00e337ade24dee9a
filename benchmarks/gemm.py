# SPDX-License-Identifier: Apache-2.0
"""Matrix products on one CPU thread beside numpy's, in its process: the bars of dtypes and shapes.

`python benchmarks/cpu.py cpu_gemm` prints one JSON object: seconds (the best of many, by the
thread's own clock, contestants in turn) and the largest error of each variant.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

TILE = (128, 128, 32)
ODD_TILE = (96, 80, 40)
BUDGET_S = 1.2  # per contestant


@dataclass(frozen=True)
class Variant:
    """A program over n³. ref: whose time it is compared with ("numpy" in float32 of its n)."""

    name: str
    n: int = 1024
    tile: tuple[int, int, int] = TILE
    dtype: str = "float32"
    accum: str = "float32"
    trans: str = "NN"
    bias: bool = False
    batch: int = 1
    bar: float = 0.85  # x numpy fp32

    @property
    def flops(self) -> float:
        return 2.0 * self.n**3 * self.batch


NEAR = 0.85 * 0.9  # within 10 % of the plain one's bar
# The odd tile divides 960, not 1024: what is padded is the program's choice, not the compiler's.
VARIANTS = (
    Variant("plain"),
    Variant("bias and ReLU", bias=True, bar=NEAR),
    Variant("NT", trans="NT", bar=NEAR),
    Variant("TN", trans="TN", bar=NEAR),
    Variant("TT", trans="TT", bar=NEAR),
    Variant("batched 8 x 512³", n=512, batch=8, bar=NEAR),
    Variant("tile 96x80x40, 960³", n=960, tile=ODD_TILE, bar=NEAR),
    Variant("bfloat16", dtype="bfloat16", bar=0.75),
    Variant("int8", dtype="int8", accum="int32", bar=0.75),
)
LARGE = (Variant("4096³", n=4096, bar=0.80),)


def program(v: Variant) -> Any:
    """C[z] = A[z] · B[z], perhaps transposed, with bias and ReLU."""
    import tilelang.language as T

    n, z, (bm, bn, bk) = v.n, v.batch, v.tile
    ta, tb = v.trans[0] == "T", v.trans[1] == "T"
    a_tile, b_tile = (bk, bm) if ta else (bm, bk), (bn, bk) if tb else (bk, bn)

    @T.prim_func
    def main(
        A: T.Tensor((z, n, n), v.dtype),
        B: T.Tensor((z, n, n), v.dtype),
        Bias: T.Tensor((n,), v.accum),
        C: T.Tensor((z, n, n), v.accum),
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(n, bm), z, threads=128) as (bx, by, bz):
            A_shared = T.alloc_shared(a_tile, v.dtype)
            B_shared = T.alloc_shared(b_tile, v.dtype)
            C_local = T.alloc_fragment((bm, bn), v.accum)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(n, bk), num_stages=2):
                if ta:
                    T.copy(A[bz, k * bk, by * bm], A_shared)
                else:
                    T.copy(A[bz, by * bm, k * bk], A_shared)
                if tb:
                    T.copy(B[bz, bx * bn, k * bk], B_shared)
                else:
                    T.copy(B[bz, k * bk, bx * bn], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_A=ta, transpose_B=tb)
            if v.bias:
                for i, j in T.Parallel(bm, bn):
                    C_local[i, j] = T.max(C_local[i, j] + Bias[bx * bn + j], 0)
            T.copy(C_local, C[bz, by * bm, bx * bn])

    return main


def operand(v: Variant, seed: int) -> Any:
    """Random values in the variant's dtype."""
    import ml_dtypes
    import numpy as np

    rng, shape = np.random.default_rng(seed), (v.batch, v.n, v.n)
    if v.dtype.startswith("int"):
        return rng.integers(-128, 128, shape, dtype=v.dtype)
    return rng.standard_normal(shape, np.float32).astype(getattr(ml_dtypes, v.dtype, v.dtype))


def contestants(v: Variant, target: str) -> tuple[dict[str, Callable[[], Any]], float]:
    """Calls of ours and of numpy in float32, and our error relative to the largest value."""
    import numpy as np

    import tilelang

    a, b = operand(v, 0), operand(v, 1)
    x, y = a.astype(np.float32), b.astype(np.float32)
    bias, out = np.ones(v.n, v.accum), np.empty((v.batch, v.n, v.n), v.accum)
    c = np.empty(out.shape, np.float32)
    kernel = tilelang.compile(program(v), target=target)
    kernel(a, b, bias, out)
    wide = np.float64 if v.accum == "int32" else np.float32
    p, q = (m.astype(wide).swapaxes(1, 2) if t == "T" else m.astype(wide)
            for m, t in zip((a, b), v.trans, strict=True))  # fmt: skip
    want = p @ q
    if v.bias:
        want = np.maximum(want + bias, 0)
    error = float(np.abs(out - want).max() / np.abs(want).max())
    return {
        "ours": lambda: kernel(a, b, bias, out),
        "numpy": lambda: np.matmul(x, y, out=c),
    }, error


def cpu_gemm(target: str = "llvm", which: str = "small") -> dict[str, float]:
    """Per variant: seconds of ours, of numpy in float32 on the same sizes, and our error."""
    out: dict[str, float] = {}
    for v in LARGE if which == "large" else VARIANTS:
        calls, out[f"{v.name}: error"] = contestants(v, target)
        found: dict[str, list[float]] = {name: [] for name in calls}
        for f in calls.values():
            f()
        end = time.perf_counter() + BUDGET_S * len(calls)
        while time.perf_counter() < end or len(found["ours"]) < 3:
            for name, f in calls.items():
                start = time.thread_time()
                f()
                found[name].append(time.thread_time() - start)
        for name, seconds in found.items():
            out[f"{v.name}: {name}"] = min(seconds)
    return out


def bars(add: Callable[..., None], measure: Callable[[str], dict[str, float]]) -> None:
    """A row per variant."""
    for which, variants in (("small", VARIANTS), ("large", LARGE)):
        found = measure(which)
        for v in variants:
            ours, numpy = found[f"{v.name}: ours"], found[f"{v.name}: numpy"]
            size = "" if "³" in v.name else f" {v.n}³"
            note = f"ours {v.flops / ours / 1e9:.0f}, numpy {v.flops / numpy / 1e9:.0f} GFLOP/s"
            name = f"matmul {v.name}{size}, one thread"
            add(name, numpy / ours, "x numpy fp32", v.bar, False, note)
