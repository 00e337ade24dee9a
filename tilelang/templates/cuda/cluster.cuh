// SPDX-License-Identifier: Apache-2.0
// Blocks of a cluster: their barrier, and each other's shared memory. PTX ISA, barrier.cluster,
// mapa, mbarrier.arrive, cp.async.bulk (sm_90).
#pragma once
#include <tl/core.h>

namespace tl {

TL_DEV int block_rank_in_cluster() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return (int)rank;
}

TL_DEV void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
TL_DEV void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
TL_DEV void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
TL_DEV void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}

// The same place in the shared memory of block `rank`, as an ordinary pointer.
template <class T> TL_DEV T* map_shared(T* p, u32 rank) {
  u64 out;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(out) : "l"(p), "r"(rank));
  return (T*)out;
}
template <class T> TL_DEV T cluster_load(const T* p, u32 rank) { return *map_shared(p, rank); }
template <class T> TL_DEV void cluster_store(T* p, T value, u32 rank) { *map_shared(p, rank) = value; }

// An address in the shared window of the cluster.
TL_DEV u32 cluster_address(const void* p, u32 rank) {
  u32 out;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(out) : "r"(shared_address(p)), "r"(rank));
  return out;
}

TL_DEV void mbar_arrive_remote(u64* bar, u32 rank) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(cluster_address(bar, rank)) : "memory");
}

// As mbar_wait, but what threads of other blocks did before they arrived is visible too.
TL_DEV void mbar_wait_cluster(u64* bar, u32 parity) {
  asm volatile("{.reg .pred P; WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 P, [%0], %1; @P bra DONE; bra WAIT; DONE: }" ::"r"(shared_address(bar)), "r"(parity) : "memory");
}

TL_DEV void copy_cluster(void* dst, const void* src, u32 bytes, u64* bar, u32 rank) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               ::"r"(cluster_address(dst, rank)), "r"(shared_address(src)), "r"(bytes), "r"(cluster_address(bar, rank)) : "memory");
}

}  // namespace tl
