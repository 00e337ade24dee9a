# SPDX-License-Identifier: Apache-2.0
"""`tilelang.cuda`: only `intrinsics`."""
