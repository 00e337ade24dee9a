# SPDX-License-Identifier: Apache-2.0
"""Files and functions stay small enough to be read in one go."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAX_FILE_LINES = 700
MAX_FUNCTION_LINES = 60
SUFFIXES = frozenset({".py", ".cuh", ".h", ".c", ".cc"})
FOLDERS = ("tilelang", "tests", "examples", "benchmarks")

# "path::function": why it reads better in one piece.  Keep this short.
LONG_FUNCTIONS: dict[str, str] = {}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _sources() -> Iterator[Path]:
    golden = ROOT / "tests" / "golden"
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and golden not in path.parents:
                yield path


def _body_lines(function: Function) -> int:
    """Lines of a function without its decorators and docstring: documentation may be long."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function, clean=False) is None:
        return lines
    docstring = function.body[0]
    return lines - ((docstring.end_lineno or docstring.lineno) - docstring.lineno + 1)


def _long_functions() -> dict[str, int]:
    found = {}
    for path in sorted((ROOT / "tilelang").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, Function) and _body_lines(node) > MAX_FUNCTION_LINES:
                name = f"{path.relative_to(ROOT).as_posix()}::{node.name}"
                found[name] = _body_lines(node)
    return found


def test_no_file_is_long() -> None:
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in _sources()}
    assert {str(p): count for p, count in lines.items() if count > MAX_FILE_LINES} == {}


def test_no_function_is_long() -> None:
    found = _long_functions()
    assert {name: count for name, count in found.items() if name not in LONG_FUNCTIONS} == {}


def test_every_exception_is_still_needed() -> None:
    assert set(LONG_FUNCTIONS) - set(_long_functions()) == set()


def test_a_docstring_does_not_count() -> None:
    text = 'def f():\n    """One.\n\n    Two.\n    """\n    return 1\n'
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    assert _body_lines(function) == 2
