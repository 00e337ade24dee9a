# SPDX-License-Identifier: Apache-2.0
"""What tests of kernels and of the compiler use."""

from __future__ import annotations

import random
import sys
from typing import NoReturn

__all__ = ["main", "set_random_seed"]


def main() -> NoReturn:
    """Runs pytest on the calling file, with the options of the command line."""
    import pytest  # only a test has it

    file = sys._getframe(1).f_globals["__file__"]
    sys.exit(pytest.main([file, *sys.argv[1:]]))


def set_random_seed(seed: int = 42) -> None:
    """Seeds Python's random numbers, numpy's, and torch's where the program uses torch."""
    import numpy

    random.seed(seed)
    numpy.random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)
