# SPDX-License-Identifier: Apache-2.0
"""`tilelang.contrib`: only `nvcc`."""
