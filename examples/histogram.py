# SPDX-License-Identifier: Apache-2.0
"""How often each value occurs: python examples/histogram.py [--bench]

X holds integers; those outside of 0 <= x < bins are not counted. Lazy: each block counts in shared
memory, then adds its counts to the result; a first kernel clears that. Eager: a fixed number of
blocks walk the input and leave their counts in scratch memory, which a second kernel sums."""

from __future__ import annotations

import sys

import harness
import numpy as np

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def histogram(N, bins, dtype="int32", block=2048, threads=256):
    @T.prim_func
    def main(X: T.Tensor((N,), dtype), Counts: T.Tensor((bins,), "int32")):
        with T.Kernel(1, threads=threads):
            T.clear(Counts)
        with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:
            counts = T.alloc_shared((bins,), "int32")
            T.clear(counts)
            for i in T.Parallel(block):
                if bx * block + i < N:
                    x = T.cast(X[bx * block + i], "int32")
                    if x >= 0 and x < bins:
                        T.atomic_add(counts[x], 1)
            T.atomic_add(Counts, counts)

    return main


@tilelang.jit
def histogram_scratch(X, bins, dtype="int32", blocks=8, block=1024, threads=256):
    N = T.const("N")
    X: T.Tensor((N,), dtype)
    Counts = T.empty((bins,), "int32")
    parts = T.alloc_global((blocks, bins), "int32")
    with T.Kernel(blocks, threads=threads) as bx:
        counts = T.alloc_shared((bins,), "int32")
        T.clear(counts)
        for tile in range(bx, T.ceildiv(N, block), blocks):
            for i in T.Parallel(block):
                n = tile * block + i
                if n < N:
                    if X[n] >= 0 and X[n] < bins:
                        T.atomic_add(counts[X[n]], 1)
        T.copy(counts, parts[bx, :])
    with T.Kernel(1, threads=threads):
        part = T.alloc_fragment((blocks, bins), "int32")
        total = T.alloc_fragment((bins,), "int32")
        T.copy(parts, part)
        T.reduce_sum(part, total, dim=0)
        T.copy(total, Counts)
    return Counts


def run(
    n: int, bins: int, dtype: str, target: str, bench: bool = False, style: str = "lazy"
) -> harness.Result:
    """One shape: compile, run, check."""
    high = min(bins + 3, np.iinfo(dtype).max + 1)
    x = harness.integers((n,), -2, high, dtype, target)

    def make():
        if style == "lazy":
            return histogram(n, bins, dtype)
        return lambda x: histogram_scratch(x, bins, dtype)

    def reference(x):
        return np.bincount(x[(x >= 0) & (x < bins)].astype(np.int64), minlength=bins)

    baseline = None
    if bench and harness.have_torch():
        t = harness.torch_tensor(x).clamp(0, min(bins, high) - 1)
        baseline = ("torch bincount", lambda: t.bincount(minlength=bins))
    name = f"histogram {n} into {bins} {dtype} {style}"
    return harness.case(name, make, (x,), reference, "int32", target, baseline)


SHAPES = [(4096, 64), (5001, 100), (333, 1000), (1, 1), (0, 16)]


def main() -> int:
    return harness.main(
        __doc__,
        run,
        ("int32", "int8"),
        small=SHAPES,
        cpu=[(1 << 24, 256)],
        gpu=[(1 << 28, 256)],
    )


if __name__ == "__main__":
    sys.exit(main())
