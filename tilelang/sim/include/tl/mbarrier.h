// SPDX-License-Identifier: Apache-2.0
// Barriers in shared memory with a phase and a count of bytes.
#pragma once
#include <tl/core.h>

namespace tl {

TLSIM_FN void mbar_init(void* bar, u32 count, TLSIM_LINE) { tlsim_mbar_init(bar, count, line); }
TLSIM_FN void mbar_arrive(void* bar, TLSIM_LINE) { tlsim_mbar_arrive(bar, line); }
TLSIM_FN void cp_async_mbar_arrive(void* bar, TLSIM_LINE) {
  tlsim_cp_async_mbar_arrive(bar, line);
}
TLSIM_FN void mbar_announce(void* bar, u32 bytes, TLSIM_LINE) {
  tlsim_mbar_announce(bar, bytes, line);
}
TLSIM_FN void mbar_expect_tx(void* bar, u32 bytes, TLSIM_LINE) {
  tlsim_mbar_expect_tx(bar, bytes, line);
}
TLSIM_FN void mbar_wait(void* bar, u32 parity, TLSIM_LINE) { tlsim_mbar_wait(bar, parity, line); }
TLSIM_FN void fence_mbar_init(TLSIM_LINE) { tlsim_fence_mbar_init(line); }
TLSIM_FN void fence_proxy_async(TLSIM_LINE) { tlsim_fence_proxy_async(line); }

}  // namespace tl
