# SPDX-License-Identifier: Apache-2.0
"""Random tile programs that must mean the same to the oracle, to CPUs and to the simulated GPU.

`fuzz` makes programs and runs them; `check` runs one, as the programs that `fuzz` prints do.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from tilelang.ir import PrimFunc

from .choices import Choices
from .generate import KINDS, Program, generate
from .judge import TARGETS, Failure, failure_of, failure_of_function
from .minimise import minimise
from .run import Found, fuzz, minimised
from .worker import Worker

__all__ = [
    "KINDS", "TARGETS", "Choices", "Failure", "Found", "Program", "Worker", "check", "failure_of",
    "fuzz", "generate", "minimise", "minimised",
]  # fmt: skip


def check(func: PrimFunc, sizes: Mapping[str, int], *targets: str) -> None:
    """Prints how the function fails on one of the targets and exits with 1, or prints that it
    does not."""
    found = failure_of_function(func, sizes, targets or TARGETS)
    if found is not None:
        print(f"{found.kind} on {found.target}: {found.message}")
        sys.exit(1)
    print("all agree")
