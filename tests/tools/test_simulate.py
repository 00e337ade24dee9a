# SPDX-License-Identifier: Apache-2.0
"""`python -m tilelang simulate`, in-process: reports, faults, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tilelang.config import env
from tilelang.tools.command import main

PROGRAM = """
import sys
import numpy as np, tilelang, tilelang.language as T

@tilelang.jit(target={target})
def scale(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(2, threads=32) as bx:
            s = T.alloc_shared((n,), "float32")
            for i in T.Parallel(n):
                s[i] = A[i]
            for i in T.Parallel(n // 2):
                B[bx * (n // 2) + i] = s[bx * (n // 2) + i] * 2
    return main

a, b = np.arange(64, dtype="f4"), np.zeros(64, "f4")
scale(64)(a, b)
print("right" if (b == 2 * a).all() else "wrong", sys.argv[1:])
"""
RACE = """
import numpy as np, tilelang, tilelang.language as T

@T.prim_func
def main(A: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        A[T.if_then_else(t < 2, 0, t)] = T.cast(t + 1, "float32")

tilelang.compile(main, target="cuda")(np.zeros(64, "f4"))
"""


@pytest.fixture
def program(tmp_path: Path) -> Any:
    def write(text: str) -> str:
        path = tmp_path / "program.py"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


@pytest.mark.parametrize("target", ['"auto"', '"cuda"', '"cuda -arch=sm_80"'])
def test_a_program_runs_on_the_simulator(program: Any, capfd: Any, target: str) -> None:
    before = env.TILELANG_DEFAULT_TARGET
    assert main(["simulate", program(PROGRAM.replace("{target}", target)), "x", "-y"]) == 0
    out = capfd.readouterr().out
    assert "right ['x', '-y']" in out
    assert "main_kernel: grid (2, 1, 1), block (32, 1, 1)" in out
    assert ", bound by " in out
    assert "program.py:14: global write" in out
    assert before == env.TILELANG_DEFAULT_TARGET


def test_the_report_as_json(program: Any, capfd: Any, tmp_path: Path) -> None:
    file = program(PROGRAM.replace("{target}", '"auto"'))
    assert main(["simulate", "--json", "-", "--arch", "sm_80", file]) == 0
    text = capfd.readouterr()
    assert "right" in text.err
    report = json.loads(text.out)
    (kernel,) = report["kernels"]
    assert report["faults"] == []
    assert kernel["ideal"]["machine"] == "A100"
    assert kernel["ideal"]["binds"] in kernel["ideal"]["units"]
    assert {t["name"]: (t["read_bytes"], t["written_bytes"]) for t in kernel["tensors"]} == {
        "A": (256, 0),
        "B": (0, 256),
    }
    assert kernel["registers"]["limit"] == 255
    kinds = {s["kind"] for s in kernel["sites"]}
    assert {"global read", "global write", "shared read", "shared write", "barrier"} <= kinds
    assert main(["simulate", "--json", str(tmp_path / "out.json"), file]) == 0
    assert json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["kernels"]


def test_a_fault_is_an_exit_code(program: Any, capfd: Any) -> None:
    file = program(RACE)
    assert main(["simulate", file]) == 1
    err = capfd.readouterr().err
    assert "data race on A+0" in err
    assert 'A[T.if_then_else(t < 2, 0, t)] = T.cast(t + 1, "float32")' in err
    assert main(["simulate", "--json", "-", file]) == 1
    (fault,) = json.loads(capfd.readouterr().out)["faults"]
    assert fault["kind"] == "race"
    assert fault["place"].endswith("program.py:8")


def test_a_fault_that_the_program_swallows(program: Any, capfd: Any) -> None:
    text = (
        RACE.replace("tilelang.compile", "try:\n    tilelang.compile") + "except Exception: pass\n"
    )
    assert main(["simulate", program(text)]) == 1
    assert "data race" in capfd.readouterr().err


def test_without_checks(program: Any) -> None:
    assert main(["simulate", "--no-check", "--no-traffic", "--jobs", "1", program(RACE)]) == 0


def test_the_programs_own_exit_code(program: Any) -> None:
    assert main(["simulate", program("raise SystemExit(3)")]) == 3


def test_a_program_without_kernels(program: Any, capfd: Any) -> None:
    assert main(["simulate", program("pass")]) == 0
    assert "no kernel ran in the simulator" in capfd.readouterr().out


def test_a_refusal_names_what_to_do(
    program: Any, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tilelang.sim import toolchain

    monkeypatch.setattr(toolchain.shutil, "which", lambda name: None)
    toolchain.host_compiler.cache_clear()
    try:
        assert main(["simulate", program("print('ran')")]) == 1
    finally:
        toolchain.host_compiler.cache_clear()
    text = capfd.readouterr()
    assert "neither g++ nor clang++ is on PATH" in text.err
    assert "help:" in text.err
    assert "ran" not in text.out


def test_a_file_that_is_not_there(capfd: Any) -> None:
    assert main(["simulate", "nowhere.py"]) == 1
    assert "there is no file nowhere.py" in capfd.readouterr().err
