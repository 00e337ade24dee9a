// SPDX-License-Identifier: Apache-2.0
// Exchange between the lanes of a warp: PTX ISA, shfl.sync. All lanes must take part.
#pragma once
#include <tl/core.h>

namespace tl {

constexpr u32 all_lanes = 0xffffffffu;

// A value of any type as 32-bit words, each of which goes through `one`.
template <class T, class F> TL_DEV T by_words(const T& x, F one) {
  constexpr int count = (sizeof(T) + 3) / 4;
  vec<u32, count> words;
  words.v[count - 1] = 0;
  memcpy(&words, &x, sizeof(T));
#pragma unroll
  for (int i = 0; i < count; ++i) words.v[i] = one(words.v[i]);
  T r;
  memcpy(&r, &words, sizeof(T));
  return r;
}

template <class T> TL_DEV T shfl_idx(T x, int lane, int width = 32) {
  return by_words(x, [=](u32 w) { return __shfl_sync(all_lanes, w, lane, width); });
}
template <class T> TL_DEV T shfl_xor(T x, int mask, int width = 32) {
  return by_words(x, [=](u32 w) { return __shfl_xor_sync(all_lanes, w, mask, width); });
}
template <class T> TL_DEV T shfl_up(T x, int delta, int width = 32) {
  return by_words(x, [=](u32 w) { return __shfl_up_sync(all_lanes, w, delta, width); });
}
template <class T> TL_DEV T shfl_down(T x, int delta, int width = 32) {
  return by_words(x, [=](u32 w) { return __shfl_down_sync(all_lanes, w, delta, width); });
}

// Votes and matches: PTX ISA, vote.sync and match.sync.
TL_DEV u32 ballot(bool predicate) { return __ballot_sync(all_lanes, predicate); }
template <class T> TL_DEV u32 match_any(T x) { return __match_any_sync(all_lanes, x); }

// The value of lane 0; the compiler then knows that it is one value for the warp.
template <class T> TL_DEV T warp_uniform(T x) { return shfl_idx(x, 0, 32); }

#if __CUDA_ARCH__ >= 900
// True in one lane of a converged warp: PTX ISA, elect.sync.
TL_DEV bool elect_one() {
  u32 chosen;
  asm volatile("{.reg .pred P; elect.sync _|P, 0xffffffff; selp.u32 %0, 1, 0, P;}" : "=r"(chosen));
  return chosen != 0;
}
#endif

}  // namespace tl
