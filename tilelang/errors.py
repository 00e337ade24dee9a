# SPDX-License-Identifier: Apache-2.0
"""What a user sees when something is wrong: source spans, error classes, the caret renderer.

In: a message, the place in the user's program, the values involved with their own places, and a
way out.  Out: an exception whose text is

    error: T.gemm: A has K = 64 but B has K = 32
      --> gemm.py:31:13, in main
    31 |             T.gemm(A_shared, B_shared, C_local)
       |                    ^^^^^^^^  ^^^^^^^^
       = A_shared: shared float16[128, 64], allocated at gemm.py:22
       = B_shared: shared float16[32, 128], allocated at gemm.py:23
       = help: allocate B_shared as (64, 128)

Every class owns a family of codes, ``TL03xx`` for shapes for instance.  A raise site names its own
code with a literal, ``ShapeError(..., code="TL0301")``; there is no list to keep in step, because
`error_codes` reads the table of all codes out of the sources.
"""

from __future__ import annotations

import ast
import difflib
import linecache
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol, Self

__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "ArgumentValueError",
    "BoundsError",
    "CacheError",
    "CompatWarning",
    "ErrorCode",
    "InternalError",
    "LanguageError",
    "LanguageValueError",
    "LayoutError",
    "Note",
    "OptionError",
    "PerformanceNote",
    "ResourceError",
    "ScopeError",
    "ShapeError",
    "SimulatorError",
    "Span",
    "TargetError",
    "TileError",
    "ToolchainError",
    "TuningError",
    "TypeMismatchError",
    "did_you_mean",
    "error_codes",
    "error_families",
    "nearest_name",
]


# --- where ------------------------------------------------------------------------------------


class HasPosition(Protocol):
    """What `Span.of` needs of an `ast` node."""

    lineno: int
    col_offset: int
    end_lineno: int | None
    end_col_offset: int | None


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a source file.  Lines and columns count characters from 1; `end_col` is one
    past the last character, as in an editor's selection."""

    file: str
    line: int
    col: int = 1
    end_line: int | None = None
    end_col: int | None = None
    function: str | None = None
    inlined_at: Span | None = None

    @classmethod
    def of(
        cls,
        node: HasPosition,
        file: str,
        function: str | None = None,
        inlined_at: Span | None = None,
    ) -> Self:
        """The span of an `ast` node, whose columns are UTF-8 byte offsets from 0."""
        end_line = node.lineno if node.end_lineno is None else node.end_lineno
        end_byte = node.col_offset if node.end_col_offset is None else node.end_col_offset
        return cls(
            file,
            node.lineno,
            _character_column(file, node.lineno, node.col_offset),
            end_line,
            _character_column(file, end_line, end_byte),
            function,
            inlined_at,
        )

    @property
    def place(self) -> str:
        """``gemm.py:22``: short enough to stand at the end of a note."""
        return f"{_shown_path(self.file)}:{self.line}"

    def __str__(self) -> str:
        suffix = f", in {self.function}" if self.function else ""
        return f"{self.place}:{self.col}{suffix}"

    def callers(self) -> Iterator[Span]:
        """The call sites through which this code was inlined, innermost first."""
        site = self.inlined_at
        while site is not None:
            yield site
            site = site.inlined_at


@dataclass(frozen=True, slots=True)
class Note:
    """A value that takes part in an error, with the place where it came from."""

    text: str
    span: Span | None = None
    verb: str = "defined"

    def __str__(self) -> str:
        return self.text if self.span is None else f"{self.text}, {self.verb} at {self.span.place}"


def _character_column(file: str, line: int, byte_offset: int) -> int:
    """Turn a byte offset from 0 into a character column from 1.

    They differ only after non-ASCII text, and only the source can tell; without the source the
    byte offset is the best guess there is.
    """
    text = linecache.getline(file, line)
    if text.isascii():
        return byte_offset + 1
    return len(text.encode()[:byte_offset].decode(errors="replace")) + 1


def _shown_path(file: str) -> str:
    """A path as the user would type it: relative when the file lies below the working directory."""
    if not os.path.isabs(file):
        return file
    try:
        relative = os.path.relpath(file)
    except (OSError, ValueError):  # no working directory, or another drive
        return file
    return file if relative.startswith(os.pardir) else relative


# --- the renderer -----------------------------------------------------------------------------

_MAX_LINES_PER_MARK = 4
_WIDTH_WITHOUT_SOURCE = 2


def _render_location(span: Span, marks: Sequence[Span]) -> list[str]:
    """The ``-->`` line, then each marked source line with its carets."""
    pieces = _pieces_by_line(span, marks)
    width = _gutter_width(span, marks)
    lines = [f"{' ' * width}--> {span}"]
    previous = None
    for number, columns in sorted(pieces.items()):
        text = linecache.getline(span.file, number).rstrip()
        if not text:
            continue
        if previous is not None and number > previous + 1:
            lines.append("...")
        previous = number
        lines.append(f"{number:>{width}} | {text}")
        lines.append(f"{' ' * width} | {_carets(text, columns)}")
    return lines


def _gutter_width(span: Span | None, marks: Sequence[Span]) -> int:
    """Digits of the largest line number that is printed."""
    if span is None:
        return _WIDTH_WITHOUT_SOURCE
    return len(str(max(_pieces_by_line(span, marks), default=span.line)))


def _pieces_by_line(span: Span, marks: Sequence[Span]) -> dict[int, list[tuple[int, int | None]]]:
    """Cut each mark at line ends: line number -> (first column, end column or end of line).

    A mark in another file cannot be drawn under this file's lines, so it is left to a note.
    """
    pieces: dict[int, list[tuple[int, int | None]]] = {}
    for mark in [m for m in marks if m.file == span.file] or [span]:
        last = max(mark.line, mark.end_line or mark.line)
        for number in range(mark.line, min(last, mark.line + _MAX_LINES_PER_MARK - 1) + 1):
            first = mark.col if number == mark.line else 1
            end = mark.end_col if number == last else None
            if mark.end_col is None and number == mark.line == last:
                end = first + 1
            pieces.setdefault(number, []).append((first, end))
    return pieces


def _carets(text: str, columns: Iterable[tuple[int, int | None]]) -> str:
    """The line below `text`, with ``^`` under the given columns.

    Indentation is never underlined.  Tabs are repeated and wide characters count twice, so that
    the carets stand under what they mean in a terminal.
    """
    indent = len(text) - len(text.lstrip())
    marked: set[int] = set()
    for first, end in columns:
        start = max(first - 1, indent)
        stop = len(text) if end is None else min(end - 1, len(text))
        marked.update(range(start, max(stop, start + 1)))
    cells = []
    for index in range(max(marked) + 1):
        character = text[index] if index < len(text) else " "
        wide = unicodedata.east_asian_width(character) in "WF"
        cell = "^" if index in marked else "\t" if character == "\t" else " "
        cells.append(cell * 2 if wide else cell)
    return "".join(cells)


# --- the classes ------------------------------------------------------------------------------


class TileError(Exception):
    """Base of all errors that tilelang raises on purpose.

    `marks` are the parts of the statement to underline (the whole `span` if there are none),
    `notes` the values involved, `help` one line that says what to do.  Only `message` is
    positional, so errors survive pickling on their way back from a compile worker.
    """

    family: ClassVar[str] = "TL00"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        span: Span | None = None,
        marks: Sequence[Span] = (),
        notes: Sequence[Note | str] = (),
        help: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or f"{self.family}00"
        self.span = span
        self.marks = tuple(marks)
        self.notes = tuple(notes)
        self.help = help

    def at(self, span: Span | None) -> Self:
        """Say where, for code that found the fault without knowing the statement it is in.

        The innermost place wins: an error that already has a span keeps it.
        """
        if self.span is None:
            self.span = span
        return self

    def render(self) -> str:
        """The whole report, as in the head of this file.  Never more than a few source lines."""
        return f"error: {self.message}{self._details()}"

    def __str__(self) -> str:
        """The report under a traceback, where Python has already printed the class."""
        return f"[{self.code}] {self.message}{self._details()}"

    def _details(self) -> str:
        lines = _render_location(self.span, self.marks) if self.span else []
        entries = [f"inlined at {site}" for site in self.span.callers()] if self.span else []
        entries += [str(note) for note in self.notes]
        if self.help:
            entries.append(f"help: {self.help}")
        margin = " " * _gutter_width(self.span, self.marks)
        lines += [f"{margin} = {entry}" for entry in entries]
        return "".join(f"\n{line}" for line in lines)


class LanguageError(TileError, RuntimeError):
    """The kernel uses Python that has no meaning at the level of tiles."""

    family = "TL01"


class LanguageValueError(LanguageError, ValueError):
    """Python that has a meaning, with a value that has none."""


class TypeMismatchError(TileError, TypeError):
    """Dtypes or kinds of values that do not go together inside a kernel."""

    family = "TL02"


class ShapeError(TileError, ValueError):
    """Shapes or extents that do not go together."""

    family = "TL03"


class ScopeError(TileError, ValueError):
    """A buffer lives in a memory in which this cannot be done."""

    family = "TL04"


class OptionError(TileError, ValueError):
    """An option, pass config or environment variable that cannot be honoured."""

    family = "TL05"


class TargetError(TileError, ValueError):
    """The target is unknown, or cannot do what the kernel asks for by name."""

    family = "TL06"


class ResourceError(TileError, ValueError):
    """The kernel needs more shared memory, registers or threads than the target has."""

    family = "TL07"


class ToolchainError(TileError, RuntimeError):
    """No compiler, no driver, or a compiler that refused the generated code."""

    family = "TL08"


class ArgumentError(TileError):
    """A kernel or an API function was called with something it does not accept."""

    family = "TL09"


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument of the wrong kind or dtype."""


class ArgumentValueError(ArgumentError, ValueError):
    """An argument of the right kind with a wrong count, shape, stride or device."""


class CacheError(TileError, RuntimeError):
    """The kernel cache is not usable: not private, not writable, or damaged."""

    family = "TL10"


class LayoutError(TileError, ValueError):
    """A layout that the user gave is not one-to-one, or conflicts with another."""

    family = "TL11"


class BoundsError(TileError, IndexError):
    """An index that is provably outside its buffer."""

    family = "TL12"


class SimulatorError(TileError, RuntimeError):
    """The simulated GPU found something wrong with a running kernel: a race, a deadlock, an access
    out of bounds.  `kind` names the check that failed."""

    family = "TL13"
    kind: str = ""


class TuningError(TileError, RuntimeError):
    """No configuration of a tuned function compiles, gives the right results, and ends in time."""

    family = "TL14"


class InternalError(TileError, RuntimeError):
    """A fault of ours.  `dump` is the file that holds the IR for the report."""

    family = "TL99"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        span: Span | None = None,
        notes: Sequence[Note | str] = (),
        dump: str | os.PathLike[str] | None = None,
    ) -> None:
        attachment = f", with the dump in {os.fspath(dump)}" if dump else ""
        super().__init__(
            message,
            code=code,
            span=span,
            notes=notes,
            help=f"this is a bug in tilelang, not in your kernel; please report it{attachment}",
        )


class CompatWarning(UserWarning):
    """Something of the original TileLang was accepted that has no effect here."""


class PerformanceNote(UserWarning):
    """The kernel is right but a faster way was declined; the text says why."""


# --- nearest names ----------------------------------------------------------------------------


def nearest_name(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `name` was probably meant to be; case and ``._-`` do not matter."""
    by_folded = {_folded(candidate): candidate for candidate in candidates}
    close = difflib.get_close_matches(_folded(name), list(by_folded), n=1)
    return by_folded[close[0]] if close else None


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """A help line that names the nearest candidate, or None when nothing is near."""
    nearest = nearest_name(name, candidates)
    return None if nearest is None else f"did you mean {nearest!r}?"


def _folded(name: str) -> str:
    return re.sub(r"[._-]+", "_", name.lower())


# --- the table of codes -----------------------------------------------------------------------

_CODE = re.compile(r"TL\d{4}")


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """One row of the generated table: a code, its family's class, its message, its raise site."""

    code: str
    error: str
    message: str
    file: str
    line: int


def error_families() -> dict[str, type[TileError]]:
    """Code prefix -> the class that owns it (the base class where subclasses share a family)."""
    families: dict[str, type[TileError]] = {}
    pending: list[type[TileError]] = [TileError]
    while pending:
        error = pending.pop(0)
        families.setdefault(error.family, error)
        pending.extend(error.__subclasses__())
    return families


def error_codes(root: Path) -> list[ErrorCode]:
    """All codes named in calls below `root`, sorted; a code used at two sites is listed twice."""
    families = error_families()
    rows = []
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or (code := _code_of(node)) is None:
                continue
            family = families.get(code[:4])
            error = family.__name__ if family else "unknown"
            where = path.relative_to(root).as_posix()
            rows.append(ErrorCode(code, error, _message_of(node), where, node.lineno))
    return sorted(rows, key=lambda row: (row.code, row.file, row.line))


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _code_of(call: ast.Call) -> str | None:
    """The code literal among the arguments, however the caller spells the raise."""
    texts = (_template(value) for value in _arguments(call))
    return next((text for text in texts if _CODE.fullmatch(text)), None)


def _message_of(call: ast.Call) -> str:
    """The first text argument; what is filled in at run time shows as ``{expression}``."""
    texts = (_template(value) for value in _arguments(call))
    return next((text for text in texts if text and not _CODE.fullmatch(text)), "")


def _template(value: ast.expr) -> str:
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value
    if isinstance(value, ast.JoinedStr):
        return "".join(map(_template, value.values))
    if isinstance(value, ast.FormattedValue):
        return f"{{{ast.unparse(value.value)}}}"
    return ""
