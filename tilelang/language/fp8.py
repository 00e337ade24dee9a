# SPDX-License-Identifier: Apache-2.0
"""Names of the 8-bit floats that CUDA has."""

from __future__ import annotations

from typing import Any

from tilelang.errors import OptionError
from tilelang.ir import DType

_TYPES = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}


def determine_fp8_type(fp8_format: str = "e4m3") -> str:
    """The dtype name of a format, "e4m3" or "e5m2"."""
    if fp8_format not in _TYPES:
        raise OptionError(
            f"unknown fp8 format {fp8_format!r}", code="TL0563", help="'e4m3' or 'e5m2'"
        )
    return _TYPES[fp8_format]


def determine_torch_fp8_type(fp8_format: str = "e4m3") -> Any:
    """The torch dtype of a format."""
    return DType(determine_fp8_type(fp8_format)).as_torch()
