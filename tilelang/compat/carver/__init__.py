# SPDX-License-Identifier: Apache-2.0
"""`tilelang.carver`: only the facts about devices that kernels ask for."""

from __future__ import annotations

from tilelang.compat._refused import Refused

_HELP = (
    "templates propose tile sizes for known programs: choose some, and have them compared by "
    "@tilelang.autotune(configs=[...])"
)
_NAMES = (
    "ConvTemplate", "ElementwiseTemplate", "FlashAttentionTemplate", "GEMVTemplate",
    "GeneralReductionTemplate", "MatmulTemplate",
)  # fmt: skip

globals().update({name: Refused(f"tilelang.carver.{name}", _HELP) for name in _NAMES})
