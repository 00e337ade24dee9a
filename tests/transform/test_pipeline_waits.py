# SPDX-License-Identifier: Apache-2.0
"""Rings, waits and barriers: their exact distances are fixed by golden texts, their meaning by
execution.

A golden holds only the lines that order things (waits, commits, barriers, what is copied and used
where), so that it fails when a distance changes and not when an index is printed differently."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.config import Options
from tilelang.errors import OptionError
from tilelang.interp import tile
from tilelang.ir import PrimFunc, own_copy, session
from tilelang.target import Target
from tilelang.testing import kernels as zoo
from tilelang.testing.golden import check_golden
from tilelang.transform import PIPELINE, PassContext, role_ring, run_passes
from tilelang.transform.ring import Item, Ring

GOLDEN = Path(__file__).parents[1] / "golden" / "pipeline"
AMPERE, HOPPER = "cuda-sim -arch=sm_80", "cuda-sim -arch=sm_90a"


def second_gemm_across_the_back_edge(
    m: int = 64, n: int = 64, k: int = 64, steps: int = 5
) -> PrimFunc:
    """Each step's second gemm is issued in the next step, after that step's first gemm: the
    schedule of an attention loop, written by hand with order= and stage=."""

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "float16"),
        B: T.Tensor((steps, k, n), "float16"),
        V: T.Tensor((steps, n, k), "float16"),
        C: T.Tensor((m, k), "float32"),
    ):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((m, k), "float16")
            B_s = T.alloc_shared((k, n), "float16")
            V_s = T.alloc_shared((n, k), "float16")
            S = T.alloc_fragment((m, n), "float32")
            P = T.alloc_fragment((m, n), "float16")
            out = T.alloc_fragment((m, k), "float32")
            T.copy(A, A_s)
            T.clear(out)
            for i in T.Pipelined(
                steps, num_stages=2, order=[-1, 1, -1, 0, 2], stage=[-1, 0, -1, 1, 1]
            ):
                T.copy(B[i, :, :], B_s)
                T.gemm(A_s, B_s, S, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(V[i, :, :], V_s)
                T.copy(S, P)
                T.gemm(P, V_s, out, policy=T.GemmWarpPolicy.FullRow)
            T.copy(out, C)

    return main


def hand_written_ring(m: int = 128, n: int = 128, k: int = 256, stages: int = 3) -> PrimFunc:
    """Producer and consumer warpgroups with mbarriers, as users write them for Hopper."""
    block_k = 64

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "float16"),
        B: T.Tensor((k, n), "float16"),
        C: T.Tensor((m, n), "float16"),
    ):
        with T.Kernel(1, threads=256):
            A_s = T.alloc_shared((stages, m, block_k), "float16")
            B_s = T.alloc_shared((stages, block_k, n), "float16")
            out = T.alloc_fragment((m, n), "float32")
            full = T.alloc_barrier([128] * stages)
            empty = T.alloc_barrier([128] * stages)
            with T.ws(1):
                for i in T.serial(k // block_k):
                    T.mbarrier_wait_parity(empty[i % stages], (i // stages) % 2 ^ 1)
                    T.tma_copy(A[0, i * block_k], A_s[i % stages, :, :], barrier=full[i % stages])
                    T.tma_copy(B[i * block_k, 0], B_s[i % stages, :, :], barrier=full[i % stages])
                    T.mbarrier_arrive(full[i % stages])
            with T.ws(0):
                T.clear(out)
                for i in T.serial(k // block_k):
                    T.mbarrier_wait_parity(full[i % stages], (i // stages) % 2)
                    T.wgmma_gemm(A_s[i % stages, :, :], B_s[i % stages, :, :], out)
                    T.wait_wgmma(0)
                    T.mbarrier_arrive(empty[i % stages])
                T.copy(out, C)

    return main


def hopper_matmul() -> PrimFunc:
    return zoo.matmul(128, 256, 256, 128, 256, 64, threads=256, stages=3)


def hopper_attention() -> PrimFunc:
    """Two products in a loop: the first of the next step is issued beside the second of this. The
    last tile is masked."""
    return zoo.attention(heads=1, seq=200, dim=64, causal=False, bM=64, bN=64)


KERNELS: dict[str, tuple[Callable[[], PrimFunc], str]] = {
    "matmul_3_stages": (
        lambda: zoo.matmul(128, 128, 256, 64, 64, 32, threads=128, stages=3),
        AMPERE,
    ),
    "conditional_copy": (lambda: zoo.conditional_pipeline(stages=3), AMPERE),
    "continue": (zoo.continue_in_pipeline, AMPERE),
    "attention": (zoo.attention, AMPERE),
    "second_gemm_across_the_back_edge": (second_gemm_across_the_back_edge, AMPERE),
    "hand_written_hopper_ring": (hand_written_ring, HOPPER),
    "hopper_roles": (hopper_matmul, HOPPER),
    "hopper_attention": (hopper_attention, HOPPER),
    "read_then_overwrite": (zoo.read_then_overwrite, AMPERE),
}

_ORDERING = re.compile(
    r"for |if |else|with T\.role|T\.call\('(cp_async_|sync_threads|mbar_|wgmma_wait|fence)"
)
_TILE = re.compile(r"T\.(copy|gemm|reduce|wait_wgmma)\((.*)\)")
_REGION = re.compile(r"(?:src|dst|a|b|c)=(\w+\[[^\]]*\])")


def skeleton(text: str) -> str:
    """Only what orders things, with the regions that tile operations touch."""
    lines: list[str] = []
    for line in text.splitlines():
        indent, body = line[: len(line) - len(line.lstrip())], line.strip()
        op = _TILE.search(body)
        if op:
            pinned = re.search(r"'lowering': '(\w+)'", body)
            by = f" by {pinned[1]}" if pinned else ""
            pending = re.findall(r"\bpending=\d+", op[2])
            lines.append(f"{indent}{op[1]}({', '.join(pending + _REGION.findall(op[2]))}){by}")
        elif _ORDERING.match(body):
            lines.append(indent + body.split(", annotations=")[0])
    return "\n".join(lines)


def scheduled(func: PrimFunc, target: str) -> str:
    context = PassContext(Target(target), Options())
    with session():
        out = run_passes(own_copy(func), context, PIPELINE, stop_after="insert_syncs")
        return skeleton(out.script())


@pytest.mark.parametrize("name", KERNELS)
def test_distances(name: str, update_golden: bool) -> None:
    make, target = KERNELS[name]
    check_golden(GOLDEN / f"{name}.txt", scheduled(make(), target), update_golden)


@pytest.mark.parametrize("name", KERNELS)
def test_meaning(name: str) -> None:
    """The scheduled kernel in the simulator (which checks races, waits and barriers) against the
    oracle."""
    make, target = KERNELS[name]
    func = make()
    rng = np.random.default_rng(0)
    args = [
        np.asarray(rng.integers(-2, 3, [int(s) for s in p.shape]), p.dtype.as_numpy())
        for p in func.params
    ]
    want = [a.copy() for a in args]
    if (
        name == "hand_written_hopper_ring"
    ):  # two roles that wait for each other: no sequential meaning
        want[2] = (want[0].astype(np.float32) @ want[1].astype(np.float32)).astype(np.float16)
    else:
        tile.run(func, *want)
    tilelang.compile(func, target=target)(*args)
    # small integers are exact but for the exponentials of attention
    rtol = 2e-3 if "attention" in name else 0.0
    for got, expected in zip(args, want, strict=True):
        np.testing.assert_allclose(got.astype(np.float32), expected.astype(np.float32), rtol, rtol)


@pytest.mark.parametrize("trips", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("stages", [0, 1, 2, 3, 4])
def test_any_trip_count(trips: int, stages: int) -> None:
    """Law 1: rings longer than the loop, empty loops."""
    func = zoo.matmul(64, 64, 32 * trips, 64, 64, 32, threads=128, stages=stages)
    rng = np.random.default_rng(1)
    a = rng.integers(-2, 3, (64, 32 * trips)).astype(np.float16)
    b = rng.integers(-2, 3, (32 * trips, 64)).astype(np.float16)
    c = np.full((64, 64), np.nan, np.float32)
    tilelang.compile(func, target=AMPERE)(a, b, c)
    np.testing.assert_array_equal(c.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32))


# Kernels whose golden holds a distance that the compiler chose.
_COPIES = ("matmul_3_stages", "conditional_copy", "continue", "attention",
           "second_gemm_across_the_back_edge")  # fmt: skip


def _differs_from_golden(name: str) -> bool:
    make, target = KERNELS[name]
    golden = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    return scheduled(make(), target).rstrip() != golden.rstrip()


@pytest.mark.parametrize("name", _COPIES)
@pytest.mark.parametrize("change", [lambda need: 0, lambda need: need + 1])
def test_another_distance_of_the_copies_is_noticed(
    name: str, change: Callable[[int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiler that always waited for everything, or for one group too few, would not pass."""
    pending = Ring._pending

    def changed(self: Ring, item: Item, commits: int) -> int | None:
        need = pending(self, item, commits)
        return None if need is None else change(need)

    assert not _differs_from_golden(name)
    monkeypatch.setattr(Ring, "_pending", changed)
    assert _differs_from_golden(name)


@pytest.mark.parametrize("name", ["hopper_roles", "hopper_attention"])
@pytest.mark.parametrize("change", [lambda pending: 0, lambda pending: pending + 1])
def test_another_distance_of_the_products_is_noticed(
    name: str, change: Callable[[int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = role_ring.WaitWgmma
    assert not _differs_from_golden(name)
    monkeypatch.setattr(role_ring, "WaitWgmma", lambda n, done: wait(change(n), done))
    assert _differs_from_golden(name)


def test_one_barrier_per_step() -> None:
    text = (GOLDEN / "matmul_3_stages.txt").read_text(encoding="utf-8")
    loop = text.split("for k in")[1]
    assert loop.count("sync_threads") == 1, text


def test_a_schedule_against_a_dependence_is_refused() -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 64), "float32"), B: T.Tensor((4, 64), "float32")):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((64,), "float32")
            f = T.alloc_fragment((64,), "float32")
            for i in T.Pipelined(4, order=[0, 2, 1], stage=[0, 0, 0]):
                T.copy(A[i, :], s)
                T.copy(s, f)
                T.copy(f, B[i, :])

    with pytest.raises(
        OptionError,
        match="statement 2 runs before statement 1 in the same iteration, but both use f",
    ):
        scheduled(main, AMPERE)
