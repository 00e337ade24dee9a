# SPDX-License-Identifier: Apache-2.0
"""CUDA text -> the text that the host's compiler gets, line for line.

Lines keep their numbers, so that a line number means the same in both. Only what no macro can
express is rewritten: `#line` (kept aside as a table), shared arrays, the names of kernels (which
must not collide with C's), and definitions of the wgmma functions that the text uses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["HostSource", "entry_name", "host_source"]

_LINE = re.compile(r'^[ \t]*#[ \t]*line[ \t]+(\d+)(?:[ \t]+"((?:[^"\\]|\\.)*)")?[ \t]*$')
_DYNAMIC_SHARED = re.compile(
    r"extern\s+__shared__\s+(?:__align__\(\d+\)\s+|alignas\(\d+\)\s+)?"
    r"([\w:<>, ]+?)\s+(\w+)\s*\[\s*\]\s*;"
)
_STATIC_SHARED = re.compile(
    r"(?<!extern )__shared__\s+(?:__align__\((\d+)\)\s+)?([\w:<>, ]+?)\s+(\w+)\s*\[([^\]]+)\]\s*;"
)
_WGMMA = re.compile(r"\bwgmma_m64n(\d+)k(\d+)_(\w+?)_(\w+?)_(ss|rs)\b")


@dataclass(frozen=True)
class HostSource:
    """text: what is compiled. user_lines: generated line -> (file, line) of the user's #line."""

    text: str
    user_lines: dict[int, tuple[str, int]]


def entry_name(kernel: str) -> str:
    """The library's function that calls a kernel with an array of pointers to its arguments."""
    return f"tlsim_entry_{kernel}"


def host_source(source: str, kernels: Sequence[str], file: str) -> HostSource:
    """`file`: the name that the compiler's debug information gives the generated text."""
    user_lines, lines = _take_line_directives(source)
    text = "\n".join(lines)
    text = _DYNAMIC_SHARED.sub(r"\1* const \2 = (\1*)tlsim_shared();", text)
    text = _STATIC_SHARED.sub(_static_shared, text)
    entries = []
    for name in kernels:
        text = re.sub(
            rf"(__global__\s[^;{{}}]*?)\b{name}(\s*\()", rf"\1tlsim_kernel_{name}\2", text
        )
        entries.append(
            f'extern "C" TLSIM_UNCHECKED void {entry_name(name)}(void* const* args) '
            f"{{ tlsim::call(tlsim_kernel_{name}, args); }}"
        )
    prefix = ["#include <tl/core.h>", *_wgmma_definitions(source), f'#line 1 "{file}"']
    return HostSource("\n".join([*prefix, text, '#line 1 "entries"', *entries, ""]), user_lines)


def _take_line_directives(source: str) -> tuple[dict[int, tuple[str, int]], list[str]]:
    """The user's line of each generated line, and the text with #line directives made empty. All
    lines up to the next directive come from the one statement that it names."""
    table: dict[int, tuple[str, int]] = {}
    lines = source.split("\n")
    place: tuple[str, int] | None = None
    for number, text in enumerate(lines, 1):
        directive = _LINE.match(text)
        if directive:
            file = directive[2] if directive[2] is not None else place[0] if place else ""
            place = (file, int(directive[1]))
            lines[number - 1] = ""
        elif place is not None:
            table[number] = place
    return table, lines


def _static_shared(match: re.Match[str]) -> str:
    align, ctype, name, extent = match[1] or "16", match[2], match[3], match[4]
    array = f"{ctype}(*)[{extent}]"
    place = f'tlsim_static_shared("{name}", sizeof({ctype}[{extent}]), {align})'
    return f"{ctype} (&{name})[{extent}] = *({array}){place};"


def _wgmma_definitions(source: str) -> list[str]:
    names = sorted({m.group(0) for m in _WGMMA.finditer(source)})
    if not names:
        return []
    out = ["#include <tl/wgmma.h>"]
    for name in names:
        m = _WGMMA.fullmatch(name)
        assert m is not None
        out.append(f"TLSIM_WGMMA_{m[5]}({name}, {m[1]}, {m[2]}, {m[3].upper()}, {m[4].upper()})")
    return out
