# SPDX-License-Identifier: Apache-2.0
"""Finding the fastest of several configurations of a kernel, by measuring them.

@tilelang.autotune(configs=[{"block": 64}, {"block": 128}])
@tilelang.jit(out_idx=-1)
def add(n, block=64): ...

kernel = add(4096)      # compiles both, checks them, times them, returns the faster one
"""

from __future__ import annotations

from .decorator import TunedFunction, autotune
from .inputs import get_autotune_inputs, set_autotune_inputs
from .trial import ProfileArgs
from .tuner import AutoTuner, AutotuneResult

__all__ = [
    "AutoTuner",
    "AutotuneResult",
    "ProfileArgs",
    "TunedFunction",
    "autotune",
    "get_autotune_inputs",
    "set_autotune_inputs",
]
