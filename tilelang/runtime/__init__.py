# SPDX-License-Identifier: Apache-2.0
"""Toolchains (NVRTC, nvcc, the host compiler) and devices (CPU, the CUDA driver).

In: source text. Out: machine code, and handles that launch it. Everything is found on first use.
"""
