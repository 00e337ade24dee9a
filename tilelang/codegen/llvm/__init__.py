# SPDX-License-Identifier: Apache-2.0
"""DEVICE IR -> textual LLVM IR.

In: kernels and the CPU target. Out: one module, a function per kernel (its signature is in
`stmt.py`). The text names no target triple and no data layout: who compiles it chooses the CPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilelang.ir import session

from .stmt import Statements
from .writer import Module

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilelang.ir import Kernel
    from tilelang.target import Target

__all__ = ["llvm_ir"]


def llvm_ir(kernels: Sequence[Kernel], target: Target) -> str:
    """The kernels as one LLVM module."""
    features = target.cpu_features
    half = "f16c" in features or "neon" in features
    module = Module(features)
    with session():
        text = module.text([Statements(module, half).kernel(k) for k in kernels])
    sources = dict.fromkeys(str(k.attrs["prelude"]) for k in kernels if k.attrs.get("prelude"))
    return text + _imported("\n".join(sources)) if sources else text


def _imported(source: str) -> str:
    """The user's C source as a constant of the module: whoever links the kernels compiles it, if
    they call a function that is nowhere else (`runtime/llvm_jit.py`)."""
    data = f"\1tl.c_source\1{source}\1".encode()
    escaped = "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in data)
    return (
        f'\n@tl.c_source = internal constant [{len(data)} x i8] c"{escaped}"\n'
        '@llvm.used = appending global [1 x ptr] [ptr @tl.c_source], section "llvm.metadata"\n'
    )
