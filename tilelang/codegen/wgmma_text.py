# SPDX-License-Identifier: Apache-2.0
"""Wrappers of wgmma instructions, generated for those that a kernel uses.

In: names of intrinsic rows (`wgmma_m64n128k16_f16_f32_ss`). Out: C++ functions of these names over
the instruction of PTX ISA 8.0 §9.7.15.5.2 (wgmma.mma_async), with all accumulators as operands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["WGMMA_NAME", "wgmma_wrapper", "wgmma_wrappers"]

WGMMA_NAME = re.compile(r"\bwgmma_m64n\d+k\d+_\w+?_\w+?_(?:ss|rs)\b")
_PARTS = re.compile(r"wgmma_m64n(\d+)k(\d+)_(\w+?)_(\w+?)_(ss|rs)")
# PTX ISA, wgmma.mma_async: a transposed operand in shared memory exists for 16-bit types only,
# which are those with K = 16.
_K_OF_16_BIT_TYPES = 16


class _Accumulator(NamedTuple):
    """How the accumulators of a thread are held: C++ type, asm constraint, values in a register."""

    ctype: str
    constraint: str
    packed: int


_ACCUMULATORS = {
    "f32": _Accumulator("float", "+f", 1),
    "s32": _Accumulator("unsigned int", "+r", 1),
    "f16": _Accumulator("unsigned int", "+r", 2),
}


def wgmma_wrappers(names: Iterable[str]) -> str:
    """The wrappers of all `names`, each once, as a text to append to the wgmma header."""
    unique = sorted(set(names))
    if not unique:
        return ""
    return (
        "\nnamespace tl {\n\n"
        + "\n\n".join(map(wgmma_wrapper, unique))
        + "\n\n}  // namespace tl\n"
    )


def wgmma_wrapper(name: str) -> str:
    """One wrapper: `name<trans_a, trans_b>(d, a, desc_b, scale_d)`.

    A thread of the warpgroup holds 64 * N / 128 accumulators (PTX ISA, wgmma, register fragments
    of D). scale_d = 0 makes D = A * B, else D += A * B; the two 1s are the signs of A and B.
    """
    match = _PARTS.fullmatch(name)
    if match is None:
        raise ValueError(f"{name} does not name a wgmma instruction")
    n, k, ab, acc, form = int(match[1]), int(match[2]), match[3], match[4], match[5]
    ctype, constraint, packed = _ACCUMULATORS[acc]
    count = n // 2 // packed
    d = ", ".join(f"%{i}" for i in range(count))
    a_count = 1 if form == "ss" else 4
    a = f"%{count}" if form == "ss" else "{" + ", ".join(f"%{count + i}" for i in range(4)) + "}"
    desc_b, scale = count + a_count, count + a_count + 1
    signs = "" if acc == "s32" else ", 1, 1"
    transposes = _transposes(form, k, scale + 1)
    op = f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{acc}.{ab}.{ab}"
    outputs = _wrapped(f'"{constraint}"(d[{i}])' for i in range(count))
    inputs = ['"l"(a)'] if form == "ss" else [f'"r"(a[{i}])' for i in range(4)]
    inputs += ['"l"(desc_b)', '"r"(scale_d)', *(f'"n"({name})' for name, _ in transposes)]
    head = f"template <int trans_a, int trans_b>\nTL_DEV void {name}("
    parameters = "void* d_regs, u64 a, u64 desc_b, int scale_d"
    casts = f"  {ctype}* d = ({ctype}*)d_regs;\n"
    if form == "rs":
        parameters = "void* d_regs, const void* a_regs, u64 desc_b, int scale_d"
        casts += "  const u32* a = (const u32*)a_regs;\n"
    tail = "".join(f", %{i}" for _, i in transposes)
    return (
        f"{head}{parameters}) {{\n{casts}"
        f'  asm volatile("{{.reg .pred p; setp.ne.b32 p, %{scale}, 0; {op} "\n'
        f'    "{{{d}}}, "\n'
        f'    "{a}, %{desc_b}, p{signs}{tail};}}"\n'
        f"    : {outputs}\n"
        f"    : {', '.join(inputs)});\n}}"
    )


def _transposes(form: str, k: int, first: int) -> list[tuple[str, int]]:
    """The transpose immediates of this form: (template argument, operand number)."""
    if k != _K_OF_16_BIT_TYPES:
        return []
    names = ["trans_a", "trans_b"] if form == "ss" else ["trans_b"]
    return [(name, first + i) for i, name in enumerate(names)]


def _wrapped(items: Iterable[str], per_line: int = 8) -> str:
    parts = list(items)
    rows = [", ".join(parts[i : i + per_line]) for i in range(0, len(parts), per_line)]
    return ",\n      ".join(rows)
