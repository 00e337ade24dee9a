# SPDX-License-Identifier: Apache-2.0
"""Compiles CUDA text for the simulator.

In: the text that code generation printed, and its kernels. Out: a `SimModule` that launches them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tilelang.errors import ToolchainError

from .library import runtime_library
from .lines import GENERATED_FILE
from .module import SimModule
from .source import HostSource, host_source
from .toolchain import build_once, host_compiler, kernel_folder, run_compiler

if TYPE_CHECKING:
    from tilelang.ir import Kernel

__all__ = ["build"]

_SIM_INCLUDE = Path(__file__).parent / "include"
_DEVICE_HEADERS = Path(__file__).parents[1] / "templates" / "cuda"
# -O1 keeps accesses as the text has them; contraction would make results depend on the processor.
_FLAGS = (
    "-std=c++17",
    "-O1",
    "-g1",
    "-w",
    "-march=native",
    "-fPIC",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-optimize-sibling-calls",
    "-fvisibility=default",
)


def build(source: str, kernels: Sequence[Kernel | str], instrument: bool = True) -> SimModule:
    """Compiles `source`; `kernels` are its kernels, or their names.

    Without `instrument` nothing is checked but what the runtime's own functions see.
    """
    names = [k if isinstance(k, str) else k.name for k in kernels]
    runtime_library()  # must be loaded before anything that refers to it
    host = host_source(source, names, GENERATED_FILE)
    flags = (*_FLAGS, *(host_compiler().instrument_flags() if instrument else ()))

    parts = [host.text, *flags, _headers_text()]
    path = build_once(kernel_folder(), parts, lambda scratch, out: _make(host, flags, scratch, out))
    return SimModule(path, host, names)


@functools.cache
def _headers_text() -> str:
    paths = [*sorted(_SIM_INCLUDE.rglob("*.h")), *sorted(_DEVICE_HEADERS.glob("*.cuh"))]
    return "\0".join(p.read_text(encoding="utf-8") for p in paths)


def _make(host: HostSource, flags: Sequence[str], scratch: Path, output: Path) -> None:
    text = scratch / GENERATED_FILE  # debug information may name this or the #line
    text.write_text(host.text, encoding="utf-8")
    complaints = run_compiler(
        [
            *flags,
            f"-I{_SIM_INCLUDE}",
            f"-I{_DEVICE_HEADERS}",
            "-shared",
            "-nodefaultlibs",
            "-x",
            "c++",
            str(text),
            "-x",
            "none",
            "-o",
            str(output),
            "-lm",
            "-lc",
        ]
    )
    if complaints:
        lines = complaints.strip().splitlines()
        raise ToolchainError(
            "the C++ compiler refused the generated code:\n" + "\n".join(lines[:12]),
            code="TL0843",
            help="the simulator runs generated code and code over tl:: functions, not inline PTX",
        )
