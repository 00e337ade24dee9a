# SPDX-License-Identifier: Apache-2.0
"""Running sums along the rows of a matrix of any size: python examples/cumsum.py [--bench]

Lazy: a block walks its rows tile by tile and carries the sum; rows are also summed from their end
(`reverse`). Eager: a row is cut into parts of one block each, whose totals a second kernel turns
into offsets."""

from __future__ import annotations

import sys

import harness
import numpy as np

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def cumsum(M, N, reverse=False, dtype="float32", rows=8, block=128, threads=128):
    tiles = T.ceildiv(N, block)

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, rows), threads=threads) as bx:
            x = T.alloc_shared((rows, block), "float32")
            carry = T.alloc_fragment((rows,), "float32")
            y = T.alloc_fragment((rows, block), "float32")
            T.clear(carry)
            for step in range(tiles):
                tile = tiles - 1 - step if reverse else step
                T.copy(X[bx * rows, tile * block], x)
                T.cumsum(x, y, dim=1, reverse=reverse)
                for i, j in T.Parallel(rows, block):
                    y[i, j] += carry[i]
                T.copy(y, Y[bx * rows, tile * block])
                T.reduce_sum(x, carry, dim=1, clear=False)

    return main


@tilelang.jit
def cumsum_parts(X, reverse=False, dtype="float32", block=256, threads=128):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    Y = T.empty((M, N), dtype)
    parts = T.ceildiv(N, block)
    totals = T.alloc_global((M, parts), "float32")
    with T.Kernel(parts, M, threads=threads) as (part, row):
        x = T.alloc_fragment((block,), "float32")
        total = T.alloc_fragment((1,), "float32")
        T.copy(X[row, part * block], x)
        T.reduce_sum(x, total)
        T.copy(total, totals[row, part])
    with T.Kernel(parts, M, threads=threads) as (part, row):
        x = T.alloc_shared((block,), "float32")
        offset = T.alloc_var("float32", 0)
        if reverse:
            for p in range(part + 1, parts):
                offset += totals[row, p]
        else:
            for p in range(part):
                offset += totals[row, p]
        T.copy(X[row, part * block], x)
        T.cumsum(x, reverse=reverse)
        for j in T.Parallel(block):
            Y[row, part * block + j] = x[j] + offset
    return Y


def run(
    m: int, n: int, reverse: bool, dtype: str, target: str, bench: bool = False, style: str = "lazy"
) -> harness.Result:
    """One shape: compile, run, check."""
    x = harness.tensor((m, n), dtype, target)

    def make():
        if style == "lazy":
            return cumsum(m, n, reverse, dtype)
        return lambda x: cumsum_parts(x, reverse, dtype)

    def reference(x):
        return np.cumsum(x[:, ::-1], axis=1)[:, ::-1] if reverse else np.cumsum(x, axis=1)

    baseline = None
    if bench and harness.have_torch():
        t = harness.torch_tensor(x)
        baseline = ("torch", lambda: t.cumsum(1))
    name = f"cumsum {m}x{n}{' reverse' if reverse else ''} {dtype} {style}"
    return harness.case(name, make, (x,), reference, dtype, target, baseline)


SHAPES = [(8, 256, False), (5, 333, True), (3, 77, False), (1, 1, False), (0, 64, False)]


def main() -> int:
    return harness.main(
        __doc__,
        run,
        ("float32", "bfloat16"),
        small=SHAPES,
        cpu=[(1024, 4096, False)],
        gpu=[(32768, 8192, False)],
    )


if __name__ == "__main__":
    sys.exit(main())
