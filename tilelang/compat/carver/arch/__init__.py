# SPDX-License-Identifier: Apache-2.0
"""`tilelang.carver.arch`: only `driver`."""

from __future__ import annotations

from tilelang.compat._refused import Refused

_HELP = "facts about the device are in tilelang.carver.arch.driver: get_num_sms(), ..."
_NAMES = ("CDNA", "CPU", "CUDA", "TileDevice", "get_arch", "auto_infer_current_arch")

globals().update({name: Refused(f"tilelang.carver.arch.{name}", _HELP) for name in _NAMES})
