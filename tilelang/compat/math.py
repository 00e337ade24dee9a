# SPDX-License-Identifier: Apache-2.0
"""`tilelang.math`: integer helpers."""

from __future__ import annotations

from tilelang.utils import align_up, ceildiv, next_power_of_2

cdiv = ceildiv

__all__ = ["align_up", "cdiv", "ceildiv", "next_power_of_2"]
