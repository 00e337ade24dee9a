// SPDX-License-Identifier: Apache-2.0
// 8x8 matrices of 16-bit elements between shared memory and the registers of a warp.
#pragma once
#include <tl/core.h>

namespace tl {

template <int num, bool trans>
TLSIM_FN void ldmatrix(void* dst, const void* row, TLSIM_LINE) {
  static_assert(num == 1 || num == 2 || num == 4, "ldmatrix loads 1, 2 or 4 matrices");
  tlsim_ldmatrix(dst, row, num, trans, line);
}
template <int num, bool trans>
TLSIM_FN void stmatrix(void* row, const void* src, TLSIM_LINE) {
  static_assert(num == 1 || num == 2 || num == 4, "stmatrix stores 1, 2 or 4 matrices");
  tlsim_stmatrix(row, src, num, trans, line);
}

}  // namespace tl
