# SPDX-License-Identifier: Apache-2.0
"""The tests of the LLVM generator, on C: one table of what a kernel means, two ways to print it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.codegen import (
    llvm_support,
    test_llvm_dtypes,
    test_llvm_math,
    test_llvm_math64,
    test_llvm_statements,
)
from tests.codegen.test_llvm_kernels import *  # noqa: F403
from tests.codegen.test_llvm_statements import *  # noqa: F403
from tilelang.codegen.c import c_source
from tilelang.config import Options
from tilelang.ir import Buffer, Builder, Ramp, const, session
from tilelang.target import Target


@pytest.fixture(autouse=True)
def on_c(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm_support, "backend", "c")


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_integer_expressions(data: Any) -> None:
    """Fewer of them: each is a run of the C compiler."""
    test_llvm_statements.test_integer_expressions.hypothesis.inner_test(data)


@pytest.mark.parametrize("src", test_llvm_dtypes.NAMES)
def test_casts(src: str) -> None:
    test_llvm_dtypes.test_casts(src)


@pytest.mark.parametrize("op", ["exp", "log2", "tanh", "sin", "rsqrt"])
def test_unary(op: str) -> None:
    test_llvm_math.test_unary(op)


def test_pow() -> None:
    test_llvm_math.test_binary("pow")


@pytest.mark.parametrize("op", ["exp", "log2", "tanh", "sin", "asin", "erf"])
def test_unary_of_float64(op: str) -> None:
    test_llvm_math64.test_unary(op)


def test_pow_of_float64() -> None:
    test_llvm_math64.test_binary("pow")


def test_text() -> None:
    """What a person reads."""
    with session():
        a, b = Buffer("a", (64,), "float32"), Buffer("b", (64,), "float32")
        bx = llvm_support.block_vars()
        w = Builder()
        at = Ramp(bx[0] * 8, const(1), 8)
        w.store(b, (at,), a[at] + a[at])
        kernel = llvm_support.make("twice", [a, b], w.finish(), (8, 1, 1), bx)
        text = c_source([kernel], Target("c"), Options())
    body = text[text.index("const char* twice") :]
    assert body == (
        "const char* twice(const float* restrict a, float* restrict b, int64_t block_begin, "
        "int64_t block_end) {\n"
        "  const char* error = 0;\n"
        "  for (int64_t block = block_begin; block < block_end; ++block) {\n"
        "    const int32_t bx = (int32_t)(block);\n"
        "    *(f32x8*)(b + bx * 8) = *(const f32x8*)(a + bx * 8) + *(const f32x8*)(a + bx * 8);\n"
        "  next_block:;\n"
        "  }\n"
        "finish:;\n"
        "  return error;\n"
        "}\n"
    )
