// SPDX-License-Identifier: Apache-2.0
// Blocks of a cluster: their barrier, and each other's shared memory.
#pragma once
#include <tl/core.h>

namespace tl {

TLSIM_FN int block_rank_in_cluster() { return static_cast<int>(tlsim_cluster_rank()); }
TLSIM_FN void cluster_arrive(TLSIM_LINE) { tlsim_cluster_arrive(1, line); }
TLSIM_FN void cluster_arrive_relaxed(TLSIM_LINE) { tlsim_cluster_arrive(0, line); }
TLSIM_FN void cluster_wait(TLSIM_LINE) { tlsim_cluster_wait(line); }
TLSIM_FN void cluster_sync(TLSIM_LINE) {
  tlsim_cluster_arrive(1, line);
  tlsim_cluster_wait(line);
}

template <class T>
TLSIM_FN T* map_shared(T* p, u32 rank, TLSIM_LINE) {
  return static_cast<T*>(const_cast<void*>(tlsim_map_shared(p, rank, line)));
}
template <class T>
TLSIM_FN T cluster_load(const T* p, u32 rank, TLSIM_LINE) {
  return *map_shared(p, rank, line);
}
template <class T>
TLSIM_FN void cluster_store(T* p, T value, u32 rank, TLSIM_LINE) {
  *map_shared(p, rank, line) = value;
}
TLSIM_FN void mbar_arrive_remote(void* bar, u32 rank, TLSIM_LINE) {
  tlsim_mbar_arrive_remote(bar, rank, line);
}
TLSIM_FN void mbar_wait_cluster(void* bar, u32 parity, TLSIM_LINE) {
  tlsim_mbar_wait(bar, parity, line);
}
TLSIM_FN void copy_cluster(void* dst, const void* src, u32 bytes, void* bar, u32 rank, TLSIM_LINE) {
  tlsim_copy_cluster(dst, src, bytes, bar, rank, line);
}

}  // namespace tl
