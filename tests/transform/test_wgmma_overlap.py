# SPDX-License-Identifier: Apache-2.0
"""ptxas overlaps the wgmmas of a kernel with roles: it says so where it does not, or spills.

It runs them one by one where it has to insert an arrival itself, because accumulators are
written before a loop and nothing pins the writes there (its message C7520).
"""

from __future__ import annotations

from typing import Any

import pytest

import tilelang
import tilelang.language as T
from tilelang.runtime.device_compiler import Cubin

TILE = (64, 64)


def program(what: str, steps: int = 4) -> Any:
    @T.prim_func
    def main(
        A: T.Tensor((64, 64 * steps), "float16"),
        B: T.Tensor((64 * steps, 64), "float16"),
        C: T.Tensor(TILE, "float32"),
        D: T.Tensor(TILE, "float32"),
        m: T.int32,
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared(TILE, "float16")
            b = T.alloc_shared(TILE, "float16")
            x = T.alloc_shared(TILE, "float16")
            c = T.alloc_fragment(TILE, "float32")
            d = T.alloc_fragment(TILE, "float32")
            T.clear(c)
            T.clear(d)
            T.copy(A[0, 0], x)
            for k in T.Pipelined(steps, num_stages=3):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                if what == "two products":
                    T.gemm(a, b, c)
                    T.gemm(b, a, d)
                elif what == "one accumulator twice":
                    T.gemm(a, b, c)
                    T.gemm(b, a, d)
                    T.gemm(a, b, c, transpose_A=True)
                elif what == "conditional":
                    if k != m:
                        T.gemm(a, b, c)
                        T.gemm(a, a, d, transpose_B=True)
                elif what == "cleared now and then":
                    T.gemm(a, b, c, clear_accum=(k == 0))
                    T.gemm(a, b, d, clear_accum=(k == m))
                elif what == "one ahead":
                    T.clear(c)
                    T.gemm(a, b, c)
                    for i, j in T.Parallel(64, 64):
                        T.atomic_add(C[i, j], c[i, j])
                    T.gemm(b, a, d)
                else:
                    T.gemm(a, b, c)
            if what == "a loop afterwards":
                for _ in T.serial(m):
                    T.gemm(x, b, d)
                    T.gemm(b, x, c)
            T.copy(c, C)
            T.copy(d, D)

    return main


@pytest.mark.parametrize(
    "what",
    [
        "two products", "one accumulator twice", "conditional", "cleared now and then",
        "one ahead", "a loop afterwards",
    ],
)  # fmt: skip
def test_products_of_a_role_overlap(what: str) -> None:
    kernel = tilelang.compile(program(what), target="cuda -arch=sm_90a")
    assert "mbar_expect_tx" in kernel.get_kernel_source()
    log = kernel.artifact.codegen_mod.log  # type: ignore[union-attr]
    assert Cubin(b"", log).problems == []
    assert "warpgroup.arrive is injected" not in log
