# SPDX-License-Identifier: Apache-2.0
"""What tests of kernels and of the compiler use."""
