# SPDX-License-Identifier: Apache-2.0
"""Attention of one new token over a long cache of keys and values, split over blocks:
python examples/flash_decoding.py [--bench]

Q and O are [batch, heads, head dim], K and V [batch, sequence, KV heads, head dim]. The first
kernel gives each block one part of the sequence, for all query heads of one KV head; the parts,
each normalised, and their logarithms of sums go to scratch memory (`T.alloc_global`). The second
kernel combines the parts of each head."""

from __future__ import annotations

import sys

import harness
import numpy as np

import tilelang
import tilelang.language as T

LOG2_E = 1.4426950408889634


@T.macro
def attend_part(Q, K, V, parts, lse, sizes, dtype, block_N, part, stages, split, kv, batch):
    S, H, kv_heads, D = sizes
    group = H // kv_heads
    rows = max(16, group)  # of the tensor core's tile; rows beyond the group are never stored
    scale = LOG2_E / D**0.5
    q = T.alloc_shared((rows, D), dtype)
    k_tile = T.alloc_shared((block_N, D), dtype)
    v_tile = T.alloc_shared((block_N, D), dtype)
    scores = T.alloc_fragment((rows, block_N), "float32")
    weights = T.alloc_fragment((rows, block_N), dtype)
    out = T.alloc_fragment((rows, D), "float32")
    top = T.alloc_fragment((rows,), "float32")
    old_top = T.alloc_fragment((rows,), "float32")
    row_sum = T.alloc_fragment((rows,), "float32")
    total = T.alloc_fragment((rows,), "float32")

    for i, d in T.Parallel(rows, D):
        q[i, d] = T.if_then_else(i < group, Q[batch, kv * group + T.min(i, group - 1), d], 0)
    T.clear(out)
    T.clear(total)
    T.fill(top, -T.infinity("float32"))
    for step in T.Pipelined(part, num_stages=stages):
        first = (split * part + step) * block_N
        T.copy(K[batch, first : first + block_N, kv, :], k_tile)
        T.copy(V[batch, first : first + block_N, kv, :], v_tile)
        T.clear(scores)
        T.gemm(q, k_tile, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
        for i, j in T.Parallel(rows, block_N):
            scores[i, j] = T.if_then_else(first + j < S, scores[i, j] * scale, -1e30)
        T.copy(top, old_top)
        T.reduce_max(scores, top, dim=1, clear=False)
        for i, j in T.Parallel(rows, block_N):
            scores[i, j] = T.if_then_else(first + j < S, T.exp2(scores[i, j] - top[i]), 0)
        T.reduce_sum(scores, row_sum, dim=1)
        for i in T.Parallel(rows):
            total[i] = total[i] * T.exp2(old_top[i] - top[i]) + row_sum[i]
        for i, j in T.Parallel(rows, D):
            out[i, j] *= T.exp2(old_top[i] - top[i])
        T.copy(scores, weights)
        T.gemm(weights, v_tile, out, policy=T.GemmWarpPolicy.FullCol)
    for i, j in T.Parallel(rows, D):
        if i < group:
            parts[batch, kv * group + i, split, j] = out[i, j] / T.max(total[i], 1e-30)
    for i in T.Parallel(rows):
        if i < group:
            lse[batch, kv * group + i, split] = T.if_then_else(
                total[i] > 0, top[i] + T.log2(total[i]), -T.infinity("float32")
            )


@T.macro
def combine(parts, lse, O, D, splits, head, batch):
    out = T.alloc_fragment((D,), "float32")
    top = T.alloc_var("float32", -T.infinity("float32"))
    total = T.alloc_var("float32", 0)
    for s in range(splits):
        top = T.max(top, lse[batch, head, s])
    T.clear(out)
    for s in range(splits):
        weight = T.exp2(lse[batch, head, s] - top)
        total += weight
        for d in T.Parallel(D):
            out[d] += weight * parts[batch, head, s, d]
    for d in T.Parallel(D):
        O[batch, head, d] = out[d] / total


@tilelang.jit(out_idx=[-1])
def decode(B, S, H, kv_heads, D, splits=4, dtype="float16", block_N=64, threads=128, stages=2):
    part = T.ceildiv(T.ceildiv(S, block_N), splits)
    options = ((S, H, kv_heads, D), dtype, block_N, part, stages)

    @T.prim_func
    def main(
        Q: T.Tensor((B, H, D), dtype),
        K: T.Tensor((B, S, kv_heads, D), dtype),
        V: T.Tensor((B, S, kv_heads, D), dtype),
        O: T.Tensor((B, H, D), dtype),
    ):
        parts = T.alloc_global((B, H, splits, D), "float32")
        lse = T.alloc_global((B, H, splits), "float32")
        with T.Kernel(splits, kv_heads, B, threads=threads) as (split, kv, batch):
            attend_part(Q, K, V, parts, lse, *options, split, kv, batch)
        with T.Kernel(H, B, threads=threads) as (head, batch):
            combine(parts, lse, O, D, splits, head, batch)

    return main


@tilelang.jit
def decode_eager(Q, K, V, splits=4, dtype="float16", block_N=64, threads=128, stages=2):
    """The sequence may have any length: a new one compiles nothing."""
    B, H, kv_heads, D = T.const("B, H, kv_heads, D")
    S = T.dynamic("S")
    Q: T.Tensor((B, H, D), dtype)
    K: T.Tensor((B, S, kv_heads, D), dtype)
    V: T.Tensor((B, S, kv_heads, D), dtype)
    O = T.empty((B, H, D), dtype)
    parts = T.alloc_global((B, H, splits, D), "float32")
    lse = T.alloc_global((B, H, splits), "float32")
    part = T.ceildiv(T.ceildiv(S, block_N), splits)
    options = ((S, H, kv_heads, D), dtype, block_N, part, stages)
    with T.Kernel(splits, kv_heads, B, threads=threads) as (split, kv, batch):
        attend_part(Q, K, V, parts, lse, *options, split, kv, batch)
    with T.Kernel(H, B, threads=threads) as (head, batch):
        combine(parts, lse, O, D, splits, head, batch)
    return O


def reference(q, k, v):
    groups = q.shape[1] // k.shape[2]
    k, v = (np.repeat(x, groups, axis=2) for x in (k, v))
    scores = np.einsum("bhd,bjhd->bhj", q, k) / q.shape[2] ** 0.5
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.einsum("bhj,bjhd->bhd", p / p.sum(axis=-1, keepdims=True), v)


def run(
    B: int,
    S: int,
    H: int,
    kv_heads: int,
    D: int,
    dtype: str,
    target: str,
    bench: bool = False,
    style: str = "lazy",
) -> harness.Result:
    """One shape: compile, run, check."""
    q = harness.tensor((B, H, D), dtype, target, 0)
    k, v = (harness.tensor((B, S, kv_heads, D), dtype, target, seed) for seed in (1, 2))
    splits = 16 if bench else 4

    def make():
        if style == "lazy":
            return decode(B, S, H, kv_heads, D, splits, dtype)
        return lambda *t: decode_eager(*t, splits, dtype)

    baseline = None
    if bench and harness.have_torch():
        import torch

        x = harness.torch_tensor(q)[:, :, None]
        y, z = (harness.torch_tensor(t).transpose(1, 2) for t in (k, v))
        sdpa = torch.nn.functional.scaled_dot_product_attention
        baseline = ("torch sdpa", lambda: sdpa(x, y, z, enable_gqa=True))
    name = f"flash decoding {B}x{S}x{H}/{kv_heads}x{D} {dtype} {style}"
    return harness.case(name, make, (q, k, v), reference, dtype, target, baseline)


SHAPES = [(1, 512, 4, 2, 64), (2, 333, 6, 1, 64), (1, 1, 1, 1, 32), (0, 64, 2, 1, 64)]


def main() -> int:
    return harness.main(
        __doc__,
        run,
        ("float16",),
        small=SHAPES,
        cpu=[(1, 16384, 8, 2, 64)],
        gpu=[(4, 65536, 32, 4, 128)],
    )


if __name__ == "__main__":
    sys.exit(main())
