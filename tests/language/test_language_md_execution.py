# SPDX-License-Identifier: Apache-2.0
"""language.md §3.8-§3.10, §1.10, §1.12: who executes what, pipelines, annotations, views."""

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import TileError

CPU, SIM = "llvm", "cuda-sim -arch=sm_80"
BOTH = pytest.mark.parametrize("where", [CPU, SIM])


def run(where: str, func: Any, *args: Any) -> Any:
    return tilelang.compile(func, target=where)(*args)


def cuda(func: Any, arch: str = "sm_80") -> str:
    source: str = tilelang.lower(func, target=f"cuda -arch={arch}").kernel_source
    return source


def iota(*shape: int, dtype: str = "float32") -> Any:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


# --------------------------------------------------------------------------- §3.8 who executes what


@BOTH
def test_statements_outside_of_parallel_are_executed_by_every_thread(where: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((4,), "int32")
            S[0] = 3
            A[1] = S[0] + 1
            T.atomic_add(B[0], 1)
            for i in T.Parallel(4):
                T.atomic_add(B[i], 10)

    a, b = np.zeros(4, np.int32), np.zeros(4, np.int32)
    run(where, main, a, b)
    assert a.tolist() == [0, 4, 0, 0]
    assert b.tolist() == [74, 10, 10, 10]


@BOTH
def test_one_thread_by_its_index(where: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            S = T.alloc_shared((64,), "int32")
            S[tx] = tx * 2
            T.sync_threads()
            A[tx] = S[63 - tx]
            if tx == 5:
                T.atomic_add(B[0], 7)

    a, b = np.zeros(64, np.int32), np.zeros(1, np.int32)
    run(where, main, a, b)
    assert a.tolist() == list(range(126, -2, -2))
    assert b[0] == 7


@BOTH
def test_fragment_elements_outside_of_parallel(where: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 32), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            F = T.alloc_fragment((4, 32), "float32")
            T.copy(A, F)
            F[1, 3] = 100
            for i in T.serial(4):
                B[i] = F[i, 3]
                for j in T.Parallel(32):
                    F[i, j] += i
            T.copy(F, A)

    a, b = iota(4, 32), np.zeros(4, np.float32)
    run(where, main, a, b)
    want = iota(4, 32)
    want[1, 3] = 100
    np.testing.assert_array_equal(b, want[:, 3])
    np.testing.assert_array_equal(a, want + np.arange(4)[:, None])


@BOTH
def test_a_fold_in_parallel(where: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((8, 32), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            F = T.alloc_fragment((8, 32), "float32")
            R = T.alloc_fragment((8,), "float32")
            T.copy(A, F)
            T.clear(R)
            for i, j in T.Parallel(8, 32):
                R[i] += F[i, j]
            T.copy(R, B)

    b = np.zeros(8, np.float32)
    run(where, main, iota(8, 32), b)
    np.testing.assert_array_equal(b, iota(8, 32).sum(1))


@BOTH
def test_parts_of_fragments_are_copied(where: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=32):
            F = T.alloc_fragment((128,), "float32")
            T.clear(F)
            T.copy(A[0:100], F[0:100])
            T.copy(F[10:110], B[0:100])

    b = np.full(128, -1, np.float32)
    run(where, main, iota(128), b)
    want = np.full(128, -1, np.float32)
    want[:100] = np.where(np.arange(10, 110) < 100, np.arange(10, 110), 0)
    np.testing.assert_array_equal(b, want)


def test_a_dynamic_parallel_loop_over_a_fragment() -> None:
    def build() -> Any:
        @T.prim_func
        def main(A: T.Tensor((64,), "float32"), n: T.int32):
            with T.Kernel(1, threads=32):
                F = T.alloc_fragment((64,), "float32")
                T.copy(A, F)
                for i in T.Parallel(n):
                    F[i] = F[i] * 2
                T.copy(F, A)

        return main

    with pytest.raises(ValueError, match=r"`i`|F") as caught:
        cuda(build())
    assert isinstance(caught.value, TileError)
    assert caught.value.help


def test_a_local_buffer_indexed_by_a_parallel_variable() -> None:
    def build() -> Any:
        @T.prim_func
        def main(A: T.Tensor((64,), "float32")):
            with T.Kernel(1, threads=32):
                L = T.alloc_local((64,), "float32")
                for i in T.Parallel(64):
                    L[i] = A[i]

        return main

    with pytest.raises(ValueError, match="L") as caught:
        cuda(build())
    assert isinstance(caught.value, TileError)
    assert caught.value.help


@BOTH
def test_unconditional_guards_of_the_user_are_respected(where: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                B[i] = T.if_then_else(i < 8, A[i], -1.0)

    b = np.zeros(16, np.float32)
    run(where, main, iota(8), b)
    assert b.tolist() == [*range(8), *[-1] * 8]


# ---------------------------------------------------------------------------------- §3.9 pipelines


@BOTH
@pytest.mark.parametrize("stages", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_pipelines_mean_what_serial_loops_mean(where: str, stages: int, trips: int) -> None:
    @T.prim_func
    def main(A: T.Tensor((8, 32), "float32"), B: T.Tensor((32,), "float32"), n: T.int32):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((32,), "float32")
            F = T.alloc_fragment((32,), "float32")
            T.clear(F)
            for k in T.Pipelined(n, num_stages=stages):
                T.copy(A[k, :], S)
                for i in T.Parallel(32):
                    F[i] = F[i] * 2 + S[i]
            T.copy(F, B)

    a, b = iota(8, 32), np.full(32, -1, np.float32)
    run(where, main, a, b, trips)
    want = np.zeros(32, np.float32)
    for k in range(trips):
        want = want * 2 + a[k]
    np.testing.assert_array_equal(b, want)


@BOTH
def test_order_and_stage(where: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((8, 32), "float32"), B: T.Tensor((8, 32), "float32")):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((32,), "float32")
            F = T.alloc_fragment((32,), "float32")
            for k in T.Pipelined(8, order=[0, 1, 2], stage=[0, 1, 1]):
                T.copy(A[k, :], S)
                T.copy(S, F)
                T.copy(F, B[k, :])

    b = np.zeros((8, 32), np.float32)
    run(where, main, iota(8, 32), b)
    np.testing.assert_array_equal(b, iota(8, 32))


def test_order_of_a_wrong_length() -> None:
    def build(**options: Any) -> Any:
        @T.prim_func
        def main(A: T.Tensor((8, 32), "float32"), B: T.Tensor((8, 32), "float32")):
            with T.Kernel(1, threads=32):
                S = T.alloc_shared((32,), "float32")
                for k in T.Pipelined(8, **options):
                    T.copy(A[k, :], S)
                    T.copy(S, B[k, :])

        return main

    for options in ({"order": [0], "stage": [0]}, {"order": [0, 1]}, {"stage": [0, 1]}):
        with pytest.raises(TileError) as caught:
            cuda(build(**options))
        assert caught.value.help
        assert caught.value.span is not None
        assert caught.value.span.file == __file__


@BOTH
def test_conditions_around_copies_and_nesting(where: str) -> None:
    @T.prim_func
    def main(
        A: T.Tensor((2, 4, 32), "float32"),
        M: T.Tensor((4,), "int32"),
        B: T.Tensor((32,), "float32"),
    ):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((32,), "float32")
            F = T.alloc_fragment((32,), "float32")
            T.clear(F)
            for o in T.serial(2):
                for k in T.Pipelined(4, num_stages=2):
                    if M[k] != 0:
                        T.copy(A[o, k, :], S)
                        for i in T.Parallel(32):
                            F[i] += S[i]
            T.copy(F, B)

    a, mask = iota(2, 4, 32), np.array([1, 0, 1, 1], np.int32)
    b = np.zeros(32, np.float32)
    run(where, main, a, mask, b)
    np.testing.assert_array_equal(b, a[:, mask != 0].sum((0, 1)))


def test_text_of_a_pipeline() -> None:
    @T.prim_func
    def main(
        A: T.Tensor((128, 128), "float16"),
        B: T.Tensor((128, 128), "float16"),
        C: T.Tensor((128, 128), "float32"),
    ):
        with T.Kernel(1, threads=128):
            As = T.alloc_shared((128, 32), "float16")
            Bs = T.alloc_shared((32, 128), "float16")
            acc = T.alloc_fragment((128, 128), "float32")
            T.clear(acc)
            for k in T.Pipelined(4, num_stages=3):
                T.copy(A[0, k * 32], As)
                T.copy(B[k * 32, 0], Bs)
                T.gemm(As, Bs, acc)
            T.copy(acc, C)

    source = cuda(main)
    assert "cp_async" in source
    assert "ldmatrix" in source
    assert "__launch_bounds__(128, 1)" in source
    assert "main_kernel(" in source
    hopper = cuda(main, "sm_90a")
    assert "wgmma" in hopper
    assert "tma" in hopper


# -------------------------------------------------------------------------------- §1.10 annotations


def test_annotations() -> None:
    @T.prim_func
    def main(A: T.Tensor((256, 256), "float16"), B: T.Tensor((256, 256), "float16")):
        with T.Kernel(8, 8, threads=128) as (bx, by):
            S = T.alloc_shared((32, 32), "float16")
            F = T.alloc_fragment((32, 32), "float16")
            T.use_swizzle(4)
            T.use_swizzle(panel_size=10, order="column", enable=False)
            T.annotate_layout({S: tilelang.layout.make_swizzled_layout(S)})
            T.annotate_l2_hit_ratio({A: 0.8})
            T.annotate_restrict_buffers(A)
            T.annotate_min_blocks_per_sm(2)
            T.set_max_nreg(120, 1)
            T.no_set_max_nreg()
            T.disable_warp_group_reg_alloc()
            T.copy(A[by * 32, bx * 32], S)
            T.copy(S, F)
            T.copy(F, B[by * 32, bx * 32])

    b = np.zeros((256, 256), np.float16)
    run(CPU, main, iota(256, 256, dtype="float16"), b)
    np.testing.assert_array_equal(b, iota(256, 256, dtype="float16"))
    source = cuda(main)
    assert "__launch_bounds__(128, 2)" in source
    assert cuda(main, "sm_90a")


def test_an_unknown_swizzle_order() -> None:
    with pytest.raises(ValueError, match="order"):

        @T.prim_func
        def main(A: T.Tensor((4,), "float16")):
            with T.Kernel(8, 8, threads=128):
                T.use_swizzle(4, order="diagonal")
                T.clear(A)


@pytest.mark.parametrize("layout", ["padded", "function", "linear"])
@BOTH
def test_layouts_of_shared_memory(where: str, layout: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((32, 32), "float32"), B: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((32, 32), "float32")
            if layout == "padded":
                T.annotate_layout({S: T.Layout(S.shape, lambda i, j: i * 33 + j)})
            elif layout == "function":
                T.annotate_layout({S: lambda i, j: j * 32 + i})
            else:
                T.annotate_layout({S: tilelang.layout.make_linear_layout(S)})
            T.copy(A, S)
            for i, j in T.Parallel(32, 32):
                B[i, j] = S[j, i]

    b = np.zeros((32, 32), np.float32)
    run(where, main, iota(32, 32), b)
    np.testing.assert_array_equal(b, iota(32, 32).T)


# ---------------------------------------------------------------------------- §1.12 views, pointers


@BOTH
def test_views_and_reshapes(where: str) -> None:
    @T.prim_func
    def main(
        A: T.Tensor((8, 16), "float32"),
        B: T.Tensor((16, 8), "int32"),
        C: T.Tensor((128,), "float32"),
    ):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((8, 16), "float32")
            F = T.alloc_fragment((128,), "float32")
            G = T.alloc_fragment((8, 16), "float32")
            T.copy(A, S)
            V = T.view(S, (16, 8), "int32")
            W = T.reshape(S, [128])
            X = T.view(S, dtype="int32")
            T.copy(V, B)
            T.copy(W, F)
            for i, j in T.Parallel(8, 16):
                G[i, j] = T.cast(X[i, j] - X[i, j], "float32") + 1
            R = T.reshape(G, (128,))
            for i in T.Parallel(128):
                C[i] = F[i] + R[i]

    b, c = np.zeros((16, 8), np.int32), np.zeros(128, np.float32)
    run(where, main, iota(8, 16), b, c)
    np.testing.assert_array_equal(b.view(np.float32), iota(16, 8))
    np.testing.assert_array_equal(c, iota(128) + 1)


@pytest.mark.parametrize(
    "view", [lambda s: T.reshape(s, (9,)), lambda s: T.view(s, (8,), "float16")]
)
def test_views_of_another_size(view: Any) -> None:
    with pytest.raises(ValueError, match=r"T\.(view|reshape)") as caught:

        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1, threads=32):
                S = T.alloc_shared((8,), "float32")
                view(S)

    assert isinstance(caught.value, TileError)


def test_pointers_of_extern_calls() -> None:
    source = """
    static float total(const float* p, int n) {
      float t = 0;
      for (int i = 0; i < n; ++i) t += p[i];
      return t;
    }
    static void put(float* p, float v) { p[0] = v; }
    """

    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((8,), "float32")):
        T.import_source(source)
        with T.Kernel(1, threads=1):
            B[0] = T.call_extern("float32", "total", T.address_of(A[1, 0]), 8)
            B[1] = T.call_extern("float32", "total", A.access_ptr("r"), 32)
            B[2] = T.call_extern("float32", "total", T.access_ptr(A[2, 0], "r", 8), 8)
            T.call_extern("handle", "put", T.access_ptr(B, "w", offset=3), 5.0)

    a, b = iota(4, 8), np.zeros(8, np.float32)
    run("c", main, a, b)
    assert b[:4].tolist() == [a[1].sum(), a.sum(), a[2].sum(), 5]


# --------------------------------------------------------------------------------- §3.10, §4


def test_names_of_kernels() -> None:
    @T.prim_func
    def my_name(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.clear(A)
        with T.Kernel(1):
            T.clear(A)
        with T.Kernel(1):
            T.clear(A)

    source = cuda(my_name)
    for name in ("my_name_kernel(", "my_name_kernel_1(", "my_name_kernel_2("):
        assert name in source


@BOTH
@pytest.mark.parametrize("threads", [32, 96, 100, 33, 1])
def test_odd_thread_counts(where: str, threads: int) -> None:
    @T.prim_func
    def main(A: T.Tensor((300,), "float32"), B: T.Tensor((300,), "float32")):
        with T.Kernel(1, threads=threads):
            F = T.alloc_fragment((300,), "float32")
            S = T.alloc_shared((300,), "float32")
            T.copy(A, S)
            T.copy(S, F)
            for i in T.Parallel(300):
                F[i] += 1
            T.copy(F, B)

    b = np.zeros(300, np.float32)
    run(where, main, iota(300), b)
    np.testing.assert_array_equal(b, iota(300) + 1)


def test_older_spellings() -> None:
    import tilelang as tl

    K = T.dyn["K"]

    @tl.prim_func
    def main(A: T.Tensor((K,), "float32"), B: T.Tensor((K,), "float32")):
        with T.Kernel(T.ceildiv(K, 32), is_cpu=True) as bx:
            for i in T.serial(32):
                if bx * 32 + i < K:
                    B[bx * 32 + i] = A[bx * 32 + i]

    b = np.zeros(50, np.float32)
    run(CPU, main, iota(50), b)
    np.testing.assert_array_equal(b, iota(50))

    @tl.lazy_jit(out_idx=[-1], target="llvm")
    def factory(n):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
            with T.Kernel(1, threads=32):
                T.copy(A, B)

        return main

    assert factory.lazy_jit
    np.testing.assert_array_equal(factory(8)(iota(8)), iota(8))


def test_hints_of_newer_gpus_do_nothing_elsewhere() -> None:
    @T.prim_func
    def main(A: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            T.pdl_sync()
            T.inc_max_nreg(240)
            T.clear(A)
            T.pdl_trigger()

    a = iota(32)
    run(CPU, main, a)
    assert not a.any()
    assert cuda(main)
    assert cuda(main, "sm_90a")


def test_float32_products_are_not_rounded_to_tf32() -> None:
    @T.prim_func
    def main(
        A: T.Tensor((16, 16), "float32"),
        B: T.Tensor((16, 16), "float32"),
        C: T.Tensor((16, 16), "float32"),
    ):
        with T.Kernel(1, threads=32):
            As = T.alloc_shared((16, 16), "float32")
            Bs = T.alloc_shared((16, 16), "float32")
            acc = T.alloc_fragment((16, 16), "float32")
            T.copy(A, As)
            T.copy(B, Bs)
            T.clear(acc)
            T.gemm(As, Bs, acc)
            T.copy(acc, C)

    a = np.eye(16, dtype=np.float32)
    b = np.full((16, 16), 1 + 2.0**-20, np.float32)
    c = np.zeros((16, 16), np.float32)
    run(SIM, main, a, b, c)
    np.testing.assert_array_equal(c, b)


def test_group_and_sync_of_pipelines() -> None:
    def build() -> Any:
        @T.prim_func
        def main(A: T.Tensor((8, 32), "float32"), B: T.Tensor((8, 32), "float32")):
            with T.Kernel(1, threads=32):
                S = T.alloc_shared((32,), "float32")
                for k in T.Pipelined(8, order=[0, 1], stage=[0, 1], group=[[0], [1]]):
                    T.copy(A[k, :], S)
                    T.copy(S, B[k, :])

        return main

    b = np.zeros((8, 32), np.float32)
    run(SIM, build(), iota(8, 32), b)
    np.testing.assert_array_equal(b, iota(8, 32))


def test_an_unknown_pass_config() -> None:
    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.clear(A)

    with pytest.raises(ValueError, match=r"tl\.disable_wgmma"):
        tilelang.compile(main, pass_configs={"tl.disable_wgma": True}, target="llvm")
