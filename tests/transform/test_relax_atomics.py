# SPDX-License-Identifier: Apache-2.0
"""A block's own memory is updated without locks on a CPU; global memory with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.target import Target

TARGETS = {"llvm": "atomicrmw", "c": "__atomic_"}


@tilelang.jit
def histogram(n: int, bins: int, kind: str = "add", dtype: str = "int32", shared: bool = True):
    update = getattr(T, f"atomic_{kind}")

    @T.prim_func
    def main(X: T.Tensor((n,), "int32"), V: T.Tensor((n,), dtype), H: T.Tensor((bins,), dtype)):
        with T.Kernel(1, threads=32):
            if shared:
                h = T.alloc_shared((bins,), dtype)
                T.copy(H, h)
                for i in T.Parallel(n):
                    update(h[X[i]], V[i])
                T.copy(h, H)
            else:
                for i in T.Parallel(n):
                    update(H[X[i]], V[i])

    return main


def source(target: str, **options: Any) -> str:
    return tilelang.lower(histogram.get_tir(64, 8, **options), target).kernel_source


@pytest.mark.parametrize("target", TARGETS)
def test_locks(target: str) -> None:
    assert TARGETS[target] not in source(target)
    assert TARGETS[target] in source(target, shared=False)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32", "float16"])
@pytest.mark.parametrize("kind", ["add", "max", "min"])
def test_values(kind: str, dtype: str, target: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 8, 100).astype(np.int32)
    v = rng.integers(0, 9, 100).astype(dtype)
    got = rng.integers(0, 9, 8).astype(dtype)
    want = got.copy()
    with Target(target):
        histogram(100, 8, kind, dtype)(x, v, got)
    {"add": np.add, "max": np.maximum, "min": np.minimum}[kind].at(want, x, v)
    np.testing.assert_array_equal(got, want)
