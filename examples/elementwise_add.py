# SPDX-License-Identifier: Apache-2.0
"""Elementwise addition, any length: python examples/elementwise_add.py [--target llvm] [--bench]

The eager style: the decorated function is the kernel. `N` is read from the tensors, and a new `N`
compiles a new kernel; `T.empty` declares the output, which the runtime allocates.
"""

from __future__ import annotations

import sys

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
    with tilelang.target.Target(target) if target != "auto" else _nothing():
        return harness.case(
            f"add {n} {dtype}",
            lambda: lambda x, y: add(x, y, dtype=dtype),
            (a, b),
            lambda x, y: x + y,
            dtype,
            target,
            ("x + y", lambda: a + b) if bench else None,
        )


def _nothing():
    from contextlib import nullcontext

    return nullcontext()


def main() -> int:
    args = harness.parser(__doc__).parse_args()
    cases = [
        (1 << 20, "float32"),
        (1 << 20, "bfloat16"),
        (1000003, "float32"),
        (1, "float32"),
        (0, "float32"),
    ]
    if args.bench:
        cases = (
            [(1 << 27, "float32"), (1 << 27, "bfloat16")]
            if harness.on_gpu(args.target)
            else [(1 << 24, "float32")]
        )
    return harness.report([run(n, dtype, args.target, args.bench) for n, dtype in cases])


if __name__ == "__main__":
    sys.exit(main())
