# SPDX-License-Identifier: Apache-2.0
"""The tile operations. `OPS` is the table: a row per op, by the name it has in `T.`."""

from .base import Choice, LowerContext, Lowering, select
from .checks import CheckContext
from .copy import Copy
from .fill import Fill
from .gemm import Gemm
from .reduce import Reduce

__all__ = [
    "OPS", "CheckContext", "Choice", "Copy", "Fill", "Gemm", "LowerContext", "Lowering", "Reduce",
    "select",
]  # fmt: skip

OPS = {op.name: op for op in (Copy, Fill, Gemm, Reduce)}
