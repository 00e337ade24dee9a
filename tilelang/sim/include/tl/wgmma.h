// SPDX-License-Identifier: Apache-2.0
// Warpgroup matrix instructions. `sim/source.py` instantiates TLSIM_WGMMA_* for those a kernel
// names.
#pragma once
#include <tl/core.h>

namespace tl {

#define TLSIM_WGMMA_SHAPE(n, k, AB, C, ta, tb) \
  static constexpr TlsimWgmma shape = {n, k, TLSIM_##AB, TLSIM_##C, ta, tb};
#define TLSIM_WGMMA_ss(name, n, k, AB, C)                                        \
  namespace tl {                                                                 \
  template <int trans_a, int trans_b>                                            \
  TLSIM_FN void name(void* d, u64 desc_a, u64 desc_b, int scale_d, TLSIM_LINE) { \
    TLSIM_WGMMA_SHAPE(n, k, AB, C, trans_a, trans_b)                             \
    tlsim_wgmma(&shape, d, nullptr, desc_a, desc_b, scale_d, line);              \
  }                                                                              \
  }
#define TLSIM_WGMMA_rs(name, n, k, AB, C)                                           \
  namespace tl {                                                                    \
  template <int trans_a, int trans_b>                                               \
  TLSIM_FN void name(void* d, const void* a, u64 desc_b, int scale_d, TLSIM_LINE) { \
    static_assert(trans_a == 0, "a register operand cannot be transposed");         \
    TLSIM_WGMMA_SHAPE(n, k, AB, C, 0, trans_b)                                      \
    tlsim_wgmma(&shape, d, a, 0, desc_b, scale_d, line);                            \
  }                                                                                 \
  }

TLSIM_FN void wgmma_fence(TLSIM_LINE) { tlsim_wgmma_fence(line); }
TLSIM_FN void wgmma_commit(TLSIM_LINE) { tlsim_wgmma_commit(line); }
template <int n>
TLSIM_FN void wgmma_wait(TLSIM_LINE) {
  tlsim_wgmma_wait(n, line);
}
// Pins reads behind a wait: here they are memory accesses behind an opaque call anyway.
template <int n, class T>
TLSIM_FN void reg_fence(T*) {}
template <int n>
TLSIM_FN void setmaxnreg_inc() {}
template <int n>
TLSIM_FN void setmaxnreg_dec() {}
TLSIM_FN u64 wgmma_desc(const void* p, int lbo_bytes, int sbo_bytes, int swizzle) {
  return tlsim_wgmma_desc(p, static_cast<unsigned>(lbo_bytes), static_cast<unsigned>(sbo_bytes),
                          swizzle);
}

}  // namespace tl
