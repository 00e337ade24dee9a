// SPDX-License-Identifier: Apache-2.0
// Exchange between the lanes of a warp. Values of any size go in pieces of 8 bytes.
#pragma once
#include <tl/core.h>

namespace tl {

template <class T>
TLSIM_FN T sim_shuffle(T x, int mode, int operand, int width, int line) {
  constexpr int kPieces = (sizeof(T) + 7) / 8;
  u64 pieces[kPieces] = {};
  memcpy(pieces, &x, sizeof(T));
  for (int i = 0; i < kPieces; ++i)
    pieces[i] = tlsim_shuffle(pieces[i], mode, operand, width, line);
  memcpy(&x, pieces, sizeof(T));
  return x;
}

template <class T>
TLSIM_FN T shfl_idx(T x, int lane, int width = 32, TLSIM_LINE) {
  return sim_shuffle(x, TLSIM_SHFL_IDX, lane, width, line);
}
template <class T>
TLSIM_FN T shfl_xor(T x, int mask, int width = 32, TLSIM_LINE) {
  return sim_shuffle(x, TLSIM_SHFL_XOR, mask, width, line);
}
template <class T>
TLSIM_FN T shfl_up(T x, int delta, int width = 32, TLSIM_LINE) {
  return sim_shuffle(x, TLSIM_SHFL_UP, delta, width, line);
}
template <class T>
TLSIM_FN T shfl_down(T x, int delta, int width = 32, TLSIM_LINE) {
  return sim_shuffle(x, TLSIM_SHFL_DOWN, delta, width, line);
}
template <class T>
TLSIM_FN T warp_uniform(T x, TLSIM_LINE) {
  return sim_shuffle(x, TLSIM_SHFL_IDX, 0, 32, line);
}
TLSIM_FN u32 ballot(bool predicate, TLSIM_LINE) { return tlsim_vote(predicate, 0, line); }
template <class T>
TLSIM_FN u32 match_any(T x, TLSIM_LINE) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "match.sync compares 32 or 64 bits");
  return tlsim_vote(static_cast<u64>(x), 1, line);
}
TLSIM_FN bool elect_one(TLSIM_LINE) { return tlsim_elect_one(line) != 0; }

}  // namespace tl
