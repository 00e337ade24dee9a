# SPDX-License-Identifier: Apache-2.0
"""language.md §3.1-§3.3: lazy and eager functions, compile-time arguments, outputs."""

from typing import Any

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T


def iota(*shape: int, dtype: str = "float32") -> Any:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@tilelang.jit(out_idx=[-1], target="llvm")
def lazy_add(M, N, block=4, dtype="float32"):
    @T.prim_func
    def main(
        A: T.Tensor((M, N), dtype),
        B: T.Tensor((M, N), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=32) as (bx, by):
            for i, j in T.Parallel(block, block):
                y, x = by * block + i, bx * block + j
                if y < M and x < N:
                    C[y, x] = A[y, x] + B[y, x]

    return main


@tilelang.jit(target="llvm")
def eager_add(A, B, block: int = 4):
    M, N = T.const("M, N")
    A: T.Tensor[[M, N], T.float32]
    B: T.Tensor[[M, N], T.float32]
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=32) as (bx, by):
        for i, j in T.Parallel(block, block):
            if by * block + i < M and bx * block + j < N:
                C[by * block + i, bx * block + j] = (
                    A[by * block + i, bx * block + j] + B[by * block + i, bx * block + j]
                )
    return C


# ------------------------------------------------------------------------------ §3.1 the two styles


def test_lazy() -> None:
    k = lazy_add(5, 7)
    a, b = iota(5, 7), iota(5, 7) * 2
    np.testing.assert_array_equal(k(a, b), a + b)
    assert isinstance(k, tilelang.JITKernel)


def test_same_arguments_give_the_same_kernel() -> None:
    k = lazy_add(5, 7)
    assert lazy_add(5, 7) is k
    assert lazy_add(5, N=7) is k
    assert lazy_add(M=5, N=7, block=4, dtype=torch.float32) is k
    assert lazy_add(5, 7, 4, T.float32) is k
    assert lazy_add(5, 7, 8) is not k


def test_eager() -> None:
    a, b = iota(5, 7), iota(5, 7) * 2
    np.testing.assert_array_equal(eager_add(a, b), a + b)
    np.testing.assert_array_equal(eager_add(a, b, block=2), a + b)
    np.testing.assert_array_equal(eager_add(a, B=b), a + b)
    np.testing.assert_array_equal(eager_add(A=a, B=b, block=8), a + b)
    t = eager_add(torch.from_numpy(a), torch.from_numpy(b))
    torch.testing.assert_close(t, torch.from_numpy(a + b))


def test_modes() -> None:
    assert lazy_add.is_lazy_mode()
    eager_add(iota(2, 2), iota(2, 2))
    assert not eager_add.is_lazy_mode()

    def build():
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1):
                T.clear(A)

        return main

    @tilelang.jit(target="llvm")
    def indirect():
        return build()

    a = iota(4)
    indirect()(a)
    assert not a.any()
    assert indirect.is_lazy_mode()


def test_jit_of_a_prim_func_compiles_it() -> None:
    @tilelang.jit(target="llvm")
    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.fill(A, 2)

    a = iota(4)
    result = main
    result = result if isinstance(result, tilelang.JITKernel) else result()
    result(a)
    assert (a == 2).all()


# ----------------------------------------------------------------------------- §3.2 eager arguments


def test_annotation_in_the_signature() -> None:
    @tilelang.jit(target="llvm")
    def f(A: T.Tensor((4, 8), "float32"), s: T.float32, n: int = 2):
        B = T.empty((4, 8), "float32")
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(4, 8):
                B[i, j] = A[i, j] * s + n
        return B

    a = iota(4, 8)
    np.testing.assert_array_equal(f(a, 0.5), a * 0.5 + 2)
    np.testing.assert_array_equal(f(a, s=0.5, n=3), a * 0.5 + 3)


def test_scalars_and_pointers_annotated_in_the_body() -> None:
    @tilelang.jit(target="llvm")
    def f(A, s, p, k=1):
        n = T.const("n")
        A: T.Tensor[[n], T.float32]
        s: T.float32
        p: T.ptr
        B = T.empty(n)
        P = T.make_tensor(p, (n,), "float32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * s + P[i] * k
        return B

    a, p = iota(6), iota(6) + 10
    np.testing.assert_array_equal(f(a, 2.0, p.ctypes.data, k=3), a * 2 + p * 3)


def test_unhashable_compile_time_arguments() -> None:
    @tilelang.jit(target="llvm")
    def eager(A, cfg):
        A: T.Tensor((4,), "float32")
        with T.Kernel(1):
            T.fill(A, cfg[0])

    with pytest.raises(TypeError, match="cfg"):
        eager(iota(4), [3])
    a = iota(4)
    eager(a, (3,))
    assert (a == 3).all()

    @tilelang.jit(target="llvm")
    def lazy(cfg, names=None):
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1):
                T.fill(A, cfg["x"][0] + len(names or ()))

        return main

    k = lazy({"x": [5]}, {"a", "b"})
    assert lazy({"x": [5]}, {"b", "a"}) is k
    assert lazy({"x": [6]}, {"b", "a"}) is not k
    k(a)
    assert (a == 7).all()


def test_dtype_arguments_are_normalised() -> None:
    @tilelang.jit(target="llvm")
    def f(A, dtype):
        n = T.const("n")
        A: T.Tensor((n,), dtype)
        with T.Kernel(1):
            T.clear(A)

    a = iota(4, dtype="float16")
    f(a, "float16")
    kernel = f.compile(a, "float16")
    assert f.compile(a, T.float16) is kernel
    f(a, torch.float16)
    assert f.get_kernel_source(a, torch.float16) == kernel.get_kernel_source()


def test_too_many_arguments() -> None:
    with pytest.raises(TypeError, match="expected at most 3, got 4"):
        eager_add(iota(2, 2), iota(2, 2), 4, 5)


def test_keywords_bind_sizes_that_no_tensor_gives() -> None:
    @tilelang.jit(target="llvm")
    def f(A):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        with T.Kernel(1):
            T.fill(A, N)

    a = iota(4)
    f(a, N=4)
    assert (a == 4).all()
    with pytest.raises((TypeError, ValueError), match="5"):
        f(a, N=5)


def test_a_keyword_that_matches_nothing() -> None:
    with pytest.raises(TypeError, match="block"):
        eager_add(iota(2, 2), iota(2, 2), blok=4)


def test_a_const_that_is_no_dimension() -> None:
    @tilelang.jit(target="llvm")
    def f(A):
        M, N = T.const("M N")
        A: T.Tensor((M,), "float32")
        with T.Kernel(1):
            T.fill(A, N)

    with pytest.raises(RuntimeError, match="`N` is not a dimension or stride"):
        f(iota(4))


def test_a_const_that_cannot_be_read() -> None:
    @tilelang.jit(target="llvm")
    def f(A):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        with T.Kernel(1):
            T.fill(A, N)

    with pytest.raises(ValueError, match="N") as caught:
        f.compile()
    assert "N=" in str(caught.value)


def test_consts_fold_as_python_ints() -> None:
    @tilelang.jit(target="llvm")
    def f(A):
        M, N = T.const("M N")
        A: T.Tensor((M, N), "float32")
        B = T.empty((M, N // 2), "float32")
        big = "big" if N > 8 else "small"
        assert isinstance(N // 2 * 2 + M, int)
        with T.Kernel(M, threads=32) as m:
            F = T.alloc_fragment((N // 2,), "float32")
            T.copy(A[m, 0 : N // 2], F)
            for i in T.Parallel(N // 2):
                if big == "big":
                    B[m, i] = F[i]
                else:
                    B[m, i] = -F[i]
        return B

    for n in (4, 16):
        a = iota(3, n)
        np.testing.assert_array_equal(f(a), a[:, : n // 2] * (1 if n > 8 else -1))


def test_consts_of_strides() -> None:
    @tilelang.jit(target="llvm")
    def f(A):
        M, N, S = T.const("M, N, S")
        A: T.StridedTensor[[M, N], [S, 1], T.float32]
        B = T.empty((M, N))
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(M, N):
                B[i, j] = A[i, j] + S
        return B

    a = iota(3, 10)
    np.testing.assert_array_equal(f(a[:, :4]), a[:, :4] + 10)


def test_dynamic_sizes_compile_once() -> None:
    count = []

    @tilelang.jit(target="llvm")
    def f(A):
        count.append(1)
        m = T.dynamic("m")
        A: T.Tensor((m, 4), "float32")
        B = T.empty((m, 4), "float32")
        with T.Kernel(m, threads=4) as i:
            T.copy(A[i, 0:4], B[i, 0:4])
        return B

    for rows in (1, 3, 7):
        np.testing.assert_array_equal(f(iota(rows, 4)), iota(rows, 4))
    first = len(count)
    f(iota(9, 4))
    assert len(count) == first


def test_a_const_of_two_tensors_that_disagree() -> None:
    with pytest.raises(ValueError, match="B"):
        eager_add(iota(4, 4), iota(4, 5))


def test_results() -> None:
    @tilelang.jit(target="llvm")
    def two(A):
        n = T.const("n")
        A: T.Tensor((n,), "float32")
        B = T.empty((n,), "float32")
        C = T.empty((n, 2), "int32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] + 1
                C[i, 0] = i
                C[i, 1] = -i
        return B, C

    @tilelang.jit(target="llvm")
    def none(A):
        n = T.const("n")
        A: T.Tensor((n,), "float32")
        with T.Kernel(1, threads=32):
            T.clear(A)

    result = two(iota(3))
    assert isinstance(result, list)
    np.testing.assert_array_equal(result[0], iota(3) + 1)
    assert result[1].tolist() == [[0, 0], [1, -1], [2, -2]]
    assert none(iota(3)) == []


def test_what_may_be_returned() -> None:
    @tilelang.jit(target="llvm")
    def wrong(A):
        A: T.Tensor((4,), "float32")
        with T.Kernel(1):
            T.clear(A)
        return A

    with pytest.raises(RuntimeError, match=r"only tensors made by T\.empty"):
        wrong(iota(4))


def test_out_idx_is_for_lazy_functions() -> None:
    @tilelang.jit(out_idx=[-1], target="llvm")
    def f(A):
        A: T.Tensor((4,), "float32")
        with T.Kernel(1):
            T.clear(A)

    with pytest.raises(ValueError, match="out_idx"):
        f(iota(4))


def test_compile_without_running() -> None:
    @tilelang.jit(target="llvm")
    def f(A):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        with T.Kernel(1):
            T.fill(A, N)

    k = f.compile(N=8)
    assert isinstance(k, tilelang.JITKernel)
    a = iota(8)
    k(a)
    assert (a == 8).all()
    assert f.compile(iota(8)) is k or f.compile(iota(8)).prim_func.script() == k.prim_func.script()
    assert "f" in f.get_kernel_source(N=8)
    assert f.get_tir(N=8).attrs["global_symbol"] == "f"


# ------------------------------------------------------------------------- §3.3 out_idx and outputs


def outputs(out_idx: Any) -> Any:
    m = T.dynamic("m")

    @T.prim_func
    def main(
        A: T.Tensor((m,), "float32"), B: T.Tensor((m, 2), "int32"), C: T.Tensor((m,), "float32")
    ):
        with T.Kernel(m, threads=1) as i:
            B[i, 0] = i
            B[i, 1] = -i
            C[i] = A[i] + 1

    return tilelang.compile(main, out_idx=out_idx, target="llvm")


@pytest.mark.parametrize("out_idx", [[1, 2], [-2, -1], (1, 2)], ids=str)
def test_several_outputs_are_a_list(out_idx: Any) -> None:
    result = outputs(out_idx)(iota(3))
    assert isinstance(result, list)
    assert result[0].tolist() == [[0, 0], [1, -1], [2, -2]]
    np.testing.assert_array_equal(result[1], iota(3) + 1)


@pytest.mark.parametrize("out_idx", [2, -1, [2], [-1]], ids=str)
def test_one_output_is_a_tensor(out_idx: Any) -> None:
    b = np.zeros((3, 2), np.int32)
    np.testing.assert_array_equal(outputs(out_idx)(iota(3), b), iota(3) + 1)
    assert b[2].tolist() == [2, -2]


@pytest.mark.parametrize("out_idx", [3, -4, [0, 7]], ids=str)
def test_out_idx_out_of_range(out_idx: Any) -> None:
    with pytest.raises(ValueError, match="should be an integer between"):
        outputs(out_idx)


def test_no_out_idx() -> None:
    c = np.zeros(3, np.float32)
    assert not outputs(None)(iota(3), np.zeros((3, 2), np.int32), c)
    np.testing.assert_array_equal(c, iota(3) + 1)


def test_a_prim_func_compiles_with_several_out_idx() -> None:
    @T.prim_func
    def main(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=4):
            T.copy(A, B)

    a, b = iota(4), np.zeros(4, np.float32)
    np.testing.assert_array_equal(tilelang.compile(main, out_idx=-1, target="llvm")(a), a)
    tilelang.compile(main, target="llvm")(a, b)
    np.testing.assert_array_equal(b, a)


def test_out_idx_of_an_eager_function() -> None:
    func = eager_add.get_tir(iota(2, 2), iota(2, 2))
    with pytest.raises(ValueError, match="out_idx"):
        tilelang.compile(func, out_idx=[-1], target="llvm")
    np.testing.assert_array_equal(
        tilelang.compile(func, target="llvm")(iota(2, 2), iota(2, 2)), iota(2, 2) * 2
    )


def test_outputs_of_zero_dimensions() -> None:
    @tilelang.jit(out_idx=[-1], target="llvm")
    def f():
        @T.prim_func
        def main(A: T.Tensor((4,), "float32"), B: T.Tensor((), "float32")):
            with T.Kernel(1, threads=1):
                B[()] = A[3]

        return main

    assert f()(iota(4)) == 3
