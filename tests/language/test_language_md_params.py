# SPDX-License-Identifier: Apache-2.0
"""language.md §1.1: parameters, sizes, annotations of functions, one test per fact."""

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T

M, N = 16, 32


def run(func: Any, *args: Any) -> Any:
    return tilelang.compile(func, target="llvm")(*args)


def iota(*shape: int, dtype: str = "float32") -> Any:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


# -------------------------------------------------------------------------------------- parameters


@pytest.mark.parametrize(
    "annotation",
    [
        lambda: T.Tensor((N,), "float32"),
        lambda: T.Tensor((N,)),
        lambda: T.Tensor(N, "float32"),
        lambda: T.Tensor([N], T.float32),
        lambda: T.Tensor(shape=(N,), dtype="float32"),
        lambda: T.Tensor[(N,), "float32"],
        lambda: T.Tensor[[N], T.float32],
        lambda: T.Tensor[N, "float32"],
        lambda: T.Tensor((N,), float),
        lambda: T.Tensor((N,), T.float),
        lambda: T.Buffer((N,), "float32"),
        lambda: T.Buffer[(N,), "float32"],
        lambda: T.StridedTensor((N,), (1,), "float32"),
        lambda: T.StridedTensor[(N,), (1,), "float32"],
        lambda: T.StridedTensor[[N], [1], "float32"],
    ],
)
def test_spellings_of_a_tensor(annotation: Any) -> None:
    parameter = annotation()

    @T.prim_func
    def main(A: parameter):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                A[i] = A[i] + 1

    a = iota(N)
    run(main, a)
    np.testing.assert_array_equal(a, iota(N) + 1)


def test_strided_tensors() -> None:
    s, t = T.dynamic("s t")

    @T.prim_func
    def main(
        A: T.StridedTensor((4, 8), (s, 1), "float32"),
        B: T.StridedTensor((4, 8), (1, 4), "float32"),
        C: T.StridedTensor[(4, 8), (t, 2), "float32"],  # noqa: F821
    ):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(4, 8):
                B[i, j] = A[i, j]
                C[i, j] = A[i, j] + 1

    a = iota(4, 20)
    b = np.zeros((8, 4), np.float32)
    c = np.zeros((4, 32), np.float32)
    run(main, a[:, :8], b.T, c[:, :16:2])
    np.testing.assert_array_equal(b.T, a[:, :8])
    np.testing.assert_array_equal(c[:, :16:2], a[:, :8] + 1)


def test_strides_of_another_length() -> None:
    with pytest.raises(ValueError, match=r"2 dimension\(s\) but 1 stride"):
        T.StridedTensor((4, 8), (1,), "float32")


def test_dims_are_expressions() -> None:
    m = T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((m, N), "float32"), B: T.Tensor(((m + 3) // 4, 2 * N), "float32")):
        with T.Kernel((m + 3) // 4, threads=32) as bx:
            for j in T.Parallel(2 * N):
                B[bx, j] = A[bx * 4, j // 2]

    a, b = iota(6, N), np.zeros((2, 2 * N), np.float32)
    run(main, a, b)
    np.testing.assert_array_equal(b, np.repeat(a[::4], 2, 1))
    with pytest.raises(ValueError, match="B"):
        run(main, a, np.zeros((3, 2 * N), np.float32))


def test_scalars_of_every_kind() -> None:
    @T.prim_func
    def main(
        A: T.Tensor((6,), "float64"),
        i: T.int32,
        u: T.uint8,
        l: T.int64,
        f: T.float32,
        h: T.float16,
        b: T.bool,
    ):
        with T.Kernel(1, threads=1):
            for k, v in enumerate((i, u, l, f, h, b)):
                A[k] = T.cast(v, "float64")

    a = np.zeros(6)
    run(main, a, -3, 200, 1 << 40, 0.5, 1.5, True)
    assert a.tolist() == [-3, 200, 1 << 40, 0.5, 1.5, 1]


def test_scalar_annotations_as_text_and_python_types() -> None:
    @T.prim_func
    def main(A: T.Tensor((2,), "float32"), i: "int32", f: float, n: int):  # noqa: F821
        with T.Kernel(1, threads=1):
            A[0] = i + n
            A[1] = f

    a = np.zeros(2, np.float32)
    run(main, a, 3, 2.5, 4)
    assert a.tolist() == [7, 2.5]


@pytest.mark.parametrize("kind", [T.ptr, T.handle], ids=["ptr", "handle"])
def test_pointers_and_make_tensor(kind: Any) -> None:
    @T.prim_func
    def main(p: kind, q: kind, n: T.int32):
        with T.Kernel(1, threads=32):
            A = T.make_tensor(p, (n, 8), "float32")
            B = T.make_tensor(q, (n, 8), "float32", strides=(16, 1))
            for i, j in T.Parallel(n, 8):
                B[i, j] = A[i, j] + 1

    a, b = iota(3, 8), np.zeros((3, 16), np.float32)
    run(main, a.ctypes.data, b.ctypes.data, 3)
    np.testing.assert_array_equal(b[:, :8], a + 1)
    assert not b[:, 8:].any()


def test_a_table_of_addresses() -> None:
    @T.prim_func
    def main(
        P: T.Tensor((3,), T.ptr), sizes: T.Tensor((3,), "int32"), out: T.Tensor((3,), "float32")
    ):
        with T.Kernel(3, threads=1) as g:
            A = T.make_tensor(P[g], (sizes[g],), "float32")
            total = T.alloc_var("float32", init=0)
            for i in T.serial(sizes[g]):
                total += A[i]
            out[g] = total

    arrays = [iota(n) + 1 for n in (2, 5, 3)]
    p = np.array([x.ctypes.data for x in arrays], np.int64)
    out = np.zeros(3, np.float32)
    run(main, p, np.array([2, 5, 3], np.int32), out)
    assert out.tolist() == [3, 15, 6]


def test_make_tensor_from_addr() -> None:
    @T.prim_func
    def main(addresses: T.Tensor((1,), "int64"), out: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=4):
            A = T.make_tensor_from_addr(addresses[0], (4,), "float32")
            T.copy(A, out)

    a, out = iota(4) + 5, np.zeros(4, np.float32)
    run(main, np.array([a.ctypes.data], np.int64), out)
    np.testing.assert_array_equal(out, a)


# ----------------------------------------------------------------- const, dynamic, empty, annotate


def test_const_splits_names() -> None:
    for text in ("M, N", "M N", "M,N"):

        @tilelang.jit(target="llvm")
        def f(A, text=text):
            m, n = T.const(text)
            A: T.Tensor((m, n), "float32")
            B = T.empty((n, m), "float32")
            with T.Kernel(1, threads=32):
                for i, j in T.Parallel(m, n):
                    B[j, i] = A[i, j]
            return B

        a = iota(3, 5)
        np.testing.assert_array_equal(f(a), a.T)


def test_dynamic_and_symbolic_split_names() -> None:
    assert [v.name for v in T.dynamic("a, b")] == ["a", "b"]
    assert [v.name for v in T.dynamic("a b")] == ["a", "b"]
    assert T.dynamic("a").name == "a"
    assert str(T.dynamic("a", "int64").dtype) == "int64"
    assert str(T.dynamic("a", dtype=T.int64).dtype) == "int64"
    assert T.symbolic("a").name == "a"


def test_dynamic_made_at_module_level_and_used_twice() -> None:
    @tilelang.jit(out_idx=[-1], target="llvm")
    def factory(dtype):
        @T.prim_func
        def main(A: T.Tensor((DYNAMIC, 4), dtype), B: T.Tensor((DYNAMIC, 4), dtype)):
            with T.Kernel(DYNAMIC, threads=32) as i:
                for j in T.Parallel(4):
                    B[i, j] = A[i, j] + 1

        return main

    for dtype in ("float32", "int32"):
        for rows in (1, 3):
            a = iota(rows, 4, dtype=dtype)
            np.testing.assert_array_equal(factory(dtype)(a), a + 1)


DYNAMIC = T.dynamic("num_tokens")


def test_int64_dynamic_dims() -> None:
    m = T.dynamic("m", "int64")

    @T.prim_func
    def main(A: T.Tensor((m,), "float32")):
        with T.Kernel(T.ceildiv(m, 32), threads=32) as bx:
            for i in T.Parallel(32):
                A[bx * 32 + i] = bx * 32 + i

    a = np.zeros(70, np.float32)
    run(main, a)
    np.testing.assert_array_equal(a, iota(70))


@pytest.mark.parametrize("form", ["tuple", "list", "star", "int", "default dtype", "star dtype"])
def test_forms_of_empty(form: str) -> None:
    @tilelang.jit(target="llvm")
    def f(A, form=form):
        n = T.const("n")
        A: T.Tensor((n, 4), "float32")
        if form == "tuple":
            B = T.empty((n, 4), "float32")
        elif form == "list":
            B = T.empty([n, 4], dtype=T.float32)
        elif form == "star":
            B = T.empty(n, 4, dtype="float32")
        elif form == "default dtype":
            B = T.empty((n, 4))
        elif form == "star dtype":
            B = T.empty(n, 4)
        else:
            B = T.empty(n, "float32")
        with T.Kernel(1, threads=32):
            if len(B.shape) == 2:
                T.copy(A, B)
            else:
                T.copy(A[0:n, 0], B)
        return B

    a = iota(5, 4)
    np.testing.assert_array_equal(f(a), a[:, 0] if form == "int" else a)


def test_empty_must_be_returned() -> None:
    @tilelang.jit(target="llvm")
    def f(A):
        A: T.Tensor((4,), "float32")
        B = T.empty((4,), "float32")
        with T.Kernel(1):
            T.copy(A, B)

    with pytest.raises(RuntimeError, match="not returned"):
        f(iota(4))


def test_annotate_compile_flags_and_pass_configs() -> None:
    @tilelang.jit(target="cuda -arch=sm_80", compile_flags=["-DA=1"])
    def f(A):
        A: T.Tensor((4,), "float32")
        T.annotate_compile_flags(["-DB=2"])
        T.annotate_pass_configs({tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
        with T.Kernel(1):
            for i in T.Parallel(4):
                A[i] = T.exp(A[i])

    func = f.get_tir(iota(4))
    assert func.attrs["compile_flags"] == ("-DB=2",)
    assert func.attrs["pass_configs"] == {"tl.enable_fast_math": True}


def test_annotate_compile_flags_of_one_text() -> None:
    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        T.annotate_compile_flags("-DB=2")
        with T.Kernel(1):
            T.clear(A)

    a = iota(4)
    run(main, a)
    assert not a.any()


@pytest.mark.parametrize("target", ["c", "llvm"])
def test_import_source(target: str) -> None:
    """Two kernels with different functions of one name do not mix them up."""

    def times(factor: int):
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1, threads=4):
                T.import_source(f"float scaled(float x) {{ return {factor} * x; }}\n")
                for i in T.Parallel(4):
                    A[i] = T.call_extern("float32", "scaled", A[i])

        return tilelang.compile(main, target=target)

    a = iota(4)
    for kernel in (times(2), times(3)):
        kernel(a)
    np.testing.assert_array_equal(a, iota(4) * 6)
