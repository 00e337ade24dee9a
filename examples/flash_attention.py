# SPDX-License-Identifier: Apache-2.0
"""Flash attention forward, causal or not, any sequence length: python examples/flash_attention.py
[--bench]

Q, K, V, O are [batch, sequence, heads, head dim]. One block computes `block_M` rows of one head
with an online softmax: running maximum and sum, rescaled when the maximum grows."""

from __future__ import annotations

import sys

import harness
import numpy as np

import tilelang
import tilelang.language as T

LOG2_E = 1.4426950408889634


@tilelang.jit(out_idx=[-1])
def attention(
    B, S, H, D, causal=False, dtype="float16", block_M=64, block_N=64, threads=128, stages=2
):
    shape = (B, S, H, D)
    scale = LOG2_E / D**0.5

    @T.prim_func
    def main(
        Q: T.Tensor(shape, dtype),
        K: T.Tensor(shape, dtype),
        V: T.Tensor(shape, dtype),
        O: T.Tensor(shape, dtype),
    ):
        with T.Kernel(T.ceildiv(S, block_M), H, B, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared((block_M, D), dtype)
            K_shared = T.alloc_shared((block_N, D), dtype)
            V_shared = T.alloc_shared((block_N, D), dtype)
            O_shared = T.alloc_shared((block_M, D), dtype)
            scores = T.alloc_fragment((block_M, block_N), "float32")
            weights = T.alloc_fragment((block_M, block_N), dtype)
            out = T.alloc_fragment((block_M, D), "float32")
            top = T.alloc_fragment((block_M,), "float32")
            old_top = T.alloc_fragment((block_M,), "float32")
            rescale = T.alloc_fragment((block_M,), "float32")
            row_sum = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")

            T.copy(Q[bz, bx * block_M : (bx + 1) * block_M, by, :], Q_shared)
            T.fill(out, 0)
            T.fill(total, 0)
            T.fill(top, -T.infinity("float32"))
            steps = T.ceildiv(S, block_N)
            if causal:
                steps = T.min(steps, T.ceildiv((bx + 1) * block_M, block_N))
            for k in T.Pipelined(steps, num_stages=stages):
                T.copy(K[bz, k * block_N : (k + 1) * block_N, by, :], K_shared)
                for i, j in T.Parallel(block_M, block_N):
                    visible = k * block_N + j < S
                    if causal:
                        visible = visible and k * block_N + j <= bx * block_M + i
                    scores[i, j] = T.if_then_else(visible, 0, -T.infinity("float32"))
                T.gemm(
                    Q_shared, K_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow
                )
                T.copy(V[bz, k * block_N : (k + 1) * block_N, by, :], V_shared)
                T.copy(top, old_top)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    rescale[i] = T.exp2((old_top[i] - top[i]) * scale)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2(scores[i, j] * scale - top[i] * scale)
                T.reduce_sum(scores, row_sum, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * rescale[i] + row_sum[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(block_M, D):
                    out[i, j] *= rescale[i]
                T.gemm(weights, V_shared, out, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, D):
                out[i, j] /= total[i]
            T.copy(out, O_shared)
            T.copy(O_shared, O[bz, bx * block_M : (bx + 1) * block_M, by, :])

    return main


def blocks(target: str, sequence: int) -> dict[str, int]:
    """Tile sizes that suit the machine: what a user would choose by hand or by autotuning."""
    t = tilelang.target.Target(tilelang.target.determine_target(target))
    if sequence < 1024 or t.is_cpu:
        return {}
    if t.arch >= 90:
        return {"block_M": 128, "block_N": 128, "threads": 256}
    return {"block_M": 128, "block_N": 64, "threads": 128}


def reference(q, k, v, causal):
    """In float64, head by head."""
    out = np.empty_like(q)
    s = q.shape[1]
    for b in range(q.shape[0]):
        for h in range(q.shape[2]):
            scores = q[b, :, h] @ k[b, :, h].T / q.shape[3] ** 0.5
            if causal:
                scores = np.where(np.tril(np.ones((s, s), bool)), scores, -np.inf)
            p = np.exp(scores - scores.max(axis=-1, keepdims=True))
            out[b, :, h] = p / p.sum(axis=-1, keepdims=True) @ v[b, :, h]
    return out


def run(
    B: int, S: int, H: int, D: int, causal: bool, dtype: str, target: str, bench: bool = False
) -> harness.Result:
    """One shape: compile, run, check."""
    q, k, v = (harness.tensor((B, S, H, D), dtype, target, seed) for seed in range(3))

    def make():
        with tilelang.target.Target(tilelang.target.determine_target(target)):
            return attention(B, S, H, D, causal, dtype, **blocks(target, S))

    baseline = None
    if bench and harness.have_torch():
        import torch

        x, y, z = (torch.as_tensor(t).transpose(1, 2) for t in (q, k, v))
        sdpa = torch.nn.functional.scaled_dot_product_attention
        baseline = ("torch sdpa", lambda: sdpa(x, y, z, is_causal=causal))
    name = f"attention {B}x{S}x{H}x{D} {dtype}{' causal' if causal else ''}"
    return harness.case(
        name, make, (q, k, v), lambda *t: reference(*t, causal), dtype, target, baseline
    )


SHAPES = [(1, 128, 2, 64), (2, 100, 3, 64), (1, 1, 1, 64), (0, 128, 2, 64)]


def main() -> int:
    args = harness.parser(__doc__).parse_args()
    shapes = SHAPES
    if args.bench:
        shapes = [(4, 4096, 16, 128)] if harness.on_gpu(args.target) else [(1, 1024, 8, 64)]
    dtype = "float16"
    return harness.report(
        [run(*s, c, dtype, args.target, args.bench) for c in (False, True) for s in shapes]
    )


if __name__ == "__main__":
    sys.exit(main())
