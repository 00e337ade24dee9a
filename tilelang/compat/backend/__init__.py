# SPDX-License-Identifier: Apache-2.0
"""`tilelang.backend`: only `target`."""
