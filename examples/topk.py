# SPDX-License-Identifier: Apache-2.0
"""The k largest of each row and where they are, largest first: python examples/topk.py [--bench]

k times: the maximum of the row, the first column that has it, which is then out. Of equal values
the earlier column comes first. Lazy: `rows` rows in registers. Eager: one row per block, in shared
memory; the maximum and its column are found in one pass with 64-bit keys."""

from __future__ import annotations

import sys

import harness
import numpy as np

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-2, -1])
def topk(M, N, k, dtype="float32", rows=8, threads=128):
    @T.prim_func
    def main(
        X: T.Tensor((M, N), dtype),
        Values: T.Tensor((M, k), dtype),
        Indices: T.Tensor((M, k), "int32"),
    ):
        with T.Kernel(T.ceildiv(M, rows), threads=threads) as bx:
            x = T.alloc_fragment((rows, N), dtype)
            column = T.alloc_fragment((rows, N), "int32")
            top = T.alloc_fragment((rows,), dtype)
            where = T.alloc_fragment((rows,), "int32")
            T.copy(X[bx * rows, 0], x)
            for round in range(k):
                T.reduce_max(x, top, dim=1)
                for i, j in T.Parallel(rows, N):
                    column[i, j] = T.if_then_else(x[i, j] == top[i], j, N)
                T.reduce_min(column, where, dim=1)
                for i, j in T.Parallel(rows, N):
                    if j == where[i]:
                        x[i, j] = -T.infinity(dtype)
                for i in T.Parallel(rows):
                    Values[bx * rows + i, round] = top[i]
                    Indices[bx * rows + i, round] = where[i]

    return main


@tilelang.jit
def topk_keys(X, k, dtype="float32", threads=128):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    Values = T.empty((M, k), dtype)
    Indices = T.empty((M, k), "int32")
    with T.Kernel(M, threads=threads) as row:
        keys = T.alloc_fragment((N,), "int64")
        best = T.alloc_fragment((1,), "int64")
        for j in T.Parallel(N):
            bits = T.reinterpret(T.cast(X[row, j], "float32"), "int32")
            ordered = T.if_then_else(bits < 0, bits ^ 0x7FFFFFFF, bits)  # ints in the floats' order
            keys[j] = T.int64(ordered) << 32 | T.int64(N - 1 - j)
        for round in range(k):
            T.reduce_max(keys, best)
            column = N - 1 - T.int32(best[0] & 0xFFFFFFFF)
            Values[row, round] = X[row, column]
            Indices[row, round] = column
            for j in T.Parallel(N):
                if keys[j] == best[0]:
                    keys[j] = T.min_value("int64")
    return Values, Indices


def reference(x, k):
    indices = np.argsort(-x, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(x, indices, axis=1), indices


def run(
    m: int, n: int, k: int, dtype: str, target: str, bench: bool = False, style: str = "lazy"
) -> harness.Result:
    """One shape: compile, run, check. In bfloat16 many values of a row are equal."""
    x = harness.tensor((m, n), dtype, target)

    def make():
        if style == "lazy":
            return topk(m, n, k, dtype)
        return lambda x: topk_keys(x, k, dtype)

    baseline = None
    if bench and harness.have_torch():
        t = harness.torch_tensor(x)
        baseline = ("torch", lambda: t.topk(k))
    name = f"top {k} of {m}x{n} {dtype} {style}"
    return harness.case(name, make, (x,), lambda x: reference(x, k), "int32", target, baseline)


SHAPES = [(16, 128, 4), (5, 100, 3), (3, 77, 77), (1, 1, 1), (0, 64, 2)]


def main() -> int:
    return harness.main(
        __doc__,
        run,
        ("float32", "bfloat16"),
        small=SHAPES,
        cpu=[(4096, 256, 8)],
        gpu=[(32768, 256, 8)],
    )


if __name__ == "__main__":
    sys.exit(main())
