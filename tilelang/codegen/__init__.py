# SPDX-License-Identifier: Apache-2.0
"""Code generators: DEVICE-stage IR in, text (CUDA C++, C) or LLVM modules out.

Import a generator from its module (`tilelang.codegen.cuda`), so that a user of one does not pay for
the others.
"""
