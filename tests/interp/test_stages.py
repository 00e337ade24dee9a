# SPDX-License-Identifier: Apache-2.0
"""Result before = result after: the zoo at every stage, for every kind of target."""

from __future__ import annotations

from typing import Any

import pytest

import tilelang.language as T
from tests.interp.programs import inputs, stages
from tilelang.ir import session
from tilelang.testing.compare import check_same
from tilelang.testing.kernels import ZOO, attention, matmul

TARGETS = ("llvm", "cuda -arch=sm_80", "cuda -arch=sm_90a")
# Interpreted per thread these take many seconds at their usual size.
SMALL: dict[str, dict[str, Any]] = {
    "matmul": {"M": 33, "N": 20, "K": 40},
    "matmul_bias_relu": {"M": 20, "N": 33, "K": 40},
    "attention": {"heads": 1, "seq": 40, "dim": 16},
}


def _check(func: Any, target: str, rtol: float = 1e-3) -> None:
    data = inputs(func)
    for name, after in stages(func, target).items():
        try:
            check_same(func, after, *data, rtol=rtol, atol=rtol)
        except AssertionError as error:
            raise AssertionError(f"after {name}: {error}") from error


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", list(ZOO))
def test_zoo(name: str, target: str) -> None:
    with session():
        _check(ZOO[name](**SMALL.get(name, {})), target, 1e-2 if name == "attention" else 1e-3)


@pytest.mark.parametrize("size", [(1, 1, 1), (17, 33, 16), (32, 32, 31)])
@pytest.mark.parametrize(
    ("dtype", "accum"), [("float32", "float32"), ("bfloat16", "float32"), ("int8", "int32")]
)
def test_ragged_matmul_on_a_cpu(size: tuple[int, int, int], dtype: str, accum: str) -> None:
    m, n, k = size
    with session():
        func = matmul(m, n, k, 16, 32, 16, 2, dtype, accum, accum)
        _check(func, "llvm")


@pytest.mark.parametrize(
    ("trans_a", "trans_b"), [(False, False), (True, False), (False, True), (True, True)]
)
def test_mma_operands(trans_a: bool, trans_b: bool) -> None:
    with session():
        func = matmul(20, 36, 40, 32, 32, 32, 2, trans_A=trans_a, trans_B=trans_b)
        _check(func, "cuda -arch=sm_80")


@pytest.mark.parametrize("target", TARGETS)
def test_tile_ops_on_private_memory(target: str) -> None:
    """Each thread copies, fills and reduces its own array."""

    @T.prim_func
    def main(
        A: T.Tensor((256,), "float32"),
        B: T.Tensor((256,), "float32"),
        C: T.Tensor((32,), "float32"),
    ):
        with T.Kernel(1, threads=32) as _:
            tx = T.get_thread_binding()
            x = T.alloc_local((8,), "float32")
            y = T.alloc_local((1,), "float32")
            T.copy(A[tx * 8 : tx * 8 + 8], x)
            T.fill(x[2:4], 3)
            T.reduce_sum(x, y, dim=0)
            for i in T.serial(8):
                B[tx * 8 + i] = x[i]
            C[tx] = y[0]

    with session():
        _check(main, target)


@pytest.mark.parametrize("target", TARGETS)
def test_one_element(target: str) -> None:
    """A tile of one element is written by one thread."""

    @T.prim_func
    def main(A: T.Tensor((1, 1), "float32"), B: T.Tensor((1, 1), "float32")):
        with T.Kernel(1, threads=32) as _:
            s = T.alloc_shared((1, 1), "float32")
            f = T.alloc_fragment((1, 1), "float32")
            T.copy(A, s)
            T.copy(s, f)
            T.copy(f, B)

    with session():
        _check(main, target)


def test_hopper_matmul() -> None:
    """One producer warp, TMA ring, wgmma."""
    with session():
        func = matmul(128, 128, 192, 128, 128, 64, 3, out="float16")
        last = stages(func, "cuda -arch=sm_90a")
        text = str(last["split_host_device"].launches[0].body)
        assert "tma_load" in text
        assert "wgmma_m64n128k16" in text
        _check(func, "cuda -arch=sm_90a")


def test_causal_attention_on_a_cpu() -> None:
    with session():
        _check(attention(1, 1, 50, 16, True), "llvm", 1e-2)
