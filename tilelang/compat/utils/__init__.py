# SPDX-License-Identifier: Apache-2.0
"""What older programs import from below `tilelang.utils`."""
