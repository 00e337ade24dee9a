# SPDX-License-Identifier: Apache-2.0
"""The page of the examples lists what there is, in the words of the programs themselves."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.examples.test_examples import DTYPES, FOLDER, styles
from tilelang.testing.golden import check_golden

PAGE = Path(__file__).parents[2] / "docs" / "examples.md"
HEAD = """\
# Examples

Programs as a user would write them. Each checks itself against numpy, small and ragged sizes:
`python examples/NAME.py [--target llvm|c|cuda|cuda-sim]`; `--bench` times it beside its baseline
(numpy or torch). `tests/examples` runs all of them on the CPU targets and on simulated GPUs.
[demo.py](../examples/demo.py) is a first look, [harness.py](../examples/harness.py) what they
share. The table is made from their docstrings (`make golden`).

| program | computes | styles | dtypes |
|---|---|---|---|
"""


def row(name: str) -> str:
    doc = ast.get_docstring(ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))) or ""
    what = re.sub(r"\s+", " ", doc.split(": python examples/")[0].split(":\npython examples/")[0])
    both = "lazy, eager" if styles(name)[0] else one_style(name)
    return f"| [{name}](../examples/{name}.py) | {what} | {both} | {', '.join(DTYPES[name])} |\n"


def one_style(name: str) -> str:
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    return "lazy" if "@T.prim_func" in text else "eager"


def test_the_page_lists_the_examples(update_golden: bool) -> None:
    check_golden(PAGE, HEAD + "".join(map(row, DTYPES)), update_golden)
