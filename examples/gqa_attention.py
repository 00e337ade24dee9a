# SPDX-License-Identifier: Apache-2.0
"""Grouped-query attention: several query heads share one head of keys and values:
python examples/gqa_attention.py [--bench]

Q and O are [batch, sequence, heads, head dim]; K and V have fewer heads. A block computes
`block_M` rows of one query head with an online softmax. Lazy and eager kernels share the body, a
`T.macro`."""

from __future__ import annotations

import sys

import harness
import numpy as np

import tilelang
import tilelang.language as T

LOG2_E = 1.4426950408889634


@T.macro
def attend(Q, K, V, O, shape, kv_heads, causal, dtype, block_M, block_N, stages, bx, head, batch):
    _, S, H, D = shape
    scale = LOG2_E / D**0.5
    kv = head // (H // kv_heads)
    q = T.alloc_shared((block_M, D), dtype)
    k_tile = T.alloc_shared((block_N, D), dtype)
    v_tile = T.alloc_shared((block_N, D), dtype)
    scores = T.alloc_fragment((block_M, block_N), "float32")
    weights = T.alloc_fragment((block_M, block_N), dtype)
    out = T.alloc_fragment((block_M, D), "float32")
    top = T.alloc_fragment((block_M,), "float32")
    new_top = T.alloc_fragment((block_M,), "float32")
    row_sum = T.alloc_fragment((block_M,), "float32")
    total = T.alloc_fragment((block_M,), "float32")

    T.copy(Q[batch, bx * block_M : (bx + 1) * block_M, head, :], q)
    T.clear(out)
    T.clear(total)
    T.fill(top, -T.infinity("float32"))
    steps = T.ceildiv(S, block_N)
    if causal:
        steps = T.min(steps, T.ceildiv((bx + 1) * block_M, block_N))
    for k in T.Pipelined(steps, num_stages=stages):
        T.copy(K[batch, k * block_N : (k + 1) * block_N, kv, :], k_tile)
        T.copy(V[batch, k * block_N : (k + 1) * block_N, kv, :], v_tile)
        T.gemm(q, k_tile, scores, transpose_B=True, clear_accum=True)
        for i, j in T.Parallel(block_M, block_N):
            column = k * block_N + j
            hidden = column >= S
            if causal:
                hidden = hidden or column > bx * block_M + i
            scores[i, j] = T.if_then_else(hidden, -T.infinity("float32"), scores[i, j] * scale)
        T.reduce_max(scores, new_top, dim=1)
        for i in T.Parallel(block_M):
            new_top[i] = T.max(new_top[i], top[i])
            total[i] *= T.exp2(top[i] - new_top[i])
        for i, j in T.Parallel(block_M, D):
            out[i, j] *= T.exp2(top[i] - new_top[i])
        for i, j in T.Parallel(block_M, block_N):
            scores[i, j] = T.exp2(scores[i, j] - new_top[i])
        T.reduce_sum(scores, row_sum, dim=1)
        for i in T.Parallel(block_M):
            total[i] += row_sum[i]
            top[i] = new_top[i]
        T.copy(scores, weights)
        T.gemm(weights, v_tile, out)
    for i, j in T.Parallel(block_M, D):
        out[i, j] /= total[i]
    T.copy(out, O[batch, bx * block_M : (bx + 1) * block_M, head, :])


@tilelang.jit(out_idx=[-1])
def attention(
    B,
    S,
    H,
    kv_heads,
    D,
    causal=False,
    dtype="float16",
    block_M=64,
    block_N=64,
    threads=128,
    stages=2,
):
    shape, kv_shape = (B, S, H, D), (B, S, kv_heads, D)
    options = (shape, kv_heads, causal, dtype, block_M, block_N, stages)

    @T.prim_func
    def main(
        Q: T.Tensor(shape, dtype),
        K: T.Tensor(kv_shape, dtype),
        V: T.Tensor(kv_shape, dtype),
        O: T.Tensor(shape, dtype),
    ):
        with T.Kernel(T.ceildiv(S, block_M), H, B, threads=threads) as (bx, head, batch):
            attend(Q, K, V, O, *options, bx, head, batch)

    return main


@tilelang.jit
def attention_eager(
    Q, K, V, causal=False, dtype="float16", block_M=64, block_N=64, threads=128, stages=2
):
    B, S, H, kv_heads, D = T.const("B, S, H, kv_heads, D")
    Q: T.Tensor((B, S, H, D), dtype)
    K: T.Tensor((B, S, kv_heads, D), dtype)
    V: T.Tensor((B, S, kv_heads, D), dtype)
    O = T.empty((B, S, H, D), dtype)
    options = ((B, S, H, D), kv_heads, causal, dtype, block_M, block_N, stages)
    with T.Kernel(T.ceildiv(S, block_M), H, B, threads=threads) as (bx, head, batch):
        attend(Q, K, V, O, *options, bx, head, batch)
    return O


def reference(q, k, v, causal):
    """In float64."""
    s, groups = q.shape[1], q.shape[2] // k.shape[2]
    k, v = (np.repeat(x, groups, axis=2) for x in (k, v))
    scores = np.einsum("bihd,bjhd->bhij", q, k) / q.shape[3] ** 0.5
    if causal:
        scores = np.where(np.tril(np.ones((s, s), bool)), scores, -np.inf)
    p = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf))
    return np.einsum("bhij,bjhd->bihd", p / p.sum(axis=-1, keepdims=True), v)


def run(
    B: int,
    S: int,
    H: int,
    kv_heads: int,
    D: int,
    causal: bool,
    dtype: str,
    target: str,
    bench: bool = False,
    style: str = "lazy",
) -> harness.Result:
    """One shape: compile, run, check."""
    q = harness.tensor((B, S, H, D), dtype, target, 0)
    k, v = (harness.tensor((B, S, kv_heads, D), dtype, target, seed) for seed in (1, 2))

    def make():
        if style == "lazy":
            return attention(B, S, H, kv_heads, D, causal, dtype)
        return lambda *t: attention_eager(*t, causal, dtype)

    baseline = None
    if bench and harness.have_torch():
        import torch

        x, y, z = (harness.torch_tensor(t).transpose(1, 2) for t in (q, k, v))
        sdpa = torch.nn.functional.scaled_dot_product_attention
        baseline = ("torch sdpa", lambda: sdpa(x, y, z, is_causal=causal, enable_gqa=True))
    name = f"GQA {B}x{S}x{H}/{kv_heads}x{D} {dtype}{' causal' if causal else ''} {style}"
    return harness.case(
        name, make, (q, k, v), lambda *t: reference(*t, causal), dtype, target, baseline
    )


SHAPES = [
    (1, 128, 4, 2, 64, False),
    (1, 100, 6, 2, 32, True),
    (1, 1, 1, 1, 64, False),
    (0, 64, 2, 1, 64, True),
]


def main() -> int:
    return harness.main(
        __doc__,
        run,
        ("float16",),
        small=SHAPES,
        cpu=[(1, 1024, 8, 2, 64, c) for c in (False, True)],
        gpu=[(4, 4096, 32, 8, 128, c) for c in (False, True)],
    )


if __name__ == "__main__":
    sys.exit(main())
