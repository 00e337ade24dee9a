// SPDX-License-Identifier: Apache-2.0
// 8x8 matrices of 16-bit elements between shared memory and the registers of a warp: PTX ISA,
// ldmatrix (sm_75) and stmatrix (sm_90). Lanes 8i to 8i+7 give the addresses of the rows of matrix i.
#pragma once
#include <tl/core.h>

namespace tl {

template <int num, bool trans> TL_DEV void ldmatrix(void* dst, const void* row) {
  static_assert(num == 1 || num == 2 || num == 4, "ldmatrix loads 1, 2 or 4 matrices");
  u32* r = (u32*)dst;
  const u32 a = shared_address(row);
  if constexpr (num == 1 && !trans)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(a) : "memory");
  else if constexpr (num == 1)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(a) : "memory");
  else if constexpr (num == 2 && !trans)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(a) : "memory");
  else if constexpr (num == 2)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(a) : "memory");
  else if constexpr (!trans)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a) : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a) : "memory");
}

#if __CUDA_ARCH__ >= 900
template <int num, bool trans> TL_DEV void stmatrix(void* row, const void* src) {
  static_assert(num == 1 || num == 2 || num == 4, "stmatrix stores 1, 2 or 4 matrices");
  const u32* r = (const u32*)src;
  const u32 a = shared_address(row);
  if constexpr (num == 1 && !trans)
    asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(a), "r"(r[0]) : "memory");
  else if constexpr (num == 1)
    asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(a), "r"(r[0]) : "memory");
  else if constexpr (num == 2 && !trans)
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(a), "r"(r[0]), "r"(r[1]) : "memory");
  else if constexpr (num == 2)
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(a), "r"(r[0]), "r"(r[1]) : "memory");
  else if constexpr (!trans)
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(a), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
  else
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(a), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}
#endif

}  // namespace tl
