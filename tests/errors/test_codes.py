# SPDX-License-Identifier: Apache-2.0
"""Every error code: a program that gets it, and the report that its writer reads.

`kernel_bodies` and `programs` hold one program for each code. A program is run under a file name of
its own (`TL0110.py`), so that its report stands in the golden file as the user would see it.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

import tilelang
from tilelang import errors
from tilelang.errors import InternalError, TileError
from tilelang.language import remember_source
from tilelang.testing.golden import check_golden

from .kernel_bodies import BODIES, HEAD
from .programs import ELSEWHERE, PROGRAMS

# The message itself says what was expected of which argument and what came; what to do follows.
SAYS_ALL = re.compile(r"TL09\d\d|TL0817|TL1301")

# Their texts and notes are those of another compiler, or list what is installed.
OTHER_TOOLS = frozenset(
    {"TL0608", "TL0801", "TL0804", "TL0807", "TL0820", "TL0843", "TL0851", "TL0855"}
)

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "errors"
REFUSALS = ROOT / "tests" / "golden" / "language" / "refusals.txt"


def program(code: str) -> str:
    if code in PROGRAMS:
        return textwrap.dedent(PROGRAMS[code]).lstrip("\n")
    return HEAD + textwrap.indent(BODIES[code], " " * 8) + "\n"


def run(code: str, names: dict[str, Any]) -> None:
    file = f"{code}.py"
    scope: dict[str, Any] = {"__name__": "user", **names}
    exec(compile(remember_source(program(code), file), file, "exec"), scope)
    target = re.match(r"#! (.*)", BODIES.get(code, ""))
    if target:
        tilelang.lower(scope["main"], target=target[1])


def error_of(code: str, names: dict[str, Any]) -> TileError:
    """What the program of a code raises."""
    with pytest.raises(TileError) as caught:
        run(code, names)
    return caught.value


def report(error: TileError) -> str:
    """Without what differs from run to run, or from one machine to another."""
    text = str(error)
    if error.code in OTHER_TOOLS:
        text = f"[{error.code}] {error.message.partition(': ')[0]}: …"
    text = re.sub(r"NVRTC \d+\.\d+", "NVRTC …", text)
    text = re.sub(r"/\S*/g?cc", "cc", text)
    text = re.sub(r"0x[0-9a-f]+", "0x…", text)
    text = re.sub(r"/[\w./-]*/(tmp|pytest)[\w./-]*", "…", text)
    return text.replace(str(ROOT), "…")


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    return {"tmp_path": tmp_path, "monkeypatch": monkeypatch}


@pytest.mark.parametrize("code", sorted({*BODIES, *PROGRAMS}))
def test_program(code: str, names: dict[str, Any], request: pytest.FixtureRequest) -> None:
    error = error_of(code, names)
    assert error.code == code, error
    if code in BODIES:
        assert error.span is not None, error
        assert error.span.file == f"{code}.py", error
    assert error.help or SAYS_ALL.fullmatch(code), error
    if not isinstance(error, InternalError):
        assert error.code.startswith(error.family), error
    update = request.config.getoption("--update-golden")
    check_golden(GOLDEN / f"{code}.txt", report(error), update)


def test_every_code_has_a_program() -> None:
    codes = {row.code for row in errors.error_codes(ROOT / "tilelang")}
    shown = set(re.findall(r"TL\d{4}", REFUSALS.read_text(encoding="utf-8")))
    covered = {*BODIES, *PROGRAMS, *ELSEWHERE, *shown}
    assert sorted(codes - covered) == [], "codes without a program that gets them"
    assert sorted(covered - codes) == [], "programs for codes that are gone"


@pytest.mark.parametrize("code", sorted(ELSEWHERE))
def test_what_needs_more_than_a_program_is_tested_where_it_says(code: str) -> None:
    assert code in (ROOT / ELSEWHERE[code]).read_text(encoding="utf-8")


def test_there_are_no_goldens_of_codes_that_are_gone() -> None:
    assert {p.stem for p in GOLDEN.glob("*.txt")} == {*BODIES, *PROGRAMS}
