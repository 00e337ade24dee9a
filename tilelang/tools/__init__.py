# SPDX-License-Identifier: Apache-2.0
"""What one does with the compiler from a shell: `python -m tilelang --help`."""
