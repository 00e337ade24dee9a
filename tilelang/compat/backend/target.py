# SPDX-License-Identifier: Apache-2.0
"""`tilelang.backend.target`."""

from __future__ import annotations

from tilelang.target import Target, determine_target

__all__ = ["Target", "determine_target"]
