# SPDX-License-Identifier: Apache-2.0
"""Executors of the IR: `tile.run` is the oracle, `thread.run` runs every stage."""
