# SPDX-License-Identifier: Apache-2.0
"""Planted faults of every kind are found and named, and right kernels that look like them are not."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

SHARED = "  int* s = (int*)buf_dyn_shmem;\n  const int t = (int)threadIdx.x;\n"


def ints(n: int = 256) -> Any:
    return np.arange(n, dtype=np.int32)


# (what is wrong, kind, body, text of the message). Kernels have A (64 ints), 64 threads, 4 KiB of shared memory.
FAULTS = [
    ("read before the barrier", "race", "s[t] = t; tl::sync_threads(); s[t] = 1; A[t] = s[63 - t];", "data race on shared+128: thread 32 writes it"),
    ("write after a read", "race", "s[t] = t; tl::sync_threads(); A[t] = s[63 - t]; s[t] = 2;", "data race on shared+124: thread 32 reads it"),
    ("two writers", "race", "s[t / 2] = t;", "writes it"),
    ("a byte of a neighbour's pair", "race", "((signed char*)s)[t / 2 * 2] = 1;", "shared+0"),
    ("warps without a barrier", "race", "if (t == 0) s[0] = 5; if (t < 32) tl::sync_warp(); A[t] = t < 32 ? s[0] : 0; if (t == 40) s[0] = 1;", "race"),
    ("sync_warp of one warp only", "race", "if (t == 0) s[0] = 5; tl::sync_warp(); if (t == 0 || t == 33) A[t] = s[0];", "thread 33"),
    ("global race in a block", "race", "A[t] = t; if (t < 63) s[t] = A[t + 1];", "A+"),
    ("one past the end", "out_of_bounds", "A[t + 1] = t;", "A+256, outside the 256 bytes of A"),
    ("before the start", "out_of_bounds", "s[t] = A[t - 1];", "A-4"),
    ("half of a vector outside", "out_of_bounds", "if (t == 0) tl::store_vec(&A[62], tl::vec<int, 2>{{1, 2}}); if (t == 1) tl::store_vec(&A[64], tl::vec<int, 4>{{1, 2, 3, 4}});", "writes 16 bytes at A+256"),
    ("far away", "out_of_bounds", "s[t] = A[1 << 28];", "reads 4 bytes"),
    ("null", "out_of_bounds", "if (t == 3) *(int*)nullptr = 1;", "address 0x0"),
    ("shared memory", "out_of_bounds", "s[t] = 0; s[1024 * 13 + t] = 0;", "outside the 4096 bytes of shared memory"),
    ("shared memory, below", "out_of_bounds", "s[t - 1] = 0;", "shared-4"),
    ("never written", "uninitialised", "if (s[t] == 3) A[0] = 1;", "thread 0 reads shared+0"),
    ("half written", "uninitialised", "((short*)s)[2 * t] = 1; A[t] = s[t];", "shared+"),
    ("a vector at an odd place", "misaligned", "if (t == 0) tl::store_vec(&s[1], tl::vec<int, 4>{{1, 2, 3, 4}});", "multiple of 16"),
    ("an int at an odd place", "misaligned", "*(int*)((char*)s + 2) = t;", "multiple of 4"),
    ("a barrier in one branch", "divergence", "if (t < 32) tl::sync_threads(); else\ntl::sync_threads();", "must reach the same one"),
    ("lanes at different places", "divergence", "if (t & 1) tl::sync_warp(); else\ntl::shfl_xor(t, 1, 32);", "all lanes of the mask"),
    ("half a warp shuffles", "deadlock", "if ((t & 31) < 16) A[t] = tl::shfl_xor(t, 1, 32); else tl::named_barrier_sync(1, 64);", "named_barrier_sync 1"),
    ("nobody arrives", "deadlock", "if (t == 0) tl::mbar_init((unsigned long long*)s, 2); tl::sync_threads(); if (t == 5) tl::mbar_arrive((unsigned long long*)s);\nif (t == 7) tl::mbar_wait((unsigned long long*)s, 0);", "thread 7 waits at mbar_wait"),
    ("too many arrive", "barrier", "if (t == 0) tl::mbar_init((unsigned long long*)s, 1); tl::sync_threads(); if (t == 1) tl::mbar_expect_tx((unsigned long long*)s, 16);\nif (t == 2) tl::mbar_arrive((unsigned long long*)s);", "all 1 arrivals"),
    ("no such mbarrier", "uninitialised", "if (t == 1) tl::mbar_arrive((unsigned long long*)s);", "nothing has initialised"),
    ("a parity of two", "barrier", "if (t == 0) { tl::mbar_init((unsigned long long*)s, 1); tl::mbar_wait((unsigned long long*)s, 2); }", "0 or 1"),
    ("a named barrier with two counts", "barrier", "if (t < 32) tl::named_barrier_sync(1, 64); else tl::named_barrier_sync(1, 32);", "count"),
    ("a count that is no warp", "barrier", "tl::named_barrier_sync(1, 63);", "multiple of 32"),
    ("arrivals that wait for more", "deadlock", "if (t < 32) tl::named_barrier_sync(2, 64);", "threads 0 to 31 wait"),
    ("trap", "trap", "if (t == 9) tl::trap();", "thread 9 trapped"),
    ("cp.async read too early", "missing_wait", "tl::cp_async<4>(&s[t], &A[t]); tl::cp_async_commit(); A[t] = s[t];", "cp_async of thread"),
    ("cp.async of an open group", "missing_wait", "tl::cp_async<4>(&s[t], &A[t]); tl::cp_async_wait<0>(); A[t] = s[t];", "cp_async of thread"),
    ("cp.async seen by others", "race_or_wait", "tl::cp_async<4>(&s[t], &A[t]); tl::cp_async_commit(); tl::cp_async_wait<0>(); A[t] = s[t ^ 1];", ""),
    ("cp.async over a reader", "missing_wait", "s[t] = 1; tl::sync_threads(); A[t ^ 1] = s[t ^ 1]; tl::cp_async<4>(&s[t], &A[t], false);", "cp_async"),
    ("cp.async misaligned", "misaligned", "tl::cp_async<16>(&s[4 * t + 1], &A[0], true);", "multiples of 16"),
    ("cp.async out of bounds", "out_of_bounds", "tl::cp_async<16>(&s[4 * t], &A[4 * t], true);", "A+256"),
    ("ldmatrix misaligned", "misaligned", "unsigned r[4]; s[t] = 0; tl::sync_threads(); tl::ldmatrix<1, false>(r, &s[2]);", "ldmatrix"),
    ("an atomic and a plain write", "race", "s[t] = 0; tl::sync_threads(); if (t == 1) s[0] = 3; tl::atomic_add(&s[0], 1);", "race"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "kind", "body", "text"), FAULTS, ids=[f[0] for f in FAULTS])
def test_a_fault_is_found(sim: Any, what: str, kind: str, body: str, text: str) -> None:
    source = sim.kernel("int* A", SHARED + body, "mbarrier warp cp_async ldmatrix atomic")
    with pytest.raises(RuntimeError) as caught:
        sim.run(source, ints(64), block=(64,), smem=4096)
    found = caught.value.kind  # type: ignore[attr-defined]
    assert found in (("race", "missing_wait") if kind == "race_or_wait" else (kind,)), caught.value
    assert text in str(caught.value)


# Right kernels: (what, body).
RIGHT = [
    ("16-bit neighbours", "((short*)s)[t] = (short)t; tl::sync_threads(); A[t] = ((short*)s)[63 - t];"),
    ("8-bit neighbours", "((signed char*)s)[t] = (signed char)t; tl::sync_threads(); A[t] = ((signed char*)s)[63 - t];"),
    ("bytes, then words", "((signed char*)s)[t] = 1; tl::sync_threads(); if (t < 16) A[t] = s[t]; tl::sync_threads(); if (t < 16) s[t] = 0;"),
    ("vectors, then bytes", "if (t < 16) tl::store_vec(&s[4 * t], tl::vec<int, 4>{{1, 2, 3, 4}}); tl::sync_threads(); A[t] = ((signed char*)s)[t];\ntl::sync_threads(); ((signed char*)s)[t] = 3; tl::sync_threads(); if (t < 4) tl::store_vec(&s[4 * t], tl::vec<int, 4>{{0, 0, 0, 0}});"),
    ("everybody reads one word", "if (t == 0) s[0] = 7; tl::sync_threads(); A[t] = s[0]; tl::sync_threads(); if (t == 63) s[0] = 8;"),
    ("its own word", "for (int i = 0; i < 5; ++i) { s[t] = i; A[t] = s[t]; }"),
    ("sync_warp", "s[t] = t; tl::sync_warp(); A[t] = s[t ^ 31]; tl::sync_warp(); s[t ^ 31] = 2;"),
    ("half warps on their own", "if (t < 64) { const unsigned m = t % 32 < 16 ? 0xffffu : 0xffff0000u; s[t] = t; tl::sync_warp(m); A[t] = s[t ^ 15]; }"),
    ("named barriers of two pairs of warps", "s[t] = t; tl::named_barrier_sync(1 + t / 32, 32); A[t] = s[t ^ 31];"),
    ("producer and consumer", "if (t < 32) { s[t] = t; tl::named_barrier_arrive(3, 64); } else { tl::named_barrier_sync(3, 64); A[t] = s[t - 32]; }"),
    ("threads that return early", "if (t >= 40) return; s[t] = t; tl::sync_threads(); A[t] = s[39 - t];"),
    ("lanes that return before a shuffle", "if (t == 63) return; A[t] = tl::shfl_down(t, 1, 32);"),
    ("an mbarrier as a barrier", "unsigned long long* b = (unsigned long long*)s; if (t == 0) { tl::mbar_init(b, 64); tl::fence_mbar_init(); } tl::sync_threads();\ns[8 + t] = t; tl::mbar_arrive(b); tl::mbar_wait(b, 0); A[t] = s[8 + (t ^ 63)];"),
    ("an mbarrier over many phases", "unsigned long long* b = (unsigned long long*)s; if (t == 0) tl::mbar_init(b, 64); tl::sync_threads();\nfor (int i = 0; i < 9; ++i) { if (i % 64 == t) s[8] = i; tl::mbar_arrive(b); tl::mbar_wait(b, i & 1); A[t] = s[8]; tl::sync_threads(); }"),
    ("cp.async in order", "tl::cp_async<4>(&s[t], &A[t]); tl::cp_async_commit(); tl::cp_async<4>(&s[64 + t], &A[t]); tl::cp_async_commit(); tl::cp_async_wait<1>(); s[t] += 1;\ntl::cp_async_wait<0>(); tl::sync_threads(); A[t] = s[64 + (t ^ 1)];"),
    ("atomics together", "s[t] = 0; tl::sync_threads(); tl::atomic_add(&s[t & 3], 1); tl::atomic_max(&A[0], t); tl::sync_threads(); A[t] = s[t & 3];"),
    ("a local array", "int v[8]; for (int i = 0; i < 8; ++i) v[(i * 3 + t) & 7] = i; A[t] = v[t & 7];"),
    ("a constant table", "static const int table[4] = {1, 2, 3, 4}; A[t] = table[t & 3];"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "body"), RIGHT, ids=[r[0] for r in RIGHT])
def test_no_false_alarm(sim: Any, what: str, body: str) -> None:
    source = sim.kernel("int* A", SHARED + body, "mbarrier warp cp_async ldmatrix atomic")
    sim.run(source, ints(64), block=(64,), smem=4096)


def test_a_read_only_argument(sim: Any) -> None:
    source = sim.kernel("int* A", "A[threadIdx.x] = 1;")
    error = sim.fault("read_only", source, ints(), read_only="A")
    assert "must not change" in error.message


def test_the_line_is_named(sim: Any) -> None:
    error = sim.fault("out_of_bounds", sim.kernel("int* A", "  const int t = 0;\n  A[64 + t] = 1;"), ints(64))
    assert "(line 5)" in error.message
    assert "line 5: A[64 + t] = 1;" in str(error)


def test_the_users_line_is_named(sim: Any, tmp_path: Any) -> None:
    user = tmp_path / "program.py"
    user.write_text("first\nsecond\n    A[i] = 1  # here\n", encoding="utf-8")
    body = f'#line 3 "{user}"\n  A[64] = 1;\n#line 9 "{user}"\n  A[0] = 1;'
    error = sim.fault("out_of_bounds", sim.kernel("int* A", body), ints(64))
    assert error.span is not None
    assert (error.span.file, error.span.line) == (str(user), 3)
    assert "A[i] = 1  # here" in str(error)


def test_both_accesses_of_a_race_are_named(sim: Any) -> None:
    source = sim.kernel("int* A", SHARED + "  s[t] = 1;\n  A[t] = s[t ^ 1];")
    error = sim.fault("race", source, ints(), smem=128)
    assert "thread 1 writes it (line 7), and thread 0 read it (line 8)" in error.message


def test_a_spinning_kernel_is_stopped(sim: Any) -> None:
    source = sim.kernel("int* A", "while (*(volatile int*)A == 0) {\n  }")
    error = sim.fault("timeout", source, np.zeros(4, np.int32), time_limit=0.3)
    assert "polls memory" in error.message


def test_polling_lets_the_others_run(sim: Any) -> None:
    body = SHARED + "  if (t == 0) { while (*(volatile int*)&A[0] == 0) {} A[1] = 5; }\n  if (t == 31) tl::atomic_add(&A[0], 1);"
    a = np.zeros(4, np.int32)
    sim.run(sim.kernel("int* A", body.replace("buf_dyn_shmem", "tlsim_shared()"), "atomic"), a, time_limit=5.0)
    assert list(a[:2]) == [1, 5]


def test_without_checks_nothing_is_said(sim: Any) -> None:
    source = sim.kernel("int* A", SHARED + "  s[t] = t;\n  A[t] = s[t ^ 1];")
    sim.run(source, ints(), smem=128, check=False)


def test_a_launch_that_hardware_refuses(sim: Any) -> None:
    source = sim.kernel("int* A", "A[0] = 1;")
    for options in ({"block": (1025,)}, {"smem": 300_000}, {"grid": (1, 70000)}, {"block": (0,)}):
        with pytest.raises(ValueError):
            sim.run(source, ints(), **options)


def test_an_empty_grid_runs_nothing(sim: Any) -> None:
    report = sim.run(sim.kernel("int* A", "A[0] = 1;"), ints(), ctypes.c_int(0), grid=(0,))
    assert report.counters["threads"] == 0
