# SPDX-License-Identifier: Apache-2.0
"""`tilelang.carver`: only the facts about devices that kernels ask for."""
