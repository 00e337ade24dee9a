# SPDX-License-Identifier: Apache-2.0
"""`tilelang.tvm`: the few names of TVM that programs use around kernels."""

from __future__ import annotations

from tilelang.ir import DType as DataType
from tilelang.ir import IRModule

from . import error, target

__all__ = ["DataType", "IRModule", "error", "target"]
