// SPDX-License-Identifier: Apache-2.0
// What surrounds the warpgroup matrix instructions (PTX ISA, wgmma; sm_90a). The instructions
// themselves are generated for each kernel and appended to this header.
#pragma once
#include <tl/core.h>

namespace tl {

// Before the first wgmma, and after writes to registers that one uses.
TL_DEV void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
TL_DEV void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Until at most n groups are pending.
template <int n> TL_DEV void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory"); }

// Pins n registers in place; no instruction results. After a wait it keeps reads of accumulators
// behind it: the wait names no registers, so nothing else stops the compiler from moving them up.
// Between ordinary writes of accumulators (zeroing them) and the first wgmma_fence it makes the
// writes happen there; without it ptxas runs every wgmma by itself (its message C7514).
template <int n, class T> TL_DEV void reg_fence(T* regs) {
#pragma unroll
  for (int i = 0; i < n; ++i) {
    if constexpr (same<T, float>) asm volatile("" : "+f"(regs[i])::"memory");
    else asm volatile("" : "+r"(((u32*)regs)[i])::"memory");
  }
}

// Moves registers between warpgroups: PTX ISA, setmaxnreg. All warps of a warpgroup execute it.
template <int n> TL_DEV void setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n)); }
template <int n> TL_DEV void setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n)); }

// Shared-memory matrix descriptor: PTX ISA, wgmma, matrix descriptor format. Bits 0-13 address,
// 16-29 leading and 32-45 stride byte offset (all without their 4 low bits), 62-63 swizzle.
TL_DEV u64 wgmma_desc(const void* p, int lbo_bytes, int sbo_bytes, int swizzle) {
  return (u64)((shared_address(p) & 0x3ffff) >> 4) | ((u64)(lbo_bytes >> 4) << 16) |
         ((u64)(sbo_bytes >> 4) << 32) | ((u64)swizzle << 62);
}

}  // namespace tl
