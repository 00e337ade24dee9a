# SPDX-License-Identifier: Apache-2.0
"""Elementwise addition, any length: python examples/elementwise_add.py [--target llvm] [--bench]

The eager style: the decorated function is the kernel. `N` is read from the tensors, and a new `N`
compiles a new kernel; `T.empty` declares the output, which the runtime allocates.
"""

from __future__ import annotations

import sys
from functools import partial

import harness

import tilelang
import tilelang.language as T


@tilelang.jit
def add(A, B, dtype="float32", block=1024, threads=256):
    N = T.const("N")
    A: T.Tensor((N,), dtype)
    B: T.Tensor((N,), dtype)
    C = T.empty((N,), dtype)
    with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:
        for i in T.Parallel(block):
            C[bx * block + i] = A[bx * block + i] + B[bx * block + i]
    return C


def run(n: int, dtype: str, target: str, bench: bool = False) -> harness.Result:
    """One size: compile, run, check."""
    a, b = (harness.tensor((n,), dtype, target, seed) for seed in (0, 1))

    def make():
        add.compile(a, b, dtype=dtype)  # the first call would do it
        return partial(add, dtype=dtype)

    def reference(x, y):
        return x + y

    baseline = ("x + y", lambda: a + b) if bench else None
    with tilelang.target.Target(tilelang.target.determine_target(target)):
        return harness.case(f"add {n} {dtype}", make, (a, b), reference, dtype, target, baseline)


SHAPES = [(1 << 16,), (100003,), (1,), (0,)]


def main() -> int:
    args = harness.parser(__doc__).parse_args()
    shapes = SHAPES
    if args.bench:
        shapes = [(1 << 27,)] if harness.on_gpu(args.target) else [(1 << 24,)]
    dtypes = ("float32", "bfloat16")
    return harness.report([run(*s, d, args.target, args.bench) for d in dtypes for s in shapes])


if __name__ == "__main__":
    sys.exit(main())
