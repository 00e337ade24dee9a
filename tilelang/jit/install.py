# SPDX-License-Identifier: Apache-2.0
"""Is this package alone in its folder?

The distribution `tilelang` on PyPI is another project that installs the same import package. Where
both are installed into one folder, files of the one lie over files of the other, and what runs is a
mixture. The first compile says so; before that, nothing of ours has gone wrong.
"""

from __future__ import annotations

import functools
from pathlib import Path

from tilelang.errors import ToolchainError

__all__ = ["check_installation", "other_distribution"]


def other_distribution(package: Path) -> str | None:
    """Name and version of a distribution `tilelang` that owns files in the folder `package`."""
    found = [
        *package.parent.glob("tilelang-*.dist-info"),
        *package.parent.glob("tilelang-*.egg-info"),
    ]
    return found[0].stem.replace("-", " ", 1) if found else None


@functools.cache
def check_installation() -> None:
    """Raises where two distributions share our folder; asked once per process."""
    package = Path(__file__).parents[1]
    other = other_distribution(package)
    if other is not None:
        raise ToolchainError(
            f"{other} and tilelang-py are both installed in {package}: their files are mixed",
            code="TL0870",
            help="pip uninstall -y tilelang tilelang-py, then pip install the one that you want",
        )
