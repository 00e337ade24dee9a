# SPDX-License-Identifier: Apache-2.0
"""Planted faults of every kind are found and named; right kernels that look like them are not."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilelang.errors import ArgumentValueError

KERNELS = Path(__file__).parent / "kernels"
SHARED = "  int* s = (int*)buf_dyn_shmem;\n  const int t = (int)threadIdx.x;\n"


def ints(n: int = 256) -> Any:
    return np.arange(n, dtype=np.int32)


def sections(name: str) -> list[list[str]]:
    """The sections of a file of kernel bodies: the fields of its head, and the body."""
    parts = (KERNELS / name).read_text(encoding="utf-8").split("\n//// ")[1:]
    heads = [[f.strip() for f in part.split("\n", 1)[0].split("|")] for part in parts]
    return [[*h, part.split("\n", 1)[1]] for h, part in zip(heads, parts, strict=True)]


FAULTS = sections("faults.cu")
RIGHT = sections("right.cu")


@pytest.mark.parametrize(("what", "kind", "text", "body"), FAULTS, ids=[f[0] for f in FAULTS])
def test_a_fault_is_found(sim: Any, what: str, kind: str, text: str, body: str) -> None:
    source = sim.kernel("int* A", SHARED + body, "mbarrier warp cp_async ldmatrix atomic")
    with pytest.raises(RuntimeError) as caught:
        sim.run(source, ints(64), block=(64,), smem=4096)
    found = caught.value.kind  # type: ignore[attr-defined]
    assert found in (("race", "missing_wait") if kind == "race_or_wait" else (kind,)), caught.value
    assert text in str(caught.value)


@pytest.mark.parametrize(("what", "body"), RIGHT, ids=[r[0] for r in RIGHT])
def test_no_false_alarm(sim: Any, what: str, body: str) -> None:
    source = sim.kernel("int* A", SHARED + body, "mbarrier warp cp_async ldmatrix atomic")
    sim.run(source, ints(64), block=(64,), smem=4096)


def test_a_read_only_argument(sim: Any) -> None:
    source = sim.kernel("int* A", "A[threadIdx.x] = 1;")
    error = sim.fault("read_only", source, ints(), read_only="A")
    assert "must not change" in error.message


def test_a_vector_that_begins_inside(sim: Any) -> None:
    body = "tl::store_vec(&A[4 * threadIdx.x], tl::vec<int, 4>{{1, 2, 3, 4}});"
    error = sim.fault("out_of_bounds", sim.kernel("int* A", body), ints(126)[:125])
    assert "thread 31 writes 16 bytes at A+496, outside the 500 bytes of A" in error.message


def test_the_line_is_named(sim: Any) -> None:
    error = sim.fault(
        "out_of_bounds", sim.kernel("int* A", "  const int t = 0;\n  A[64 + t] = 1;"), ints(64)
    )
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
    error = sim.fault("deadlock", source, np.zeros(4, np.int32))
    assert "threads 0 to 31 wait at a look at memory that nobody changes (line 4)" in error.message


def test_polling_lets_the_others_run(sim: Any) -> None:
    body = (
        SHARED
        + "  if (t == 0) { while (*(volatile int*)A == 0) {} A[1] = 5; }\n"
        + "  if (t == 31) tl::atomic_add(&A[0], 1);"
    )
    a = np.zeros(4, np.int32)
    sim.run(
        sim.kernel("int* A", body.replace("buf_dyn_shmem", "tlsim_shared()"), "atomic"),
        a,
        time_limit=5.0,
    )
    assert list(a[:2]) == [1, 5]


def test_without_checks_nothing_is_said(sim: Any) -> None:
    source = sim.kernel("int* A", SHARED + "  s[t] = t;\n  A[t] = s[t ^ 1];")
    sim.run(source, ints(), smem=128, check=False)


def test_a_launch_that_hardware_refuses(sim: Any) -> None:
    source = sim.kernel("int* A", "A[0] = 1;")
    for options in ({"block": (1025,)}, {"smem": 300_000}, {"grid": (1, 70000)}, {"block": (0,)}):
        with pytest.raises(ArgumentValueError):
            sim.run(source, ints(), **options)


def test_an_empty_grid_runs_nothing(sim: Any) -> None:
    report = sim.run(sim.kernel("int* A", "A[0] = 1;"), ints(), ctypes.c_int(0), grid=(0,))
    assert not report.counters


def test_an_endless_loop_is_stopped(sim: Any) -> None:
    body = "unsigned x = threadIdx.x;\n  while (x != 77) x = x * 2 + 1 == 77;\n  A[0] = x;"
    error = sim.fault("timeout", sim.kernel("int* A", body), ints(4), time_limit=0.3)
    assert "still runs after 0.3 s (line 5)" in error.message
