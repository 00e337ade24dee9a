# SPDX-License-Identifier: Apache-2.0
"""`tilelang.tvm.target.Target`: a context manager, as ours is."""

from __future__ import annotations

from tilelang.target import Target

__all__ = ["Target"]
