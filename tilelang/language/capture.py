# SPDX-License-Identifier: Apache-2.0
"""From a Python function to its syntax tree, with the lines and columns of the user's file.

In: a function object. Out: the `ast.FunctionDef` it was compiled from (shared, never modified) and
the name of its file. The text comes from `linecache`, so a file, a notebook cell, a zip archive and
anything that a loader can show (`__loader__.get_source`) all work. For `exec(text)` it is looked
for in the frame that runs the `exec`; at an interactive prompt, in what was typed;
`remember_source` makes any other text known.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import linecache
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any

from tilelang.errors import LanguageError, Span

from .prompt import typed_texts

if TYPE_CHECKING:
    from types import FunctionType

_MAX_FILES = 64
_MAX_NOTED = 4096


@dataclass(frozen=True)
class Source:
    """A function's definition. file: as compiled, which is what spans name."""

    node: ast.FunctionDef
    file: str


# file -> (its lines, first line and name of each function -> its definition)
_files: dict[str, tuple[list[str], dict[tuple[int, str], ast.FunctionDef]]] = {}


# code object -> its definition, for functions whose text linecache does not know
_noted: dict[int, tuple[CodeType, Source]] = {}


def source_of(fn: FunctionType) -> Source:
    """The definition of `fn`; LanguageError where its text cannot be found."""
    code = fn.__code__
    noted = _noted.get(id(code))
    if noted is not None:
        return noted[1]
    if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise LanguageError(
            "`async def` is not part of the kernel language",
            code="TL0192",
            span=Span(code.co_filename, code.co_firstlineno, function=fn.__name__),
            help="kernels run to completion; use a plain `def`",
        )
    key = (code.co_firstlineno, code.co_name)
    lines = linecache.getlines(code.co_filename, fn.__globals__)
    found = _index(code.co_filename, lines).get(key) if lines else None
    if found is None and not lines:
        found = _from_texts(code, key)
    if found is None:
        found = _from_loader(fn, code)
    if found is None:
        raise LanguageError(
            f"the source of `{fn.__name__}` cannot be found (defined in {code.co_filename!r})",
            code="TL0110",
            span=Span(code.co_filename, code.co_firstlineno, function=fn.__name__),
            help="define the kernel in a file or a notebook cell, or pass the text given to exec() "
            "to tilelang.language.remember_source(text, filename) before running it",
        )
    return Source(found, code.co_filename)


def note_source(fn: Any) -> None:
    """Keeps the text of a function that is run by `exec` while it can still be found: called by
    decorators whose work comes later."""
    code = getattr(fn, "__code__", None)
    if code is None or not code.co_filename.startswith("<"):
        return
    if not linecache.getlines(code.co_filename, fn.__globals__):
        _from_texts(code, (code.co_firstlineno, code.co_name))


def _from_texts(code: CodeType, key: tuple[int, str]) -> ast.FunctionDef | None:
    """The definition in a text that the running `exec` may have been given, or that was typed."""
    for text in (*_texts_at_hand(code.co_filename, code.co_name), *typed_texts(code)):
        try:
            index = _definitions(ast.parse(text))
            module = compile(text, code.co_filename, "exec", future_flags(code), True)
            same = key in index and _has_code(module, code)
        except (SyntaxError, ValueError):
            continue
        if same:
            _note(code, index)
            return index[key]
    return None


def _texts_at_hand(file: str, name: str) -> Iterator[str]:
    """Texts in the variables and constants of the frame that runs code of `file`."""
    f = sys._getframe(1)
    while f.f_back is not None:
        back = f.f_back
        if f.f_code.co_filename == file != back.f_code.co_filename:
            values = [*back.f_locals.values(), *back.f_code.co_consts]
            yield from (v for v in values if isinstance(v, str) and f"def {name}" in v)
        f = back


def future_flags(code: CodeType) -> int:
    """The `from __future__` imports that `code` was compiled under."""
    flags = 0
    for name in __future__.all_feature_names:
        flags |= getattr(__future__, name).compiler_flag
    return code.co_flags & flags


def _has_code(module: CodeType, code: CodeType) -> bool:
    """Is `code` what compiling gives? Constants are not compared: they hold nested functions."""
    stack = [module]
    while stack:
        c = stack.pop()
        if (c.co_name, c.co_firstlineno) == (code.co_name, code.co_firstlineno):
            return c.co_code == code.co_code and c.co_names == code.co_names
        stack += [k for k in c.co_consts if isinstance(k, CodeType)]
    return False


def _note(code: CodeType, index: dict[tuple[int, str], ast.FunctionDef]) -> None:
    """Keeps the definitions of `code` and of the functions inside it."""
    if len(_noted) >= _MAX_NOTED:
        _noted.clear()
    stack = [code]
    while stack:
        c = stack.pop()
        node = index.get((c.co_firstlineno, c.co_name))
        if node is not None:
            _noted[id(c)] = (c, Source(node, c.co_filename))
        stack += [k for k in c.co_consts if isinstance(k, CodeType)]


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
    index = _definitions(tree)
    if len(_files) >= _MAX_FILES:
        _files.pop(next(iter(_files)), None)
    _files[file] = (lines, index)
    return index


def _definitions(tree: ast.Module) -> dict[tuple[int, str], ast.FunctionDef]:
    """First line (that of the first decorator) and name -> definition."""
    return {
        (min([n.lineno, *(d.lineno for d in n.decorator_list)]), n.name): n
        for n in ast.walk(tree)
        if isinstance(n, ast.FunctionDef)
    }


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
