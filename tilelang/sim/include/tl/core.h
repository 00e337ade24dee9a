// SPDX-License-Identifier: Apache-2.0
// The shared part of the device headers' core, and the simulator's barriers.
#pragma once
#include <tl/types.h>

#include "core.cuh"

namespace tl {

#define TLSIM_LINE int line = __builtin_LINE()

TLSIM_FN void sync_threads(TLSIM_LINE) { tlsim_sync_threads(line); }
TLSIM_FN void sync_warp(u32 mask = 0xffffffffu, TLSIM_LINE) { tlsim_sync_warp(mask, line); }
TLSIM_FN void named_barrier_sync(int id, int count, TLSIM_LINE) {
  tlsim_named_barrier(id, count, 1, line);
}
TLSIM_FN void named_barrier_arrive(int id, int count, TLSIM_LINE) {
  tlsim_named_barrier(id, count, 0, line);
}
TLSIM_FN void trap(TLSIM_LINE) { tlsim_trap(line); }

// The runtime's name of a type.
template <class T>
constexpr TlsimType sim_type = same<T, half_t>       ? TLSIM_F16
                               : same<T, bfloat16_t> ? TLSIM_BF16
                               : same<T, float>      ? TLSIM_F32
                               : same<T, double>     ? TLSIM_F64
                               : sizeof(T) == 1      ? (is_signed_int<T> ? TLSIM_S8 : TLSIM_U8)
                               : sizeof(T) == 2      ? (is_signed_int<T> ? TLSIM_S16 : TLSIM_U16)
                               : sizeof(T) == 4      ? (is_signed_int<T> ? TLSIM_S32 : TLSIM_U32)
                                                     : (is_signed_int<T> ? TLSIM_S64 : TLSIM_U64);

}  // namespace tl
