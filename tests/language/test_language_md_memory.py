# SPDX-License-Identifier: Apache-2.0
"""language.md §1.2-§1.3: dtypes and allocation, one test per fact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T

N = 32


def run(func: Any, *args: Any) -> Any:
    return tilelang.compile(func, target="llvm")(*args)


def iota(*shape: int, dtype: str = "float32") -> Any:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def cuda(func: Any, arch: int = 80) -> str:
    source: str = tilelang.lower(func, target=f"cuda -arch=sm_{arch}").kernel_source
    return source


# ------------------------------------------------------------------------------------------ dtypes

NAMES = """
float32 float16 bfloat16 int32 int8 uint8 uint32 int64 uint64 int16 uint16 bool float int uint half
float64 int4 uint4 tfloat32 float8_e4m3fn float8_e4m3 float8_e5m2 float8_e8m0fnu float8_e4m3fnuz
float4_e2m1fn float16x2 bfloat16x2 float32x2 float32x4 float32x8 float4_e2m1fnx2 float8_e4m3fnx8
"""


@pytest.mark.parametrize("name", NAMES.split())
def test_a_dtype_is_a_name_of_the_language(name: str) -> None:
    dtype = getattr(T, name)
    assert isinstance(dtype, str)
    assert dtype.bits >= 1
    assert dtype.lanes >= 1
    assert T.dtype(dtype) == dtype


def test_a_dtype_is_a_text() -> None:
    assert T.float32 == "float32"
    assert T.float32 != torch.float32
    assert {T.float32: 1}["float32"] == 1
    assert isinstance(T.float32, T.dtype)
    assert f"{T.float16}" == "float16"


def test_a_dtype_is_made_of_anything_that_names_one() -> None:
    for x, want in [
        ("float16", "float16"), (int, "int32"), (float, "float32"), (bool, "bool"),
        (np.float16, "float16"), (np.dtype("int8"), "int8"), (torch.bfloat16, "bfloat16"),
        (torch.float8_e4m3fn, "float8_e4m3fn"), (torch.int64, "int64"), (T.float32, "float32"),
        (torch.bool, "bool"), (np.uint8, "uint8"),
    ]:  # fmt: skip
        assert T.dtype(x) == want


@pytest.mark.parametrize(
    "x", ["float33", "", 3, None, object()], ids=["unknown", "empty", "int", "None", "object"]
)
def test_what_names_no_dtype(x: Any) -> None:
    with pytest.raises(TypeError, match="unknown dtype"):
        T.dtype(x)


def test_attributes_of_a_dtype() -> None:
    assert (T.float32.bits, T.float32.bytes, T.float32.lanes, T.float32.itemsize) == (32, 4, 1, 4)
    assert (T.float32x4.bits, T.float32x4.lanes) == (32, 4)
    assert T.bool.bits == 8
    assert T.int4.bits == 4
    assert T.float4_e2m1fn.bits == 4
    assert T.float16.as_torch() is torch.float16
    assert T.bool.as_torch() is torch.bool
    assert T.float8_e4m3fn.as_torch() is torch.float8_e4m3fn


def test_calling_a_dtype_is_a_cast_or_a_vector() -> None:
    @T.prim_func
    def main(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=1):
            B[0] = T.float32(A[3]) / T.float32(2)
            B[1] = T.float32(T.float16(0.1))
            pair = T.float32x2(1.5, A[2])
            B[2] = T.extract_lane(pair, 1)
            B[3] = T.float32(T.int8(A[1]))

    b = np.zeros(4, np.float32)
    run(main, iota(4, dtype="int32"), b)
    assert b.tolist() == [1.5, np.float32(np.float16(0.1)), 2, 1]


@pytest.mark.parametrize(
    "dtype",
    ["float16", T.float16, torch.float16, np.float16, np.dtype("float16")],
    ids=["text", "T", "torch", "numpy", "np.dtype"],
)
def test_every_place_that_takes_a_dtype(dtype: Any) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), "float32"), s: T.dtype(dtype)):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((N,), dtype)
            F = T.alloc_fragment((N,), dtype)
            L = T.alloc_local((1,), dtype)
            v = T.alloc_var(dtype)
            T.copy(A, S)
            T.copy(S, F)
            L[0] = 1
            v = s
            for i in T.Parallel(N):
                B[i] = T.cast(F[i], "float32") + T.cast(T.cast(v, dtype) * L[0], T.float32)

    a, b = iota(N, dtype="float16"), np.zeros(N, np.float32)
    run(main, a, b, 0.5)
    np.testing.assert_array_equal(b, iota(N) + 0.5)


def test_python_types_as_dtypes() -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), float), B: T.Tensor((N,), int)):
        with T.Kernel(1, threads=32):
            F = T.alloc_fragment((N,), float)
            T.copy(A, F)
            for i in T.Parallel(N):
                B[i] = T.cast(F[i], int)

    b = np.zeros(N, np.int32)
    run(main, iota(N), b)
    np.testing.assert_array_equal(b, np.arange(N))


def test_helpers_for_dtypes() -> None:
    from tilelang.language.fp8 import determine_fp8_type, determine_torch_fp8_type

    assert determine_fp8_type("e4m3") == "float8_e4m3fn"
    assert determine_fp8_type("e5m2") == "float8_e5m2"
    assert determine_torch_fp8_type("e4m3") is torch.float8_e4m3fn
    assert T.dtypes.float32 == "float32"


def test_limits() -> None:
    @T.prim_func
    def main(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=1):
            A[0] = T.infinity("float32")
            A[1] = -T.infinity(T.float32)
            A[2] = T.max_value("float16")
            A[3] = T.min_value("int8")
            A[4] = T.max_value(T.uint8)
            A[5] = T.cast(T.infinity("float16"), "float32")
            A[6] = T.cast(-T.infinity("bfloat16"), "float32")

    a = np.zeros(8, np.float32)
    run(main, a)
    assert a.tolist() == [np.inf, -np.inf, 65504, -128, 255, np.inf, -np.inf, 0]


# -------------------------------------------------------------------------------------- allocation


def test_shared_memory_static_and_dynamic() -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((N,), "float32")
            R = T.alloc_shared((N,), "float32", scope="shared")
            D = T.alloc_shared((N,), "float32", "shared.dyn")
            flags = T.alloc_shared((N,), "bool")
            one = T.alloc_shared(N, T.float32)
            assert S.scope() == S.scope == "shared.dyn"
            assert R.scope() == "shared"
            assert flags.scope() == "shared"
            T.copy(A, S)
            T.copy(S, R)
            T.copy(R, D)
            T.copy(D, one)
            for i in T.Parallel(N):
                flags[i] = one[i] > 3
            for i in T.Parallel(N):
                if flags[N - 1 - i]:
                    B[i] = one[i]

    a, b = iota(N), np.full(N, -1, np.float32)
    run(main, a, b)
    np.testing.assert_array_equal(b, np.where(a[::-1] > 3, a, -1))


def test_fragments_are_indexed_by_parallel_serial_and_constants() -> None:
    @T.prim_func
    def main(A: T.Tensor((4, N), "float32"), B: T.Tensor((4, N), "float32")):
        with T.Kernel(1, threads=32):
            F = T.alloc_fragment((4, N), "float32")
            T.copy(A, F)
            for i, j in T.Parallel(4, N):
                F[i, j] += 1
            for i in T.serial(4):
                for j in T.Parallel(N):
                    F[i, j] *= 2
            F[3, 5] = -1
            T.copy(F, B)

    b = np.zeros((4, N), np.float32)
    run(main, iota(4, N), b)
    want = (iota(4, N) + 1) * 2
    want[3, 5] = -1
    np.testing.assert_array_equal(b, want)
    assert cuda(main)


def test_int_shapes_are_one_dimensional() -> None:
    @T.prim_func
    def main(B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            F = T.alloc_fragment(N, "float32")
            L = T.alloc_local(2, "float32")
            T.fill(F, 3)
            L[1] = 4
            for i in T.Parallel(N):
                B[i] = F[i] + L[1]

    b = np.zeros(N, np.float32)
    run(main, b)
    assert (b == 7).all()


@pytest.mark.parametrize("form", ["plain", "init", "positional", "expr", "scope", "both"])
def test_forms_of_alloc_var(form: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((4,), "int32"), n: T.int32):
        with T.Kernel(1, threads=1) as bx:
            if form == "plain":
                v = T.alloc_var("int32")
                v = 7
            elif form == "init":
                v = T.alloc_var(T.int32, init=7)
            elif form == "positional":
                v = T.alloc_var(T.int32, 7)
            elif form == "expr":
                v = T.alloc_var("int32", init=n + 4 + bx)
            elif form == "scope":
                v = T.alloc_var("int32", "local.var")
                v = 7
            else:
                v = T.alloc_var("int32", 7, "local.var")
            A[0] = v
            v += 1
            for i in T.serial(2):
                v += i
            if n > 2:
                v = v * 10
            A[1] = v

    a = np.zeros(4, np.int32)
    run(main, a, 3)
    assert a.tolist() == [7, 90, 0, 0]


@pytest.mark.parametrize("dynamic", [False, True])
def test_global_workspace_is_shared_by_kernels(dynamic: bool) -> None:
    m = T.dynamic("m") if dynamic else 8

    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), B: T.Tensor((m,), "float32")):
        W = T.alloc_global((m, 2), "float32")
        with T.Kernel(m, threads=1) as i:
            W[i, 0] = A[i] + 1
            W[i, 1] = A[i] * 2
        with T.Kernel(m, threads=1) as i:
            B[i] = W[m - 1 - i, 0] + W[i, 1]

    a, b = iota(8), np.zeros(8, np.float32)
    run(main, a, b)
    np.testing.assert_array_equal(b, (a + 1)[::-1] + a * 2)


@pytest.mark.parametrize("counts", [32, [32, 1]], ids=str)
def test_barriers_need_hopper(counts: Any) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            bar = T.alloc_barrier(counts)
            T.barrier_arrive(bar[0])
            T.barrier_wait(bar[0], 0)
            T.clear(A)

    assert cuda(main, 90)
    with pytest.raises(ValueError, match="sm_90"):
        cuda(main, 80)


def test_leftovers_of_another_script_language() -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            S = T.alloc_buffer((N,), "float32", scope="shared")
            T.copy(A, S)
            for i in T.Parallel(N):
                A[i] = S[N - 1 - i]

    a = iota(N)
    run(main, a)
    np.testing.assert_array_equal(a, iota(N)[::-1])
