// SPDX-License-Identifier: Apache-2.0
// Matrix multiply-accumulate of one warp, c += a * b: PTX ISA, mma.sync (A row-major, B column-major;
// the fragments of a lane are in the order of its figures).
#pragma once
#include <tl/core.h>

namespace tl {

#define TL_MMA_F32(name, op)                                                                  \
  TL_DEV void name(void* c_regs, const void* a_regs, const void* b_regs) {                    \
    float* c = (float*)c_regs;                                                                \
    const u32 *a = (const u32*)a_regs, *b = (const u32*)b_regs;                               \
    asm volatile("mma.sync.aligned." op " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                             \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));         \
  }
TL_MMA_F32(mma_m16n8k16_f16_f32, "m16n8k16.row.col.f32.f16.f16.f32")
TL_MMA_F32(mma_m16n8k16_bf16_f32, "m16n8k16.row.col.f32.bf16.bf16.f32")
TL_MMA_F32(mma_m16n8k8_tf32_f32, "m16n8k8.row.col.f32.tf32.tf32.f32")
#if __CUDA_ARCH__ >= 890
TL_MMA_F32(mma_m16n8k32_e4m3_f32, "m16n8k32.row.col.f32.e4m3.e4m3.f32")
TL_MMA_F32(mma_m16n8k32_e5m2_f32, "m16n8k32.row.col.f32.e5m2.e5m2.f32")
#endif
#undef TL_MMA_F32

TL_DEV void mma_m16n8k16_f16_f16(void* c_regs, const void* a_regs, const void* b_regs) {
  u32* c = (u32*)c_regs;
  const u32 *a = (const u32*)a_regs, *b = (const u32*)b_regs;
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
               : "+r"(c[0]), "+r"(c[1]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#define TL_MMA_S32(name, op)                                                                  \
  TL_DEV void name(void* c_regs, const void* a_regs, const void* b_regs) {                    \
    u32* c = (u32*)c_regs;                                                                    \
    const u32 *a = (const u32*)a_regs, *b = (const u32*)b_regs;                               \
    asm volatile("mma.sync.aligned." op " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])                             \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));         \
  }
TL_MMA_S32(mma_m16n8k32_s8_s32, "m16n8k32.row.col.s32.s8.s8.s32")
TL_MMA_S32(mma_m16n8k32_u8_s32, "m16n8k32.row.col.s32.u8.u8.s32")
#undef TL_MMA_S32

TL_DEV void mma_m8n8k4_f64_f64(void* c_regs, const void* a_regs, const void* b_regs) {
  double* c = (double*)c_regs;
  const double *a = (const double*)a_regs, *b = (const double*)b_regs;
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+d"(c[0]), "+d"(c[1]) : "d"(a[0]), "d"(b[0]));
}

}  // namespace tl
