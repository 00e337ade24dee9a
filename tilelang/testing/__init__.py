# SPDX-License-Identifier: Apache-2.0
"""What tests of kernels and of the compiler use."""

from __future__ import annotations

import sys
from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Runs pytest on the calling file, with the options of the command line."""
    import pytest  # only a test has it

    file = sys._getframe(1).f_globals["__file__"]
    sys.exit(pytest.main([file, *sys.argv[1:]]))
