# SPDX-License-Identifier: Apache-2.0
"""From a Python function to its syntax tree, with the lines and columns of the user's file.

In: a function object. Out: the `ast.FunctionDef` it was compiled from (shared, never modified) and
the name of its file. The text comes from `linecache`, so a file, a notebook cell, a zip archive and
anything that a loader can show (`__loader__.get_source`) all work; `remember_source` adds text that
was run by `exec`.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilelang.errors import LanguageError, Span

if TYPE_CHECKING:
    from types import CodeType, FunctionType

_MAX_FILES = 64


@dataclass(frozen=True)
class Source:
    """A function's definition. file: as compiled, which is what spans name."""

    node: ast.FunctionDef
    file: str


# file -> (its lines, first line and name of each function -> its definition)
_files: dict[str, tuple[list[str], dict[tuple[int, str], ast.FunctionDef]]] = {}


def source_of(fn: FunctionType) -> Source:
    """The definition of `fn`; LanguageError where its text cannot be found."""
    code = fn.__code__
    lines = linecache.getlines(code.co_filename, fn.__globals__)
    found = (
        _index(code.co_filename, lines).get((code.co_firstlineno, code.co_name)) if lines else None
    )
    if found is None:
        found = _from_loader(fn, code)
    if found is None:
        raise LanguageError(
            f"the source of `{fn.__name__}` cannot be found (it was defined in "
            f"{code.co_filename!r})",
            code="TL0110",
            span=Span(code.co_filename, code.co_firstlineno, function=fn.__name__),
            help="define the kernel in a file or a notebook cell, or pass the text given to exec() "
            "to tilelang.language.remember_source(text, filename) before running it",
        )
    return Source(found, code.co_filename)


def remember_source(text: str, filename: str) -> str:
    """Makes the text of a program that is run by `exec(compile(text, filename, "exec"))` known."""
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    return text


def _index(file: str, lines: list[str]) -> dict[tuple[int, str], ast.FunctionDef]:
    hit = _files.get(file)
    if hit is not None and hit[0] is lines:
        return hit[1]
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):  # the file was edited, or is no Python (a template)
        return {}
    index = {
        (min([n.lineno, *(d.lineno for d in n.decorator_list)]), n.name): n
        for n in ast.walk(tree)
        if isinstance(n, ast.FunctionDef)
    }
    if len(_files) >= _MAX_FILES:
        _files.pop(next(iter(_files)), None)
    _files[file] = (lines, index)
    return index


def _from_loader(fn: Any, code: CodeType) -> ast.FunctionDef | None:
    """Where the whole file does not help, `inspect` may still find the block (an interactive
    prompt).
    """
    try:
        lines, first = inspect.getsourcelines(fn)
    except (OSError, TypeError, SyntaxError, IndentationError):
        return None
    indent = len(lines[0]) - len(lines[0].lstrip())
    text = "".join(lines)
    if indent:  # an indented block parses below an `if`, its columns intact
        text, first = "if True:\n" + text, first - 1
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    ast.increment_lineno(tree, first - 1)
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == code.co_name]
    return nodes[0] if nodes else None
