# SPDX-License-Identifier: Apache-2.0
"""The C compiler: what it builds loads, and what it refuses is reported with the lines at fault."""

from __future__ import annotations

import time

import pytest

from tilelang.config import env
from tilelang.errors import ToolchainError
from tilelang.runtime.cc import compile_library, compiler_key, find_compiler, load_library


def test_compiles_and_loads() -> None:
    start = time.perf_counter()
    data = compile_library("int f(int x) { return x + 1; }")
    assert time.perf_counter() - start < 5
    first, second = load_library(data), load_library(data)
    assert first.f(41) == second.f(41) == 42


def test_reports_the_line_at_fault() -> None:
    with pytest.raises(ToolchainError, match="nonsense") as caught:
        compile_library("int a;\nint f(void) { return nonsense; }\n")
    assert "2 | int f(void)" in str(caught.value)
    assert caught.value.code == "TL0855"


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env, "CC", "no-such-compiler -O1")
    with pytest.raises(ToolchainError, match="no-such-compiler"):
        find_compiler()


def test_the_key_names_version_and_flags() -> None:
    key = compiler_key(cpu="x86-64-v3", opt=1)
    assert "-O1" in key
    assert "x86-64-v3" in key
    assert key != compiler_key()
