# SPDX-License-Identifier: Apache-2.0
"""How fast is a kernel, and is it right: `do_bench`, `Profiler`, `TensorSupplyType`."""

from .bench import do_bench
from .profiler import Profiler
from .supply import TensorSupplyType, make_tensor

__all__ = ["Profiler", "TensorSupplyType", "do_bench", "make_tensor"]
