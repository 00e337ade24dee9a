# SPDX-License-Identifier: Apache-2.0
"""The benchmark programs: one measurement in a process of its own, bars, README's tables."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


def test_a_measurement(program: Any) -> None:
    found = program("cpu").fresh("cold_compile", "llvm")
    assert found["cpu"] > 0
    assert 0 < found["seconds"] < 60


def test_a_hit_in_a_new_process_lowers_nothing(program: Any) -> None:
    found = program("cpu").fresh("disk_hit", "llvm")  # asserts it
    assert 0 < found["hit cpu"] < found["bare cpu"]


def test_a_measurement_that_fails_says_why(program: Any) -> None:
    with pytest.raises(RuntimeError, match="target 'abacus' is not supported"):
        program("cpu").fresh("cold_compile", "abacus")


def test_bars(program: Any) -> None:
    bar = program("cpu").Bar
    assert bar("time", 0.2, "s", 0.2).ok
    assert not bar("time", 0.3, "s", 0.2).ok
    assert bar("rate", 0.8, "x", 0.7, lower=False).ok
    assert bar("rate", 0.6, "x", 0.7, lower=False).line().startswith("MISS")


def test_tables(program: Any) -> None:
    tables = program("tables")
    machine = {"gpu": "H", "commit": "0123456789ab", "date": "today", "cores": 2, "cpu": "C"}
    row = {"group": "g", "name": "a", "unit": "GB/s", "burst": 200.0, "sustained": 100.0}
    rows = [row, {**row, "name": "b", "burst": 100.0}]
    text = tables.gpu({"machine": machine, "rows": rows, "host_us": {"bare": 1.0}})
    assert "|  | b | GB/s | 100 | 100 | 0.50 / 1.00 |" in text
    assert "| bare | 1.00 µs |" in text
    bar = {"name": "n", "value": 1.5, "unit": "s", "limit": 1, "lower": True, "note": "", "ok": 0}
    assert "| n | 1.5 s | ≤ 1 | missed |  |" in tables.cpu({"machine": machine, "bars": [bar]})


def test_the_launch_loop(program: Any) -> None:
    import ctypes

    calls: list[tuple[Any, ...]] = []
    kind = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
    launch = kind(lambda *args: calls.append(args) or 0)
    peer = program("launch").build_peer()
    entry = ctypes.cast(launch, ctypes.c_void_p).value
    assert peer(entry, 16, 32, (ctypes.c_void_p * 1)(1), 100) > 0
    assert len(calls) == 100
    assert calls[0][:2] == (16, 32)
    refusing = kind(lambda *args: 700)
    assert peer(ctypes.cast(refusing, ctypes.c_void_p).value, 16, 32, None, 100) == -700
