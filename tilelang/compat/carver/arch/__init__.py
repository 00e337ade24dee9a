# SPDX-License-Identifier: Apache-2.0
"""`tilelang.carver.arch`: only `driver`."""
