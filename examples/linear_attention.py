# SPDX-License-Identifier: Apache-2.0
"""Causal linear attention in chunks: python examples/linear_attention.py [--bench]

O[t] = q[t] · S[t] with the state S[t] = sum of k[s]ᵀ v[s] over s <= t: no softmax, and cost linear
in the sequence. A block walks one head in chunks of `chunk` steps: what lies before the chunk
comes through the state, what lies within it through a masked product. The final state is an output
too."""

from __future__ import annotations

import sys

import harness
import numpy as np

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-2, -1])
def linear_attention(B, S, H, D, DV, dtype="float16", chunk=64, block_V=64, threads=128):
    @T.prim_func
    def main(
        Q: T.Tensor((B, S, H, D), dtype),
        K: T.Tensor((B, S, H, D), dtype),
        V: T.Tensor((B, S, H, DV), dtype),
        O: T.Tensor((B, S, H, DV), dtype),
        State: T.Tensor((B, H, D, DV), "float32"),
    ):
        with T.Kernel(T.ceildiv(DV, block_V), H, B, threads=threads) as (bv, head, batch):
            q = T.alloc_shared((chunk, D), dtype)
            k = T.alloc_shared((chunk, D), dtype)
            v = T.alloc_shared((chunk, block_V), dtype)
            before = T.alloc_shared((D, block_V), dtype)
            state = T.alloc_fragment((D, block_V), "float32")
            scores = T.alloc_fragment((chunk, chunk), "float32")
            masked = T.alloc_fragment((chunk, chunk), dtype)
            out = T.alloc_fragment((chunk, block_V), "float32")
            T.clear(state)
            for c in T.Pipelined(T.ceildiv(S, chunk), num_stages=1):
                steps = slice(c * chunk, (c + 1) * chunk)
                T.copy(Q[batch, steps, head, :], q)
                T.copy(K[batch, steps, head, :], k)
                T.copy(V[batch, steps, head, bv * block_V : (bv + 1) * block_V], v)
                T.copy(state, before)
                T.gemm(q, before, out, clear_accum=True)
                T.gemm(q, k, scores, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(chunk, chunk):
                    masked[i, j] = T.if_then_else(j <= i, scores[i, j], 0)
                T.gemm(masked, v, out)
                T.gemm(k, v, state, transpose_A=True)
                T.copy(out, O[batch, steps, head, bv * block_V : (bv + 1) * block_V])
            T.copy(state, State[batch, head, :, bv * block_V : (bv + 1) * block_V])

    return main


@tilelang.jit
def linear_attention_eager(Q, K, V, dtype="float16", chunk=32, threads=128):
    """One block per head, all of its values; the state stays in shared memory."""
    B, S, H, D, DV = T.const("B, S, H, D, DV")
    Q: T.Tensor((B, S, H, D), dtype)
    K: T.Tensor((B, S, H, D), dtype)
    V: T.Tensor((B, S, H, DV), dtype)
    O = T.empty((B, S, H, DV), dtype)
    State = T.empty((B, H, D, DV), "float32")
    with T.Kernel(H, B, threads=threads) as (head, batch):
        q = T.alloc_shared((chunk, D), dtype)
        k = T.alloc_shared((chunk, D), dtype)
        v = T.alloc_shared((chunk, DV), dtype)
        scores = T.alloc_fragment((chunk, chunk), "float32")
        masked = T.alloc_shared((chunk, chunk), dtype)
        state = T.alloc_fragment((D, DV), "float32")
        before = T.alloc_shared((D, DV), dtype)
        out = T.alloc_fragment((chunk, DV), "float32")
        T.clear(state)
        T.clear(before)
        for c in range(T.ceildiv(S, chunk)):
            T.copy(Q[batch, c * chunk : (c + 1) * chunk, head, :], q)
            T.copy(K[batch, c * chunk : (c + 1) * chunk, head, :], k)
            T.copy(V[batch, c * chunk : (c + 1) * chunk, head, :], v)
            T.clear(scores)
            T.gemm(q, k, scores, transpose_B=True)
            for i, j in T.Parallel(chunk, chunk):
                masked[i, j] = T.if_then_else(j <= i, scores[i, j], 0)
            T.clear(out)
            T.gemm(q, before, out)
            T.gemm(masked, v, out)
            T.gemm(k, v, state, transpose_A=True)
            T.copy(state, before)
            T.copy(out, O[batch, c * chunk : (c + 1) * chunk, head, :])
        T.copy(state, State[batch, head, :, :])
    return O, State


def reference(q, k, v):
    scores = np.einsum("bihd,bjhd->bhij", q, k) * np.tril(np.ones((q.shape[1], k.shape[1])))
    return np.einsum("bhij,bjhd->bihd", scores, v), np.einsum("bshd,bshe->bhde", k, v)


def run(
    B: int,
    S: int,
    H: int,
    D: int,
    DV: int,
    dtype: str,
    target: str,
    bench: bool = False,
    style: str = "lazy",
) -> harness.Result:
    """One shape: compile, run, check."""
    q, k = (harness.tensor((B, S, H, D), dtype, target, seed, D**-0.5) for seed in (0, 1))
    v = harness.tensor((B, S, H, DV), dtype, target, 2)

    def make():
        if style == "lazy":
            return linear_attention(B, S, H, D, DV, dtype)
        return lambda *t: linear_attention_eager(*t, dtype)

    baseline = None
    if bench and harness.have_torch():
        import torch

        x, y, z = (harness.torch_tensor(t).transpose(1, 2) for t in (q, k, v))
        baseline = ("torch, whole", lambda: torch.tril(x @ y.transpose(2, 3)) @ z)
    name = f"linear attention {B}x{S}x{H}x{D}x{DV} {dtype} {style}"
    return harness.case(name, make, (q, k, v), reference, dtype, target, baseline)


SHAPES = [(1, 128, 2, 64, 64), (1, 100, 3, 32, 72), (1, 1, 1, 16, 16), (0, 64, 1, 64, 64)]


def main() -> int:
    return harness.main(
        __doc__,
        run,
        ("float16",),
        small=SHAPES,
        cpu=[(1, 2048, 4, 64, 64)],
        gpu=[(4, 8192, 32, 128, 128)],
    )


if __name__ == "__main__":
    sys.exit(main())
