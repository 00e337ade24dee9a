# SPDX-License-Identifier: Apache-2.0
"""`T.gemm` by wgmma: every operand dtype, form and major, with and without warp roles.

Each runs in the simulator (which finds missing fences, waits and barriers); what ptxas says of a
few is checked too: wgmmas that it runs one by one are as slow as no wgmma.
"""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tests.interp.programs import inputs, stages
from tilelang.config import Options
from tilelang.ir import session
from tilelang.testing.compare import check_same

TYPES = {
    "float16": ("float32", 16),
    "bfloat16": ("float32", 16),
    "float32": ("float32", 8),  # as tf32
    "int8": ("int32", 32),
    "uint8": ("int32", 32),
    "float8_e4m3fn": ("float32", 32),
    "float8_e5m2": ("float32", 32),
}
ROLES = pytest.mark.parametrize("roles", [False, True], ids=["plain", "roles"])


def _program(
    dtype: str,
    accum: str,
    *,
    m: int = 128,
    n: int = 128,
    block_k: int = 64,
    trans_a: bool = False,
    trans_b: bool = True,
    threads: int = 128,
    stages: int = 2,
    registers: bool = False,
    policy: int = 0,
) -> Any:
    k = 2 * block_k
    shape_a = (block_k, m) if trans_a else (m, block_k)
    shape_b = (n, block_k) if trans_b else (block_k, n)

    @T.prim_func
    def main(
        A: T.Tensor((k, m) if trans_a else (m, k), dtype),
        B: T.Tensor((n, k) if trans_b else (k, n), dtype),
        C: T.Tensor((m, n), accum),
    ):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared(shape_a, dtype)
            b = T.alloc_shared(shape_b, dtype)
            left = T.alloc_fragment(shape_a, dtype)
            c = T.alloc_fragment((m, n), accum)
            T.clear(c)
            for ko in T.Pipelined(2, num_stages=stages):
                if trans_a:
                    T.copy(A[ko * block_k, 0], a)
                else:
                    T.copy(A[0, ko * block_k], a)
                if trans_b:
                    T.copy(B[0, ko * block_k], b)
                else:
                    T.copy(B[ko * block_k, 0], b)
                if registers:
                    T.copy(a, left)
                    T.gemm(left, b, c, trans_a, trans_b, policy=policy)
                else:
                    T.gemm(a, b, c, trans_a, trans_b, policy=policy)
            T.copy(c, C)

    return main


def _options(dtype: str, roles: bool) -> dict[str, Any]:
    return {"tl.allow_tf32": dtype == "float32", "tl.disable_warp_specialized": not roles}


def _small(shape: tuple[int, ...], dtype: str) -> Any:
    values = np.random.default_rng(len(shape)).integers(0 if dtype == "uint8" else -3, 4, shape)
    return values.astype(getattr(ml_dtypes, dtype, dtype))


def _check(dtype: str, accum: str, roles: bool, instruction: str, **form: Any) -> None:
    kernel = tilelang.compile(
        _program(dtype, accum, **form),
        out_idx=-1,
        target="cuda-sim -arch=sm_90a",
        pass_configs=_options(dtype, roles),
    )
    source = kernel.get_kernel_source()
    assert set(re.findall(r"\bw?g?mma_m\w+", source)) == {instruction}
    assert ("mbar_wait" in source) == roles
    m, n, k = form.get("m", 128), form.get("n", 128), 2 * form.get("block_k", 64)
    trans_a, trans_b = form.get("trans_a", False), form.get("trans_b", True)
    a = _small((k, m) if trans_a else (m, k), dtype)
    b = _small((n, k) if trans_b else (k, n), dtype)
    left, right = (a.T if trans_a else a), (b.T if trans_b else b)
    assert (kernel(a, b) == left.astype("f8") @ right.astype("f8")).all()


def _name(dtype: str, columns: int, form: str = "ss", accum: str | None = None) -> str:
    short = {
        "float16": "f16", "bfloat16": "bf16", "float32": "tf32", "int8": "s8", "uint8": "u8",
        "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "int32": "s32",
    }  # fmt: skip
    default, k = TYPES[dtype]
    accum = {"float32": "f32", "int32": "s32", "float16": "f16"}[accum or default]
    return f"wgmma_m64n{columns}k{k}_{short[dtype]}_{accum}_{form}"


@ROLES
@pytest.mark.parametrize("dtype", TYPES)
def test_every_operand_dtype(dtype: str, roles: bool) -> None:
    _check(dtype, TYPES[dtype][0], roles, _name(dtype, 128))
    _check(dtype, TYPES[dtype][0], roles, _name(dtype, 128, "rs"), registers=True)


@ROLES
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("accum", ["float32", "float16"])
def test_every_major_of_16_bits(accum: str, trans_a: bool, trans_b: bool, roles: bool) -> None:
    name = _name("float16", 128, accum=accum)
    _check("float16", accum, roles, name, trans_a=trans_a, trans_b=trans_b)


@pytest.mark.parametrize("stages", [0, 1, 3])
def test_every_depth(stages: int) -> None:
    """What threads or cp.async wrote is fenced and waited for."""
    _check("float16", "float32", False, _name("float16", 128), stages=stages)


@ROLES
@pytest.mark.parametrize(
    ("policy", "n", "columns"),
    [(0, 128, 128), (1, 128, 128), (2, 128, 64), (0, 144, 144), (0, 24, 24), (2, 48, 24)],
)
def test_division_of_the_warpgroups(policy: int, n: int, columns: int, roles: bool) -> None:
    form = {"threads": 256, "policy": policy, "n": n, "block_k": 32}
    _check("bfloat16", "float32", roles, _name("bfloat16", columns), **form)


def test_integer_columns() -> None:
    """There is no integer wgmma of 40 columns: mma.sync takes the tile."""
    _check("int8", "int32", False, _name("int8", 48), n=48)
    _check("int8", "int32", False, "mma_m16n8k32_s8_s32", n=40)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "float8_e4m3fn"])
@pytest.mark.parametrize("registers", [False, True])
def test_result_before_is_result_after(dtype: str, registers: bool) -> None:
    with session():
        form = {"m": 64, "n": 16, "block_k": 32, "registers": registers}
        func = _program(dtype, TYPES[dtype][0], **form)
        options = Options.from_pass_configs(_options(dtype, False))
        for name, after in stages(func, "cuda -arch=sm_90a", options).items():
            try:
                check_same(func, after, *inputs(func), rtol=4e-3, atol=4e-3)
            except AssertionError as error:
                raise AssertionError(f"after {name}: {error}") from error


@ROLES
@pytest.mark.parametrize(("dtype", "registers"), [("float16", True), ("int8", False)])
def test_ptxas_keeps_them_asynchronous(dtype: str, registers: bool, roles: bool) -> None:
    kernel = tilelang.compile(
        _program(dtype, TYPES[dtype][0], registers=registers),
        target="cuda -arch=sm_90a",
        pass_configs=_options(dtype, roles),
    )
    assert kernel.n_spills == 0
