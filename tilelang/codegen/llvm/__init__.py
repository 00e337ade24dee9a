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
        return module.text([Statements(module, half).kernel(k) for k in kernels])
