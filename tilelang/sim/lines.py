# SPDX-License-Identifier: Apache-2.0
"""Places in a kernel's library -> lines of the generated text, and of the user's program."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from tilelang.errors import Span

from .source import HostSource

__all__ = ["GENERATED_FILE", "LINE_SITE", "LineTable"]

GENERATED_FILE = "kernel.cu"  # what debug information calls the generated text
LINE_SITE = (
    1 << 31
)  # kLineSite of runtime/shadow.h: the rest is a line, else an offset into the code


class LineTable:
    """The lines of one library."""

    def __init__(self, path: Path, host: HostSource) -> None:
        self.path = path
        self.host = host
        self._lines: dict[int, int] = {}

    def of_sites(self, sites: Iterable[int]) -> dict[int, int]:
        """The generated line of each site; 0 where it cannot be found."""
        wanted = list(dict.fromkeys(sites))
        unknown = [s for s in wanted if not s & LINE_SITE and s not in self._lines]
        if unknown:
            self._lines.update(self._look_up(unknown))
        return {s: s & ~LINE_SITE if s & LINE_SITE else self._lines.get(s, 0) for s in wanted}

    def _look_up(self, codes: list[int]) -> dict[int, int]:
        # The return address lies behind the call: look at the call.
        command = ["addr2line", "-a", "-i", "-e", str(self.path), *(hex(c - 1) for c in codes)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError:
            return {}
        out: dict[int, int] = {}
        code = 0
        for text in done.stdout.splitlines():
            if text.startswith("0x"):
                code = int(text, 16) + 1
                continue
            file, _, line = text.partition(" ")[0].rpartition(":")
            # The innermost inlined function comes first; those of the headers are passed over.
            if Path(file).name == GENERATED_FILE and line.isdigit():
                out.setdefault(code, int(line))
        return out

    def user_span(self, line: int) -> Span | None:
        """The user's line that a generated line comes from."""
        place = self.host.user_lines.get(line)
        return None if place is None else Span(place[0], place[1])

    def text(self, line: int) -> str:
        """A line of the generated text."""
        lines = self.host.text.split("\n")
        first = lines.index(f'#line 1 "{GENERATED_FILE}"')
        return lines[first + line].strip()
