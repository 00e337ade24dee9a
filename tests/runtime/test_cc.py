# SPDX-License-Identifier: Apache-2.0
"""The C compiler: what it builds loads, and what it refuses is reported with the lines at fault."""

from __future__ import annotations

from typing import Any

import pytest

from tilelang.config import Options, env
from tilelang.errors import ToolchainError
from tilelang.runtime.cc import compile_library, compiler_version, find_compiler, load_library
from tilelang.target import Target


def build_all(sources: list[str], target: str = "c", **options: Any) -> bytes:
    return compile_library(sources, Target(target), Options(**options))


def build(source: str, target: str = "c", **options: Any) -> bytes:
    return build_all([source], target, **options)


def test_compiles_and_loads() -> None:
    data = build("int f(int x) { return x + 1; }")
    first, second = load_library(data), load_library(data)
    assert first.f(41) == second.f(41) == 42


def test_reports_the_line_at_fault() -> None:
    with pytest.raises(ToolchainError, match="nonsense") as caught:
        build("int a;\nint f(void) { return nonsense; }\n")
    assert "2 | int f(void)" in str(caught.value)
    assert caught.value.code == "TL0855"


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env, "CC", "no-such-compiler -O1")
    with pytest.raises(ToolchainError, match="no-such-compiler"):
        find_compiler()


def test_the_flags_of_the_user_and_the_target_are_passed() -> None:
    source = "int f(void) { return ANSWER; }\nint v(void) { return __AVX2__; }\n"
    with pytest.raises(ToolchainError, match="AVX2"):
        build(source, "c -mcpu=x86-64", compile_flags=("-DANSWER=7",))
    made = build(source, "c -mcpu=x86-64 -mattr=+avx2", compile_flags=("-DANSWER=7",))
    assert load_library(made).f() == 7


def test_several_sources() -> None:
    made = build_all(["int g(void); int f(void) { return g(); }", "int g(void) { return 5; }"])
    assert load_library(made).f() == 5


def test_the_version_names_the_compiler() -> None:
    assert find_compiler()[0] in compiler_version()
