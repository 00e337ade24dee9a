# SPDX-License-Identifier: Apache-2.0
"""Several blocks: races on global memory, order by atomics and grid barriers, clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilelang.errors import ArgumentValueError
from tilelang.ir import DType
from tilelang.sim import tensor_map

KERNELS = Path(__file__).parent / "kernels"
HEAD = "  int* s = (int*)buf_dyn_shmem;\n  const int t = (int)threadIdx.x, b = (int)blockIdx.x;\n"


def sections() -> list[list[str]]:
    parts = (KERNELS / "blocks.cu").read_text(encoding="utf-8").split("\n//// ")[1:]
    heads = [[f.strip() for f in part.split("\n", 1)[0].split("|")] for part in parts]
    return [[*h, part.split("\n", 1)[1]] for h, part in zip(heads, parts, strict=True)]


SECTIONS = sections()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("what", "launch", "kind", "text", "body"), SECTIONS, ids=[s[0] for s in SECTIONS]
)
def test_blocks(
    sim: Any, what: str, launch: str, kind: str, text: str, body: str, threads: int
) -> None:
    """Each fault is found and named, and what looks like it is not called one, however the blocks
    are spread over host threads."""
    source = sim.kernel("int* A", HEAD + body, "atomic mbarrier cluster grid")
    grid, *more = launch.split()
    cluster = next(((int(m[1:]),) for m in more if m[0] == "/"), ())
    options = {
        "grid": (int(grid),), "smem": 4096, "cluster": cluster, "cooperative": "c" in more,
        "host_threads": threads, "time_limit": 20.0,
    }  # fmt: skip
    a = np.zeros(64, np.int32)
    if kind == "right":
        sim.run(source, a, **options)
        return
    error = sim.fault(kind, source, a, **options)
    if threads == 1:
        assert text in error.message


def test_what_peers_read_is_right(sim: Any) -> None:
    body = next(s[4] for s in SECTIONS if s[0] == "a peer's shared memory")
    source = sim.kernel("int* A", HEAD + body, "atomic mbarrier cluster grid")
    a = np.zeros(64, np.int32)
    sim.run(source, a, grid=(4,), cluster=(2,), smem=4096)
    want = [100 * (1 - b % 2) + t for b in range(4) for t in range(16)]
    assert a.tolist() == want


@pytest.mark.parametrize("cluster", [(2, 1, 1), (1, 2, 1), (2, 2, 1)])
def test_blocks_of_a_cluster_are_neighbours(sim: Any, cluster: tuple[int, int, int]) -> None:
    body = "A[blockIdx.x + 4 * blockIdx.y] = (int)tl::block_rank_in_cluster();"
    a = np.full((4, 4), -1, np.int32)
    source = sim.kernel("int* A", body, "cluster")
    sim.run(source, a, grid=(4, 4), block=(1,), cluster=cluster)
    x, y = np.meshgrid(np.arange(4), np.arange(4))
    assert (a == x % cluster[0] + cluster[0] * (y % cluster[1])).all()


MULTICAST = """
  unsigned long long* bar = (unsigned long long*)s;
  const int rank = (int)tl::block_rank_in_cluster();
  if (t == 0) { tl::mbar_init(bar, 1); tl::fence_mbar_init(); tl::mbar_expect_tx(bar, BYTES); }
  tl::cluster_arrive(); tl::cluster_wait();
  if (t == 0 && (rank == 0 || MASK != 3)) tl::tma_load_multicast(&s[64], X, bar, MASK, 0, rank);
  tl::mbar_wait(bar, 0);
  B[b * 32 + t] = s[64 + t];
  tl::cluster_arrive(); tl::cluster_wait();"""


def multicast(sim: Any, mask: str, size: int, kind: str = "") -> Any:
    text = HEAD + MULTICAST.replace("MASK", mask).replace("BYTES", str(size))
    source = sim.kernel(
        "const __grid_constant__ tl::TensorMap X, int* B", text, "mbarrier cluster tma"
    )
    x = np.arange(64, dtype=np.int32).reshape(2, 32)
    b = np.zeros((2, 32), np.int32)
    desc = tensor_map(x.ctypes.data, DType("int32"), (32, 2), (128,), (32, 1), 0)
    options = {"grid": (2,), "cluster": (2,), "smem": 4096}
    if kind:
        return sim.fault(kind, source, (desc, x), b, **options)
    sim.run(source, (desc, x), b, **options)
    return b


def test_multicast(sim: Any) -> None:
    assert (multicast(sim, "3", 128) == np.arange(32)).all()
    own = multicast(sim, "(1 << rank)", 128)
    assert (own == np.arange(64).reshape(2, 32)).all()
    assert "mask 0x5" in multicast(sim, "5", 128, "tma").message
    assert "bytes" in multicast(sim, "3", 256, "deadlock").message


def test_bulk_reduction(sim: Any) -> None:
    body = HEAD + (
        "  ((float*)s)[t] = (float)t; tl::fence_proxy_async(); tl::sync_threads();\n"
        "  if (t == 0) { tl::tma_reduce_add(X, s, 0); tl::tma_store_commit(); "
        "tl::tma_store_wait<0>(); }"
    )
    source = sim.kernel("const __grid_constant__ tl::TensorMap X", body, "mbarrier tma")
    x = np.ones(32, np.float32)
    desc = tensor_map(x.ctypes.data, DType("float32"), (32,), (), (32,), 0)
    sim.run(source, (desc, x), grid=(5,), smem=4096)
    assert (x == 1 + 5 * np.arange(32)).all()


def test_more_blocks_than_fit_at_once_wait_for_earlier_ones(sim: Any) -> None:
    """A chain of flags over more threads than are simulated at once."""
    body = HEAD + (
        "  if (t == 0) { if (b) while (tl::atomic_load(&A[b - 1]) == 0) {} tl::memory_fence<0>();\n"
        "  B[0] += 1; tl::memory_fence<1>(); tl::atomic_store(&A[b], 1); }"
    )
    a, b = np.zeros(100, np.int32), np.zeros(1, np.int32)
    source = sim.kernel("int* A, int* B", body.replace("buf_dyn_shmem", "A"), "atomic")
    sim.run(source, a, b, grid=(100,), block=(1024,))
    assert b[0] == 100


def test_a_cooperative_grid_of_large_blocks(sim: Any) -> None:
    body = HEAD + "  A[b] = b; tl::sync_grid(); if (t == 0) B[b] = A[(b + 1) % 16];"
    a, b = np.zeros(16, np.int32), np.zeros(16, np.int32)
    source = sim.kernel("int* A, int* B", body.replace("buf_dyn_shmem", "A"), "grid")
    sim.run(source, a, b, grid=(16,), block=(1024,), cooperative=True)
    assert (b == (np.arange(16) + 1) % 16).all()


def test_a_cluster_that_does_not_fill_the_grid(sim: Any) -> None:
    source = sim.kernel("int* A", "A[0] = 1;")
    for grid, cluster in (((3,), (2,)), ((32,), (32,)), ((4,), (0,))):
        with pytest.raises(ArgumentValueError, match="do not fill the grid"):
            sim.run(source, np.zeros(4, np.int32), grid=grid, cluster=cluster)
