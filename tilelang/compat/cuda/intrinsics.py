# SPDX-License-Identifier: Apache-2.0
"""`tilelang.cuda.intrinsics`: swizzled layouts by their older names."""

from __future__ import annotations

from typing import Any

from tilelang.layout import make_linear_layout, make_swizzled_layout
from tilelang.layout.layout import make_swizzled


def make_mma_swizzle_layout(shared_buf: Any, is_smooth: bool = False) -> Any:
    """The swizzled layout of a shared tile that ldmatrix reads; row-major if `is_smooth`."""
    if is_smooth:
        return make_linear_layout(shared_buf)
    return make_swizzled_layout(shared_buf)


def get_swizzle_layout(row_idx: Any, col_idx: Any, row_size: int, dtype: Any) -> tuple[Any, Any]:
    """Where element (row, column) of a tile whose rows have `row_size` elements lies."""
    from tilelang.ir import DType

    layout = make_swizzled((8, row_size), DType(dtype).bits)
    return row_idx, layout.address_at((row_idx % 8, col_idx)) % row_size


__all__ = ["get_swizzle_layout", "make_mma_swizzle_layout"]
