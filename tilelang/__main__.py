# SPDX-License-Identifier: Apache-2.0
"""`python -m tilelang`: see `tilelang/tools/command.py`."""

import sys

from tilelang.tools.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
