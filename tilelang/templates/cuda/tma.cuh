// SPDX-License-Identifier: Apache-2.0
// Tensor memory accelerator: boxes of a global tensor to and from shared memory. PTX ISA,
// cp.async.bulk.tensor (sm_90). Coordinates are in elements, innermost first; what lies outside the
// tensor reads as zero and is not written. A load counts the bytes of the whole box.
#pragma once
#include <tl/core.h>

namespace tl {

// A descriptor that the host encoded (CUDA driver API, CUtensorMap: 128 bytes, aligned to 64).
struct alignas(64) TensorMap {
  u64 opaque[16];
};

TL_DEV void prefetch_tensormap(const TensorMap& desc) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&desc) : "memory");
}

#define TL_TMA(rank, parameters, load_list, store_list, multicast_list, ...)                  \
  TL_DEV void tma_load(void* dst, const TensorMap& desc, u64* bar, parameters) {              \
    asm volatile("cp.async.bulk.tensor." rank ".shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {" load_list "}], [%2];" \
                 ::"r"(shared_address(dst)), "l"(&desc), "r"(shared_address(bar)), __VA_ARGS__ : "memory"); \
  }                                                                                           \
  TL_DEV void tma_load_multicast(void* dst, const TensorMap& desc, u64* bar, u32 mask, parameters) { \
    asm volatile("cp.async.bulk.tensor." rank ".shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {" multicast_list "}], [%2], %3;" \
                 ::"r"(shared_address(dst)), "l"(&desc), "r"(shared_address(bar)), "h"((u16)mask), __VA_ARGS__ : "memory"); \
  }                                                                                           \
  TL_DEV void tma_reduce_add(const TensorMap& desc, const void* src, parameters) {            \
    asm volatile("cp.reduce.async.bulk.tensor." rank ".global.shared::cta.add.tile.bulk_group [%0, {" store_list "}], [%1];" \
                 ::"l"(&desc), "r"(shared_address(src)), __VA_ARGS__ : "memory");             \
  }                                                                                           \
  TL_DEV void tma_store(const TensorMap& desc, const void* src, parameters) {                 \
    asm volatile("cp.async.bulk.tensor." rank ".global.shared::cta.bulk_group [%0, {" store_list "}], [%1];" \
                 ::"l"(&desc), "r"(shared_address(src)), __VA_ARGS__ : "memory");             \
  }
#define TL_AND ,
TL_TMA("1d", int c0, "%3", "%2", "%4", "r"(c0))
TL_TMA("2d", int c0 TL_AND int c1, "%3, %4", "%2, %3", "%4, %5", "r"(c0), "r"(c1))
TL_TMA("3d", int c0 TL_AND int c1 TL_AND int c2, "%3, %4, %5", "%2, %3, %4", "%4, %5, %6",
       "r"(c0), "r"(c1), "r"(c2))
TL_TMA("4d", int c0 TL_AND int c1 TL_AND int c2 TL_AND int c3, "%3, %4, %5, %6", "%2, %3, %4, %5", "%4, %5, %6, %7",
       "r"(c0), "r"(c1), "r"(c2), "r"(c3))
TL_TMA("5d", int c0 TL_AND int c1 TL_AND int c2 TL_AND int c3 TL_AND int c4, "%3, %4, %5, %6, %7", "%2, %3, %4, %5, %6",
       "%4, %5, %6, %7, %8",
       "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4))
#undef TL_AND
#undef TL_TMA

TL_DEV void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Until at most n of this thread's store groups still read shared memory.
template <int n> TL_DEV void tma_store_wait() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(n) : "memory");
}

}  // namespace tl
