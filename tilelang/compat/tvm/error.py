# SPDX-License-Identifier: Apache-2.0
"""`tilelang.tvm.error`: what programs catch."""

from __future__ import annotations

from tilelang.errors import InternalError, TileError

TVMError = TileError

__all__ = ["InternalError", "TVMError"]
