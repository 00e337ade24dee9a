# SPDX-License-Identifier: Apache-2.0
"""Register budgets of warp roles: as annotated, never more than there are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.config import Options
from tilelang.errors import OptionError
from tilelang.ir import PrimFunc, Role, own_copy, session, walk
from tilelang.target import Target
from tilelang.transform import PIPELINE, PassContext, run_passes

HOPPER = "cuda-sim -arch=sm_90a"


def matmul(annotate: Callable[[], None], threads: int = 256, prefer: str | None = None) -> PrimFunc:
    rows = threads // 2

    @T.prim_func
    def main(
        A: T.Tensor((rows, 128), "float16"),
        B: T.Tensor((128, 64), "float16"),
        C: T.Tensor((rows, 64), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            A_s = T.alloc_shared((rows, 64), "float16")
            B_s = T.alloc_shared((64, 64), "float16")
            out = T.alloc_fragment((rows, 64), "float32")
            annotate()
            T.clear(out)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * 64], A_s, prefer_instruction=prefer)
                T.copy(B[k * 64, 0], B_s)
                T.gemm(A_s, B_s, out)
            T.copy(out, C)

    return main


def nothing() -> None:
    pass


def roles(func: PrimFunc) -> list[tuple[int, int | None]]:
    """(threads, registers) of the producer and the consumers."""
    context = PassContext(Target(HOPPER), Options())
    with session():
        out = run_passes(own_copy(func), context, PIPELINE, stop_after="specialize_warps")
        found = [x for x in walk(out.body) if type(x) is Role]
        return [(r.threads, r.annotations.get("registers")) for r in found]


def both() -> None:
    T.annotate_producer_reg_dealloc(24)
    T.annotate_consumer_reg_alloc(240)


def test_by_themselves() -> None:
    assert roles(matmul(nothing)) == [(32, None), (256, None)]
    assert roles(matmul(nothing, 384)) == [(128, -32), (384, 160)]


def test_as_annotated() -> None:
    assert roles(matmul(both)) == [(128, -24), (256, 240)]
    assert roles(matmul(T.annotate_producer_reg_dealloc)) == [(128, -24), (256, 240)]
    assert roles(matmul(lambda: T.annotate_consumer_reg_alloc(200))) == [(128, -32), (256, 200)]


@pytest.mark.parametrize("off", [T.no_set_max_nreg, T.disable_warp_group_reg_alloc])
def test_switched_off(off: Callable[[], None]) -> None:
    assert roles(matmul(off, 384)) == [(128, None), (384, None)]


def test_more_than_there_are() -> None:
    with pytest.raises(OptionError, match="384 consumer threads of 240 registers") as caught:
        roles(matmul(both, 384))
    assert "at most 160" in str(caught.value.help)

    def crowded() -> None:
        both()
        T.annotate_min_blocks_per_sm(2)

    with pytest.raises(OptionError):
        roles(matmul(crowded))


@pytest.mark.parametrize("prefer", ["cp_async", "sync"])
def test_a_copy_kept_off_the_bulk_engine(prefer: str) -> None:
    assert roles(matmul(nothing, prefer=prefer)) == []


def test_result_and_source() -> None:
    kernel = tilelang.compile(matmul(both), target=HOPPER)
    source = kernel.get_kernel_source()
    assert "setmaxnreg_inc<240>" in source
    assert "setmaxnreg_dec<24>" in source
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, s).astype(np.float16) for s in ((128, 128), (128, 64)))
    c = np.zeros((128, 64), np.float32)
    kernel(a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
