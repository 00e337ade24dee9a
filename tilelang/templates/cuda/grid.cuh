// SPDX-License-Identifier: Apache-2.0
// A barrier of all blocks of a cooperative launch, whose driver gives each launch a word for it.
#pragma once
#include <tl/core.h>

namespace tl {

// The driver leaves the address of a launch's workspace in %envreg1 (high) and %envreg2 (low): a
// size, and a word that is 0 when the kernel starts.
TL_DEV u32* grid_barrier_word() {
  u32 high, low;
  asm("mov.u32 %0, %%envreg1;" : "=r"(high));
  asm("mov.u32 %0, %%envreg2;" : "=r"(low));
  return (u32*)((u64)high << 32 | low) + 1;
}

// All blocks together add 2^31 to the word: it flips the top bit when the last one has come, and
// leaves the others as they were, for the next barrier.
TL_DEV void sync_grid() {
  __syncthreads();
  if ((threadIdx.x | threadIdx.y | threadIdx.z) == 0) {
    u32* word = grid_barrier_word();
    const u32 blocks = gridDim.x * gridDim.y * gridDim.z;
    const bool first = (blockIdx.x | blockIdx.y | blockIdx.z) == 0;
    __threadfence();
    const u32 before = atomicAdd(word, first ? 0x80000000u - (blocks - 1) : 1u);
    while (((*(volatile u32*)word ^ before) & 0x80000000u) == 0) {
    }
    __threadfence();
  }
  __syncthreads();
}

}  // namespace tl
