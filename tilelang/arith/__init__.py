# SPDX-License-Identifier: Apache-2.0
"""What is known about integers at a place of the program, and what follows."""

from .facts import Facts
from .interval import Interval
from .linear import Linear

__all__ = ["Facts", "Interval", "Linear"]
