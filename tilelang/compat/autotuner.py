# SPDX-License-Identifier: Apache-2.0
"""`tilelang.autotuner`: there is none yet; its names say how to compare configurations."""

from __future__ import annotations

from ._refused import Refused

_HELP = (
    "compile the configurations with kernels = f.par_compile([{'block': 64}, {'block': 128}]), and "
    "compare kernel.get_profiler().do_bench() of each"
)

autotune = Refused("tilelang.autotune", _HELP)
AutoTuner = Refused("tilelang.autotuner.AutoTuner", _HELP)
set_autotune_inputs = Refused("tilelang.autotuner.set_autotune_inputs", _HELP)

__all__ = ["AutoTuner", "autotune", "set_autotune_inputs"]
