# SPDX-License-Identifier: Apache-2.0
"""`T.gemm` and its lowerings."""

from .op import Gemm

__all__ = ["Gemm"]
