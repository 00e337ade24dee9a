// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies from global to shared memory: PTX ISA, cp.async (sm_80).
#pragma once
#include <tl/core.h>

namespace tl {

// Copies `bytes` (4, 8 or 16); writes zeros and reads nothing when `pred` is false (the operand
// src-size may be 0). 16 bytes go around L1 (.cg), which smaller sizes cannot.
template <int bytes> TL_DEV void cp_async(void* dst, const void* src, bool pred = true) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16, "cp.async copies 4, 8 or 16 bytes");
  const int size = pred ? bytes : 0;
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address(dst)), "l"(src), "r"(size) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(shared_address(dst)), "l"(src), "r"(size), "n"(bytes) : "memory");
}

TL_DEV void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until at most n of this thread's groups are pending.
template <int n> TL_DEV void cp_async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory"); }

}  // namespace tl
