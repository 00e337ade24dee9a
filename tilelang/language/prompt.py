# SPDX-License-Identifier: Apache-2.0
"""What was typed at Python's interactive prompt, from the line editor's history.

Python keeps no text of `<stdin>` (before 3.13). The history has it line by line; a statement ends
where the next one begins, at a line that is not indented.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType


def typed_texts(code: CodeType) -> Iterator[str]:
    """Statements in the history that may define `code`, the last one first."""
    readline = sys.modules.get("readline")  # loaded by an interactive interpreter
    if readline is None or code.co_filename != "<stdin>":
        return
    count = readline.get_current_history_length()
    lines = [readline.get_history_item(n) or "" for n in range(1, count + 1)]
    for at in range(len(lines) - 1, -1, -1):
        if lines[at].lstrip().startswith(f"def {code.co_name}"):
            yield statement_around(lines, at)


def statement_around(lines: list[str], at: int) -> str:
    """The top-level statement that line `at` belongs to, its decorators included."""
    first = at
    while first > 0 and (lines[first][:1].isspace() or not lines[first]):
        first -= 1
    while first > 0 and lines[first - 1].startswith("@"):
        first -= 1
    end = at + 1
    while end < len(lines) and (not lines[end] or lines[end][:1].isspace()):
        end += 1
    return "\n".join(lines[first:end]) + "\n"
