# SPDX-License-Identifier: Apache-2.0
"""language.md §1.1: how kernels, macros and launches are written, one test per fact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import TileError

M, N = 16, 32


def run(func: Any, *args: Any) -> Any:
    return tilelang.compile(func, target="llvm")(*args)


def iota(*shape: int, dtype: str = "float32") -> Any:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


# ------------------------------------------------------------------------------------- prim_func


def test_prim_func_traces_once_when_it_is_decorated() -> None:
    seen = []

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        seen.append(1)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                A[i] = A[i] + 1

    assert seen == [1]
    a = iota(N)
    k = tilelang.compile(main, target="llvm")
    k(a)
    k(a)
    assert seen == [1]
    np.testing.assert_array_equal(a, iota(N) + 2)


def test_prim_func_called_with_parentheses() -> None:
    @T.prim_func()
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            T.clear(A)

    a = iota(N)
    run(main, a)
    assert not a.any()


def test_prim_func_without_a_kernel() -> None:
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M,), "float32")):
        for i in range(M):
            B[i] = 0
            for j in T.serial(N):
                B[i] += A[i, j]

    a, b = iota(M, N), np.ones(M, np.float32)
    run(main, a, b)
    np.testing.assert_array_equal(b, a.sum(1))


def test_parts_of_a_prim_func_object() -> None:
    @T.prim_func
    def named(A: T.Tensor((M, N), "float16"), n: T.int32):
        with T.Kernel(1):
            A[0, 0] = n

    assert named.attrs["global_symbol"] == "named"
    assert len(named.params) == 2
    assert next(iter(named.buffer_map.values())).shape[0] == M
    assert "named" in named.script()
    assert named.with_attr("global_symbol", "other").attrs["global_symbol"] == "other"


# ----------------------------------------------------------------------------------------- macros


def test_macro_of_buffers_expressions_and_python_values() -> None:
    @T.macro
    def scale(src, dst, i, factor, names):
        dst[i] = src[i] * factor + len(names)

    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32"), s: T.float32):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                scale(A, B, i, s * 2, ["x", "y"])

    a, b = iota(N), np.zeros(N, np.float32)
    run(main, a, b, 1.5)
    np.testing.assert_array_equal(b, a * 3 + 2)


def test_macro_annotations_are_documentation() -> None:
    @T.macro
    def double(x: T.Tensor((8,), "float16"), y: T.SharedBuffer((8,), "int8"), n: int):
        for i in T.Parallel(n):
            y[i] = x[i] * 2

    @T.prim_func
    def main(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            double(A, B, 4)

    a, b = iota(4), np.zeros(4, np.float32)
    run(main, a, b)
    np.testing.assert_array_equal(b, a * 2)


def test_macro_buffer_annotations_without_arguments() -> None:
    @T.macro
    def move(a: T.Buffer, f: T.FragmentBuffer, s: T.SharedBuffer, loc: T.LocalBuffer, t: T.Tensor):
        T.copy(a, s)
        T.copy(s, f)
        T.copy(f, t)
        loc[0] = 1

    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            F = T.alloc_fragment((N,), "float32")
            S = T.alloc_shared((N,), "float32")
            L = T.alloc_local((1,), "float32")
            move(A, F, S, L, B)

    a, b = iota(N), np.zeros(N, np.float32)
    run(main, a, b)
    np.testing.assert_array_equal(b, a)


def test_macro_returns_values() -> None:
    @T.macro
    def square(x):
        y = x * x
        y += 0
        return y

    @T.macro
    def pair(x):
        return x + 1, square(x)

    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=1):
            p, q = pair(A[1])
            A[0] = p
            A[2] = q
            A[3] = square(square(A[3]))

    a = iota(4)
    run(main, a)
    np.testing.assert_array_equal(a, [2, 1, 1, 81])


def test_macro_return_inside_control_flow_is_refused() -> None:
    @T.macro
    def early(x, n):
        if n > 1:
            return x
        return x + 1

    with pytest.raises(TileError, match="return") as caught:

        @T.prim_func
        def main(A: T.Tensor((4,), "float32"), n: T.int32):
            with T.Kernel(1, threads=1):
                A[0] = early(A[1], n)

    assert caught.value.help


def test_macro_locals_are_hygienic() -> None:
    @T.macro
    def inner(A):
        x = 5
        y = T.alloc_var("int32", init=7)
        y += x
        A[0] = y

    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=1):
            x = 1
            y = T.alloc_var("int32", init=2)
            inner(A)
            A[1] = x
            A[2] = y

    a = np.zeros(4, np.int32)
    run(main, a)
    assert a.tolist() == [12, 1, 2, 0]


def test_macros_nest_close_over_factories_and_recurse_on_python_values() -> None:
    def factory(width, base):
        @T.macro
        def leaf(A, at):
            A[at] = base + at

        @T.macro
        def tree(A, at, size):
            if size == 1:
                leaf(A, at)
            else:
                tree(A, at, size // 2)
                tree(A, at + size // 2, size // 2)

        @T.prim_func
        def main(A: T.Tensor((width,), "int32")):
            with T.Kernel(1, threads=1):
                tree(A, 0, width)

        return main

    a = np.zeros(8, np.int32)
    run(factory(8, 100), a)
    assert a.tolist() == list(range(100, 108))


def test_macro_defined_inside_the_prim_func() -> None:
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        @T.macro
        def put(i, v):
            A[i] = v

        with T.Kernel(1, threads=1):
            for i in T.serial(4):
                put(i, i * i)

    a = np.zeros(4, np.int32)
    run(main, a)
    assert a.tolist() == [0, 1, 4, 9]


@pytest.mark.parametrize("ref", [T.Ref, T.Var], ids=["Ref", "Var"])
def test_macro_reference_parameters(ref: Any) -> None:
    @T.macro
    def bump(x: ref, by):
        x += by
        x = x * 2

    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=1):
            v = T.alloc_var("int32", init=3)
            L = T.alloc_local((2,), "int32")
            L[1] = 10
            bump(v, 1)
            bump(L[1], v)
            bump(A[2], 5)
            A[0] = v
            A[1] = L[1]

    a = np.zeros(4, np.int32)
    run(main, a)
    assert a.tolist() == [8, 36, 10, 0]


def test_macro_reference_needs_a_place() -> None:
    @T.macro
    def bump(x: T.Ref):
        x += 1

    with pytest.raises(ValueError, match="pass as reference, argument `x`"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1, threads=1):
                bump(3)


def test_macro_with_defaults_keywords_and_stars() -> None:
    @T.macro
    def put(A, *values, at=0, **more):
        for k, v in enumerate(values):
            A[at + k] = v
        for k, v in more.items():
            A[int(k[1:])] = v

    @T.prim_func
    def main(A: T.Tensor((6,), "int32")):
        with T.Kernel(1, threads=1):
            put(A, 1, 2, at=1, _5=9)
            put(A, 7)

    a = np.zeros(6, np.int32)
    run(main, a)
    assert a.tolist() == [7, 1, 2, 0, 0, 9]


def test_macro_as_a_method_and_a_static_method() -> None:
    class Helper:
        def __init__(self, factor):
            self.factor = factor

        @T.macro
        def scale(self, A, i):
            A[i] = A[i] * self.factor

        @staticmethod
        @T.macro
        def zero(A, i):
            A[i] = 0

    helper = Helper(3)

    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=1):
            helper.scale(A, 1)
            Helper.zero(A, 2)

    a = np.arange(4, dtype=np.int32)
    run(main, a)
    assert a.tolist() == [0, 3, 0, 3]


# ------------------------------------------------------------------------------ inline, meta_class


def test_inline_and_meta_class() -> None:
    @T.meta_class
    class Counter:
        def __init__(self, size, name="state"):
            self.state = T.alloc_local((size,), "int32")
            self.size = size

        def reset(self):
            for i in T.serial(self.size):
                self.state[i] = 0

        def add(self, at, value):
            self.state[at] += value

        def total(self):
            return self.state[0] + self.state[1]

    @T.inline
    def put(A, i, v):
        A[i] = v

    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=1):
            c = Counter(2)
            c.reset()
            for i in T.serial(3):
                c.add(i % 2, i + 1)
            put(A, 0, c.total())
            put(A, 1, c.state[0])

    a = np.zeros(4, np.int32)
    run(main, a)
    assert a.tolist() == [6, 4, 0, 0]


@pytest.mark.parametrize("column_major", [True, False])
@pytest.mark.parametrize("swizzle", [1, 2])
def test_persistent_tile_scheduler(column_major: bool, swizzle: int) -> None:
    m, n, workers = 5, 3, 4

    @T.prim_func
    def main(A: T.Tensor((m, n), "int32"), W: T.Tensor((workers,), "int32")):
        with T.Kernel(workers, threads=1) as worker:
            s = T.PersistentTileScheduler(
                m, n, workers, swizzle_size=swizzle, column_major=column_major
            )
            s.init(worker)
            while s.valid():
                A[s.m_idx, s.n_idx] += 1
                W[worker] = s.current_iter + 1
                s.next_tile()

    a, w = np.zeros((m, n), np.int32), np.zeros(workers, np.int32)
    run(main, a, w)
    assert (a == 1).all()
    assert w.tolist() == [4, 4, 4, 3]


# ----------------------------------------------------------------------------------------- Kernel


def test_kernel_of_no_extents_is_one_block() -> None:
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(threads=32):
            A[0] += 1

    a = np.zeros(4, np.int32)
    run(main, a)
    assert a[0] >= 1


def test_kernel_of_one_two_and_three_extents() -> None:
    @T.prim_func
    def main(
        A: T.Tensor((5,), "int32"),
        B: T.Tensor((3, 5), "int32"),
        C: T.Tensor((2, 3, 5), "int32"),
        D: T.Tensor((5,), "int32"),
    ):
        with T.Kernel(5, threads=1) as bx:
            A[bx] = bx
        with T.Kernel(5, 3, threads=1) as (bx, by):
            B[by, bx] = by * 5 + bx
        with T.Kernel(5, 3, 2, threads=1) as (bx, by, bz):
            C[bz, by, bx] = (bz * 3 + by) * 5 + bx
        with T.Kernel(5, threads=1) as (bx,):
            D[bx] = bx + 1

    out = [np.zeros(s, np.int32) for s in [(5,), (3, 5), (2, 3, 5), (5,)]]
    run(main, *out)
    for o, s in zip(out[:3], [(5,), (3, 5), (2, 3, 5)], strict=True):
        np.testing.assert_array_equal(o, iota(*s, dtype="int32"))
    assert out[3].tolist() == [1, 2, 3, 4, 5]


def test_kernel_blocks_as_a_list() -> None:
    @T.prim_func
    def main(B: T.Tensor((3, 5), "int32")):
        with T.Kernel(5, 3, threads=1) as b:
            B[b[1], b[0]] = b[1] * 5 + b[0]

    b = np.zeros((3, 5), np.int32)
    run(main, b)
    np.testing.assert_array_equal(b, iota(3, 5, dtype="int32"))


def test_four_extents_are_refused() -> None:
    with pytest.raises(ValueError, match="Kernel"):

        @T.prim_func
        def four(A: T.Tensor((4,), "int32")):
            with T.Kernel(1, 2, 3, 4):
                A[0] = 1


@pytest.mark.parametrize("threads", [0, -1])
def test_threads_must_be_positive(threads: int) -> None:
    with pytest.raises(ValueError, match=f"threads must be positive, got {threads}"):

        @T.prim_func
        def none(A: T.Tensor((4,), "int32")):
            with T.Kernel(1, threads=threads):
                A[0] = 1


@pytest.mark.parametrize("threads", [None, 64, [64], (64,), (32, 2), [8, 4, 2]], ids=str)
def test_forms_of_threads(threads: Any) -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=threads):
            for i in T.Parallel(64):
                A[i] = A[i] * 2

    a = iota(64)
    run(main, a)
    np.testing.assert_array_equal(a, iota(64) * 2)
    source = tilelang.lower(main, target="cuda -arch=sm_80").kernel_source
    count = 128 if threads is None else 64
    assert f"__launch_bounds__({count}" in source


def test_kernel_outside_of_a_function() -> None:
    with pytest.raises(TileError) as caught:
        T.Kernel(1).__enter__()
    assert caught.value.help


def test_extents_of_parameters_and_dynamic_dims() -> None:
    m = T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((m,), "int32"), n: T.int32):
        with T.Kernel(T.ceildiv(m, 4) * n, threads=4) as bx:
            for i in T.Parallel(4):
                if bx // n * 4 + i < m:
                    A[bx // n * 4 + i] = bx // n + 1

    a = np.zeros(10, np.int32)
    run(main, a, 2)
    assert a.tolist() == [1] * 4 + [2] * 4 + [3] * 2


def test_several_kernels_run_in_order() -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(N // 8, threads=8) as bx:
            for i in T.Parallel(8):
                B[bx * 8 + i] = A[bx * 8 + i] + 1
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                A[i] = B[N - 1 - i]

    a, b = iota(N), np.zeros(N, np.float32)
    run(main, a, b)
    np.testing.assert_array_equal(a, (iota(N) + 1)[::-1])
    source = tilelang.lower(main, target="cuda -arch=sm_80").kernel_source
    assert "main_kernel(" in source
    assert "main_kernel_1(" in source


def test_prelude_comes_before_the_kernel() -> None:
    text = "#define ANSWER 42\n"

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32, prelude=text):
            T.clear(A)

    source = tilelang.lower(main, target="cuda -arch=sm_80").kernel_source
    assert source.index("#define ANSWER 42") < source.index("main_kernel(")


# ----------------------------------------------------------------------------- thread, block ids


def test_bindings_and_extents() -> None:
    @T.prim_func
    def main(A: T.Tensor((2, 3, 8, 4), "int32"), E: T.Tensor((8,), "int32")):
        with T.Kernel(3, 2, threads=(4, 8)) as (bx, by):
            tx = T.get_thread_binding()
            ty = T.get_thread_binding(1)
            x, y, _z = T.get_thread_bindings()
            A[T.get_block_binding(1), T.get_block_binding(0), ty, tx] = x + y * 4
            b = T.get_block_bindings()
            if bx == 0 and by == 0 and x == 0 and y == 0:
                E[0] = T.get_thread_extent(0)
                E[1] = T.get_thread_extents()[1]
                E[2] = T.get_block_extent(0)
                E[3] = T.get_block_extents()[1]
                E[4] = b[0]

    a, e = np.zeros((2, 3, 8, 4), np.int32), np.zeros(8, np.int32)
    run(main, a, e)
    np.testing.assert_array_equal(a[1, 2], iota(8, 4, dtype="int32"))
    assert e.tolist() == [4, 8, 3, 2, 0, 0, 0, 0]


def test_thread_binding_as_an_expression_and_a_loop() -> None:
    @T.prim_func
    def main(A: T.Tensor((2, 32), "int32")):
        with T.Kernel(1, threads=32):
            tid = T.thread_binding(0, 32, thread="threadIdx.x")
            A[0, tid] = tid
            for t in T.thread_binding(0, 32, "threadIdx.x"):
                A[1, t] = t * 2

    a = np.zeros((2, 32), np.int32)
    run(main, a)
    np.testing.assert_array_equal(a, np.stack([np.arange(32), np.arange(32) * 2]))


def test_bindings_outside_of_a_kernel() -> None:
    for name in ("get_thread_binding", "get_thread_bindings", "get_block_binding"):
        with pytest.raises(TileError, match=name):
            getattr(T, name)()
