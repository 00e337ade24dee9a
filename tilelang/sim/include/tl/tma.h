// SPDX-License-Identifier: Apache-2.0
// Tensor memory accelerator.
#pragma once
#include <tl/core.h>

namespace tl {

using TensorMap = TlsimTensorMap;

TLSIM_FN void prefetch_tensormap(const TensorMap&) {}

#define TLSIM_TMA(rank, parameters, ...)                                                        \
  TLSIM_FN void tma_load(void* dst, const TensorMap& desc, void* bar, parameters, TLSIM_LINE) { \
    const int c[] = {__VA_ARGS__};                                                              \
    tlsim_tma_load(dst, &desc, bar, c, rank, line.value);                                       \
  }                                                                                             \
  TLSIM_FN void tma_load_multicast(void* dst, const TensorMap& desc, void* bar, u32 mask,       \
                                   parameters, TLSIM_LINE) {                                    \
    const int c[] = {__VA_ARGS__};                                                              \
    tlsim_tma_load_multicast(dst, &desc, bar, mask, c, rank, line.value);                       \
  }                                                                                             \
  TLSIM_FN void tma_reduce_add(const TensorMap& desc, const void* src, parameters,              \
                               TLSIM_LINE) {                                                    \
    const int c[] = {__VA_ARGS__};                                                              \
    tlsim_tma_reduce_add(&desc, src, c, rank, line.value);                                      \
  }                                                                                             \
  TLSIM_FN void tma_store(const TensorMap& desc, const void* src, parameters, TLSIM_LINE) {     \
    const int c[] = {__VA_ARGS__};                                                              \
    tlsim_tma_store(&desc, src, c, rank, line.value);                                           \
  }
#define TLSIM_AND ,
// The line is a type of its own here: one more coordinate is not a line.
#undef TLSIM_LINE
struct SimLine {
  int value;
  static SimLine here(int line = __builtin_LINE()) { return {line}; }
};
#define TLSIM_LINE SimLine line = SimLine::here()
TLSIM_TMA(1, int c0, c0)
TLSIM_TMA(2, int c0 TLSIM_AND int c1, c0, c1)
TLSIM_TMA(3, int c0 TLSIM_AND int c1 TLSIM_AND int c2, c0, c1, c2)
TLSIM_TMA(4, int c0 TLSIM_AND int c1 TLSIM_AND int c2 TLSIM_AND int c3, c0, c1, c2, c3)
TLSIM_TMA(5, int c0 TLSIM_AND int c1 TLSIM_AND int c2 TLSIM_AND int c3 TLSIM_AND int c4, c0, c1, c2,
          c3, c4)
#undef TLSIM_LINE
#define TLSIM_LINE int line = __builtin_LINE()
#undef TLSIM_TMA
#undef TLSIM_AND

TLSIM_FN void tma_store_commit(TLSIM_LINE) { tlsim_tma_store_commit(line); }
template <int n>
TLSIM_FN void tma_store_wait(TLSIM_LINE) {
  tlsim_tma_store_wait(n, line);
}

}  // namespace tl
