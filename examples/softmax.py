# SPDX-License-Identifier: Apache-2.0
"""Row softmax of a matrix of any size: python examples/softmax.py [--bench]

One block per row; the row stays in registers (a fragment), so memory is read and written once.
"""

from __future__ import annotations

import sys

import harness
import numpy as np

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def softmax(M, N, dtype="float32", threads=256):
    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(M, threads=threads) as row:
            x = T.alloc_fragment((1, N), "float32")
            top = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(X[row, 0:N], x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(1, N):
                x[i, j] = T.exp2((x[i, j] - top[i]) * 1.4426950408889634)
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(1, N):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[row, 0:N])

    return main


def run(m: int, n: int, dtype: str, target: str, bench: bool = False) -> harness.Result:
    """One shape: compile, run, check."""
    x = harness.tensor((m, n), dtype, target)

    def make():
        with tilelang.target.Target(tilelang.target.determine_target(target)):
            return softmax(m, n, dtype, threads=512 if n >= 8192 else 256)

    def reference(a):
        if a.size == 0:
            return a
        e = np.exp(a - a.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    baseline = None
    if bench and harness.on_gpu(target):
        baseline = ("copy", lambda: x.clone())
    elif bench:
        baseline = ("numpy", lambda: reference(x))
    return harness.case(f"softmax {m}x{n} {dtype}", make, (x,), reference, dtype, target, baseline)


SHAPES = [(64, 1024), (7, 1000), (133, 77), (1, 1), (3, 4104), (0, 128)]


def main() -> int:
    args = harness.parser(__doc__).parse_args()
    shapes = SHAPES
    if args.bench:
        shapes = [(32768, 8192)] if harness.on_gpu(args.target) else [(4096, 4096)]
    return harness.report(
        [run(*s, d, args.target, args.bench) for d in ("float32", "bfloat16") for s in shapes]
    )


if __name__ == "__main__":
    sys.exit(main())
