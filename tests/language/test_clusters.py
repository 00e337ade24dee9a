# SPDX-License-Identifier: Apache-2.0
"""Clusters: what kernels mean (on the simulated GPU, with all checks), that NVRTC takes them, and
what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import OptionError, ResourceError, ScopeError, SimulatorError, TargetError

SIM, GPU = "cuda-sim -arch=sm_90a", "cuda -arch=sm_90a"
N = 64


def exchange(bulk: bool, sync: bool = True) -> Any:
    """Each block gives its tile to the next one of the cluster."""

    @T.prim_func
    def main(A: T.Tensor((4, N), "float32"), B: T.Tensor((4, N), "float32")):
        with T.ClusterKernel(4, cluster_dims=2, threads=N) as bx:
            mine = T.alloc_shared((N,), "float32")
            theirs = T.alloc_shared((N,), "float32")
            bar = T.alloc_cluster_barrier(1)
            peer = 1 - T.block_rank_in_cluster()
            T.copy(A[bx, 0], mine)
            if bulk:
                if T.get_thread_binding() == 0:
                    T.mbarrier_arrive_expect_tx(bar, N * 4)
                T.fence_proxy_async()
                T.cluster_sync()
                T.copy_cluster(mine, theirs, dst_block=peer, remote_barrier=bar)
                T.mbarrier_wait_parity(bar, 0)
            else:
                T.copy_cluster(mine, theirs, dst_block=peer)
                if sync:
                    T.cluster_sync()
            T.copy(theirs, B[bx, 0])
            T.cluster_sync()

    return main


def multicast() -> Any:
    """Both blocks of a cluster get the tile that the first loads, and its own tile each."""

    @T.prim_func
    def main(A: T.Tensor((4, N), "float16"), B: T.Tensor((4, N), "float16")):
        with T.Kernel(4, cluster_dims=2, threads=128) as bx:
            shared = T.alloc_shared((1, N), "float16")
            own = T.alloc_shared((1, N), "float16")
            bar = T.alloc_barrier(128)
            T.copy_cluster(A[bx, 0], shared, cluster_mask=3, remote_barrier=bar)
            T.tma_copy(A[bx : bx + 1, 0:N], own, barrier=bar)
            T.mbarrier_arrive(bar)
            T.mbarrier_wait_parity(bar, 0)
            for i in T.Parallel(N):
                B[bx, i] = shared[0, i] + own[0, i]
            T.cluster_sync()

    return main


def reduction() -> Any:
    """A sum over the blocks of a cluster, by reading the others' shared memory."""

    @T.prim_func
    def main(A: T.Tensor((8, N), "float32"), B: T.Tensor((8, N), "float32")):
        with T.Kernel(2, 4, cluster_dims=(1, 4), threads=N) as (bx, by):
            part = T.alloc_shared((N,), "float32")
            total = T.alloc_fragment((N,), "float32")
            T.copy(A[by * 2 + bx, 0], part)
            T.cluster_arrive()
            T.clear(total)
            T.cluster_wait()
            for r in T.serial(4):
                for i in T.Parallel(N):
                    total[i] += T.cluster_load(part[i], r)
            T.cluster_sync()
            T.copy(total, B[by * 2 + bx, 0])

    return main


def signal() -> Any:
    """Block 1 writes into block 0 and arrives at its barrier."""

    @T.prim_func
    def main(A: T.Tensor((2, N), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(2, cluster_dims=(2, 1, 1), threads=N):
            s = T.alloc_shared((N,), "int32")
            bar = T.alloc_cluster_barrier(N)
            t = T.get_thread_binding()
            if T.block_rank_in_cluster() == 1:
                T.cluster_store(s[t], A[1, t], 0)
                T.mbarrier_arrive(bar, cta_id=0)
            else:
                T.mbarrier_wait_parity(bar, 0)
                B[t] = s[t] + A[0, t]
            T.cluster_sync()

    return main


def run(func: Any, *arrays: Any) -> None:
    tilelang.compile(func, target=SIM)(*arrays)


@pytest.mark.parametrize("bulk", [False, True])
def test_a_tile_goes_to_a_peer(bulk: bool) -> None:
    a, b = np.random.default_rng(0).random((4, N), np.float32), np.zeros((4, N), np.float32)
    run(exchange(bulk), a, b)
    assert (b == a[[1, 0, 3, 2]]).all()


def test_multicast() -> None:
    a = np.arange(4 * N).reshape(4, N).astype(np.float16)
    b = np.zeros_like(a)
    run(multicast(), a, b)
    assert (b == a[[0, 0, 2, 2]] + a).all()


def test_a_sum_over_a_cluster() -> None:
    a, b = np.arange(8 * N, dtype=np.float32).reshape(8, N), np.zeros((8, N), np.float32)
    run(reduction(), a, b)
    assert (b == np.tile(a.reshape(4, 2, N).sum(0), (4, 1))).all()


def test_arrival_at_a_peers_barrier() -> None:
    a, b = np.arange(2 * N, dtype=np.int32).reshape(2, N), np.zeros(N, np.int32)
    run(signal(), a, b)
    assert (b == a.sum(0)).all()


def test_a_missing_cluster_barrier_is_found() -> None:
    a, b = np.ones((4, N), np.float32), np.zeros((4, N), np.float32)
    with pytest.raises(SimulatorError) as caught:
        run(exchange(bulk=False, sync=False), a, b)
    assert caught.value.kind in ("race", "uninitialised")
    assert caught.value.span is not None
    assert caught.value.span.file == __file__


@pytest.mark.parametrize(
    "func",
    [exchange(False), exchange(True), multicast(), reduction(), signal()],
    ids=["stores", "bulk", "multicast", "loads", "arrivals"],
)
def test_the_text_compiles_for_a_gpu(func: Any) -> None:
    from tilelang.engine import lower

    artifact = lower(func, GPU)
    from tilelang.codegen.headers import device_headers
    from tilelang.config import Options
    from tilelang.runtime.nvrtc import compile_cubin

    source = artifact.kernel_source
    compile_cubin(source, "sm_90a", Options(fast_compile=True), device_headers(source))
    assert artifact.call.kernels[0].cluster in ((2, 1, 1), (1, 4, 1))


@pytest.mark.parametrize("target", ["llvm", "c", "cuda -arch=sm_80", "cuda-sim -arch=sm_80"])
def test_clusters_need_hopper(target: str) -> None:
    with pytest.raises(TargetError, match="requires sm_90"):
        tilelang.lower(reduction(), target)


def in_kernel(statement: Any, cluster: Any = 2, grid: int = 4) -> Any:
    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(grid, cluster_dims=cluster, threads=32):
            s = T.alloc_shared((N,), "float32")
            T.clear(s)
            statement(A, s)

    return main


@pytest.mark.parametrize(
    ("statement", "error", "text"),
    [
        (lambda A, s: T.copy_cluster(s, s), OptionError, "either dst_block or cluster_mask"),
        (lambda A, s: T.copy_cluster(s, A, dst_block=1), ScopeError, "not in shared memory"),
        (lambda A, s: T.cluster_store(A[0], 1.0, 1), ScopeError, "element of a shared buffer"),
        (lambda A, s: T.cluster_load(s, 1), ScopeError, "element of a shared buffer"),
        (lambda A, s: T.mbarrier_arrive(s, cta_id=1), ScopeError, "needs a barrier"),
    ],
)
def test_mistakes(statement: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        in_kernel(statement)


def test_a_bulk_copy_of_a_part() -> None:
    def statement(A: Any, s: Any) -> None:
        bar = T.alloc_cluster_barrier(1)
        T.copy_cluster(s[0:4], s[4:8], dst_block=1, remote_barrier=bar)

    with pytest.raises(OptionError, match="one whole shared buffer"):
        in_kernel(statement)


def test_no_cluster() -> None:
    for name in ("cluster_sync", "cluster_arrive", "cluster_wait", "block_rank_in_cluster"):
        with pytest.raises(OptionError, match="launched in clusters"):
            in_kernel(lambda A, s, name=name: getattr(T, name)(), cluster=1)


@pytest.mark.parametrize("dims", [0, (2, -1), (1, 1, 1, 1), "two", ()])
def test_dimensions_of_a_cluster(dims: Any) -> None:
    with pytest.raises(OptionError, match="cluster_dims must be"):
        in_kernel(lambda A, s: None, cluster=dims)


@pytest.mark.parametrize(("dims", "grid", "text"), [(2, 3, "do not fill"), (16, 16, "more than 8")])
def test_sizes_of_a_cluster(dims: int, grid: int, text: str) -> None:
    with pytest.raises(ResourceError, match=text):
        tilelang.lower(in_kernel(lambda A, s: T.cluster_sync(), dims, grid), SIM)
