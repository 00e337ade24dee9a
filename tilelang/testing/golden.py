# SPDX-License-Identifier: Apache-2.0
"""Golden texts: what the code gives now, compared with a file under version control.

In: a file's path and the text of today. Out: nothing, or an AssertionError with the difference.
`pytest --update-golden` rewrites the files; review the diff.
"""

from __future__ import annotations

import difflib
from pathlib import Path

__all__ = ["check_golden"]


def check_golden(path: Path, text: str, update: bool = False) -> None:
    """Compares `text` with the file; with `update` (or where there is no file yet) writes it."""
    text = text.rstrip() + "\n"
    if update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    if not path.exists():
        raise AssertionError(f"there is no {path.name}; run pytest --update-golden and review it")
    want = path.read_text(encoding="utf-8")
    if text != want:
        diff = difflib.unified_diff(
            want.splitlines(), text.splitlines(), "golden", "now", lineterm="", n=2
        )
        raise AssertionError(
            f"{path.name} differs (--update-golden rewrites it):\n" + "\n".join(diff)
        )
