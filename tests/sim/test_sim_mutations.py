# SPDX-License-Identifier: Apache-2.0
"""Generated kernels with one wait, barrier, fence or copy taken out: the simulator finds each."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilelang.language as T
from tilelang.engine.lower import lower
from tilelang.errors import SimulatorError
from tilelang.ir import HostProgram
from tilelang.sim import build, run_program

ORDERING = re.compile(
    r"tl::(cp_async|sync_|fence_|mbar_|wgmma_(fence|wait|commit)|named_barrier|tma_)\w*[<(]"
)
PENDING = re.compile(r"(cp_async_wait|wgmma_wait)<(\d)>")
# The first rounds of a ring of staging tiles wait for stores that there are not yet.
MAY_BE_IDLE = re.compile(r"tl::(tma_store_wait<1>|tma_store_commit|named_barrier_sync).*dropped")
BYTES = re.compile(r"(mbar_expect_tx\(.*), (\d+)\)")


def matmul(m: int, n: int, k: int, tile: tuple[int, int, int], threads: int, stages: int) -> Any:
    bm, bn, bk = tile

    @T.prim_func
    def matmul(
        A: T.Tensor((m, k), "float16"),
        B: T.Tensor((k, n), "float16"),
        C: T.Tensor((m, n), "float16"),
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((bm, bk), "float16")
            B_shared = T.alloc_shared((bk, bn), "float16")
            C_local = T.alloc_fragment((bm, bn), "float32")
            T.clear(C_local)
            for i in T.Pipelined(T.ceildiv(k, bk), num_stages=stages):
                T.copy(A[by * bm, i * bk], A_shared)
                T.copy(B[i * bk, bx * bn], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * bm, bx * bn])

    return matmul


CASES = {
    "ampere": ("sm_80", (64, 96, 200), (32, 32, 32), 128, 3),
    "hopper": ("sm_90a", (128, 256, 320), (128, 128, 64), 256, 3),
}


def mutants(source: str) -> list[tuple[str, str]]:
    """(the line and what happened to it, the whole text)."""
    lines = source.split("\n")
    out = []
    for i, line in enumerate(lines):
        changed = {"": "dropped"} if ORDERING.search(line) else {}
        if PENDING.search(line):
            more = PENDING.sub(lambda m: f"{m[1]}<{int(m[2]) + 1}>", line)
            changed[more] = "one more pending"
        if BYTES.search(line):
            changed[BYTES.sub(lambda m: f"{m[1]}, {int(m[2]) + 128})", line)] = "too many bytes"
        for text, what in changed.items():
            out.append((f"{line.strip()}: {what}", "\n".join([*lines[:i], text, *lines[i + 1 :]])))
    return out


def fails(program: HostProgram, source: str, inputs: list[Any], want: Any) -> bool:
    """Does the simulator object, or the result differ?"""
    arrays = [x.copy() for x in inputs]
    try:
        run_program(program, build(source, program.launches), arrays)
    except SimulatorError:
        return True
    return not np.array_equal(arrays[-1], want)


@pytest.mark.parametrize("name", CASES)
def test_every_mutant_is_found(name: str) -> None:
    arch, (m, n, k), tile, threads, stages = CASES[name]
    func = matmul(m, n, k, tile, threads, stages)
    artifact = lower(func, f"cuda-sim -arch={arch}")
    program, source = artifact.host_mod["matmul"], artifact.kernel_source
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, s).astype(np.float16) for s in ((m, k), (k, n)))
    want = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    inputs = [a, b, np.zeros((m, n), np.float16)]
    assert not fails(program, source, inputs, want)
    texts = mutants(source)
    assert len(texts) >= 8
    missed = [what for what, text in texts if not fails(program, text, inputs, want)]
    assert [what for what in missed if not MAY_BE_IDLE.match(what)] == []
