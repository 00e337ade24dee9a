# SPDX-License-Identifier: Apache-2.0
"""language.md §1.4: loops and control, one test per fact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import LanguageError, TileError, TypeMismatchError

N = 32


def run(func: Any, *args: Any) -> Any:
    return tilelang.compile(func, target="llvm")(*args)


def iota(*shape: int, dtype: str = "float32") -> Any:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def cuda(func: Any, arch: int = 80) -> str:
    source: str = tilelang.lower(func, target=f"cuda -arch=sm_{arch}").kernel_source
    return source


RANGES = [(5,), (2, 7), (0, 10, 3), (10, 0, -3), (3, 3), (0,), (5, 0), (-2, 2)]


@pytest.mark.parametrize("loop", [range, T.serial, T.Serial, T.unroll, T.Unroll])
@pytest.mark.parametrize("args", RANGES, ids=str)
def test_loops_visit_what_range_visits(loop: Any, args: tuple[int, ...]) -> None:
    @T.prim_func
    def main(A: T.Tensor((16,), "int32")):
        with T.Kernel(1, threads=1):
            n = T.alloc_var("int32", init=0)
            for i in loop(*args):
                A[n] = i
                n += 1

    a = np.full(16, -7, np.int32)
    run(main, a)
    want = list(range(*args))
    assert a.tolist() == want + [-7] * (16 - len(want))


@pytest.mark.parametrize("args", [(0, 7, 2), (7, 0, -2), (3, 9, 4), (5, 5, 1)], ids=str)
@pytest.mark.parametrize("loop", [T.serial, range])
def test_bounds_and_step_of_run_time(loop: Any, args: tuple[int, ...]) -> None:
    @T.prim_func
    def main(A: T.Tensor((16,), "int32"), lo: T.int32, hi: T.int32, step: T.int32):
        with T.Kernel(1, threads=1):
            n = T.alloc_var("int32", init=0)
            if loop is range:
                for i in range(lo, hi, step):
                    A[n] = i
                    n += 1
            else:
                for i in T.serial(lo, hi, step):
                    A[n] = i
                    n += 1

    a = np.full(16, -7, np.int32)
    run(main, a, *args)
    want = list(range(*args))
    assert a.tolist() == want + [-7] * (16 - len(want))


def test_keywords_of_loops() -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=1):
            for i in T.serial(0, stop=4):
                A[i] += 1
            for i in T.serial(0, 8, step=2):
                A[i] += 1
            for i in T.unroll(0, 4, 1, explicit=True):
                A[i] += 1
            for i in T.unroll(4, unroll_factor=2):
                A[i] += 1

    a = np.zeros(64, np.float32)
    run(main, a)
    assert a[:8].tolist() == [4, 3, 4, 3, 1, 0, 1, 0]


@pytest.mark.filterwarnings("ignore::tilelang.errors.CompatWarning")
def test_annotations_of_loops() -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=1):
            for i in T.serial(4, annotations={"pragma": 1}):
                A[i] += 1
            for i in T.unroll(4, annotations={"x": 1}):
                A[i] += 1
            for i in T.Pipelined(4, num_stages=1, annotations={"x": 1}):
                A[i] += 1

    a = np.zeros(64, np.float32)
    run(main, a)
    assert a[:5].tolist() == [3, 3, 3, 3, 0]


def test_unroll_pragmas() -> None:
    def build(**options):
        @T.prim_func
        def main(A: T.Tensor((64,), "float32")):
            with T.Kernel(1, threads=1):
                for i in T.unroll(8, **options):
                    A[i * 2] = i

        return main

    assert "#pragma unroll\n" in cuda(build())
    assert "#pragma unroll 4\n" in cuda(build(unroll_factor=4))
    expanded = cuda(build(explicit=True))
    assert "for (" not in expanded
    assert expanded.count("A[") == 8
    with pytest.raises(ValueError, match="explicit"):
        build(explicit=True, unroll_factor=2)


@pytest.mark.parametrize("loop", [T.serial, range, T.unroll])
def test_step_of_zero(loop: Any) -> None:
    with pytest.raises(ValueError, match=r"step must be non-zero|must not be zero"):

        @T.prim_func
        def main(A: T.Tensor((16,), "int32")):
            with T.Kernel(1, threads=1):
                for i in loop(0, 4, 0):
                    A[i] = 1


def test_vectorized_falls_back() -> None:
    def build(n):
        @T.prim_func
        def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
            with T.Kernel(1, threads=1):
                for i in T.serial(2):
                    for v in T.vectorized(n):
                        B[i * 8 + v] = A[i * 8 + v] + 1

        return main

    for n in (1, 3, 4, 5, 8):
        b = np.zeros(64, np.float32)
        run(build(n), iota(64), b)
        want = np.zeros(64, np.float32)
        for i in range(2):
            want[i * 8 : i * 8 + n] = np.arange(i * 8, i * 8 + n) + 1
        np.testing.assert_array_equal(b, want)
    assert "<float, 4>" in cuda(build(4))
    assert "_vec" not in cuda(build(3))


def test_vectorized_from_a_start() -> None:
    @T.prim_func
    def main(B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=1):
            for v in T.vectorized(4, 8):
                B[v] = v

    b = np.zeros(16, np.float32)
    run(main, b)
    assert b.nonzero()[0].tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize("extents", [(7,), (3, 5), (2, 3, 5), (1, 2, 3, 5)], ids=str)
def test_parallel_visits_everything_once(extents: tuple[int, ...]) -> None:
    @T.prim_func
    def main(A: T.Tensor(extents, "int32")):
        with T.Kernel(1, threads=32):
            for at in T.Parallel(*extents):
                A[at] += 1

    a = np.zeros(extents, np.int32)
    run(main, a)
    assert (a == 1).all()


def test_parallel_of_dynamic_extents() -> None:
    m, n = T.dynamic("m n")

    @T.prim_func
    def main(A: T.Tensor((m, n), "int32")):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(m, n):
                A[i, j] = i * n + j

    a = np.zeros((5, 9), np.int32)
    run(main, a)
    np.testing.assert_array_equal(a, iota(5, 9, dtype="int32"))
    assert cuda(main)


@pytest.mark.filterwarnings("ignore::tilelang.errors.CompatWarning")
def test_options_of_parallel() -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((64,), "float32")
            F = T.alloc_fragment((64,), "float32")
            for i in T.Parallel(64, coalesced_width=2):
                S[i] = A[i]
            for i in T.Parallel(64, prefer_async=True):
                S[i] = A[i]
            layout = T.Fragment((64,), lambda i: (i % 32, i // 32))
            for i in T.Parallel(64, loop_layout=layout):
                F[i] = S[i]
            for i in T.Parallel(64, annotations={"x": 1}):
                B[i] = F[i]

    b = np.zeros(64, np.float32)
    run(main, iota(64), b)
    np.testing.assert_array_equal(b, iota(64))
    assert cuda(main)


@pytest.mark.parametrize("kind", ["parallel", "pipelined", "copy", "fill"])
def test_what_parallel_refuses(kind: str) -> None:
    with pytest.raises(TileError, match=r"T\.Parallel") as caught:

        @T.prim_func
        def main(A: T.Tensor((8, 8), "float32")):
            with T.Kernel(1, threads=32):
                S = T.alloc_shared((8, 8), "float32")
                for i in T.Parallel(8):
                    if kind == "parallel":
                        for j in T.Parallel(8):
                            A[i, j] = 1
                    elif kind == "pipelined":
                        for j in T.Pipelined(8, num_stages=2):
                            A[i, j] = 1
                    elif kind == "copy":
                        T.copy(A, S)
                    else:
                        T.clear(S)

    assert caught.value.help


def test_grid() -> None:
    @T.prim_func
    def main(B: T.Tensor((2, 3, 4), "int32")):
        with T.Kernel(1, threads=1):
            for i, j, k in T.grid(2, 3, 4):
                B[i, j, k] = (i * 3 + j) * 4 + k

    b = np.zeros((2, 3, 4), np.int32)
    run(main, b)
    np.testing.assert_array_equal(b, iota(2, 3, 4, dtype="int32"))


@pytest.mark.parametrize("blocks", range(1, 13))
@pytest.mark.parametrize("group", [1, 3, 8])
def test_persistent_visits_every_tile_once(blocks: int, group: int) -> None:
    domain, waves = [((4, blocks), 3), ((2, blocks, 5), 4)][blocks % 2]

    @T.prim_func
    def main(A: T.Tensor(domain, "int32")):
        with T.Kernel(waves, threads=1) as block:
            for at in T.Persistent(list(domain), waves, block, group_size=group):
                A[at] += 1

    a = np.zeros(domain, np.int32)
    run(main, a)
    assert (a == 1).all()


def test_while_break_and_continue() -> None:
    @T.prim_func
    def main(A: T.Tensor((16,), "int32"), n: T.int32):
        with T.Kernel(1, threads=1):
            i = T.alloc_var("int32", init=0)
            while i < 15:
                i += 1
                if i % 2 == 0:
                    continue
                if i > n:
                    break
                A[i] = 1
            for k in T.serial(16):
                if k > n:
                    T.loop_break()
                A[k] += 2

    a = np.zeros(16, np.int32)
    run(main, a, 8)
    want = [(1 if k % 2 and k <= 8 else 0) + (2 if k <= 8 else 0) for k in range(16)]
    assert a.tolist() == want


def test_if_then_else_is_lazy_and_promotes() -> None:
    @T.prim_func
    def main(A: T.Tensor((4,), "float16"), B: T.Tensor((8,), "float32"), n: T.int32):
        with T.Kernel(1, threads=1):
            for i in T.serial(8):
                B[i] = T.if_then_else(i < 4, A[i], T.float32(-1))
            B[7] = T.if_then_else(n > 0, 1, 2.5)

    a, b = iota(4, dtype="float16"), np.zeros(8, np.float32)
    run(main, a, b, 0)
    assert b.tolist() == [0, 1, 2, 3, -1, -1, -1, 2.5]


def test_select_needs_equal_dtypes() -> None:
    @T.prim_func
    def main(A: T.Tensor((4,), "float32"), n: T.int32):
        with T.Kernel(1, threads=1):
            A[0] = T.Select(n > 0, A[1], A[2])

    a = iota(4)
    run(main, a, 1)
    assert a[0] == 1
    with pytest.raises(TypeMismatchError, match=r"T\.Select"):

        @T.prim_func
        def bad(A: T.Tensor((4,), "float32"), n: T.int32):
            with T.Kernel(1, threads=1):
                A[0] = T.Select(n > 0, A[1], n)


def test_thread_return() -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            tx = T.get_thread_binding()
            if tx >= 10:
                T.thread_return()
            A[tx] = 1

    a = np.zeros(N, np.int32)
    run(main, a)
    assert a.sum() == 10
    assert cuda(main)


def test_assume() -> None:
    m = T.dynamic("m")

    def build(assume):
        @T.prim_func
        def main(A: T.Tensor((m,), "float32")):
            if assume:
                T.assume(m % 128 == 0)
            with T.Kernel(T.ceildiv(m, 128), threads=128) as bx:
                for i in T.Parallel(128):
                    A[bx * 128 + i] = 1

        return main

    assert "if" in cuda(build(False))
    assert "if" not in cuda(build(True))
    a = np.zeros(256, np.float32)
    run(build(True), a)
    assert (a == 1).all()
    with pytest.raises(LanguageError, match=r"T\.assume"):

        @T.prim_func
        def never(A: T.Tensor((m,), "float32")):
            with T.Kernel(1):
                T.assume(False)


def test_device_assert_and_python_assert() -> None:
    @T.prim_func
    def main(A: T.Tensor((4,), "int32"), n: T.int32):
        with T.Kernel(1, threads=1):
            assert 1 + 1 == 2
            T.device_assert(n < 100)
            T.device_assert(n > 0, "n must be positive")
            assert n != 5, "n is five"
            A[0] = n

    a = np.zeros(4, np.int32)
    run(main, a, 3)
    assert a[0] == 3
    for n, text in ((0, "n must be positive"), (5, "n is five")):
        with pytest.raises(RuntimeError, match=text):
            run(main, a, n)
    assert "n must be positive" in cuda(main)
    with pytest.raises(LanguageError, match="assertion"):

        @T.prim_func
        def wrong(A: T.Tensor((4,), "int32")):
            with T.Kernel(1, threads=1):
                assert 1 + 1 == 3


def test_print(capfd: pytest.CaptureFixture[str]) -> None:
    @T.prim_func
    def main(A: T.Tensor((2, 2), "float32"), n: T.int32):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((2, 2), "float32")
            F = T.alloc_fragment((2, 2), "float32")
            T.copy(A, S)
            T.copy(S, F)
            T.print(n)
            T.print(n * 2, msg="twice")
            T.print(S, msg="shared")
            T.print(F)
            T.print(A[1, 1], "element")
            T.print(msg="only text")

    run(main, iota(2, 2), 21)
    out = capfd.readouterr().out
    for text in ("21", "twice", "42", "shared", "3.0", "element", "only text"):
        assert text in out, out
    assert "tl::print" in cuda(main)
