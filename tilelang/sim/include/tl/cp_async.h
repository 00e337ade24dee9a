// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies from global to shared memory.
#pragma once
#include <tl/core.h>

namespace tl {

template <int bytes>
TLSIM_FN void cp_async(void* dst, const void* src, bool pred = true, TLSIM_LINE) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16, "cp.async copies 4, 8 or 16 bytes");
  tlsim_cp_async(dst, src, bytes, pred, line);
}
TLSIM_FN void cp_async_commit(TLSIM_LINE) { tlsim_cp_async_commit(line); }
template <int n>
TLSIM_FN void cp_async_wait(TLSIM_LINE) {
  tlsim_cp_async_wait(n, line);
}

}  // namespace tl
