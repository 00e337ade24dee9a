# SPDX-License-Identifier: Apache-2.0
"""`T.copy` and its lowerings."""

from .op import Copy

__all__ = ["Copy"]
