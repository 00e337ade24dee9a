# SPDX-License-Identifier: Apache-2.0
"""The device headers that a CUDA source includes, as text.

In: a source. Out: include name -> text of every header that it reaches, so that a compiler needs no
files at all. `tl/wgmma.h` carries only the wgmma instructions that the source names: all of them
would be half a megabyte.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from tilelang.errors import ToolchainError

from .wgmma_text import WGMMA_NAME, wgmma_wrappers

__all__ = ["HEADER_FOLDER", "device_headers", "header_text"]

HEADER_FOLDER = Path(__file__).parents[1] / "templates" / "cuda"
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]tl/(\w+)\.h[>"]', re.MULTILINE)


@functools.cache
def header_text(name: str) -> str:
    """The text of `templates/cuda/<name>.cuh`, which sources include as `tl/<name>.h`."""
    path = HEADER_FOLDER / f"{name}.cuh"
    if not path.is_file():
        known = ", ".join(sorted(f"tl/{p.stem}.h" for p in HEADER_FOLDER.glob("*.cuh")))
        raise ToolchainError(
            f"the CUDA source includes tl/{name}.h, which does not exist",
            code="TL0820",
            help=f"the device headers are {known}",
        )
    return path.read_text(encoding="utf-8")


def device_headers(source: str) -> dict[str, str]:
    """Include name -> text, for all `tl/…` headers reached from `source`."""
    out: dict[str, str] = {}
    pending = _INCLUDE.findall(source)
    while pending:
        name = pending.pop()
        if f"tl/{name}.h" not in out:
            text = out[f"tl/{name}.h"] = header_text(name)
            pending += _INCLUDE.findall(text)
    if "tl/wgmma.h" in out:
        out["tl/wgmma.h"] += wgmma_wrappers(WGMMA_NAME.findall(source))
    return dict(sorted(out.items()))
