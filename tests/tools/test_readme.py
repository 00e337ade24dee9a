# SPDX-License-Identifier: Apache-2.0
"""What the README shows works, and the files it names exist."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
README = PAGES[0].read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(import numpy.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_programs_run(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "llvm")
    path = tmp_path / f"readme{number}.py"
    path.write_text(PROGRAMS[number], encoding="utf-8")
    runpy.run_path(str(path), run_name="__main__")


def test_there_are_programs() -> None:
    assert len(PROGRAMS) == 2


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [x for x in links if not (page.parent / x).exists()] == []
