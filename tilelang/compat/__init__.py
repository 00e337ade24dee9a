# SPDX-License-Identifier: Apache-2.0
"""Import paths and spellings of older programs, kept out of the real packages.

This folder is part of the search path of `tilelang` (see `tilelang/__init__.py`): `compat/math.py`
is imported as `tilelang.math`, `compat/utils/target.py` as `tilelang.utils.target`.
"""
