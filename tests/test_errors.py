# SPDX-License-Identifier: Apache-2.0
"""Errors: the text a user sees, the classes an `except` clause expects, the table of codes."""

from __future__ import annotations

import ast
import linecache
import pickle
from collections import Counter
from pathlib import Path

import pytest

from tilelang import errors
from tilelang.errors import Note, ShapeError, Span, TileError

PACKAGE = Path(errors.__file__).parent

SOURCE = """\
import tilelang.language as T

def main():
    with T.Kernel(1) as bx:
        T.gemm(A_shared, B_shared, C_local)
        名前 = T.alloc(1)
\t\tT.copy(A, B)
        T.reduce(
            A,
            B,
        )
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A source file in the working directory, so that its name is shown without one."""
    path = tmp_path / "gemm.py"
    path.write_text(SOURCE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    linecache.clearcache()
    return str(path)


def node_span(file: str, kind: type[ast.AST], line: int) -> Span:
    """The span of the first node of a kind on a line of a parseable part of SOURCE."""
    text = SOURCE.replace("\t\t", " " * 8)
    found = (n for n in ast.walk(ast.parse(text)) if isinstance(n, kind) and n.lineno == line)
    return Span.of(next(found), file, "main")


def test_the_whole_report(file: str) -> None:
    marks = [Span(file, 5, 16, 5, 24), Span(file, 5, 26, 5, 34)]
    error = ShapeError(
        "T.gemm: A has K = 64 but B has K = 32",
        code="TL0301",
        span=node_span(file, ast.Call, 5),
        marks=marks,
        notes=[
            Note("A_shared: shared float16[128, 64]", Span(file, 3), "allocated"),
            Note("B_shared: shared float16[32, 128]", Span(file, 4), "allocated"),
        ],
        help="allocate B_shared as (64, 128)",
    )
    assert (
        error.render()
        == """\
error: T.gemm: A has K = 64 but B has K = 32
 --> gemm.py:5:9, in main
5 |         T.gemm(A_shared, B_shared, C_local)
  |                ^^^^^^^^  ^^^^^^^^
  = A_shared: shared float16[128, 64], allocated at gemm.py:3
  = B_shared: shared float16[32, 128], allocated at gemm.py:4
  = help: allocate B_shared as (64, 128)"""
    )
    assert str(error) == error.render().replace("error:", "[TL0301]", 1)


def test_the_gutter_is_as_wide_as_the_line_number(tmp_path: Path) -> None:
    path = tmp_path / "long.py"
    path.write_text("\n" * 122 + "x = 1\n")
    text = ShapeError("no", span=Span(str(path), 123, 1, 123, 2), notes=["why"]).render()
    assert text.splitlines()[1].startswith("   --> ")
    assert text.splitlines()[2:] == ["123 | x = 1", "    | ^", "    = why"]


def test_without_marks_the_span_is_underlined(file: str) -> None:
    lines = ShapeError("no", span=node_span(file, ast.Call, 5)).render().splitlines()
    assert lines[-1].strip(" |") == "^" * len("T.gemm(A_shared, B_shared, C_local)")


def test_columns_count_characters_and_carets_count_cells(file: str) -> None:
    span = node_span(file, ast.Call, 6)
    assert (span.col, span.end_col) == (14, 24)
    lines = ShapeError("no", span=span).render().splitlines()
    assert lines[-1] == "  | " + " " * (8 + 4 + 3) + "^" * len("T.alloc(1)")


def test_tabs_are_repeated_under_tabs(file: str) -> None:
    lines = ShapeError("no", span=Span(file, 7, 3, 7, 9)).render().splitlines()
    assert lines[-1] == "  | \t\t^^^^^^"


def test_a_long_statement_is_shown_in_part(file: str) -> None:
    lines = ShapeError("no", span=Span(file, 4, 5, 11, 10)).render().splitlines()
    assert [line[0] for line in lines[2::2]] == ["4", "5", "6", "7"]
    assert lines[5].strip(" |") == "^" * len("T.gemm(A_shared, B_shared, C_local)")


def test_a_gap_between_marks_is_shown(file: str) -> None:
    marks = [Span(file, 3, 1, 3, 4), Span(file, 5, 9, 5, 15)]
    assert "..." in ShapeError("no", span=marks[1], marks=marks).render().splitlines()


def test_the_chain_of_callers(file: str) -> None:
    outer = Span(file, 5, 9, function="main")
    span = Span(file, 1, 1, 1, 7, function="macro", inlined_at=outer)
    assert "  = inlined at gemm.py:5:9, in main" in ShapeError("no", span=span).render()


def test_a_file_that_is_gone_still_has_a_line_number() -> None:
    text = ShapeError("no", span=Span("<string>", 7, 3), notes=["why"]).render()
    assert text == "error: no\n --> <string>:7:3\n  = why"


def test_without_a_span_there_is_only_the_message() -> None:
    assert TileError("no").render() == "error: no"
    assert TileError("no", help="do").render() == "error: no\n   = help: do"


def test_the_innermost_place_wins() -> None:
    inner, outer = Span("a.py", 1), Span("a.py", 2)
    assert ShapeError("no").at(inner).at(outer).span is inner


def test_errors_survive_a_compile_worker() -> None:
    error = ShapeError("no", code="TL0399", span=Span("a.py", 1), notes=["n"], help="h")
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy)) == (ShapeError, str(error))
    internal = errors.InternalError("lost", dump="dump.py")
    assert str(pickle.loads(pickle.dumps(internal))) == str(internal)


def test_an_internal_error_asks_for_a_report() -> None:
    text = errors.InternalError("lost", dump="dump.py").render()
    assert "please report it, with the dump in dump.py" in text


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("LanguageError", RuntimeError),
        ("TypeMismatchError", TypeError),
        ("ShapeError", ValueError),
        ("ScopeError", ValueError),
        ("OptionError", ValueError),
        ("TargetError", ValueError),
        ("ResourceError", ValueError),
        ("LayoutError", ValueError),
        ("ToolchainError", RuntimeError),
        ("CacheError", RuntimeError),
        ("InternalError", RuntimeError),
        ("BoundsError", IndexError),
        ("ArgumentTypeError", TypeError),
        ("ArgumentValueError", ValueError),
    ],
)
def test_users_except_clauses_catch_our_errors(error: str, expected: type[Exception]) -> None:
    assert issubclass(getattr(errors, error), (expected,))
    assert issubclass(getattr(errors, error), TileError)


def test_nearest_name() -> None:
    names = ["tl.disable_wgmma", "tl.enable_fast_math"]
    assert errors.nearest_name("TL_DISABLE_WGMMA", names) == "tl.disable_wgmma"
    assert errors.did_you_mean("tl.disable_wgma", names) == "did you mean 'tl.disable_wgmma'?"
    assert errors.did_you_mean("nothing like it", names) is None


# --- codes ------------------------------------------------------------------------------------


def test_each_family_of_codes_has_one_root() -> None:
    for family, error in errors.error_families().items():
        owners = [e for e in _all_errors() if e.family == family and e is not error]
        assert all(issubclass(owner, error) for owner in owners), family


def test_a_code_is_raised_at_one_place() -> None:
    counts = Counter(row.code for row in errors.error_codes(PACKAGE))
    assert [code for code, count in counts.items() if count > 1] == []


def test_every_code_belongs_to_a_class_and_has_a_message() -> None:
    for row in errors.error_codes(PACKAGE):
        assert row.error != "unknown", row
        assert row.message, row


def test_a_named_class_owns_the_code_it_is_raised_with() -> None:
    classes = {error.__name__: error for error in _all_errors()}
    for path in PACKAGE.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
                continue
            for keyword in call.keywords:
                if keyword.arg == "code" and isinstance(keyword.value, ast.Constant):
                    error = classes.get(call.func.id)
                    assert error is None or keyword.value.value.startswith(error.family)


def test_the_table_is_read_from_the_sources(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        'raise ShapeError(f"T.{name}: bad", code="TL0301")\nself.fail("TL0101", "no", node)\n'
    )
    rows = errors.error_codes(tmp_path)
    assert [(r.code, r.error, r.message, r.file, r.line) for r in rows] == [
        ("TL0101", "LanguageError", "no", "a.py", 2),
        ("TL0301", "ShapeError", "T.{name}: bad", "a.py", 1),
    ]


def _all_errors() -> list[type[TileError]]:
    found = [TileError]
    for error in found:
        found.extend(error.__subclasses__())
    return [error for error in found if error.__module__ == errors.__name__]
